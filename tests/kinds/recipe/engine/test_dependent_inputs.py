"""Inputs that depend on the element of a call (`$each`) and on other inputs (`$INPUT`, N47)."""

from __future__ import annotations

from narval.core.definitions.prototype import Input, Output
from narval.core.engines.commands import MarkUsed
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition

BILL = '<input id="bill"><match>bill[@order = ${}/@id]</match></input>'
ORDER = Input("order", "order")


def plan(inside: str, *inputs: Input, error_link: bool = False, **attributes: str) -> Dialogue:
    """A plan whose step `s` has these inputs."""
    links = [transition("t", "s!", "z")] if error_link else []
    text = recipe("g.r", step("s", inside=inside, **attributes), step("z"), *links, transition("u", "s", "z"))
    return Dialogue(text.replace('start_step="a"', 'start_step="s"'), action("m.s", inputs), action("m.z"))


def each(*inputs: Input, name: str = "each", **attributes: str) -> Dialogue:
    """A plan with a call of `s` for each order, which is given its bill as well."""
    return plan(BILL.format(name), ORDER, *inputs, foreach="order", **attributes)


def added(said: Dialogue, *xml: str) -> list[int]:
    return [said.add(text) for text in xml]


def given(said: Dialogue) -> list[dict[str, tuple[int, ...]]]:
    return [dict(call.inputs) for call in said.calls_of("s")]


BILLS = Input("bill", "bill")


# --- $each ------------------------------------------------------------------------------------------------


def test_N47_each_call_gets_what_goes_with_its_element() -> None:
    said = each(BILLS)
    a, b, bill_b, bill_a = added(
        said, "<order id='a'/>", "<order id='b'/>", "<bill order='b'/>", "<bill order='a'/>"
    )
    said.start("g.r")
    assert given(said) == [{"order": (a,), "bill": (bill_a,)}, {"order": (b,), "bill": (bill_b,)}]


def test_N47_the_input_of_the_element_may_be_named_as_well() -> None:
    said = each(BILLS, name="order")
    a, bill = added(said, "<order id='a'/>", "<bill order='a'/>")
    said.start("g.r")
    assert given(said) == [{"order": (a,), "bill": (bill,)}]


def test_N47_inputs_that_depend_on_neither_are_shared() -> None:
    said = each(BILLS, Input("pen", "pen", use=True))
    a, b, pen, *_ = added(
        said,
        "<order id='a'/>",
        "<order id='b'/>",
        "<pen/>",
        "<pen/>",
        "<bill order='a'/>",
        "<bill order='b'/>",
    )
    said.start("g.r")
    assert [(call["order"], call["pen"]) for call in given(said)] == [((a,), (pen,)), ((b,), (pen,))]


def test_N47_a_list_is_all_that_goes_with_the_element() -> None:
    said = each(Input("bill", "bill", list=True, optional=True))
    a, b, first, second = added(
        said, "<order id='a'/>", "<order id='b'/>", "<bill order='a'/>", "<bill order='a'/>"
    )
    said.start("g.r")
    assert given(said) == [{"order": (a,), "bill": (first, second)}, {"order": (b,)}]


def test_N47_what_is_used_by_one_call_is_not_given_to_the_next() -> None:
    said = each(Input("bill", "bill", use=True), **{"max-parallel": "1"})
    a, b, one, two = added(
        said, "<order id='x'/>", "<order id='x'/>", "<bill order='x'/>", "<bill order='x'/>"
    )
    said.start("g.r")
    assert given(said) == [{"order": (a,), "bill": (one,)}]
    assert [mark.eids for mark in said.wishes(MarkUsed)] == [(one,)]
    said.returned("s")
    assert given(said) == [{"order": (b,), "bill": (two,)}]


def test_N47_what_is_replaced_is_reserved_for_its_call() -> None:
    said = each(Input("bill", "bill", outdates=True))
    *_, bill = added(said, "<order id='x'/>", "<bill order='x'/>")
    run = said.start("g.r")
    assert said.in_force[run].reserved == {bill: None}
    said.returned("s")
    assert bill in said.memory.outdated


