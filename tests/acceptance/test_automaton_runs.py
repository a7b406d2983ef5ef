"""Runs of automata as a whole, at a real daemon with real programs (A12, A17-A20)."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest

from narval.files.home import Home
from narval.system.cgroup import obstacle, own_group
from tests.acceptance.home import Narval, make, until
from tests.acceptance.test_automaton import NARVAL, environment
from tests.acceptance.test_automaton_crashes import carrying, killed


def automaton(inside: str, attributes: str = "") -> str:
    return f'<automaton group="g" name="a" {attributes}>{inside}</automaton>'


def over(narval: Narval, run: int) -> dict[str, object]:
    """A run once it is over."""
    until(lambda: narval.ask("show", str(run))["phase"] != "active", "it is over")
    shown: dict[str, object] = narval.ask("show", str(run))
    return shown


def has_begun(home: Path) -> bool:
    """True once the program of a state has written the first line of its file."""
    return (home / "begun").exists() and (home / "begun").read_text().endswith("\n")


LIMIT = 3
"""Seconds that a run may take: more than a busy machine takes to start its program."""
SLOW = """<state name="start" command="sh">echo x >>begun; (setsid sleep 600 &amp;) ; sleep 600</state>"""


def test_A17_a_run_is_given_up_with_all_its_programs(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SLOW, f'timeout="{LIMIT}" grace="0.3"'))
    with narval.running():
        run = narval.ask("start", "g.a")["eid"]
        until(lambda: has_begun(home), "the program runs")
        shown = over(narval, run)
        assert (shown["phase"], shown["error"]["type"]) == ("failed", "timeout"), shown  # type: ignore[index]
        assert carrying(home) == []
        assert f"not over within {LIMIT} s: it was at start" in narval("why", str(run)).stdout.decode()


def test_A17_the_moment_counts_from_the_start_though_no_daemon_was_there(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SLOW, f'timeout="{LIMIT}" grace="0.3"'))
    with narval.running() as daemon:
        run = narval.ask("start", "g.a")["eid"]
        until(lambda: has_begun(home), "the program runs")
        killed(daemon)
    time.sleep(LIMIT)
    with narval.running():
        shown = over(narval, run)
        assert shown["error"]["type"] == "timeout", shown  # type: ignore[index]
        assert carrying(home) == []
    assert (home / "begun").read_text() == "x\n", "its program is not begun again for a moment"


def test_N29_what_a_run_that_is_given_up_has_called_is_not_begun_again_either(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SLOW, 'grace="0.3"'))
    step = f'<step id="s" type="automaton" target="g.a" timeout="{LIMIT}"/>'
    narval.write("recipes/r.xml", f'<recipe group="g" name="r" start_step="s" end_step="s">{step}</recipe>')
    with narval.running() as daemon:
        run = narval.ask("start", "g.r")["eid"]
        until(lambda: has_begun(home), "the program runs")
        killed(daemon)
    time.sleep(LIMIT)
    with narval.running():
        assert over(narval, run)["error"]["type"] == "timeout"  # type: ignore[index]
    assert (home / "begun").read_text() == "x\n"


def test_A18_in_the_foreground_it_runs_once(tmp_path: Path) -> None:
    script = "echo x >>begun; sleep 1.2"
    text = automaton(f'<state name="start" command="sh">{script}</state>', 'restart="yes"')
    (tmp_path / "a.xml").write_text(text)
    done = subprocess.run([*NARVAL, str(tmp_path / "a.xml")], check=False, env=environment())
    assert done.returncode == 0
    assert (tmp_path / "begun").read_text() == "x\n"


@pytest.mark.skipif(bool(obstacle()), reason=obstacle())
def test_A19_a_run_is_bounded_and_what_counted_it_goes_with_it_also_when_the_daemon_is_killed(
    tmp_path: Path,
) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    bomb = "echo x >>begun; for n in 1 2 3 4 5 6 7 8; do sleep 600 &amp; done; sleep 600"
    narval.write(
        "recipes/a.xml", automaton(f'<state name="start" command="sh">{bomb}</state>', 'processes="4"')
    )

    def groups() -> list[Path]:
        return [*own_group().glob(f"narval-*.{Home(home).store.stat().st_ino:x}.*")]

    with narval.running() as daemon:
        run = narval.ask("start", "g.a")["eid"]
        shown = over(narval, run)
        assert "fork" in shown["states"][0]["output"]  # type: ignore[index]
        assert groups() == []
        narval.write("recipes/a.xml", automaton(SLOW, 'processes="4"'))
        until(lambda: narval.ask("start", "g.a")["eid"] and groups(), "it is counted")
        killed(daemon)
    until(lambda: groups() == [], "the reaper has removed what is empty")
    assert carrying(home) == []


SERVE = (
    '<state name="start" command="sh">echo x >>begun; (trap "" TERM; sleep 600) &amp; sleep 600</state>'
    '<state name="end" command="sh">echo tidy >>begun</state>'
    '<transition from="start" signal="stop" to="end"/>'
)


def test_A20_a_signal_interrupts_a_state_whose_programs_are_ended(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SERVE, 'grace="0.3"'))
    with narval.running():
        run = narval.ask("start", "g.a")["eid"]
        until(lambda: has_begun(home), "it serves")
        assert narval.ask("signal", str(run), "stop")["taken_by"] == "start"
        assert over(narval, run)["phase"] == "done"
        assert "interrupted by signal stop" in narval("why", str(run), "start").stdout.decode()
    assert (home / "begun").read_text() == "x\ntidy\n"
    assert carrying(home) == []


def test_A20_the_interruption_counts_though_the_daemon_is_killed_before_its_programs_are_gone(
    tmp_path: Path,
) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(SERVE, 'grace="600"'))
    with narval.running() as daemon:
        run = narval.ask("start", "g.a")["eid"]
        until(lambda: has_begun(home), "it serves")
        narval.ask("signal", str(run), "stop")
        killed(daemon)
    with narval.running():
        assert over(narval, run)["phase"] == "done"
    assert (home / "begun").read_text() == "x\ntidy\n", "what was interrupted is not begun again"


def test_A12_what_is_not_to_be_repeated_is_not_tried_in_another_way_either(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    state = """<state name="start" on-restart="error" retries="2" backoff="0">
      <command command="sh">echo first >>begun; sleep 600</command>
      <command command="sh">echo second >>begun</command>
    </state>"""
    narval.write("recipes/a.xml", automaton(state))
    with narval.running() as daemon:
        run = narval.ask("start", "g.a")["eid"]
        until(lambda: has_begun(home), "it runs")
        killed(daemon)
    with narval.running():
        shown = over(narval, run)
        assert (shown["phase"], shown["states"][0]["label"]) == ("failed", "1")  # type: ignore[index]
    assert (home / "begun").read_text() == "first\n"


def names(home: Path) -> list[str]:
    """The names of the programs that run for this home; "" of one that has just ended."""
    return [name_of(program) for program in carrying(home)]


def name_of(program: psutil.Process) -> str:
    try:
        return program.name()
    except psutil.NoSuchProcess:
        return ""


LEAVES = """<state name="start" command="sh">
  setsid sh -c 'touch left; exec sleep 600' &amp; while ! test -e left; do sleep 0.01; done</state>
<state name="end" command="sleep 600"/><transition from="start" label="0" to="end"/>"""


def test_A12_what_has_left_its_group_outlives_its_state_and_ends_with_the_daemon(tmp_path: Path) -> None:
    narval, home = make(tmp_path / "home"), tmp_path / "home"
    narval.write("recipes/a.xml", automaton(LEAVES))
    with narval.running():
        run = narval.ask("start", "g.a")["eid"]
        until(lambda: names(home) == ["sleep", "sleep"], "the service, and the program of the next state")
        narval.ask("cancel", str(run))
        over(narval, run)
        until(lambda: names(home) == ["sleep"], "the end of the program of the next state")
    assert carrying(home) == []
