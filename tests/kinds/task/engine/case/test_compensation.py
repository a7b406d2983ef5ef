"""What was done is undone in reverse order, each step once (K47, KA19–KA22)."""

from __future__ import annotations

import pytest

from tests.core.engines.dialogue import Refusal
from tests.kinds.task.engine.case.cases import Cases, task

PAID = (task("order", "cancel_order"), task("pay", "refund"), "look", "ship", "cancel_order", "refund")


def paid(*more: object) -> tuple[Cases, int, int]:
    """A case that has passed `order`, `pay` and `look`, and is at `ship`."""
    cases = Cases(*PAID, *more)  # type: ignore[arg-type]
    order = cases.add("<order/>")
    case = cases.begins_case("order", order)
    for type in ("pay", "look", "ship"):
        receipt = cases.add(f"<receipt of='{type}'/>")
        cases.passes_task(case, order, (type, 0), outputs=[receipt])
    return cases, case, order


def test_K47_compensators_run_in_reverse_order_with_the_logged_outputs() -> None:
    cases, case, order = paid()
    assert cases.passes_task(case, order, result="ABORT") is None, "its instance waits"
    assert cases.state(case) == "aborting"
    assert cases.trail(case) == [("order", "forwarded"), ("pay", "compensating"), ("look", "none")]
    (call,) = cases.calls_of("step2")
    assert call.payload == {"environment": {"compensates": "g.pay", "object": str(order), "case": str(case)}}
    name, given = cases.compensates()
    assert (name, given) == ("g.refund", (order, cases.named("receipt")[1].eid))
    assert cases.compensates()[0] == "g.cancel_order"
    assert cases.state(case) == "aborted"
    assert cases.trail(case) == [("order", "compensated"), ("pay", "compensated"), ("look", "none")]
    assert cases.answer_to("i4") == {"blocked": False}
    assert cases.finished[case].phase == "cancelled"


def test_K47_a_task_passed_twice_is_compensated_twice() -> None:
    cases = Cases(*PAID)
    case = cases.begins_case("pay", order := cases.add("<order/>"))
    cases.passes_task(case, order, ("pay", 0))
    cases.passes_task(case, order, ("ship", 0))
    cases.passes_task(case, order, result="ABORT")
    assert [cases.compensates()[0], cases.compensates()[0]] == ["g.refund", "g.refund"]
    assert cases.state(case) == "aborted"


def test_K47_a_compensator_is_given_the_object_as_it_is_now() -> None:
    cases = Cases(task("pay", "refund"), "ship", "refund")
    case = cases.begins_case("pay", order := cases.add("<order/>"))
    cases.passes_task(case, order, ("ship", 0))
    cases.current = lambda eid: order + 50 if eid == order else eid
    cases.passes_task(case, order, result="ABORT")
    assert cases.compensates()[1] == (order + 50,)


def test_K47_ON_ABORT_routes_the_object_once_all_is_undone() -> None:
    cases, case, order = paid(task("pack", script="ABORT"), "letter")
    cases.passes_task(case, order, ("pack", 0))
    cases.passes_task(case, order, result="ABORT")
    cases.compensates()
    cases.compensates()
    assert (cases.state(case), cases.places(case)) == ("active", {order: "leaving"})
    cases.says_of(case, "routed", object=order, routes=[{"type": "letter", "object": order}])
    assert cases.places(case) == {order: "letter"}
    cases.passes_task(case, order, result="COMMIT")
    assert cases.state(case) == "committed"


def test_K47_a_script_of_ABORT_that_routes_nothing_ends_the_object() -> None:
    cases = Cases(task("enter", script="ABORT"))
    case = cases.begins_case("enter", order := cases.add("<order/>"))
    assert cases.passes_task(case, order, result="ABORT") == {"blocked": False}, "nothing is to be undone"
    cases.says_of(case, "routed", object=order, routes=[])
    assert cases.state(case) == "aborted"


def test_K47_copies_are_withdrawn_before_anything_is_compensated() -> None:
    cases, case, order = paid("a", "b", task("c", "undo_c"), "undo_c")
    one, two, three = (cases.add("<order/>") for _ in "123")
    cases.passes_task(case, order, ("a", one), ("b", two), ("c", three), parts={order: [one, two, three]})
    cases.passes_task(case, three, ("a", 0))
    cases.passes_task(case, one, result="ABORT")
    assert set(cases.withdrawals()) == {two, three}
    cases.withdraws(two)
    assert cases.calls_of("step5") == [], "another is still under way"
    cases.withdraws(three, there=False)
    undone = [cases.compensates()[0] for _ in "123"]
    assert undone == ["g.undo_c", "g.refund", "g.cancel_order"]
    assert cases.places(case) == {order: "aborted", one: "aborted", two: "withdrawn", three: "withdrawn"}
    assert cases.state(case) == "aborted"


