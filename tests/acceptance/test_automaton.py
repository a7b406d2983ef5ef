"""Automata in the foreground: real programs, without a home (A6, A16)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import psutil

from tests.places import ROOT

WAITING = """<AUTOMATON>

<STATE name='start' command='sh'>
echo starting
</STATE>

<STATE name='end' command='sh'>
echo ending
</STATE>

<STATE name='q1' command='sh'>
echo q1 starting
sleep 1
echo q1 finish
</STATE>

<STATE name='q2' command='sh'>
echo q2 starting
sleep 2
echo q2 finish
</STATE>

<TRANSITION from='start' label='0' to='q1' />
<TRANSITION from='start' label='0' to='q2' />
<TRANSITION from='q1' label='0' to='end' />
<TRANSITION from='q2' label='0' to='end' />

</AUTOMATON>
"""
WAITING_ERROR = """<AUTOMATON>

<STATE name='start' command='sh' >
echo starting
</STATE>

<STATE name='end' command='sh' >
echo ending
</STATE>

<STATE name='q1' command='sh' >
echo q1 starting
sleep 1
echo q1 finished on error
exit 1
</STATE>

<STATE name='q2' command='sh' >
echo q2 starting
sleep 3
echo q2 finish
</STATE>

<TRANSITION from='start' label='0' to='q1' />
<TRANSITION from='q1' label='1' to='start' />
<TRANSITION from='start' label='0' to='q2' />
<TRANSITION from='q1' label='0' to='end' />
<TRANSITION from='q2' label='0' to='end' />

</AUTOMATON>
"""
"""The two examples of the source, as they are printed there."""

NARVAL = [sys.executable, "-m", "narval", "automaton"]


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run an automaton to its end."""
    file = folder / "a.xml"
    file.write_text(text)
    return subprocess.run(
        [*NARVAL, str(file), *options], capture_output=True, text=True, check=False, env=environment()
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_A6_the_first_example_behaves_as_printed(tmp_path: Path) -> None:
    done = run(tmp_path, WAITING)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert (lines[0], sorted(lines[1:3]), sorted(lines[3:5]), lines[5:]) == (
        "starting",
        ["q1 starting", "q2 starting"],
        ["q1 finish", "q2 finish"],
        ["ending"],
    )


def test_A6_the_second_example_goes_round_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(WAITING_ERROR)
    with subprocess.Popen(
        [*NARVAL, str(tmp_path / "a.xml")], stdout=subprocess.PIPE, text=True, env=environment()
    ) as going:
        assert going.stdout is not None
        said = (line for line in map(str.strip, going.stdout) if line != "q2 finish")  # on a slow machine
        for _ in range(2):
            lines = [*islice(said, 4)]
            assert (lines[0], sorted(lines[1:3]), lines[3]) == (
                "starting",
                ["q1 starting", "q2 starting"],
                "q1 finished on error",
            )
        programs = psutil.Process(going.pid).children(recursive=True)
        going.send_signal(signal.SIGINT)
        assert going.wait() == 130
    _, left = psutil.wait_procs(programs, timeout=60)
    assert left == []


def test_A16_two_side_by_side_leave_each_others_programs_alone(tmp_path: Path) -> None:
    """Without a home, ids of calls are random: no two are the same, and one that ends ends its own only."""
    script = "echo $NARVAL_CALL; while ! test -e open; do sleep 0.02; done"
    (tmp_path / "a.xml").write_text(
        f"<automaton grace='0.3'><state name='start' command='sh'>{script}</state></automaton>"
    )
    command = [*NARVAL, str(tmp_path / "a.xml")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as second,
    ):
        assert first.stdout is not None
        assert second.stdout is not None
        assert first.stdout.readline() != second.stdout.readline()
        second.send_signal(signal.SIGINT)
        assert second.wait() == 130
        (tmp_path / "open").touch()
        assert first.wait() == 0


def test_A16_a_file_with_a_first_line_for_the_system_runs_by_itself(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/narval").write_text(f'#!/bin/sh\nexec {sys.executable} -m narval "$@"\n')
    (tmp_path / "bin/narval").chmod(0o755)
    file = tmp_path / "nightly"
    head = "#!/usr/bin/env -S narval automaton\n<?xml version='1.0' encoding='iso-8859-1'?>\n"
    state = "<automaton><state name='start' command='cat'>caf\xe9, in its folder</state></automaton>"
    file.write_bytes((head + state).encode("iso-8859-1"))
    file.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run([str(file)], capture_output=True, check=False, env={**environment(), "PATH": path})
    assert (done.returncode, done.stdout.decode()) == (0, "café, in its folder")


def test_A16_what_fails_says_why_and_ends_with_1(tmp_path: Path) -> None:
    done = run(tmp_path, "<automaton><state name='start' command='sh'>echo out; exit 3</state></automaton>")
    assert (done.returncode, done.stdout) == (1, "out\n")
    assert "state start ended with status 3, and no transition leads on from there; " in done.stderr
    assert "it said last: “out”" in done.stderr


def test_A9_what_a_program_left_that_failed_is_made_again_when_the_file_is_run_again(tmp_path: Path) -> None:
    script = "echo half >out; test -e mended && echo rest >>out"
    state = f"<state name='start' command='sh' creates='out'><![CDATA[{script}]]></state>"
    text = f"<automaton>{state}</automaton>"
    assert run(tmp_path, text).returncode == 1
    (tmp_path / "mended").touch()
    assert run(tmp_path, text).returncode == 0
    assert (tmp_path / "out").read_text() == "half\nrest\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xml", "mended", "out"]


def test_A16_json_gives_the_states_and_nothing_else(tmp_path: Path) -> None:
    text = """<automaton><state name='start' command='sh'>echo out; exit 3</state>
    <state name='b' command='true'/><transition from='start' label='3' to='b'/></automaton>"""
    done = run(tmp_path, text, "--json")
    shown = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "out\n")
    assert [(state["id"], state["state"], state["label"]) for state in shown["states"]] == [
        ("start", "erred", "3"),
        ("b", "done", "0"),
    ]


def test_A16_every_fault_is_reported_with_its_place(tmp_path: Path) -> None:
    done = run(tmp_path, "<automaton>\n<state name='start' comand='sh'/>\n<transition/></automaton>")
    assert done.returncode == 1
    assert "a.xml:2:29: state has no attribute 'comand'; did you mean 'command'?" in done.stderr
    assert "a.xml:3:1" in done.stderr


def test_A4_an_interrupted_run_leaves_nothing_even_of_what_ignores_it(tmp_path: Path) -> None:
    script = "trap '' INT TERM HUP; echo ready; while :; do sleep 0.1; done"
    (tmp_path / "a.xml").write_text(
        f"<automaton grace='0.3'><state name='start' command='sh'>{script}</state></automaton>"
    )
    with subprocess.Popen(
        [*NARVAL, str(tmp_path / "a.xml")], stdout=subprocess.PIPE, text=True, env=environment()
    ) as going:
        assert going.stdout is not None
        assert going.stdout.readline() == "ready\n"
        programs = psutil.Process(going.pid).children(recursive=True)
        began = time.monotonic()
        going.send_signal(signal.SIGINT)
        assert going.wait() == 130
        assert time.monotonic() - began >= 0.3
    _, left = psutil.wait_procs(programs, timeout=60)
    assert left == []
