"""Dataflows in simulations: none is run, and the scenario answers each session by the dataflow's name."""

from __future__ import annotations

import pytest

from narval.core.errors import DefinitionError
from narval.files.home import Home
from tests.trials.simulate.homes import play

FLOWS = """
PLAN Large {
  INPUT: TupleStream order, Number least
  OUTPUT: TupleStream large
  BODY { sprintf("amount >= %s", (least) : condition) select(condition, order : large) }
}
PLAN Tell {
  INPUT: String word
  BODY { notify("file:told.txt", word) }
}
"""
RECIPES = """<cookbook>
  <recipe group="shop" name="large" start_step="large" end_step="large">
    <step id="large" type="dataflow" target="flows.Large">
      <arguments><value name="least">20</value></arguments></step>
  </recipe>
  <recipe group="shop" name="tells" start_step="tell" end_step="tell">
    <step id="tell" type="dataflow" target="flows.Tell">
      <arguments><value name="word">hello</value></arguments></step>
  </recipe>
</cookbook>"""
ORDER = "<order><amount>30</amount></order>"


@pytest.fixture
def home(shop: Home) -> Home:
    (shop.path / "recipes" / "flows.plan").write_text(FLOWS)
    (shop.path / "recipes" / "flows.xml").write_text(RECIPES)
    return shop


def scenario(inside: str, recipe: str = "shop.large") -> str:
    start = f'<start recipe="{recipe}">{ORDER if recipe == "shop.large" else ""}</start>'
    return f'<scenario memory="empty">{start}{inside}</scenario>'


def test_a_dataflow_is_answered_by_its_name_and_says_what_it_was_given(home: Home) -> None:
    played = play(
        home,
        scenario(
            '<answer action="flows.Large" match="order[amount=30]" recipe="shop.large" step="large">'
            '<relation name="large"><tuple><amount>30</amount></tuple></relation></answer>'
            """<expect><call action="flows.Large" match="value[@name='least' and .='20']" count="1"/>"""
            """<element match="relation[@name='large']/tuple" count="1"/></expect>"""
        ),
    )
    assert played.well
    (call,) = played.calls
    ((_, given),) = call.inputs
    assert (call.how, [element.name for element in given]) == ("answered", ["value", "order", "plan_input"])
    (line,) = (line for line in played.lines if line["what"] == "called")
    assert line["inputs"] == {"": [element.eid for element in given]}


def test_a_dataflow_fails_as_the_scenario_says(home: Home) -> None:
    failed = '<expect><run recipe="shop.large" phase="failed"/></expect>'
    played = play(home, scenario(f'<answer action="flows.Large" error="unreachable">away</answer>{failed}'))
    assert played.well
    assert [line["error"] for line in played.lines if line["what"] == "ended"] == ["unreachable: away"] * 2


def test_the_outputs_of_a_dataflow_are_not_made_up_and_one_without_is_taken_as_done(home: Home) -> None:
    played = play(home, scenario(""))
    assert [call.action for call in played.unanswered] == ["flows.Large"]
    assert not played.well
    played = play(home, scenario("", "shop.tells"))
    assert played.well
    assert [call.how for call in played.calls] == ["noted"]
    assert not (home.path / "told.txt").exists()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("<relation name='lage'/>", "flows.Large has no output 'lage'; did you mean 'large'?"),
        ("<order/>", "expected outputs, as <relation name"),
    ],
)
def test_an_answer_that_a_dataflow_cannot_give_is_a_fault(home: Home, answer: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message.replace("?", r"\?")):
        play(home, scenario(f'<answer action="flows.Large">{answer}</answer>'))
