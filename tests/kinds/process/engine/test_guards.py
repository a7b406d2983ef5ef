"""What guards answer, and when a date is (section 4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.events import OutputElement
from narval.core.errors import ActionError
from tests.core.engines.dialogue import Dialogue, Refusal, action


def guarded(guard: str, answers: dict[str, Any] | None = None, kind: str = "wait", zone: str = "UTC") -> Any:
    """The token of a process of one node with that guard."""
    said = Dialogue(
        f'<process-definition name="p"><node name="a" type="{kind}" isStart="true">{guard}'
        '<arc to="b"/><arc name="x" to="b"/></node><node name="b" type="wait"/></process-definition>'
    )
    said.answers_to, said.zone = answers or {}, zone
    run = said.start("p", kind="process")
    return said, said.states[run]


@pytest.mark.parametrize(
    ("guard", "action", "exits"),
    [
        ("", "AcceptToken", None),
        ("<guard>  </guard>", "AcceptToken", None),
        ("<guard>Accept</guard>", "AcceptToken", None),
        ("<guard>Discard</guard>", "DiscardToken", 0),
        ("<guard>Skip</guard>", "SkipNode", 1),
        ("<guard>Skip x</guard>", "SkipNode", 1),
        ('<guard>Skip "y"</guard>', "SkipNode", 0),
        ("<guard>if T and not F then Discard else Accept</guard>", "DiscardToken", 0),
        ("<guard>if F or (T and F) then Discard else if T then Skip x else Accept</guard>", "SkipNode", 1),
    ],
)
def test_section_4_a_guard_lets_a_token_in_ends_it_or_skips_the_node(
    guard: str, action: str, exits: int | None
) -> None:
    _, state = guarded(guard, {"predicate:T": True, "predicate:F": False})
    token = state.nodes[1]
    assert token.guard == action
    assert (token.completed is None) == (exits is None)
    assert len(token.children) == (exits or 0)


def test_section_4_and_or_ask_no_further_than_they_must() -> None:
    said, _ = guarded(
        "<guard>if (F and Never) or T or Never then Accept else Discard</guard>",
        {"predicate:T": True, "predicate:F": False},
    )
    assert [function for function, _ in said.questions] == ["predicate:F", "predicate:T"]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({}, "unknown-function"),
        ({"predicate:T": "yes"}, "bad-answer"),
        ({"predicate:T": ActionError("it broke", "ValueError")}, "ValueError"),
    ],
)
def test_section_18_where_a_predicate_does_not_answer_the_token_stays(
    answers: dict[str, Any], kind: str
) -> None:
    said, state = guarded("<guard>if T then Accept else Discard</guard>", answers)
    assert (state.status, list(state.failed)) == ("executing", [1])
    assert said.error()["type"] == kind


def test_section_2_where_somebody_asked_for_what_led_there_he_is_told_and_may_try_again() -> None:
    said = Dialogue(
        '<process-definition name="p">'
        '<node name="a" type="wait" isStart="true"><arc to="b"/><arc to="c"/></node>'
        '<node name="b" type="wait"><guard>if T then Accept else Discard</guard></node>'
        '<node name="c" type="wait"/></process-definition>'
    )
    run = said.start("p", kind="process")
    with pytest.raises(Refusal, match="predicate:T") as caught:
        said.says(run, "complete", node="a")
    assert caught.value.kind == "unknown-function"
    state = said.states[run]
    assert state.status == "executing"
    assert state.nodes[1].completed is not None
    assert state.queue.first is None, "what was behind it goes on"
    assert [state.nodes[number].node for number in state.active_nodes] == ["b", "c"]
    said.answers_to["predicate:T"] = True
    said.says(run, "reevaluate", node="b")
    assert state.nodes[state.newest["b"]].guard == "AcceptToken"


SUMMER = datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp()
"""The day before summer time begins in Paris."""


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("now", 0),
        ("90 seconds after now", 90),
        ("2 minutes after now", 120),
        ("24 hours after now", 86400),
        ("1 day after now", 82800),
        ("1 business day after now", 82800),
        ("1 week after now", 7 * 86400 - 3600),
        ("-1 hour before now", 3600),
    ],
)
def test_section_4_days_are_those_of_the_calendar(date: str, seconds: int) -> None:
    _, state = guarded(f"<guard>delay until {date}</guard>", {"date:now": SUMMER}, zone="Europe/Paris")
    assert state.nodes[1].until == SUMMER + seconds
    assert state.nodes[1].delays == 1


def test_a_day_later_that_the_clock_skips_comes_right_after() -> None:
    half_past_two = 1774661400.0  # 28 March 2026 in Paris; the next night 2:00 becomes 3:00
    said = {"date:now": half_past_two}
    _, state = guarded("<guard>delay until 1 day after now</guard>", said, zone="Europe/Paris")
    assert state.nodes[1].until == half_past_two + 23.5 * 3600


def test_a_delay_of_which_the_moment_has_passed_comes_at_once_and_then_not_oftener_than_each_second() -> None:
    said, state = guarded("<guard>delay until soon</guard>", {"date:soon": 0})
    assert state.nodes[1].until == 100.0
    said.until_woken()
    assert state.nodes[1].until == 101.0


def test_section_17_a_delayed_token_is_active_once() -> None:
    said, state = guarded(
        "<guard>if T then Accept else delay until soon</guard>", {"date:soon": 200, "predicate:T": False}
    )
    said.passes(150)
    said.answers_to["predicate:T"] = True
    said.passes(50)
    said.says(1, "complete", node="a")
    said.says(1, "complete", node="b")
    assert state.status == "completed"


def test_section_17_what_is_discarded_when_it_is_asked_again_may_end_the_process() -> None:
    said, state = guarded(
        "<guard>if T then Discard else delay until soon</guard>", {"date:soon": 200, "predicate:T": False}
    )
    said.answers_to["predicate:T"] = True
    said.says(1, "reevaluate", node="a")
    assert state.status == "completed"


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("AcceptToken", "AcceptToken"),
        ({"action": "DiscardToken"}, "DiscardToken"),
        ({"action": "SkipNode", "arcs": ["x"]}, "SkipNode"),
        ({"action": "DelayUntil", "until": 500.0}, "DelayUntil"),
    ],
)
def test_a_class_for_the_type_of_a_node_may_be_its_guard(answer: Any, action: str) -> None:
    said = Dialogue(
        '<process-definition name="p"><node name="a" type="own" isStart="true"><arc name="x" to="a"/>'
        "</node></process-definition>"
    )
    said.node_types = {"own": frozenset({"guard", "execute"})}
    said.answers_to = {"node:own:guard": lambda about: answer if about["token"] == 1 else "DiscardToken"}
    run = said.start("p", kind="process")
    assert said.states[run].nodes[1].guard == action


@pytest.mark.parametrize("answer", ["Perhaps", None, {"action": "DelayUntil", "until": "soon"}, 5])
def test_section_18_where_a_class_answers_something_else_the_token_stays(answer: Any) -> None:
    said = Dialogue(
        '<process-definition name="p"><node name="a" type="own" isStart="true"/></process-definition>'
    )
    said.node_types = {"own": frozenset({"guard"})}
    said.answers_to = {"node:own:guard": answer}
    run = said.start("p", kind="process")
    assert (said.state(run), list(said.states[run].failed)) == ("executing", [1])
    assert said.error()["type"] == "bad-answer"


def test_memory_may_be_asked_by_a_guard() -> None:
    text = (
        '<process-definition name="p"><node name="a" type="wait" isStart="true">'
        '<guard type="xpath">mail[@urgent]</guard></node></process-definition>'
    )
    said = Dialogue(text)
    assert said.state(said.start("p", kind="process")) == "completed"
    said.add('<mail urgent="yes"/>')
    assert said.state(said.start("p", kind="process")) == "executing"


MEMBERS = """<process-definition name="p">
  <node name="s" type="wait" isStart="true"><arc to="m"/></node>
  <node name="m" type="action"><custom><target>m.make</target></custom><arc to="r"/></node>
  <node name="r"><arc to="t"/></node>
  <node name="t" type="{type}">{inside}</node>
