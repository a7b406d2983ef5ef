"""Tasks in a simulation: objects are put, events raised, people answered; windows open by its own clock."""

from __future__ import annotations

import pytest

from narval.core.errors import RequestError
from narval.files.home import Home
from narval.surfaces.cli.render import simulation as rendered
from tests.trials.simulate.homes import play

BANK = """
TASK TYPE enter
  COMPENSATED BY strike
  TASK CODE "shop.price"
  INITIAL working FINAL FORWARD
  STATE working EXPOSED ON EVENT done GOTO FORWARD
  ON FORWARD route(evening);

TASK TYPE evening
  INVOCATION: AUTO
  INITIAL waiting FINAL COMMIT ABORT
  STATE waiting EXPOSED
    ON EVENT close (why) AT 18:00:00 CONDITION "$object/@id > 1" ACTION { assert(COMMIT); }
    ON EVENT reject CONDITION "" AFTER 1 HRS ACTION { assert(ABORT); }
    ON EVENT sent GOTO COMMIT
    ON EVENT bad GOTO ABORT

TASK TYPE strike
  INVOCATION: COMPENSATION
  COMPENSATION TO enter
  TASK CODE "shop.nothing"
  INITIAL working FINAL FORWARD
  STATE working EXPOSED ON EVENT done GOTO FORWARD

GLOBAL EVENT night EVERY 12 HRS CONDITION "" ACTION { shop.again(); }
"""


@pytest.fixture
def home(shop: Home) -> Home:
    (shop.path / "recipes" / "bank.task").write_text(BANK)
    (shop.path / "data" / "memory.xml").write_text("<memory/>")
    return shop


def scenario(inside: str) -> str:
    begin = "<start recipe='bank.enter'><order id='7'/></start>"
    return f'<scenario at="2026-11-21T08:00" until="23h">{begin}{inside}</scenario>'


def test_K33_K42_a_window_opens_by_the_clock_of_the_simulation(home: Home) -> None:
    report = play(
        home,
        scenario(
            """<raise event="close" recipe="bank.evening" parameters="late" at="+1h"/>
            <expect at="+9h">
              <element match="task[@name='bank.evening' and @at='waiting']" count="1"/></expect>
            <expect at="+11h">
              <element match="task-case[@name='bank.enter' and @state='committed']" count="1"/>
              <run recipe="bank.enter" phase="done" count="1"/>
              <run recipe="bank.evening" phase="done" count="1"/>
              <element match="round" count="1"/></expect>
            <expect><element match="round" count="2"/><call action="shop.price" count="1"/></expect>"""
        ),
    )
    assert report.well, report.judged
    lines = [rendered.SENTENCES[line["what"]](line)[0] for line in report.lines]
    assert any("tells bank.evening put" in line for line in lines), lines
    assert [told["waiting"][-1]["for"] for told in report.waiting] == ["time"]


def test_K47_what_was_done_is_undone_in_the_simulation(home: Home) -> None:
    report = play(
        home,
        scenario(
            """<raise event="reject" recipe="bank.evening" at="+1h"/>
            <expect at="+90m"><run recipe="bank.strike" count="0"/></expect>
            <expect><element match="task-case[@state='aborted']" count="1"/>
              <run recipe="bank.strike" phase="done" count="1"/></expect>"""
        ),
    )
    assert report.well, report.judged


def test_K37_an_event_that_nobody_answers_ends_the_simulation(home: Home) -> None:
    with pytest.raises(RequestError, match=r"bank\.enter did not take close: .* has no rule"):
        play(home, scenario('<raise event="close" recipe="bank.enter"/>'))


def test_K33_why_names_what_an_event_waits_for_at_the_end(home: Home) -> None:
    report = play(
        home,
        '<scenario at="2026-11-21T08:00" until="1h"><start recipe="bank.enter"><order id="1"/></start>'
        '<raise event="close" recipe="bank.evening" parameters="late"/></scenario>',
    )
    assert {"bank.evening"} <= {run["name"] for run in report.runs if run["phase"] == "active"}
    waits = [(wait["id"], wait["for"]) for told in report.waiting for wait in told["waiting"]]
    assert any(name.startswith("event") and what == "time" for name, what in waits), waits
