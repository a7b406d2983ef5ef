"""What is told of a definition that was explored: what cannot be, and what may (issue 3)."""

from __future__ import annotations

import re

import pytest

from narval.core.definitions.action.definition import Action, Input, Output
from narval.core.engines.structure import Finding
from narval.trials.explore.findings import findings
from narval.trials.explore.search import Explored, explore
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition


def explored(*definitions: Action | str, name: str = "g.r", most: int = 5000) -> Explored:
    """The walk through one of these definitions; actions that have none are made."""
    said = Dialogue(*definitions)
    known = {each.target for each in said.library.of("recipe")[name].steps.values() if each.kind == "action"}
    said.load(*(action(each) for each in known if said.library.get("action", each) is None))
    definition = said.library.get("recipe", name)
    assert definition is not None
    return explore(definition, said.library, most)


def told(*definitions: Action | str, **settings: int) -> list[Finding]:
    return findings(explored(*definitions, **settings))


def errors(*definitions: Action | str) -> dict[str, Finding]:
    """What cannot be, by the part it is about."""
    return {each.part: each for each in told(*definitions) if each.severity == "error"}


def notes(*definitions: Action | str) -> list[str]:
    return [each.message for each in told(*definitions) if each.severity == "note"]


SOUND = recipe(
    "g.r",
    *(step(each) for each in "abcz"),
    transition("t1", "a", "b c", "mail"),
    transition("t2", "b c", "z"),
)


def test_of_a_sound_recipe_it_is_told_only_that_nobody_handles_its_errors() -> None:
    assert notes(SOUND) == ["nobody handles errors of a, b, c, z: the plan fails"]
    assert errors(SOUND) == {}


def test_N22_a_join_of_two_steps_of_which_one_alone_is_taken_can_never_complete() -> None:
    xor = recipe(
        "g.r",
        *(step(each) for each in "abcz"),
        transition("left", "a", "b", "mail"),
        transition("right", "a", "c"),
        transition("both", "b c", "z"),
    )
    found = errors(xor)
    assert set(found) == {"both", "z"}
    assert found["both"].message.startswith("join 'both' can never complete: ")
    assert "transition left was taken instead" in found["both"].message
    first, second = found["both"].story
    assert first == "it starts: a running"
    back, _, followed = second.partition(": a history, ")
    assert back == "action m.a of a comes back well (in memory: mail)"
    assert followed == "b running, left fired, both impossible"
    assert "a plan can get stuck, though no error ends it: nothing can go on then" in notes(xor)


def test_N27_an_end_out_of_reach_is_told_with_what_blocks_it() -> None:
    xor = recipe(
        "g.r",
        *(step(each) for each in "abcz"),
        transition("left", "a", "b"),
        transition("right", "a", "c"),
        transition("both", "b c", "z"),
    )
    messages = [each.message for each in told(xor) if each.part == "z"]
    assert messages == [
        "no plan can ever be done: its end is step 'z'",
        "step 'z' can never run, as join 'both' never does",
    ]


def test_N22_a_transition_that_another_always_comes_before_can_never_fire() -> None:
    parts = [*(step(each) for each in "abz"), transition("t3", "b", "z")]
    first = transition("first", "a", "z", priority=1)
    assert "second" in errors(recipe("g.r", *parts, first, transition("second", "a", "b", "mail")))
    assert errors(recipe("g.r", *parts, first, transition("second", "a", "b", priority=2))).keys() == {
        "first"
    }


@pytest.mark.parametrize(
    ("wins", "loses", "shadowed"),
    [
        ("mail", "mail", True),
        ("mail", "mail & *[@new]", True),
        ("mail", "use mail", True),
        ("use mail", "mail", False),
        ("use mail", "use mail", False),
        ("mail & *[@new]", "mail", False),
        ("mail", "post", False),
        ("mail[@n = $a/@n]", "mail[@n = $a/@n]", True),
    ],
)
def test_N23_what_asks_for_more_is_shadowed_by_what_asks_for_less(
    wins: str, loses: str, shadowed: bool
) -> None:
    found = errors(
        recipe(
            "g.r",
            *(step(each) for each in "abz"),
            transition("first", "a", "z", wins, priority=1),
            transition("second", "a", "b", loses),
            transition("third", "b", "z"),
        )
    )
    assert ("second" in found) == shadowed