</process-definition>"""


MAKE = action("m.make", outputs=[Output("item", "item")])


def item(n: int) -> tuple[OutputElement]:
    return (OutputElement(f"<item n='{n}'/>".encode(), "item"),)


def members(type: str, inside: str, count: int = 3, *, list: bool = False) -> tuple[Dialogue, int]:
    """A set of tokens, each of which made an item; the last made its own first."""
    take = action("m.take", [Input("item", "item", list=list)])
    said = Dialogue(MAKE, take, MEMBERS.format(type=type, inside=inside))
    said.add("<order n='1'/>")
    run = said.start("p", kind="process")
    said.says(run, "complete", node="s", set={"name": "S", "count": count}, asynchronous=False)
    for n, call in reversed([*enumerate(said.calls_of("m"))]):
        said.answer(call, elements=item(n))
    return said, run


def test_each_token_is_given_what_was_made_on_its_own_path() -> None:
    said, _ = members("action", "<custom><target>m.take</target></custom>")
    items = [said.xml(dict(call.inputs)["item"][0]) for call in said.calls_of("t")]
    assert len(set(items)) == 3


def test_a_guard_sees_what_was_made_on_the_path_of_its_token() -> None:
    said, run = members("wait", '<guard type="xpath" else="Discard">order[@n = $m/@n]</guard>')
    (token,) = said.states[run].standing["t"]
    assert [*said.states[run].nodes[token].sets.values()] == [1]


def test_a_list_takes_what_all_members_of_a_set_made_however_many() -> None:
    for count in (40, 70):
        inside = "<join>S</join><custom><target>m.take</target></custom>"
        said, _ = members('action" joinType="tokenSet', inside, count, list=True)
        assert len(dict(said.call_of("t").inputs)["item"]) == count


TURNS = """<process-definition name="p">
  <node name="s" type="wait" isStart="true"><arc to="a"/><arc to="b"/></node>
  <node name="a" type="action"><custom><target>m.make</target></custom><arc to="t"/></node>
  <node name="b"><arc to="t"/></node>
  <node name="t" type="action" joinType="and"><custom><target>m.take</target></custom><arc to="s"/></node>
</process-definition>"""


def test_what_was_made_in_this_turn_is_nearer_than_what_was_made_in_earlier_ones() -> None:
    said = Dialogue(MAKE, action("m.take", [Input("item", "item")]), TURNS)
    run = said.start("p", kind="process")
    for turn in range(3):
        said.says(run, "complete", node="s")
        said.answer(said.call_of("a"), elements=item(turn))
        call = said.call_of("t")
        assert said.xml(dict(call.inputs)["item"][0]) == f"<item n='{turn}'/>"
        said.answer(call)
