"""What a program of a run adds by the command line has the labels of that run, and those of a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from narval.core.errors import DaemonGoneError, NarvalError, StoreAwayError
from narval.surfaces.cli.daemon.web import _may_show_link
from narval.surfaces.cli.session import Session
from tests.surfaces.cli.command_line import daemon, data, well

SCRIPT = """import os, subprocess, sys
got = sys.stdin.read().replace("got", "pay")
bare = {"NARVAL_HOME": os.environ["NARVAL_HOME"], "PATH": os.environ["PATH"]}
for how in ({}, {"env": bare}, {"env": bare, "start_new_session": True}):
    words = [sys.executable, "-m", "narval", "add", "-"]
    subprocess.run(words, input=got, text=True, check=True, **how)
"""


MODULE = """from narval import Output, action

@action(outputs=[Output("got", "got")], label="bank")
def bring():
    return "<got to='eve'/>"
"""
BRING = """<recipe group="w" name="bring" start_step="bring" end_step="note">
  <step id="bring" type="action" target="bank.bring"/>
  <step id="note" type="automaton" target="w.note">
    <arguments><got to="{$brought/@to}"/></arguments>
  </step>
  <transition id="t"><in idref="bring"/><out idref="note"/>
    <condition as="brought"><match>got</match></condition></transition>
</recipe>"""
NOTE = """<automaton group="w" name="note">
  <state name="start" command="{program} {script}"><input><match>got</match></input></state>
</automaton>"""


def test_a_program_hands_on_the_labels_of_its_run_even_without_its_environment(home: Path) -> None:
    script = home / "data" / "hand_on.py"
    script.write_text(SCRIPT)
    (home / "modules" / "bank.py").write_text(MODULE)
    (home / "recipes" / "bring.xml").write_text(BRING)
    (home / "recipes" / "note.xml").write_text(NOTE.format(program=sys.executable, script=script))
    with daemon(home):
        well(home, "start", "w.bring", "--wait")
        pays = data(home, "memory", "pay")
        well(home, "add", "-", given="<pay/>")
        (own,) = (row for row in data(home, "memory", "pay") if row not in pays)
    assert [pay["labels"] for pay in pays] == [["bank", "program"]] * 3
    assert own["labels"] == []
    assert all(pay["origin"]["actor"].startswith("a program of run ") for pay in pays)


LOGS_IN = """import pathlib, subprocess, sys
made = []
for words in (["web", "login"], ["mcp", "client", "add", "desk"], ["link", "add", "office", "https://x.org"]):
    ended = subprocess.run([sys.executable, "-m", "narval", *words], capture_output=True, text=True)
    made.append(ended.stdout + ended.stderr)
pathlib.Path(__file__).with_suffix(".txt").write_text("".join(made))
"""


def test_a_program_of_a_run_is_given_no_login_no_token_and_no_code(home: Path) -> None:
    script = home / "data" / "log_in.py"
    script.write_text(LOGS_IN)
    state = f'<state name="start" command="{sys.executable} {script}"/>'
    (home / "recipes" / "in.xml").write_text(f'<automaton group="w" name="in">{state}</automaton>')
    with daemon(home):
        run = data(home, "start", "w.in", "--wait")["eid"]
        well(home, "mcp", "client", "add", "desk")
    refused = (
        f"a program of run {run} may not make a login, a token or a code by which somebody is known here"
    )
    lines = script.with_suffix(".txt").read_text().splitlines()
    assert [line.partition(": that is for")[0] for line in lines] == [f"narval: {refused}"] * 3


class Silent(NamedTuple):
    """Stands in for the session of a command whose daemon does not say who may make a login."""

    error: NarvalError

    def vouch(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [DaemonGoneError("silent"), StoreAwayError("the server is away")])
def test_pages_are_served_without_a_link_while_it_is_not_known_who_starts_them(error: NarvalError) -> None:
    assert not _may_show_link(cast(Session, Silent(error)))