@pytest.mark.parametrize(
    ("condition", "can"),
    [
        ("mail[@a='1'][@a='2']", False),
        ("mail & post", False),
        ("mail & *[@a='1'] & *[@a='2']", False),
        ("mail[@a='1'][@b='2']", True),
        ("mail[part/@a='1'][part/@a='2']", True),
        ("mail[@a='1' or @a='2'][@a='2']", True),
        ("mail[@a='1'] | mail[@a='2']", True),
        ("mail[@a = $a/@a][@a='2']", True),
        ("mail[@a='1'][@a != '2']", True),
    ],
)
def test_N9_a_condition_that_contradicts_itself_can_never_hold(condition: str, can: bool) -> None:
    text = recipe("g.r", step("a"), step("z"), transition("t", "a", "z", condition))
    found = errors(text)
    assert ("t" not in found) == can
    if not can:
        assert "nothing can fit" in found["t"].message
        assert found["t"].story[-1] == "action m.a of a comes back well: a done, t wait-condition"
        assert "a plan can come to wait for ever: nothing can happen to it any more" in notes(text)


def test_N17_an_input_that_nothing_can_fit_keeps_its_step_from_running() -> None:
    takes = action("m.z", [Input("in", "mail[@a='1']")])
    narrowed = step("z", inside="<input id='in'><match>mail[@a='2']</match></input>")
    found = errors(recipe("g.r", step("a"), narrowed, transition("t", "a", "z")), takes)
    assert set(found) == {"z"}
    assert "input-missing" in found["z"].story[-1]
    assert errors(recipe("g.r", step("a"), step("z"), transition("t", "a", "z")), takes) == {}


def test_N20_a_call_whose_output_nothing_can_be_never_goes_well() -> None:
    gives = action("m.a", (), [Output("out", "mail[@a='1'][@a='2']")])
    found = errors(recipe("g.r", step("a"), step("z"), transition("t", "a", "z")), gives)
    assert "t" in found


@pytest.mark.parametrize("tightening", ["optional='no'", "list='no'"])
def test_N14_a_step_may_ask_for_more_outputs_and_still_be_done(tightening: str) -> None:
    gives = action(
        "m.a", (), [Output("one", "*", list=True, optional=True), Output("two", "*", optional=True)]
    )
    tightened = step("a", inside=f"<output id='one' {tightening}><match>mail[@x]</match></output>")
    assert errors(recipe("g.r", tightened, step("z"), transition("t", "a", "z")), gives) == {}


def test_N26_errors_are_told_by_whether_they_are_handled_always_at_times_or_never() -> None:
    def of(*conditions: str) -> list[str]:
        links = transition("well", "a", "z"), transition("ill", "a!", "z", *conditions)
        return notes(recipe("g.r", step("a", timeout="5"), step("z"), *links))

    assert of() == ["nobody handles errors of z: the plan fails"]
    assert of("error[@type='timeout']") == [
        "errors of a are not always handled: the plan fails then",
        "nobody handles errors of z: the plan fails",
    ]


def test_N28_a_recipe_that_restarts_is_said_to() -> None:
    assert notes(recipe("g.r", step("a"), end="a", restart="yes")) == [
        "nobody handles errors of a: the plan fails, and starts again"
    ]


