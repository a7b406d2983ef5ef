"""Automata in a simulation: no program is started, time limits and signals count (A17, A18, A20, A21)."""

from __future__ import annotations

import re

import pytest

from narval.core.errors import DefinitionError
from narval.files.home import Home
from tests.trials.simulate.homes import play

SERVER = """<automaton group="shop" name="server" timeout="3600" restart="yes">
  <state name="start">
    <command command="fast" retries="2" backoff="60"/>
    <command command="slow"/>
  </state>
  <state name="tidy" command="tidy"/>
  <transition from="start" signal="stop" to="tidy"/>
</automaton>"""


@pytest.fixture
def home(shop: Home) -> Home:
    (shop.path / "recipes" / "server.xml").write_text(SERVER)
    (shop.path / "data" / "memory.xml").write_text("<memory/>")
    return shop


def scenario(inside: str) -> str:
    begin = '<start recipe="shop.server"/>'
    return f'<scenario at="2026-11-21T08:00" until="90m">{begin}{inside}</scenario>'


def test_A17_A18_a_run_that_takes_too_long_fails_and_another_begins(home: Home) -> None:
    report = play(
        home,
        scenario(
            """<answer action="fast" after="never"/>
            <expect at="+3599s"><run recipe="shop.server" phase="active" count="1"/></expect>
            <expect><element match="error[@type='timeout' and @automaton='shop.server']" count="1"/>
              <run recipe="shop.server" phase="failed" count="1"/>
              <run recipe="shop.server" phase="active" count="1"/>
              <call action="fast" count="2"/></expect>"""
        ),
    )
    assert report.well, report.judged


def test_A20_a_signal_interrupts_a_state(home: Home) -> None:
    report = play(
        home,
        scenario(
            """<answer action="fast" after="never"/><answer action="tidy" after="never"/>
            <signal name="stop" recipe="shop.server" at="+10m"/>
            <expect at="+599s"><call action="tidy" count="0"/></expect>
            <expect at="+10m"><call action="tidy" count="1"/></expect>"""
        ),
    )
    assert [judged.met for judged in report.judged] == [True, True]


def test_A21_a_command_is_tried_as_often_as_it_says(home: Home) -> None:
    report = play(
        home,
        scenario(
            """<answer action="fast" error="3"/><answer action="slow" after="never"/>
            <expect at="+59s"><call action="fast" count="1"/></expect>
            <expect at="+10m"><call action="fast" count="3"/><call action="slow" count="1"/></expect>"""
        ),
    )
    assert [judged.met for judged in report.judged] == [True, True, True]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('action="fsat"', "there is no action, transform or program 'fsat'; did you mean 'fast'?"),
        ('action="fast" error="no"', "error: expected a status, such as 3, or a signal, such as SIGTERM"),
    ],
)
def test_an_answer_that_no_program_gives_is_a_fault(home: Home, answer: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        play(home, scenario(f"<answer {answer}/>"))


def test_a_program_ends_as_the_scenario_says(home: Home) -> None:
    report = play(
        home,
        scenario(
            """<answer action="fast" error="4"/><answer action="slow" error="SIGSEGV">it fell</answer>
            <expect><element match="error[@status='SIGSEGV' and contains(., 'it fell')]"/></expect>"""
        ),
    )
    assert [judged.met for judged in report.judged] == [True]
