"""Runs of automata as a whole, at a real daemon with real programs (A17)."""

from __future__ import annotations

import time
from pathlib import Path

from tests.acceptance.home import Narval, make, until
from tests.acceptance.test_automaton_crashes import carrying, killed


def automaton(inside: str, attributes: str = "") -> str:
    return f'<automaton group="g" name="a" {attributes}>{inside}</automaton>'


def over(narval: Narval, run: int) -> dict[str, object]:
    """A run once it is over."""
    until(lambda: narval.ask("show", str(run))["phase"] != "active", "it is over")
    shown: dict[str, object] = narval.ask("show", str(run))
    return shown


SLOW = """<state name="start" command="sh">echo x >>begun; (setsid sleep 600 &amp;) ; sleep 600</state>"""


def test_A17_a_run_is_given_up_with_all_its_programs(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SLOW, 'timeout="1.5" grace="0.3"'))
    with narval.running():
        run = narval.ask("start", "g.a")["eid"]
        until((home / "begun").exists, "the program runs")
        assert "g.a is given up at" in narval("why", str(run)).stdout.decode()
        shown = over(narval, run)
        assert (shown["phase"], shown["error"]["type"]) == ("failed", "timeout"), shown  # type: ignore[index]
        assert carrying(home) == []
        assert "not over within 1.5 s: it was at start" in narval("why", str(run)).stdout.decode()


def test_A17_the_moment_counts_from_the_start_though_no_daemon_was_there(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SLOW, 'timeout="2" grace="0.3"'))
    with narval.running() as daemon:
        run = narval.ask("start", "g.a")["eid"]
        until((home / "begun").exists, "the program runs")
        killed(daemon)
    time.sleep(2)
    with narval.running():
        shown = over(narval, run)
        assert shown["error"]["type"] == "timeout", shown  # type: ignore[index]
        assert carrying(home) == []
    assert (home / "begun").read_text() == "x\n", "its program is not begun again for a moment"
