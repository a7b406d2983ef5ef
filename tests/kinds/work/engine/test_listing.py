"""The index of items by whom they concern gives what a look at every item gives (P83)."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.people.directory import Away, Directory, Person
from narval.kinds.work.engine.listing import Worklist, acts_open_to, may_see
from tests.core.engines.dialogue import Refusal
from tests.examples import examples
from tests.kinds.work.engine.items import Office, work

WORKS = {
    "g.any": "",
    "g.role": '<for roles="clerk"/>',
    "g.two": '<for roles="clerk chief"/>',
    "g.named": '<for people="ann dan"/>',
    "g.both": '<for people="ann ben" roles="clerk"/>',
    "g.vote": '<for roles="clerk"/><outcome name="yes" needs="2"/><outcome name="no" needs="2"/>',
}
PEOPLE = ("ann", "ben", "cleo", "dan", "root")
TODAY = date(1970, 1, 1)

directories = st.builds(
    lambda roles, away: Directory(
        tuple(
            Person(
                name, roles=tuple(held), away=Away(instead=instead) if instead and instead < name else None
            )
            for name, held, instead in zip(PEOPLE, roles, away, strict=True)
        ),
        above={"chief": ("clerk",)},
        admin_roles=("admin",),
    ),
    st.lists(st.sets(st.sampled_from(["clerk", "chief"])), min_size=5, max_size=5),
    st.lists(st.sampled_from(["", *PEOPLE]), min_size=5, max_size=5),
)
acts = st.tuples(
    st.integers(0, 7),
    st.sampled_from(PEOPLE),
    st.sampled_from(["claim", "release", "answer", "refuse", "delegate", "save"]),
    st.sampled_from(PEOPLE),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    directories,
    directories,
    st.lists(st.sampled_from(sorted(WORKS)), max_size=8),
    st.lists(acts, max_size=12),
)
def test_P83_the_index_finds_what_a_look_at_every_item_finds(
    first: Directory, second: Directory, names: list[str], done: list[Any]
) -> None:
    office = Office(*(work(inside, name=name) for name, inside in WORKS.items()), people=first)
    items, index = [office.offers(name) for name in names], Worklist()
    for item in items:
        index.put(item, office.definitions[item], office.states[item])
    for number, person, act, other in done:
        if number < len(items):
            item = items[number]
            given = {"to": other} if act == "delegate" else {"outcome": "yes"} if act == "answer" else {}
            try:
                office.act(item, person, act, **given)
            except Refusal:
                continue
            index.put(item, office.definitions[item], office.states[item])
    for directory in (first, second):
        office.people = directory
        for person in PEOPLE:
            found = [item for item in index.of(person, directory, TODAY) if concerns(office, item, person)]
            assert found == [item for item in items if concerns(office, item, person)]


def test_P82_who_lost_an_item_that_others_are_asked_now_is_told_so() -> None:
    office = Office(
        work('<for people="ann ben"/><escalate after="1d" people="cid" instead="yes"/><claim for=""/>'),
        people=Directory(tuple(map(Person, ("ann", "ben", "cid"))), admin_people=("cid",)),
    )
    item, other = office.offers(), office.offers()
    for one in (item, other):
        office.act(one, "ann", "claim")
    office.act(other, "cid", "reassign", to=["ben"])
    office.passes(86400)
    for one, why in ((item, "the claim of ann ended"), (other, "cid offered it to ben")):
        assert may_see(office.definitions[one], office.states[one], "ann", office.now, office)
        with pytest.raises(Refusal, match=why):
            office.act(one, "ann", "answer", outcome="done")
    assert not may_see(office.definitions[item], office.states[item], "ben", office.now, office)


def concerns(office: Office, item: int, person: str) -> bool:
    """True for an open item that a person may see, and may do something about or has."""
    definition, state = office.definitions[item], office.states[item]
    return (
        not state.over
        and may_see(definition, state, person, office.now, office)
        and bool(acts_open_to(definition, state, person, office.now, office, "person"))
    )