def test_N12_a_step_and_a_transition_may_share_an_id() -> None:
    text = recipe(
        "g.r",
        *(step(each) for each in "abz"),
        transition("b", "a", "z", priority=1),
        transition("c", "a", "b"),
        transition("d", "b", "z"),
    )
    assert {
        (each.part, each.message.partition(" ")[0]) for each in told(text) if each.severity == "error"
    } == {
        ("b", "step"),
        ("c", "transition"),
        ("d", "transition"),
    }


def test_a_search_cut_short_proves_nothing_and_says_so() -> None:
    wide = recipe(
        "g.r",
        *(step(each) for each in "abcdefz"),
        transition("t1", "a", "b c d e f"),
        transition("t2", "b c d e f", "z"),
    )
    found = told(wide, most=20)
    assert [each for each in found if each.severity == "error"] == []
    (cut,) = (each.message for each in found if "cut short" in each.message)
    after = r"the search was cut short after \d+ states: what follows is not a proof; "
    assert re.fullmatch(after + "not seen to do anything by then: step 'z', join 't2'", cut)
    assert [each.message for each in found if "nobody" in each.message] == []
    assert not explored(wide, most=20).complete
    assert explored(wide).complete


def test_it_ends_when_it_has_gone_on_for_long_enough() -> None:
    said = Dialogue(SOUND, *(action(f"m.{each}") for each in "abcz"))
    definition = said.library.get("recipe", "g.r")
    assert definition is not None
    found = explore(definition, said.library, enough=lambda states: states >= 3)
    assert (found.states, found.complete) == (3, False)


def test_it_ends_within_an_event_that_has_many_consequences() -> None:
    rivals = [transition(f"t{number}", "a", "z", f"mail{number}") for number in range(8)]
    said = Dialogue(recipe("g.r", step("a"), step("z"), *rivals), action("m.a"), action("m.z"))
    definition = said.library.get("recipe", "g.r")
    assert definition is not None
    asked = list[int]()

    def enough(states: int) -> bool:
        asked.append(states)
        return len(asked) > 40

    found = explore(definition, said.library, enough=enough)
    assert (found.complete, found.cut) == (False, f"the search was cut short after {found.states} states")
    assert len(asked) == 41


def test_every_way_in_which_a_run_may_end_is_found() -> None:
    takes = action("m.a", [Input("in", "mail", outdates=True)], [Output("out", "mail")])
    text = recipe("g.r", step("a", timeout="5", retries="1"), step("z"), transition("t", "a", "z", "mail"))
    found = explored(text, takes)
    assert {(phase, kind) for phase, kind, _ in found.ends if phase != "cancelled"} == {
        ("done", ""),
        ("failed", "bad-output"),
        ("failed", "error"),
        ("failed", "input-missing"),
        ("failed", "timeout"),
    }
    words = {(part[1], word) for part, word, _ in found.seen}
    assert words >= {("a", "ready"), ("a", "running"), ("a", "history"), ("a", "error"), ("a", "failed")}
    assert words >= {("t", "wait-condition"), ("t", "fired"), ("t", "impossible")}


def test_N25_a_date_comes_and_one_that_names_a_year_may_come_no_more() -> None:
    def words(date: str) -> set[str]:
        dated = transition("t", "a", "z", inside=f"<time {date}/>")
        return {
            word
            for part, word, _ in explored(recipe("g.r", step("a"), step("z"), dated)).seen
            if part[1] == "t"
        }

    assert words('seconds="0" minutes="0"') == {"wait-step", "wait-time", "fired", "impossible"}
    assert words('seconds="0" years="2030"') == {"wait-step", "wait-time", "fired", "impossible", "fail"}


def test_the_order_of_independent_calls_makes_no_states() -> None:
    def states(names: str) -> int:
        inner = names[1:-1]
        parts = [*(step(each) for each in names), transition("t1", "a", " ".join(inner))]
        return explored(recipe("g.r", *parts, transition("t2", " ".join(inner), "z"))).states

    # Each call may be under way, back well, in error or refused; of orders there would be 24 times as many.
    assert states("abcz") <= 4**2
    assert states("abcdez") <= 4**4
