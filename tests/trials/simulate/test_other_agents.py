"""Calls of other agents in a simulation are answered as a scenario says, or refused (G33, G35)."""

from __future__ import annotations

import pytest

from narval.files.home import Home
from narval.trials.simulate.report import SimulationReport
from tests.trials.simulate.homes import play

RECIPE = """<recipe group="shop" name="asks" start_step="a" end_step="b">
  <step id="a" type="recipe" target="calendar.evening" agent="calendar" timeout="10m">
    <input id="wish"><match>wish</match></input></step>
  <step id="b" type="send" to="mail"><input id="evening"><match>evening</match></input></step>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition><match>evening[@al:from='calendar']</match></condition></transition>
</recipe>"""
WISH = '<arrive><wish what="milk"/></arrive><start recipe="shop.asks" at="+1s"/>'


@pytest.fixture
def home(shop: Home) -> Home:
    (shop.path / "recipes" / "asks.xml").write_text(RECIPE)
    (shop.path / "data" / "memory.xml").write_text("<memory/>")
    return shop


def played(home: Home, inside: str) -> SimulationReport:
    return play(home, f'<scenario at="2026-11-21T08:00" until="30m">{WISH}{inside}</scenario>')


def test_G33_a_scenario_answers_for_another_agent(home: Home) -> None:
    report = played(
        home,
        """<answer action="calendar.evening" after="2m"><evening date="2026-12-03"/></answer>
        <expect><run recipe="shop.asks" phase="done" count="1"/>
          <call action="calendar.evening" count="1"/></expect>""",
    )
    assert report.well, report.judged


def test_G33_what_nothing_answers_is_refused_in_a_sentence(home: Home) -> None:
    report = played(home, '<expect><run recipe="shop.asks" phase="failed" count="1"/></expect>')
    [call] = report.unanswered
    assert (call.action, call.step, call.error) == ("calendar.evening", "a", "no-answer")
    assert [judged.met for judged in report.judged] == [True]


def test_G35_an_answer_that_never_comes_is_given_up_after_the_time_limit(home: Home) -> None:
    report = played(
        home,
        """<answer action="calendar.evening" after="never"/>
        <expect at="+9m"><run recipe="shop.asks" phase="active" count="1"/></expect>
        <expect><element match="error[@type='timeout' and @agent='calendar']" count="1"/></expect>""",
    )
    assert [judged.met for judged in report.judged] == [True, True]
