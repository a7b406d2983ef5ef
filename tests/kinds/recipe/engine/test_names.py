"""Names of conditions: `as`, and `$NAME` in what comes after (N42)."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.prototype import Input, Output
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, Tree
from narval.core.engines.commands import Watch
from narval.core.patterns.pattern import Bound, Condition, compile_pattern
from narval.core.patterns.xpath3 import XPath3
from narval.kinds.recipe.engine.transitions import combinations
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.examples import examples
from tests.kinds.recipe.engine.conditions import condition, took, values, waiting

SAME_HOST = "failed[@host = $first/@host]"
THREE = (
    condition("failed", as_="first", use="yes"),
    condition(SAME_HOST, use="yes"),
    condition(SAME_HOST, use="yes"),
)


# --- within one transition --------------------------------------------------------------------------------


def test_N42_three_failed_logins_of_one_host() -> None:
    said, run = waiting(*THREE)
    eids = {name: said.arrives(f"<failed host='{name[0]}'/>") for name in ("x1", "y1", "x2", "z1", "y2")}
    assert took(said, run) is None
    eids["y3"] = said.arrives("<failed host='y'/>")
    assert took(said, run) == ((eids["y1"],), (eids["y2"],), (eids["y3"],))


def test_N42_what_was_used_is_not_taken_by_the_next_plan() -> None:
    said, _ = waiting(*THREE)
    for _ in range(5):
        said.arrives("<failed host='x'/>")
    run = said.start("g.r")
    said.returned("a", run=run)
    assert took(said, run) is None
    sixth = said.arrives("<failed host='x'/>")
    found = took(said, run)
    assert found is not None
    assert found[2] == (sixth,), "what was used by one of the conditions is used for all of them"


def test_N42_the_oldest_choice_under_which_all_have_an_element_is_taken() -> None:
    said, run = waiting(condition("order", as_="order"), condition("bill[@order = $order/@id]"))
    said.arrives("<order id='1'/>")
    second, bill = said.arrives("<order id='2'/>"), said.add("<bill order='2'/>")
    said.add("<bill order='3'/>")
    said.arrives("<order id='3'/>")
    assert took(said, run) == ((second,), (bill,))


def test_N42_names_may_follow_one_another() -> None:
    said, run = waiting(
        condition("a", as_="one"),
        condition("b[@a = $one/@id]", as_="two"),
        condition("c[@b = $two/@id][@a = $one/@id]"),
    )
    for xml in ("<a id='1'/>", "<a id='2'/>", "<b a='1' id='7'/>", "<b a='2' id='8'/>", "<c b='8' a='1'/>"):
        said.arrives(xml)
    assert took(said, run) is None
    said.arrives("<c b='8' a='2'/>")
    assert [said.xml(eids[0]) for eids in took(said, run) or ()] == [
        '<a id="2"/>',
        '<b a="2" id="8"/>',
        '<c b="8" a="2"/>',
    ]


def test_N42_a_condition_that_depends_on_none_competes_with_those_that_do() -> None:
    said, run = waiting(condition("m", as_="m"), condition("n[@of = $m/@id]"), condition("n"))
    first, second = said.arrives("<m id='1'/>"), said.arrives("<n of='1'/>")
    assert took(said, run) is None
    third = said.arrives("<n/>")
    assert took(said, run) == ((first,), (second,), (third,))


@pytest.mark.parametrize("is_there", [True, False])
def test_N38_N42_a_name_may_be_of_a_condition_that_must_last(is_there: bool) -> None:
    said, run = waiting(condition("order", as_="order", for_="10m"), condition("bill[@of = $order/@id]"))
    order = said.arrives("<order id='1'/>")
    bills = [said.arrives("<bill of='1'/>")] if is_there else []
    said.passes(599)
    assert took(said, run) is None
    said.passes(1)
    bills = bills or [said.arrives("<bill of='1'/>")]
    assert took(said, run) == ((order,), (*bills,))


# --- what a watch waits for -------------------------------------------------------------------------------


def test_N42_a_watch_waits_for_the_values_of_all_candidates_and_is_set_anew_for_each() -> None:
    said, _ = waiting(condition("order", as_="order"), condition("bill[@order = $order/@id]"))
    assert values(said) == [[{}, {"order": []}]]
    first = said.arrives("<order id='1'/>")
    second = said.arrives("<order id='2'/>")
    assert values(said) == [[{}, {"order": [first, second]}]]
    said.arrives("<bill order='3'/>")
    assert said.heard == [], "no watch is for such a bill"


@pytest.mark.parametrize(
    "pattern", ["b[not(@of = $one/@id)]", "b[count($one/x) = 1]", "b[contains(@of, $one/@id)]"]
)
def test_N42_where_more_candidates_may_match_less_the_name_of_the_root_is_watched(pattern: str) -> None:
    said, run = waiting(condition("a", as_="one"), condition(pattern))
    said.arrives("<a id='1'><x/></a>")
    said.arrives("<a id='2'/>")
    said.arrives("<b of='1'/>")
    assert took(said, run) is not None


def test_N42_an_element_that_comes_is_tried_only_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuses(xpath: XPath3, *context: object, **variables: object) -> bool:
        tried.append("")
        return False

    monkeypatch.setattr(XPath3, "__call__", refuses)
    later = "failed[@host = $first/@host][@at gt $first/@at]"
    said, _ = waiting(condition("failed", as_="first"), condition(later))
    for host in range(20):
        for at in "21":
            said.add(f"<failed host='{host}' at='{at}'/>")
    tried.clear()
    said.arrives("<failed host='7' at='0'/>")
    assert 0 < len(tried) <= 10, "the pairs of other hosts were tried before it came"


def test_N42_a_choice_that_an_element_completes_is_taken_among_however_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(combinations, "MOST_TRIED", 10)
    said, run = waiting(condition("order", as_="order"), condition("bill[@order = $order/@id]"))
    for id in range(20):
        said.arrives(f"<order id='{id}'/>")
    said.arrives("<bill order='19'/>")
    assert took(said, run) is not None


def test_N42_the_elements_beside_which_one_fits_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said, run = waiting(*THREE)
    for host in range(80):
        said.add(f"<failed host='{host}'/>")
    first, second = (said.arrives("<failed host='x'/>") for _ in range(2))
    tested, test = list[str](), Bound.test

    def counted(bound: Bound, tree: Tree) -> bool:
        tested.append(bound.text)
        return test(bound, tree)

    monkeypatch.setattr(Bound, "test", counted)
    said.arrives("<failed host='y'/>")
    assert 0 < len(tested) < 40, "the failures of other hosts were tried before it came"
    third = said.arrives("<failed host='x'/>")
    assert took(said, run) == ((first,), (second,), (third,))


def test_N42_of_rivals_the_one_of_higher_priority_takes_what_came_in_one_turn() -> None:
    bill = condition("bill[@of = $order/@id]")
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            step("y"),
            step("z"),
            transition("high", "a", "z", inside=condition("order", as_="order") + bill, priority=1),
            transition("low", "a", "y", inside=condition("bill")),
        ),
        recipe("g.other", step("b"), step("z"), transition("t", "b", "z"), start="b"),
        action("m.a"),
        action("m.b", [], [Output("any", "*", list=True)]),
        action("m.y"),
        action("m.z"),
    )
    said.add("<order id='1'/>")
    run, other = said.start("g.r"), said.start("g.other")
    said.returned("a")
    said.returned("b", "<order id='2'/>", "<bill of='1'/>", run=other)
    assert said.transitions(run)["high"] == "fired"


def test_N42_an_element_that_comes_makes_what_the_plan_says_of_itself_count() -> None:
    paid = condition("bill[@of = $order/@id][$plan/step[@id = 'x']/@state = 'done']")
    said = Dialogue(
        recipe(
            "g.r",
            *map(step, "saxz"),
            transition("p", "s", "a x"),
            transition("t", "a", "z", inside=condition("order", as_="order") + paid),
            start="s",
        ),
        *(action(f"m.{id}") for id in "saxz"),
    )
    order, bill = said.add("<order id='1'/>"), said.add("<bill of='1'/>")
    run = said.start("g.r")
    for id in "sax":
        said.returned(id)
    assert took(said, run) is None
    said.arrives("<order id='2'/>")
    assert took(said, run) == ((order,), (bill,))


def test_N42_many_candidates_are_not_all_kept_in_the_watch() -> None:
    said, run = waiting(condition("order", as_="order"), condition("bill[@order = $order/@id]"))
    for id in range(150):
        said.add(f"<order id='{id}'/>")
    said.arrives("<order id='last'/>")
    assert [watch.conditions[1].text for watch in said.wishes(Watch)] == ["bill"]
    said.arrives("<bill order='140'/>")
    assert took(said, run) is not None


def test_N42_an_element_is_not_too_large_for_all_candidates_together() -> None:
    said, run = waiting(condition("a", as_="one"), condition("b[c = $one/c]"))
    for number in range(60):
        said.arrives(f"<a><c>{number}</c>{'<d/>' * 60}</a>")
    said.arrives(f"<b><c>7</c>{'<d/>' * 700}</b>")
    assert took(said, run) is not None


# --- afterwards -------------------------------------------------------------------------------------------


def named(target_input: str = "mail[@re = $first/@id]", inside: str = "", **attributes: str) -> Dialogue:
    """A plan that has taken `<mail id="1"/>` as `first`, and whose step `z` is called later."""
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            step("b"),
            step("z", inside=f'{inside}<input id="in"><match>{target_input}</match></input>', **attributes),
            transition("t", "a", "b", inside=condition("mail[@id]", as_="first")),
            transition("u", "b", "z"),
        ),
        action("m.a"),
        action("m.b"),
        action("m.z", [Input("in", "*")]),
    )
    said.add("<mail id='1'/>")
    said.start("g.r")
    return said


def test_N42_the_name_stands_in_the_inputs_of_what_comes_after() -> None:
    said = named()
    said.returned("a")
    said.add("<mail re='2'/>")
    answer = said.add("<mail re='1'/>")
    said.returned("b")
    assert said.inputs("z") == {"in": (answer,)}


def test_N42_it_stands_in_foreach_and_in_contexts() -> None:
    said = named("mail[@re]", foreach="mail[@re = $first/@id]")
    said.returned("a")
    said.add("<mail re='2'/>")
    answers = [said.add("<mail re='1'/>") for _ in range(2)]
    said.returned("b")
    assert [call.inputs for call in said.calls_of("z")] == [(("in", (eid,)),) for eid in answers]

    context = '<context from="memory"><match>mail[@re = $first/@id]</match></context>'
    said = named("mail[@re]", inside=context)
    said.returned("a")
    said.add("<mail re='2'/>")
    answer = said.add("<mail re='1'/>")
    said.returned("b")
    assert said.inputs("z") == {"in": (answer,)}


def test_N42_values_in_arguments_are_filled_in_from_what_was_taken() -> None:
    argument = '<arguments><note to="{$first/@from}" n="{{$x}">About {$first/subject}!</note></arguments>'
    said = named("note", inside=argument)
    said.returned("a")
    said.returned("b")
    (eid,) = said.inputs("z")["in"]
    assert said.xml(eid) == '<note to="" n="{$x}">About !</note>'


def test_N42_a_value_may_be_any_expression_of_variables() -> None:
    counted = "{count($mails)} of {count($mails) + 2}"
    values = f'{{substring($mails/body, 1, 5)}}, {counted}, {{{{1}} {{ concat($mails/@id, "-") }}'
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            step("z", inside=f'<arguments><note of="{{count($mails)}}">{values}</note></arguments>'),
            transition("t", "a", "z", inside=condition("mail", as_="mails")),
        ),
        action("m.a"),
        action("m.z", [Input("in", "note")]),
    )
    said.add("<mail id='7'><body>Dear all, this is long.</body></mail>")
    said.start("g.r")
    said.returned("a")
    (eid,) = said.inputs("z")["in"]
    assert said.xml(eid) == '<note of="1">Dear , 1 of 3, {1} 7-</note>'


NOTE = '<note re="{$mails/@id}"><b>{$mails[2]/text} and {$a}</b></note>'


def test_N42_the_argument_knows_what_it_was_made_from() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            step("z", inside=f"<arguments>{NOTE}</arguments>"),
            transition("t", "a", "z", inside=condition("mail", as_="mails")),
        ),
        action("m.a"),
        action("m.z", [Input("in", "note")]),
    )
    mail = said.add("<mail id='1'/>")
    said.start("g.r")
    said.returned("a")
    (eid,) = said.inputs("z")["in"]
    assert said.xml(eid) == '<note re="1"><b> and </b></note>'
    element = said.memory.element(eid)
    assert element is not None
    assert element.origin is not None
    assert element.origin.inputs == (mail,)


def test_N42_of_rivals_the_name_stands_for_what_the_one_took_that_fired() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            step("z", inside='<arguments><note of="{$first/@n}"/></arguments>'),
            transition("t", "a", "z", inside=condition("red", as_="first")),
            transition("u", "a", "z", inside=condition("blue", as_="first")),
        ),
        action("m.a"),
        action("m.z", [Input("in", "note")]),
    )
    said.start("g.r")
    said.returned("a")
    said.arrives("<blue n='7'/>")
    assert said.xml(said.inputs("z")["in"][0]) == '<note of="7"/>'


def test_N42_a_transition_that_waits_elsewhere_is_tried_anew_when_the_name_gets_its_element() -> None:
    said = Dialogue(
        recipe(
            "g.r",
            step("a"),
            *(step(name) for name in "bcz"),
            transition("s", "a", "b c"),
            transition("t", "b", "z", inside=condition("mail[@id]", as_="first")),
            transition("u", "c", "z", inside=condition("mail[@re = $first/@id]")),
        ),
        *(action(f"m.{name}") for name in "abcz"),
    )
    run = said.start("g.r")
    for name in "abc":
        said.returned(name)
    answer = said.arrives("<mail re='1'/>")
    assert said.transitions(run) == {"s": "fired", "t": "wait-condition", "u": "wait-condition"}
    said.arrives("<mail id='1'/>")
    assert said.transitions(run) == {"s": "fired", "t": "fired", "u": "fired"}
    assert took(said, run, "u") == ((answer,),)


# --- against all choices there are --------------------------------------------------------------------------


PATTERNS = (
    "p",
    "p[@a = ${0}/@a]",
    "p[@b = ${0}/@a]",
    "p[not(@a = ${0}/@a)]",
    "q[@a = ${0}/@b]",
    "q",
    "p[@a = ${0}/@a or @b = ${1}/@b]",
    "q[@a != ${1}/@a][@b = ${0}/@b]",
)


@st.composite
def dependent(draw: st.DrawFn) -> list[str]:
    """The patterns of conditions, of which each may use the names of those before it."""
    count = draw(st.integers(2, 4))
    patterns = []
    for at in range(count):
        pattern = draw(st.sampled_from(PATTERNS))
        names = [f"n{draw(st.integers(0, at - 1))}" for _ in range(2)] if at else []
        patterns.append(pattern.replace("$", "$").format(*names) if names else pattern[0])
    return patterns


def fits(pattern: str, eid: int, chosen: dict[str, int], elements: dict[int, Element]) -> bool:
    bindings = {name: [elements[other]] for name, other in chosen.items()}
    return Condition([compile_pattern(pattern)]).bind(bindings).test(Tree(elements[eid]))


def choices(patterns: list[str], elements: dict[int, Element]) -> list[tuple[int, ...]]:
    """Every way to give each condition an element of its own."""
    return [
        eids
        for eids in permutations(elements, len(patterns))
        if all(
            fits(pattern, eid, {f"n{at}": other for at, other in enumerate(eids)}, elements)
            for pattern, eid in zip(patterns, eids, strict=True)
        )
    ]


@settings(max_examples=examples(150), deadline=None)
@given(dependent(), st.lists(st.tuples(*[st.sampled_from("pq"), *[st.sampled_from("123")] * 2]), max_size=7))
def test_N42_a_transition_fires_as_soon_as_any_choice_lets_it(
    patterns: list[str], arriving: list[tuple[str, str, str]]
) -> None:
    used = {name for pattern in patterns for name in compile_pattern(pattern).variables}
    said, run = waiting(*(condition(pattern, as_=f"n{at}") for at, pattern in enumerate(patterns)))
    elements: dict[int, Element] = {}
    for name, a, b in arriving:
        xml = f'<{name} a="{a}" b="{b}"/>'
        eid = said.arrives(xml)
        elements[eid] = Element(eid, canonical(xml))
        possible = choices(patterns, elements)
        found = took(said, run)
        assert (found is not None) == bool(possible)
        if found is not None:
            taken = tuple(eid for (eid,) in found)
            assert taken in possible
            keys = [at for at in range(len(patterns)) if f"n{at}" in used]
            assert [taken[at] for at in keys] == min([each[at] for at in keys] for each in possible)
            return
