"""Items that other runs ask for: by steps, nested plans, and who answered an earlier one (P4, P29, P70)."""

from __future__ import annotations

from tests.core.engines.dialogue import action, recipe, step, transition
from tests.kinds.work.engine.items import Office, work

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
    assert office.why_not(second, "ann", "answer").startswith("who answered at look may not answer here")
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


def test_P29_who_answered_in_a_plan_beside_is_excluded_too() -> None:
    looks = recipe("g.looks", step("look", "g.first", type="work"), start="look", end="look")
    signs = recipe("g.signs", step("sign", "g.again", type="work"), start="sign", end="sign")
    top = recipe(
        "g.top",
        step("a"),
        step("one", "g.looks", type="recipe"),
        step("two", "g.signs", type="recipe"),
        step("z"),
        transition("t", "a", "one two"),
        transition("u", "one two", "z"),
    )
    office = Office(FIRST, AGAIN, looks, signs, top, action("m.a"), action("m.z"))
    office.add("<request/>")

    def begins() -> tuple[int, int]:
        plan = office.start("g.top")
        office.returned("a", run=plan)
        first = office.begins("look", run=office.begins("one", run=plan))
        return first, office.begins("sign", run=office.begins("two", run=plan))

    first, second = begins()
    _, other = begins()
    office.act(second, "ann", "claim")
    office.act(first, "ann", "answer")
    assert office.refusal(second, "ann", "answer") == "excluded"
    office.act(other, "ann", "answer")
    assert office.state(other) == "done", "in another top-level run she may"


def test_P29_of_a_foreach_whoever_answered_for_any_element_is_excluded() -> None:
    each = recipe(
        "g.each",
        step("look", "g.first", type="work", foreach="request"),
        step("sign", "g.again", type="work"),
        transition("t", "look", "sign"),
        start="look",
        end="sign",
    )
    office = Office(FIRST, AGAIN, each)
    requests = [office.add(f'<request n="{number}"/>') for number in range(2)]
    office.start("g.each")
    for request, person in zip(requests, ("ann", "ben"), strict=True):
        item = office.begins("look", given=request)
        office.act(item, person, "answer")
        office.answers(item)
    second = office.begins("sign")
    assert [office.refusal(second, person, "claim") for person in ("ann", "ben", "cid")] == [
        "excluded",
        "excluded",
        "",
    ]


def test_P29_votes_count_where_the_item_goes_on_and_not_once_it_is_withdrawn() -> None:
    voted = work(REQUEST + '<outcome name="ok" needs="2"/>', name="g.first")
    both = recipe(
        "g.both",
        step("a"),
        step("look", "g.first", type="work"),
        step("sign", "g.again", type="work"),
        step("z"),
        transition("t", "a", "look sign"),
        transition("u", "look sign", "z"),
    )
    office = Office(voted, AGAIN, both, action("m.a"), action("m.z"))
    office.add("<request/>")
    office.start("g.both")
    office.returned("a")
    first, second = office.begins("look"), office.begins("sign")
    office.act(first, "ann", "answer")
    assert office.refusal(second, "ann", "claim") == "excluded"
    office.act(first, "ann", "take_back")
    office.act(second, "ann", "claim")
    office.act(second, "ann", "release")
    office.act(first, "ann", "answer")
    office.cancel(first)
    office.act(second, "ann", "claim")


def test_P29_of_a_process_the_nodes_count() -> None:
    process = """<process-definition name="p">
      <node name="look" type="work" isStart="true"><custom><target>g.first</target></custom>
        <arc to="sign"/></node>
      <node name="sign" type="work"><custom><target>g.again</target></custom></node>
    </process-definition>"""
    office = Office(FIRST, AGAIN, process)
    office.add("<request/>")
    run = office.start("p", kind="process")
    first = office.begins("look", run=run)
    office.act(first, "ann", "answer")
    office.answers(first)
    second = office.begins("sign", run=run)
    assert office.refusal(second, "ann", "answer") == "excluded"
    office.act(second, "ben", "answer")


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