def test_N47_a_call_that_lacks_an_input_is_an_error_and_the_others_go_on() -> None:
    said = each(BILLS)
    a, b, bill = added(said, "<order id='a'/>", "<order id='b'/>", "<bill order='b'/>")
    run = said.start("g.r")
    assert given(said) == [{"order": (b,), "bill": (bill,)}]
    error = said.error()
    assert (error["type"], error["input"], error["step"]) == ("input-missing", "bill", "s")
    lacks = "nothing in memory fits input bill (bill and bill[@order = $each/@id])"
    assert error["message"] == f"{lacks}; $each is element {a}"
    said.returned("s")
    assert said.state(run) == "failed"


def test_N47_where_all_calls_lack_an_input_the_step_is_in_error_at_once() -> None:
    said = plan(BILL.format("each"), ORDER, BILLS, foreach="order", error_link=True)
    added(said, "<order id='a'/>", "<order id='b'/>")
    run = said.start("g.r")
    assert len(said.errors()) == 2
    assert said.steps(run)["s"] == "history", "its errors were taken up"
    assert said.steps(run)["z"] == "running"


def test_N47_only_what_depends_on_no_call_takes_the_elements_of_foreach() -> None:
    said = plan(
        '<input id="other"><match>order[not(@id = $each/@id)]</match></input>',
        ORDER,
        Input("other", "order"),
        foreach="order",
    )
    a, b = added(said, "<order id='a'/>", "<order id='b'/>")
    said.start("g.r")
    assert given(said) == [{"order": (a,), "other": (b,)}, {"order": (b,), "other": (a,)}]


# --- $INPUT without foreach ---------------------------------------------------------------------------------


def test_N47_an_input_may_depend_on_what_another_got() -> None:
    said = plan(BILL.format("order"), BILLS, ORDER)
    order, _, bill = added(said, "<order id='b'/>", "<bill order='a'/>", "<bill order='b'/>")
    said.start("g.r")
    assert given(said) == [{"bill": (bill,), "order": (order,)}]


def test_N47_and_on_that_in_turn() -> None:
    inside = BILL.format("order") + '<input id="receipt"><match>receipt[@bill = $bill/@id]</match></input>'
    said = plan(inside, Input("receipt", "receipt"), BILLS, ORDER)
    added(said, "<order id='b'/>", "<receipt bill='1'/>", "<bill order='a' id='1'/>")
    bill, receipt = added(said, "<bill order='b' id='2'/>", "<receipt bill='2'/>")
    said.start("g.r")
    assert given(said) == [{"receipt": (receipt,), "bill": (bill,), "order": (1,)}]


def test_N47_on_an_argument_too() -> None:
    inside = '<arguments><order id="b"/></arguments>' + BILL.format("order")
    said = plan(inside, BILLS, ORDER)
    _, bill = added(said, "<order id='a'/>", "<bill order='b'/>")
    said.start("g.r")
    (call,) = given(said)
    assert call["bill"] == (bill,)
    assert said.xml(call["order"][0]) == '<order id="b"/>'


def test_N47_one_that_is_left_empty_fails_the_plan() -> None:
    said = plan(BILL.format("order"), BILLS, ORDER)
    added(said, "<order id='b'/>", "<bill order='a'/>")
    run = said.start("g.r")
    assert said.state(run) == "failed"
    assert said.error()["input"] == "bill"


def test_N47_a_step_of_that_name_comes_first() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            step("order", "m.order"),
            step("z", inside=BILL.format("order")),
            transition("t", "order", "z"),
            start="order",
        ),
        action("m.order", (), [Output("order", "order")]),
        action("m.z", [BILLS, ORDER]),
    )
    *_, bill = added(said, "<order id='a'/>", "<bill order='a'/>", "<bill order='made'/>")
    said.start("g.r")
    said.returned("order", "<order id='made'/>")
    assert said.inputs("z")["bill"] == (bill,)
