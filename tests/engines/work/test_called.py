"""Items that other runs ask for: by steps, nested plans, and who answered an earlier one (P4, P29, P70)."""

from __future__ import annotations

from tests.engines.dialogue import action, recipe, step, transition
from tests.engines.work.items import Office, work

REQUEST = '<input id="r"><match>request</match></input>'
FIRST = work(REQUEST + '<outcome name="ok"/>', name="g.first")
AGAIN = work(REQUEST + '<for not="step:look"/>', name="g.again")


def two_looks(second: str = "g.again") -> str:
    return recipe(
        "g.two",
        step("look", "g.first", type="work"),
        step("sign", second, type="work" if second == "g.again" else "recipe"),
        transition("t", "look", "sign", "decision[@outcome='ok']"),
        start="look",
        end="sign",
    )


def test_P29_who_answered_at_an_earlier_step_may_not_answer_again() -> None:
    office = Office(FIRST, AGAIN, two_looks())
    office.add("<request/>")
    office.start("g.two")
    first = office.begins("look")
    office.act(first, "ann", "answer")
    office.answers(first)
    second = office.begins("sign")
    assert office.why_not(second, "ann", "answer").startswith("whoever answered at look may not answer here")
    office.act(second, "ben", "answer")
    assert office.state(second) == "done"


def test_P29_of_a_nested_plan_the_steps_of_those_that_called_it_count() -> None:
    inner = recipe("g.inner", step("ask", "g.again", type="work"), start="ask", end="ask")
    office = Office(FIRST, AGAIN, inner, two_looks("g.inner"))
    office.add("<request/>")
    office.start("g.two")
    first = office.begins("look")
    office.act(first, "ann", "answer")
    office.answers(first)
    nested = office.begins("sign")
    second = office.begins("ask", run=nested)
    assert office.refusal(second, "ann", "answer") == "excluded"
    assert office.refusal(second, "ann", "refuse") == ""


def test_P4_the_caller_says_which_element_is_given_to_which_input() -> None:
    pair = work('<input id="a"><match>request</match></input><input id="b"><match>request</match></input>')
    asks = recipe(
        "g.asks",
        step("ask", "g.w", "<input id='b'><match>*[@n='1']</match></input>", type="work"),
        start="ask",
        end="ask",
    )
    office = Office(pair, asks)
    one, two = office.add('<request n="1"/>'), office.add('<request n="2"/>')
    office.start("g.asks")
    assert office.inputs("ask") == {"a": (two,), "b": (one,)}
    item = office.begins("ask")
    assert office.states[item].inputs == (("a", (two,)), ("b", (one,)))


def test_P70_a_step_that_tries_again_asks_once() -> None:
    asks = recipe(
        "g.asks",
        step("ask", "g.w", type="work", retries="3"),
        step("no", "m.no"),
        transition("t", "ask!", "no"),
        start="ask",
        end="no",
    )
    office = Office(work('<for people="ann"/>'), asks, action("m.no"))
    plan = office.start("g.asks")
    item = office.begins("ask")
    office.act(item, "ann", "refuse")
    office.answers(item)
    assert office.steps(plan) == {"ask": "history", "no": "running"}


def test_P30_who_added_what_is_shown_has_asked() -> None:
    office = Office(work(REQUEST + '<for not="requester"/>'))
    office.starter = "ann"
    office.add("<request/>")
    item = office.offers()
    assert office.states[item].requesters == ("ann",)
