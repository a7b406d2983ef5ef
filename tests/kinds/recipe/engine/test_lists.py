"""Conditions that take all that fit (`list`, N43)."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.commands import MarkUsed
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.examples import examples
from tests.kinds.recipe.engine.conditions import condition, took, waiting

ALL = condition("mail", list="yes", use="yes")


def started(*conditions: str, before: tuple[str, ...], **inputs: Input) -> tuple[Dialogue, int, list[int]]:
    """A plan that begins with these elements in memory; what they are."""
    said = Dialogue(
        recipe("g.r", step("a"), step("z"), transition("t", "a", "z", inside="".join(conditions))),
        action("m.a", (), [Output("mails", "mail", list=True, optional=True)]),
        action("m.z", inputs.values()),
    )
    eids = [said.add(xml) for xml in before]
    return said, said.start("g.r"), eids


def test_N43_all_that_fit_are_taken_and_an_input_gets_them_as_one() -> None:
    said, run, eids = started(ALL, before=("<mail/>",) * 3, mails=Input("mails", "mail", list=True))
    said.add("<other/>")
    said.returned("a")
    assert took(said, run) == (tuple(eids),)
    assert said.inputs("z") == {"mails": tuple(eids)}
    assert [use.eids for use in said.wishes(MarkUsed)] == [tuple(eids)], "all of them are used at once"


def test_N43_of_whatever_rank() -> None:
    said, run, eids = started(ALL, before=("<mail/>",))
    said.returned("a", "<mail/>", "<mail/>")
    (found,) = took(said, run) or ()
    assert sorted(found) == [eids[0], *[mail.eid for mail in said.named("mail") if mail.eid not in eids]]


def test_N43_one_at_least_and_it_does_not_wait_for_more() -> None:
    said, run = waiting(ALL)
    assert took(said, run) is None
    eid = said.arrives("<mail/>")
    assert took(said, run) == ((eid,),)
    said.arrives("<mail/>")
    assert took(said, run) == ((eid,),)


def test_N43_what_was_used_is_no_more_among_them() -> None:
    said, _, _ = started(ALL, before=("<mail/>", "<mail/>"))
    said.returned("a")
    run = said.start("g.r")
    said.returned("a", run=run)
    assert took(said, run) is None
    eid = said.arrives("<mail/>")
    assert took(said, run) == ((eid,),)


def test_N43_all_are_taken_once_the_other_conditions_hold() -> None:
    said, run = waiting(ALL, condition("go"))
    eids = tuple(said.arrives("<mail/>") for _ in range(3))
    go = said.arrives("<go/>")
    assert took(said, run) == (eids, (go,))
    assert said.states[run].transition("t").counts == (3, 1)


def test_N43_another_condition_gets_one_of_them() -> None:
    said, run, eids = started(ALL, condition("mail"), before=("<mail/>",) * 3)
    said.returned("a")
    assert took(said, run) == (tuple(eids[1:]), (eids[0],))


def test_N16_N43_beside_a_list_the_nearest_elements_come_before_older_ones() -> None:
    conditions = condition("note | mail") + condition("mail") + condition("go", list="yes")
    said = Dialogue(
        recipe("g.r", step("a"), step("z"), transition("t", "a", "z", inside=conditions)),
        action("m.a", (), [Output("any", "*", list=True)]),
        action("m.z"),
    )
    said.add("<mail/>")
    go = said.add("<go/>")
    run = said.start("g.r")
    said.returned("a", "<mail/>", "<note/>")
    near, note = said.named("mail")[-1].eid, said.named("note")[0].eid
    assert took(said, run) == ((note,), (near,), (go,))


def test_N43_a_list_may_depend_on_a_name_and_have_one() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            step("z", inside='<arguments><digest topic="{$topic/@id}">{$mails/@n}</digest></arguments>'),
            transition(
                "t",
                "a",
                "z",
                inside=condition("topic", as_="topic")
                + condition("mail[@topic = $topic/@id]", list="yes", as_="mails"),
            ),
        ),
        action("m.a"),
        action("m.z", [Input("digest", "digest"), Input("mails", "mail", list=True)]),
    )
    for xml in ("<topic id='x'/>", "<topic id='y'/>", *(f"<mail topic='y' n='{n}'/>" for n in range(3))):
        said.add(xml)
    said.start("g.r")
    said.returned("a")
    inputs = said.inputs("z")
    assert said.xml(inputs["digest"][0]) == '<digest topic="y">0 1 2</digest>'
    assert inputs["mails"] == (3, 4, 5)


def test_N43_the_state_says_which_elements_each_condition_took() -> None:
    said, run, eids = started(ALL, condition("go"), before=("<mail/>", "<mail/>", "<go/>"))
    said.returned("a")
    state = said.states[run].transition("t")
    assert [state.taken_by(at) for at in range(3)] == [tuple(eids[:2]), (eids[2],), ()]


# --- against all choices there are --------------------------------------------------------------------------

SLOTS = ("p", "q", "p | q", "p[@a='1']", "(p | q)[@a='2']")


def possible(slots: list[tuple[str, bool]], fitting: list[set[int]]) -> bool:
    """True if each condition can have an element of its own."""
    every = sorted(set().union(*fitting))
    return any(
        all(eid in fits for eid, fits in zip(eids, fitting, strict=True))
        for eids in permutations(every, len(slots))
    )


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SLOTS), st.booleans()), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("12")), max_size=6),
)
def test_N43_lists_and_single_ones_share_what_there_is(
    slots: list[tuple[str, bool]], elements: list[tuple[str, str]]
) -> None:
    conditions = [condition(pattern, list="yes" if listed else "no") for pattern, listed in slots]
    said, run, eids = started(*conditions, before=tuple(f"<{name} a='{a}'/>" for name, a in elements))
    said.returned("a")
    fitting = [
        {
            eid
            for eid, (name, a) in zip(eids, elements, strict=True)
            if name in pattern.partition("[")[0] and ("@" not in pattern or f"'{a}'" in pattern)
        }
        for pattern, _ in slots
    ]
    found = took(said, run)
    assert (found is not None) == possible(slots, fitting)
    if found is None:
        return
    taken = [eid for group in found for eid in group]
    assert len(taken) == len(set(taken)), "each element goes to one condition"
    for (_, listed), fits, group in zip(slots, fitting, found, strict=True):
        assert group
        assert fits.issuperset(group)
        assert listed or len(group) == 1
        assert not listed or fits <= set(taken), "a list leaves nothing that no other has"
