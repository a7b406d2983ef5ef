"""Conditions that hold as long as nothing fits (`absent`, N44)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.prototype import Input, Output
from narval.kinds.recipe.engine.engine import explain
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.examples import examples
from tests.kinds.recipe.engine.conditions import condition, took, waiting

NO_ALARM = condition("alarm", absent="yes")


# --- alone ------------------------------------------------------------------------------------------------


def test_N44_it_holds_at_once_if_nothing_fits() -> None:
    said, run = waiting(NO_ALARM)
    assert took(said, run) == ((),)
    assert said.states[run].transition("t").counts == (0,)


def started(*conditions: str, before: tuple[str, ...] = (), inside: str = "") -> tuple[Dialogue, int]:
    """A plan whose step `a` is under way; `serve` is a recipe whose step replaces an alarm."""
    said = Dialogue(
        recipe("g.r", step("a"), step("z"), transition("t", "a", "z", inside="".join(conditions) + inside)),
        recipe("g.serve", step("s"), start="s", end="s"),
        action("m.a"),
        action("m.z"),
        action("m.s", [Input("old", "alarm", outdates=True)], [Output("new", "alarm", optional=True)]),
    )
    for xml in before:
        said.add(xml)
    return said, said.start("g.r")


def test_N44_it_waits_for_the_last_that_fits_to_go() -> None:
    said, run = started(NO_ALARM, before=("<alarm/>", "<alarm/>"))
    said.returned("a")
    assert took(said, run) is None
    said.outdated(1)
    assert took(said, run) is None
    said.outdated(2)
    assert took(said, run) == ((),)


def test_N44_an_element_that_is_replaced_by_one_that_does_not_fit_goes() -> None:
    said, run = started(condition("alarm[@on]", absent="yes"), before=("<alarm on='1'/>",))
    said.returned("a")
    said.start("g.serve")
    assert took(said, run) is None, "reserved is there still"
    said.returned("s", "<alarm/>")
    assert took(said, run) == ((),)


def test_N44_by_one_that_fits_it_does_not_go() -> None:
    said, run = started(condition("alarm[@on]", absent="yes"), before=("<alarm on='1'/>",))
    said.returned("a")
    said.start("g.serve")
    said.returned("s", "<alarm on='2'/>")
    assert took(said, run) is None


def test_N44_what_was_used_is_there_still() -> None:
    said, run = started(condition("alarm", use="yes"), before=("<alarm/>",))
    said.returned("a")
    assert took(said, run) == ((1,),)
    said.load(recipe("g.q", step("a"), step("z"), transition("t", "a", "z", inside=NO_ALARM)))
    run = said.start("g.q")
    said.returned("a", run=run)
    assert took(said, run) is None


# --- with others ------------------------------------------------------------------------------------------


def test_N44_it_is_asked_when_the_rest_holds() -> None:
    said, run = waiting(condition("go"), NO_ALARM)
    said.arrives("<alarm/>")
    said.arrives("<go/>")
    assert took(said, run) is None
    said.outdated(2)
    assert took(said, run) == ((3,), ())


def test_N44_it_may_come_and_go_meanwhile() -> None:
    said, run = waiting(condition("go"), NO_ALARM)
    said.arrives("<alarm/>")
    said.outdated(2)
    go = said.arrives("<go/>")
    assert took(said, run) == ((go,), ())


def test_N44_no_backup_by_nine() -> None:
    said, run = started(condition("backup", absent="yes"), inside='<time hours="9" minutes="0" seconds="0"/>')
    said.returned("a")
    assert took(said, run) is None, "it is not nine yet"
    said.until("1970-01-01T09:00:00Z")
    assert took(said, run) == ((),)


def test_N44_a_backup_before_nine() -> None:
    said, run = started(condition("backup", absent="yes"), inside='<time hours="9" minutes="0" seconds="0"/>')
    said.returned("a")
    said.arrives("<backup/>")
    said.until("1970-01-01T09:00:00Z")
    assert took(said, run) is None


def test_N44_it_may_use_names_and_another_choice_is_made() -> None:
    said, run = started(
        condition("order", as_="order"),
        condition("payment[@of = $order/@id]", absent="yes"),
        before=("<order id='1'/>", "<order id='2'/>", "<payment of='1'/>"),
    )
    said.returned("a")
    assert took(said, run) == ((2,), ())


def test_N44_a_payment_that_goes_lets_its_order_be_taken() -> None:
    said, run = started(
        condition("order", as_="order"),
        condition("payment[@of = $order/@id]", absent="yes"),
        before=("<order id='1'/>", "<payment of='1'/>"),
    )
    said.returned("a")
    said.arrives("<payment of='7'/>")
    assert took(said, run) is None
    said.outdated(2)
    assert took(said, run) == ((1,), ())


def test_N44_with_a_condition_that_must_last() -> None:
    said, run = started(condition("order", for_="10m"), NO_ALARM, before=("<order/>", "<alarm/>"))
    said.returned("a")
    said.passes(600)
    assert took(said, run) is None
    said.outdated(2)
    assert took(said, run) == ((1,), ())


def test_N44_an_error_link_holds_or_not() -> None:
    for alarm, state in ((False, "running"), (True, "failed")):
        said = Dialogue(
            recipe("g.r", step("a"), step("z"), transition("t", "a!", "z", inside=NO_ALARM)),
            action("m.a"),
            action("m.z"),
        )
        if alarm:
            said.add("<alarm/>")
        run = said.start("g.r")
        said.erred("a")
        assert said.state(run) == state


def test_N44_what_it_waits_for_is_said() -> None:
    said, run = started(NO_ALARM, before=("<alarm/>",))
    said.returned("a")
    reason = explain(said.definitions[run], said.states[run], "t")
    assert reason == "transition t is wait-condition: its in-steps are done, and some condition does not hold"


# --- against what there is --------------------------------------------------------------------------------

CONDITIONS = ("p", "q", "q[@a = $it/@a]", "p[not(@a = $it/@a)]", "p[@a = 1]")


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from("opq-"), st.sampled_from("12")), max_size=8),
)
def test_N44_it_fires_as_soon_as_nothing_fits(
    absent: list[str], named: bool, happening: list[tuple[str, str]]
) -> None:
    patterns = [text for text in absent if named or "$" not in text] or ["p"]
    conditions = [condition("o", as_="it")] if named else [condition("o")]
    said, run = waiting(*conditions, *(condition(text, absent="yes") for text in patterns))
    there: dict[int, tuple[str, str]] = {}
    for name, a in happening:
        if name == "-" and there:
            gone = sorted(there)[int(a) % len(there)]
            del there[gone]
            said.outdated(gone)
        elif name != "-":
            there[said.arrives(f"<{name} a='{a}'/>")] = name, a
        able = [
            eid
            for eid, (kind, own) in there.items()
            if kind == "o"
            and not any(fits(text, own, other) for text in patterns for other in there.values())
        ]
        found = took(said, run)
        assert (found is not None) == bool(able)
        if found is not None:
            assert found[0] == (min(able),)
            return


def fits(text: str, own: str, other: tuple[str, str]) -> bool:
    name, a = other
    if text[0] != name:
        return False
    if "not" in text:
        return a != own
    return a == "1" if "1" in text else a == own if "$" in text else True


@pytest.mark.parametrize("word", ["use", "list"])
def test_N44_no_is_no_fault(word: str) -> None:
    said, run = waiting(condition("alarm", absent="yes", **{word: "no"}))
    assert took(said, run) == ((),)
