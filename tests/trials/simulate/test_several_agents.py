"""Scenarios of homes with several agents: messages and calls among them, each with its files (G25, G33)."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.core.errors import DefinitionError
from narval.files.home import Home
from narval.trials.simulate.report import SimulationReport
from narval.trials.simulate.simulated_home import simulated_home
from tests.trials.simulate.homes import make_shop, play, scenario_of

BUREAU = """\
<cookbook group="bureau">
  <recipe name="order" start_step="wait" end_step="ask" restart="yes">
    <step id="wait" type="action" target="shop.nothing"/>
    <step id="tell" type="send" to="depot"><input id="what"><match>wish</match></input></step>
    <step id="ask" type="recipe" target="depot.count" agent="AGENT" timeout="1h"/>
    <transition id="comes"><in idref="wait"/><out idref="tell"/>
      <condition use="yes"><match>wish</match></condition></transition>
    <transition id="told"><in idref="tell"/><out idref="ask"/></transition>
  </recipe>
</cookbook>
"""

DEPOT = """\
<cookbook group="depot">
  <recipe name="count" start_step="price" end_step="price">
    <step id="price" type="action" target="shop.price"/>
  </recipe>
</cookbook>
"""

SCENARIO = """\
<scenario at="2026-11-22T08:00" until="1h">
  <arrive{1}><wish/></arrive>
  {0}
</scenario>
"""


def make(place: Path, *, agent: str = "depot", offers: str = '"depot.count" = ["narval"]') -> Home:
    """A home whose own agent asks the agent depot, which has a folder."""
    home = make_shop(place)
    (place / "recipes" / "bureau.xml").write_text(BUREAU.replace("AGENT", agent))
    (place / "data" / "memory.xml").write_text('<memory><start-plan recipe="bureau.order"/></memory>')
    depot = place / "agents" / "depot"
    for part in ("recipes", "data"):
        (depot / part).mkdir(parents=True)
    (depot / "recipes" / "depot.xml").write_text(DEPOT)
    (depot / "data" / "memory.xml").write_text('<memory><order id="nuts"/></memory>')
    (depot / "agent.toml").write_text(f"[offers]\n{offers}\n")
    return home


def told(report: SimulationReport) -> list[str]:
    return [f"{said.expectation.text}: {said.count}" for said in report.unmet]


def test_G25_G33_a_scenario_plays_two_agents_each_with_its_own_files(tmp_path: Path) -> None:
    expected = """\
    <expect agent="depot"><element match="wish[@al:from='narval']" count="1"/>
      <run recipe="depot.count" phase="done" count="1"/></expect>
    <expect><element match="bill[@of='nuts' and @al:from='depot']" count="1"/>
      <run recipe="bureau.order" phase="done" count="1"/><element match="order" count="0"/></expect>"""
    report = play(make(tmp_path), SCENARIO.format(expected, ""))
    assert (told(report), report.well) == ([], True)
    who = [(line["who"], line["what"]) for line in report.lines if line["what"] in ("called", "arrived")]
    assert ("narval", "called") in who
    assert ("depot", "arrived") in who
    asked = [line for line in report.lines if line.get("agent") == "depot"]
    assert [line["how"] for line in asked] == ["asked"]
    begun = next(line for line in report.lines if line.get("name") == "depot.count")
    assert begun["caller"]["agent"] == "narval"
    assert begun["caller"]["step"] == "ask"
    assert {run["who"] for run in report.runs} == {"narval", "depot"}


def test_G34_who_does_not_offer_it_is_not_called_in_a_simulation_either(tmp_path: Path) -> None:
    report = play(make(tmp_path, offers='"depot.count" = ["mail"]'), SCENARIO.format("", ""))
    assert [line["error"].split(":")[0] for line in report.failed] == ["not-granted"]


def test_G29_who_does_not_receive_it_does_not_take_it_in_a_simulation_either(tmp_path: Path) -> None:
    home = make(tmp_path)
    settings = tmp_path / "agents" / "depot" / "agent.toml"
    settings.write_text(f'receives = [{{from = "*", elements = ["note"]}}]\n{settings.read_text()}')
    expected = """<expect agent="depot"><element match="wish" count="0"/></expect>
      <expect><element match="error[@type='undelivered' and @receiver='depot']" count="1"/></expect>"""
    report = play(home, SCENARIO.format(expected, ""))
    assert (told(report), report.well) == ([], True)


def test_G33_an_answer_stands_in_for_an_agent_and_one_that_is_not_there_needs_it(tmp_path: Path) -> None:
    answer = "<answer action='depot.count'><bill of='rope'/></answer>"
    expected = answer + "<expect><element match=\"bill[@of='rope']\" count='1'/></expect>"
    assert play(make(tmp_path / "one"), SCENARIO.format(expected, "")).well
    away = make(tmp_path / "two", agent="elsewhere")
    assert play(away, SCENARIO.format(expected, "")).well
    report = play(away, SCENARIO.format("", ""))
    assert [call.action for call in report.unanswered] == ["depot.count"]


def test_G5_an_agent_without_a_folder_takes_part_and_its_memory_is_copied(tmp_path: Path) -> None:
    home = make_shop(tmp_path)
    with narval.open(tmp_path) as agent:
        agent.ask("add_agent", name="ada")
    with narval.open(tmp_path, agent="ada") as ada:
        ada.add("<order id='old'/>")
    given = """<start agent="ada" recipe="shop.tell"/>
      <expect agent="ada"><element match="order[@id='old']" count="1"/>
      <call action="shop.tell" count="1"/></expect><expect><call action="shop.tell" count="0"/></expect>"""
    text = SCENARIO.format(given, ' agent="ada"').replace("<scenario ", '<scenario memory="now" ')
    report = play(home, text)
    assert (told(report), report.well) == ([], True)
    with narval.open(tmp_path) as agent:
        again = agent.simulate(text)
        assert again["well"]
        assert {line["who"] for line in again["happened"]} == {"ada"}
        assert agent.other("ada").memory("wish") == []


def test_G33_the_agent_that_is_simulated_may_be_another(tmp_path: Path) -> None:
    here = simulated_home(make(tmp_path), "depot")
    assert set(here.others) == {"narval"}
    assert set(here.known) == {"", "depot", "narval"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("<start agent='nobody' recipe='shop.tell'/>", "there is no agent 'nobody'"),
        ("<expect agent='depo'><element match='x'/></expect>", "did you mean 'depot'"),
        ("<start recipe='depot.count'/>", "there is no definition 'depot.count'"),
    ],
)
def test_what_is_named_must_be_there_at_that_agent(tmp_path: Path, given: str, fault: str) -> None:
    with pytest.raises(DefinitionError, match=fault):
        scenario_of(SCENARIO.format(given, ""), simulated_home(make(tmp_path)))
