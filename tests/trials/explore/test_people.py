"""P81: what people may answer is explored: each outcome, and the errors in place of an answer."""

from __future__ import annotations

import pytest

from narval.core.definitions.library import Library
from narval.trials.explore.findings import examine, is_explorable
from tests.core.engines.dialogue import action, recipe, recipes, step, transition
from tests.kinds.work.engine.items import work

ASKED = work('<outcome name="yes"/><outcome name="no"/><outcome name="later"/>', name="g.ask")


def found(*transitions: str, inside: str = "") -> list[tuple[str, str]]:
    """What is told of a recipe that asks, by severity and message."""
    text = recipe(
        "g.r",
        step("ask", "g.ask", inside, type="work"),
        step("z"),
        *transitions,
        start="ask",
        end="z",
    )
    definitions = [*recipes(ASKED), *recipes(text), action("m.z")]
    return [
        (each.severity, each.message)
        for each in examine(definitions[1], Library(definitions)).findings
        if "ask" in each.message
    ]


def test_P81_an_outcome_after_which_nothing_goes_on_is_told() -> None:
    told = found(
        transition("t", "ask", "z", "decision[@outcome='yes']"),
        transition("u", "ask", "z", "decision[@outcome='no' and @by]"),
        transition("e", "ask!", "z"),
    )
    assert told == [("note", "step 'ask': when g.ask is answered later, no transition goes on")]


def test_P81_a_way_for_any_answer_takes_all() -> None:
    yes = transition("t", "ask", "z", "decision[@outcome='yes']")
    assert (
        found(yes, transition("u", "ask", "z", "decision", priority=-1), transition("e", "ask!", "z")) == []
    )


@pytest.mark.parametrize(
    ("inside", "errors"),
    [
        ("", ["withdrawn"]),
        ('<deadline after="1d"/>', ["expired", "withdrawn"]),
        ('<deadline after="1d" outcome="yes"/>', ["withdrawn"]),
        ('<outcome name="maybe" needs="2"/>', ["withdrawn", "no-quorum"]),
        ('<outcome name="maybe" needs="2"/><otherwise outcome="no"/>', ["withdrawn"]),
    ],
)
def test_P81_an_error_by_name_that_no_error_link_takes_is_told(inside: str, errors: list[str]) -> None:
    asked = work('<outcome name="yes"/><outcome name="no"/>' + inside, name="g.ask")
    parts = [
        step("ask", "g.ask", type="work"),
        step("z"),
        transition("t", "ask", "z", "decision"),
        transition("e", "ask!", "z", "error[@type='refused']"),
    ]
    definitions = [*recipes(asked), *recipes(recipe("g.r", *parts, start="ask", end="z")), action("m.z")]
    told = examine(definitions[1], Library(definitions)).findings
    words = "step 'ask': when g.ask ends in the error {}, no error link goes on"
    assert [found.message for found in told if "in the error" in found.message] == sorted(
        words.format(error) for error in errors
    )


def test_P81_errors_in_place_of_an_answer_want_an_error_link() -> None:
    (told,) = found(transition("t", "ask", "z"))
    assert told[0] == "note"
    assert "ask" in told[1]


def test_P81_an_output_that_a_step_tightens_may_fit_and_may_not() -> None:
    inside = "<output id='d'><match>decision[@by='ann']</match></output>"
    definitions = recipes(work('<output id="d"><match>decision</match></output>', name="g.ask")) + recipes(
        recipe(
            "g.r",
            step("ask", "g.ask", inside, type="work"),
            step("z"),
            transition("t", "ask", "z"),
            transition("e", "ask!", "z"),
            start="ask",
            end="z",
        )
    )
    told = examine(definitions[1], Library([*definitions, action("m.z")]))
    assert [each for each in told.findings if each.severity == "error"] == []


def test_P81_nothing_is_told_of_an_item_by_itself() -> None:
    assert [is_explorable(each) for each in recipes(ASKED)] == [False]