def test_K47_what_is_forwarded_or_committed_while_it_is_withdrawn_is_compensated_too() -> None:
    cases = Cases("split", task("a", "undo_a"), task("b", "undo_b"), "c", "undo_a", "undo_b")
    case = cases.begins_case("split", order := cases.add("<order/>"))
    one, two, three = (cases.add("<order/>") for _ in "123")
    cases.passes_task(case, order, ("a", one), ("b", two), ("c", three), parts={order: [one, two, three]})
    cases.passes_task(case, three, result="ABORT")
    assert cases.passes_task(case, one, ("c", 0)) == {}
    assert cases.passes_task(case, two, result="COMMIT") == {}
    assert cases.queues.get(one) is None, "it goes nowhere"
    cases.withdraws(one, there=False)
    cases.withdraws(two, there=False)
    assert [cases.compensates()[0] for _ in "12"] == ["g.undo_b", "g.undo_a"]
    assert cases.trail(case) == [("split", "none"), ("a", "compensated"), ("b", "compensated")]


def test_K47_what_is_merged_while_it_is_withdrawn_is_withdrawn_whole() -> None:
    cases = Cases(task("split", "undo"), "a", task("join", composed=("a",)), "undo")
    case = cases.begins_case("split", order := cases.add("<order/>"))
    one, two = cases.add("<order/>"), cases.add("<order/>")
    cases.passes_task(case, order, ("a", one), ("a", two), parts={order: [one, two]})
    left, right = cases.add("<page/>"), cases.add("<page/>")
    cases.passes_task(case, one, ("join", left), ("join", right), parts={one: [left, right]})
    cases.passes_task(case, two, result="ABORT")
    whole = cases.add("<order/>")
    assert cases.says_of(case, "merged", parent=one, object=whole, parts=[left, right]) == {}
    for object in (left, right):
        cases.withdraws(object, there=False)
        assert cases.calls_of("step1") == []
    cases.withdraws(whole)
    assert cases.compensates()[0] == "g.undo"
    assert cases.places(case)[one] == "withdrawn"


def test_K47_two_that_abort_wait_for_the_same_chain() -> None:
    cases = Cases(task("split", "undo"), "a", "undo")
    case = cases.begins_case("split", order := cases.add("<order/>"))
    one, two = cases.add("<order/>"), cases.add("<order/>")
    cases.passes_task(case, order, ("a", one), ("a", two), parts={order: [one, two]})
    cases.passes_task(case, one, result="ABORT")
    cases.passes_task(case, two, result="ABORT")
    cases.withdraws(two, there=False)
    assert cases.compensates()[0] == "g.undo"
    assert cases.answer_to("i2") == cases.answer_to("i3") == {"blocked": False}
    assert cases.state(case) == "aborted"


def test_KA22_what_a_member_has_committed_is_not_undone_what_came_before_it_is() -> None:
    cases = Cases(task("split", "undo"), task("a", "undo_a"), "b", "undo", "undo_a")
    case = cases.begins_case("split", order := cases.add("<order/>"))
    one, two = cases.add("<order/>"), cases.add("<order/>")
    cases.passes_task(case, order, ("a", one), ("b", two), parts={order: [one, two]})
    cases.passes_task(case, one, ("b", 0))
    cases.passes_task(case, one, result="COMMIT")
    assert cases.trail(case) == [("split", "forwarded"), ("a", "committed")]
    cases.passes_task(case, two, result="ABORT")
    assert cases.compensates()[0] == "g.undo"
    assert cases.trail(case) == [("split", "compensated"), ("a", "committed")]
    assert cases.state(case) == "aborted", "though a part of it was committed"


