"""Labels spread with what is made of what has them, and outlive what they came from."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from narval.core.elements.changes import Added, Change, Forgotten, Held, Labelled
from narval.core.elements.element import Element, Origin
from narval.core.memory.labels import MadeOf
from narval.core.memory.memory import Memory

RUN, OTHER = 100, 101
MAIL, FAR = "mail", "model:far"


def label(memory: Memory, eid: int, *names: str) -> None:
    memory.apply(Labelled(eid, names))


def names(memory: Memory, *eids: int) -> set[str]:
    return {*memory.labels.names(memory.labels.of(eids))}


def happens(memory: Memory, change: Change) -> dict[int, set[str]]:
    """What a change gives labels, once it has them."""
    memory.apply(change)
    given = {eid: number for eid, number in memory.labels.spread(change) if eid and number}
    for eid, number in given.items():
        label(memory, eid, *memory.labels.names(number))
    return {eid: {*memory.labels.names(number)} for eid, number in given.items()}


def added(memory: Memory, eid: int, origin: Origin | None = None, held: int = 0) -> dict[int, set[str]]:
    return happens(memory, Added(Element(eid, b"<x/>", 0.0, origin), "", held))


def test_what_is_made_of_labelled_elements_has_their_labels_and_so_has_the_run_that_holds_it() -> None:
    memory = Memory()
    assert added(memory, 1, Origin(RUN, "ask", "1.1")) == {}, "nothing has labels yet"
    label(memory, 1, FAR)
    assert added(memory, 2, Origin(RUN, "a", "1.2", (1,)), RUN) == {2: {FAR}, RUN: {FAR}}
    assert added(memory, 3, Origin(RUN, "b", "1.3")) == {3: {FAR}}, "by a step of a run that has"
    assert added(memory, 4, Origin(RUN)) == {4: {FAR}}, (
        "so has what narval says of such a run: its error may quote it"
    )
    assert added(memory, 5, Origin(OTHER, "c", "1.4")) == {}
    label(memory, 5, MAIL)
    assert happens(memory, Held(OTHER, (5, 3))) == {OTHER: {MAIL, FAR}}
    assert happens(memory, Held(OTHER + 1, (6,))) == {}


def test_what_decided_that_an_element_came_to_be_is_kept_apart_from_what_is_in_it() -> None:
    memory = Memory()
    for eid, name in ((1, MAIL), (2, FAR)):
        added(memory, eid)
        label(memory, eid, name)
    memory.apply(Labelled(RUN, (FAR,)))
    made = Added(Element(3, b"<x/>", 0.0, Origin(RUN, "a", "1.1", (1,))))
    ((_, number), _) = memory.labels.spread(made, knows_inputs=True)
    assert memory.labels.told(number) == ([MAIL], [FAR])
    assert memory.labels.is_hearsay(number), "what a model led to asks as what it said"
    both = memory.labels.join(number, memory.labels.of((2,)))
    assert memory.labels.told(both) == ([MAIL, FAR], []), "it is in it, so it needs no more be told"
    assert memory.labels.names(memory.labels.whole(number)) == (MAIL, FAR)


def test_they_stay_when_what_they_came_from_is_forgotten() -> None:
    memory = Memory()
    added(memory, 1)
    label(memory, 1, FAR)
    added(memory, 2, Origin(RUN, "a", "1.2", (1,)))
    memory.apply(Forgotten((1,), (RUN,)))
    assert names(memory, 2) == {FAR}
    assert names(memory, 1, RUN) == set()
    assert memory.used_by(2) == [], "nobody has used it by that"


def test_a_label_that_is_there_is_no_news_and_what_was_news_is_reverted() -> None:
    memory = Memory()
    label(memory, 1, MAIL)
    assert memory.apply(Labelled(1, (MAIL,))) is None
    news = memory.apply(Labelled(1, (MAIL, FAR)))
    assert news == Labelled(1, (FAR,))
    memory.revert(news)
    assert names(memory, 1) == {MAIL}
    memory.apply(Forgotten((1,)))
    assert not memory.labels.pages, "an element without labels costs nothing"


STEP = st.tuples(
    st.sampled_from(["add", "add", "add", "hold", "label", "forget"]),
    st.integers(0, 3),
    st.lists(st.integers(1, 40), max_size=3),
    st.sampled_from([MAIL, "web", FAR]),
)


def came_of(eid: int, made_of: dict[int, set[int]]) -> Iterable[int]:
    """All that an element was made of, directly or not, forgotten or not."""
    reached, todo = set[int](), [eid]
    while todo:
        for before in made_of.get(todo.pop(), set()) - reached:
            reached.add(before)
            todo.append(before)
    return reached


@given(st.lists(STEP, max_size=40))
def test_an_element_has_the_labels_of_all_that_it_was_made_of(
    steps: list[tuple[str, int, list[int], str]],
) -> None:
    memory, made_of, at_birth = Memory(), dict[int, set[int]](), dict[int, set[str]]()
    eid, forgotten = 1, set[int]()
    for what, run, eids, name in steps:
        there = [one for one in eids if one < eid and one not in forgotten]
        run += RUN if run else 0
        if what == "add":
            added(memory, eid, Origin(run, "step", "1.1", tuple(there)), run)
            made_of[eid], at_birth[eid] = {*there}, names(memory, eid)
            assert names(memory, *there, *([run] if run else [])) <= names(memory, eid) | names(memory, run)
            assert names(memory, *there) <= names(memory, eid)
            eid += 1
        elif what == "hold" and run:
            happens(memory, Held(run, tuple(there)))
            assert names(memory, *there) <= names(memory, run)
        elif what == "label":
            for one in there[:1]:
                label(memory, one, name)
        elif what == "forget":
            memory.apply(Forgotten(tuple(there)))
            forgotten.update(there)
    for one in made_of.keys() - forgotten:
        births = [at_birth[before] for before in came_of(one, made_of)]
        assert set().union(*births) <= names(memory, one), "forgetting takes none away"


def test_a_set_says_which_labels_parts_have_of_their_own() -> None:
    labels = Memory().labels
    number = labels.number_of(["mail"], {"@to": [], "body": ["web"], "body/@kind": ["feed"]})
    assert labels.of_part(number, "@to") == set()
    assert labels.of_part(number, "@subject") == {"mail"}
    assert labels.of_part(number, "body/p") == {"web"}
    assert labels.of_part(number, "body") == {"web", "feed"}, "with all that is in it"
    assert labels.of_part(number, "body/@kind") == {"feed"}
    assert labels.names(labels.union(number)) == ("feed", "mail", "web")
    assert labels.number(labels.names(number)) == number


def test_parts_have_the_labels_of_their_sources_and_what_decided_stays() -> None:
    memory = Memory()
    for eid, *names_of in ((1, MAIL), (2, "web", f"{FAR}?"), (3,)):
        added(memory, eid)
        label(memory, eid, *names_of)
    memory.apply(Labelled(RUN, ("feed",)))
    fact = Added(Element(4, b"<x/>", 0.0, Origin(RUN, "a", inputs=(1, 2, 3))))
    made_of = MadeOf({"@subject": [(1, "@subject")], "@to": [(3, "@mail")]}, nothing_else=True)
    came = memory.labels.number(["calendar"])
    ((_, number), _) = memory.labels.spread(fact, came, knows_inputs=True, made_of=made_of)
    assert {*memory.labels.names(number)} == {"/@subject=", "/@subject=mail", "calendar?", "feed?", f"{FAR}?"}


def test_parts_that_are_a_tools_own_have_no_label_but_those_of_secrets_and_others_what_they_keep() -> None:
    memory = Memory()
    for eid, *names_of in ((1, MAIL, "secret:health"), (2,)):
        added(memory, eid)
        label(memory, eid, *names_of)
    fact = Added(Element(3, b"<x/>", 0.0, Origin(RUN, "a", "1.1", inputs=(1, 2))))
    made_of = MadeOf({"@to": [(2, "")]}, own=("@size",))
    ((_, number), _) = memory.labels.spread(fact, made_of=made_of)
    assert memory.labels.of_part(number, "@size") == {"secret:health"}
    assert memory.labels.of_part(number, "@to") == set()
    assert memory.labels.of_part(number, "@subject") == {MAIL, "secret:health"}


part_names = st.sampled_from(["mail", "web", "/@to=", "/@to=mail", "/@to=web", "/body=", "/body/@x=feed"])
name_sets = st.frozensets(part_names, max_size=5)
PATHS = ("@to", "body", "body/@x", "body/@y", "@other", "")


@given(name_sets, name_sets)
def test_what_is_joined_has_in_every_part_the_labels_that_each_had_there(
    one: frozenset[str], other: frozenset[str]
) -> None:
    labels = Memory().labels
    numbers = [labels.number(one), labels.number(other)]
    joined = labels.join(*numbers)
    for path in PATHS:
        both = labels.of_part(numbers[0], path) | labels.of_part(numbers[1], path)
        assert labels.of_part(joined, path) == both, path


@given(name_sets, name_sets)
def test_names_are_only_added_so_that_rows_give_the_set_back_in_any_order_and_news_are_reverted(
    first: frozenset[str], second: frozenset[str]
) -> None:
    memory, again = Memory(), Memory()
    memory.labels.add(1, first)
    before = memory.labels.names(memory.labels.own(1))
    news = memory.labels.add(1, second)
    for name in sorted({*before, *news}):
        again.labels.restore(1, name)
    assert again.labels.names(again.labels.own(1)) == memory.labels.names(memory.labels.own(1))
    memory.labels.remove(1, news)
    assert memory.labels.names(memory.labels.own(1)) == before
