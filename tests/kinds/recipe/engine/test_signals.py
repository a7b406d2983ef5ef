"""What is said to a plan: an element addressed to it alone, which a condition may wait for."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.elements.canonical import MAX_DEPTH
from narval.core.engines.commands import Answer
from narval.core.engines.events import OutputElement, Signalled
from narval.kinds.recipe.engine import engine
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

TEXT = recipe(
    "g.r", step("a"), step("z"), transition("go", "a", "z", "use signal[@name='approve'][sum(order/@n) < 10]")
)
ACTIONS = (action("m.a"), action("m.z"))


def waiting(said: Dialogue) -> int:
    run = said.start("g.r")
    said.returned("a", run=run)
    return run


def tell(said: Dialogue, run: int, name: str, *xml: str, **arguments: Any) -> Answer:
    raws = tuple(OutputElement(text.encode()) for text in xml)
    said.tell(run, Signalled(1000, said.now, "s1", name, raws, arguments))
    (answer,) = said.wishes(Answer)
    assert answer.signal == "s1"
    return answer


def test_a_signal_lets_the_transition_that_waits_for_it_fire() -> None:
    said = Dialogue(TEXT, *ACTIONS)
    run = waiting(said)
    answer = tell(said, run, "approve", "<order n='3'/>", "<order n='4'/>", by="ann")
    assert answer.value == {"eid": run + 1, "taken_by": "go"}
    assert said.steps(run)["z"] == "running"
    assert said.xml(run + 1) == (
        f'<signal name="approve" run="{run}" by="ann"><order n="3"/><order n="4"/></signal>'
    )


def test_a_signal_is_addressed_another_run_of_the_recipe_does_not_take_it() -> None:
    said = Dialogue(TEXT, *ACTIONS)
    one, other = waiting(said), waiting(said)
    assert tell(said, other, "approve").value == {"eid": other + 1, "taken_by": "go"}
    assert (said.steps(one)["z"], said.steps(other)["z"]) == ("todo", "running")
    late = waiting(said)
    assert said.transitions(late)["go"] == "wait-condition"


def test_a_signal_that_comes_early_is_there_when_a_condition_asks() -> None:
    said = Dialogue(TEXT, *ACTIONS)
    run = said.start("g.r")
    assert tell(said, run, "approve").value == {"eid": run + 1, "taken_by": None}
    said.returned("a")
    assert said.transitions(run)["go"] == "fired"


def test_a_signal_that_does_not_fit_leaves_the_transition_asleep() -> None:
    said = Dialogue(TEXT, *ACTIONS)
    run = waiting(said)
    assert tell(said, run, "approve", "<order n='30'/>").value == {"eid": run + 1, "taken_by": None}
    assert tell(said, run, "refuse").value == {"eid": run + 2, "taken_by": None}
    assert said.transitions(run)["go"] == "wait-condition"


def test_a_run_hears_what_was_said_to_its_caller() -> None:
    outer = recipe("g.o", step("call", "g.r", type="recipe"), start="call", end="call")
    said = Dialogue(TEXT, outer, *ACTIONS)
    run = said.start("g.o")
    child = said.begins("call")
    said.returned("a")
    assert tell(said, run, "approve").value is not None
    assert said.transitions(child)["go"] == "fired"


def test_a_plan_that_waits_for_nothing_any_more_says_so() -> None:
    text = recipe("g.r", step("a"), step("b"), step("z"), transition("t", "a", "b z"))
    said = Dialogue(text, *ACTIONS, action("m.b"))
    run = said.start("g.r")
    said.returned("a")
    said.returned("z")
    assert said.state(run) == "end"
    answer = tell(said, run, "approve")
    assert answer.problem is not None
    assert answer.problem.kind == "not-listening"
    assert said.named("signal") == []


@pytest.mark.parametrize(
    ("xml", "kind"),
    [("<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH, "too-deep"), ("<order/>", "invalid")],
)
def test_N7_a_signal_that_memory_refuses_is_answered_with_why(xml: str, kind: str) -> None:
    said = Dialogue(TEXT, *ACTIONS)
    run = waiting(said)
    whole = f'<signal name="approve" run="{run}"><order/></signal>'.encode()
    said.refusals = {whole: "no orders here"}
    answer = tell(said, run, "approve", xml)
    assert answer.problem is not None
    assert answer.problem.kind == kind
    assert said.named("signal") == []
    assert said.state(run) == "running"


def test_N11_what_waits_for_signals_alone_says_so() -> None:
    said = Dialogue(TEXT, *ACTIONS)
    run = waiting(said)
    watches = {watch: command for watch, (_, command) in said.watches.items()}
    (wait,) = engine.waiting_for(said.definitions[run], said.states[run], watches)
    assert (wait.id, wait.what) == ("go", "signal")
    assert wait.text.startswith("signal[@name='approve']")