def test_KA20_a_compensator_that_fails_blocks_the_chain_until_a_retry() -> None:
    cases, case, order = paid()
    cases.passes_task(case, order, result="ABORT")
    cases.compensates(well=False)
    assert cases.answer_to("i4") == {"blocked": True}
    assert (cases.state(case), cases.error()["compensator"]) == ("blocked", "g.refund")
    why = cases.engines[case].explain(cases.definitions[case], cases.states[case], None)
    assert why == (
        "its chain of compensators is blocked: g.refund, which compensates g.pay, failed: the bank said no"
    )
    assert cases.says(case, "retry") == {"step": "step2", "compensator": "g.refund"}
    assert [cases.compensates()[0], cases.compensates()[0]] == ["g.refund", "g.cancel_order"]
    assert cases.state(case) == "aborted"


def test_KA21_a_compensator_that_ran_is_not_compensated_itself() -> None:
    cases = Cases(
        task("order", "cancel_order"),
        task("pay", "refund"),
        "ship",
        task("cancel_order", "order_again"),
        task("refund", "pay_again"),
        "order_again",
        "pay_again",
    )
    case = cases.begins_case("order", order := cases.add("<order/>"))
    cases.passes_task(case, order, ("pay", 0))
    cases.passes_task(case, order, ("ship", 0))
    cases.passes_task(case, order, result="ABORT")
    assert cases.compensates()[0] == "g.refund"
    cases.compensates(well=False)
    assert cases.state(case) == "blocked"
    cases.says(case, "retry")
    assert cases.compensates()[0] == "g.cancel_order"
    assert cases.state(case) == "aborted"
    assert cases.trail(case) == [("order", "compensated"), ("pay", "compensated")]


def test_KA20_what_is_routed_while_the_chain_is_blocked_goes_once_all_is_undone() -> None:
    cases, case, order = paid(task("pack", script="ABORT"), "letter")
    cases.passes_task(case, order, ("pack", 0))
    cases.passes_task(case, order, result="ABORT")
    cases.compensates(well=False)
    cases.says_of(case, "routed", object=order, routes=[{"type": "letter", "object": order}])
    assert cases.places(case) == {order: "aborting"}
    cases.says(case, "retry")
    cases.compensates()
    cases.compensates()
    assert cases.places(case) == {order: "letter"}


def test_KA20_what_is_divided_while_the_chain_is_blocked_goes_on_as_its_parts() -> None:
    cases, case, order = paid(task("pack", script="ABORT"), "letter")
    cases.passes_task(case, order, ("pack", 0))
    cases.passes_task(case, order, result="ABORT")
    cases.compensates(well=False)
    one, two = cases.add("<letter/>"), cases.add("<letter/>")
    routes = [{"type": "letter", "object": one}]
    cases.says_of(case, "routed", object=order, routes=routes, parts={str(order): [one, two]})
    cases.says(case, "retry")
    cases.compensates()
    cases.compensates()
    assert cases.places(case) == {order: "parts", one: "letter", two: "held"}


def test_KA20_a_blocked_chain_may_be_given_up() -> None:
    cases, case, order = paid()
    cases.passes_task(case, order, result="ABORT")
    cases.compensates(well=False)
    cases.cancel(case)
    assert cases.state(case) == "cancelled"
    why = cases.engines[case].explain(cases.definitions[case], cases.states[case], None)
    assert why == "it was cancelled; 2 steps of it were not compensated"


def test_K47_a_case_that_is_cancelled_is_withdrawn_and_compensated() -> None:
    cases, case, order = paid()
    cases.cancel(case)
    assert cases.state(case) == "aborting"
    cases.withdraws(order)
    cases.compensates()
    cases.compensates()
    assert (cases.state(case), cases.places(case)) == ("cancelled", {order: "withdrawn"})
    assert cases.finished[case].phase == "cancelled"


def test_K47_an_object_that_is_held_needs_nobody_to_withdraw_it() -> None:
    cases, case, order = paid()
    cases.passes_task(case, order)
    cases.says(case, "cancel", why="enough")
    cases.compensates()
    cases.compensates()
    assert (cases.state(case), cases.places(case)) == ("cancelled", {order: "withdrawn"})


def test_K47_an_instance_that_is_gone_routes_nothing() -> None:
    cases, case, order = paid(task("pack", script="ABORT"))
    cases.passes_task(case, order, ("pack", 0))
    cases.passes_task(case, order, result="ABORT")
    cases.says_of(case, "gone", signal="i5")
    cases.compensates()
    cases.compensates()
    assert cases.state(case) == "aborted"


def test_nothing_can_be_done_about_a_case_where_nothing_is_held() -> None:
    cases, case, _ = paid()
    with pytest.raises(Refusal, match="no object of it is held"):
        cases.says(case, "retry")
