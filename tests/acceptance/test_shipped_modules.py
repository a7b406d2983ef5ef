"""What ships is used where it is: replaced, altered and given back while a daemon runs, and after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make, one_step, until
from tests.forked_commands import Command

MINE = """\
from narval import Input, Output, action

@action(inputs=[Input("mail", "email")], outputs=[Output("verdict", "triage")], runs="inline")
def judge(mail):
    return "<triage verdict='{word}' why='mine'/>"
"""
WAITING = """\
<recipe group="w" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="triage.judge"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>
"""


SHIPPED = "<narval>/modules/triage.py"


class Up:
    """A home whose daemon is up."""

    def __init__(self, daemon: Command, client: Client) -> None:
        self.daemon, self.ask = daemon, client.ask

    def judged(self) -> str:
        """The verdict on a mail."""
        self.ask("add", elements=[b"<email from='ana@example.org'/>"])
        run = self.ask("start", name="w.r", wait=True)
        assert run["phase"] == "done", run["error"]
        found = self.ask("memory", xpath="triage", context=run["eid"])
        return str(found[-1]["xml"]).partition('verdict="')[2].partition('"')[0]

    def loaded(self) -> Any:
        """What is loaded, once the daemon has read what there is now."""
        self.ask("reload")
        return self.ask("definitions")

    def path(self) -> str:
        """The file from which the action is."""
        rows = self.loaded()["definitions"]
        return next((str(row["path"]) for row in rows if row["name"] == "triage.judge"), "")

    def faults(self) -> list[str]:
        """The paths of what is wrong."""
        return [fault["path"] for fault in self.loaded()["faults"]]

    def comes(self, path: str) -> None:
        """Wait until the action is from that file; the daemon finds out by itself."""
        until(lambda: path in str(self.ask("definitions")), path)

    def crash(self) -> None:
        """kill -9"""
        self.daemon.kill()
        self.daemon.wait()


@contextmanager
def up(narval: Narval) -> Iterator[Up]:
    with narval.running() as daemon, Client(Home(narval.home).socket()) as client:
        yield Up(daemon, client)


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    made = Narval(tmp_path / "home")
    assert made("init", "--bare", made.home).returncode == 0
    made.write("etc/narval.toml", "")  # it asks nothing
    made.write("recipes/w.xml", one_step("r", "triage.judge"))
    return made


def test_a_fresh_home_has_no_modules_and_uses_those_that_ship(narval: Narval) -> None:
    assert list((narval.home / "modules").iterdir()) == []
    assert narval("check").returncode == 0
    with up(narval) as home:
        assert (home.judged(), home.path()) == ("leave", SHIPPED)
        assert [row["name"] for row in home.ask("actions")] == ["triage.judge", "triage.leave"]


def test_N31_a_module_is_replaced_altered_and_given_back_while_a_daemon_runs(narval: Narval) -> None:
    with up(narval) as home:
        assert home.judged() == "leave"
        mine = narval.write("modules/triage.py", MINE.format(word="mine"))
        home.comes("'modules/triage.py'")
        assert home.judged() == "mine"
        narval.write("modules/triage.py", MINE.format(word="mine") + "1/0")
        assert home.faults() == ["modules/triage.py"]
        assert home.judged() == "mine", "the last that was good"
        mine.unlink()
        home.comes(SHIPPED)
        assert home.faults() == []
        assert home.judged() == "leave"


def test_N13_a_faulty_replacement_leaves_what_ships_at_work_after_a_crash_too(narval: Narval) -> None:
    with up(narval) as home:
        assert home.judged() == "leave"
        narval.write("modules/triage.py", "1/0")
        assert home.faults() == ["modules/triage.py"]
        assert (home.judged(), home.path()) == ("leave", SHIPPED)
        home.crash()
    with up(narval) as home:
        assert (home.judged(), home.path()) == ("leave", SHIPPED)
        narval.write("modules/triage.py", MINE.format(word="mine"))
        assert (home.path(), home.judged()) == ("modules/triage.py", "mine")
        home.crash()
    narval.write("modules/triage.py", "1/0")
    with up(narval) as home:
        assert (home.path(), home.judged()) == ("modules/triage.py", "mine"), "what the store kept"


def test_N31_a_run_that_waits_has_what_ships_although_no_file_names_it_any_more(narval: Narval) -> None:
    recipe = narval.write("recipes/waits.xml", WAITING)
    with up(narval) as home:
        home.ask("add", elements=[b"<email from='ana@example.org'/>"])
        run = home.ask("start", name="w.waits")["eid"]
        recipe.unlink()
        (narval.home / "recipes/w.xml").unlink()
        assert home.path() == ""
        home.crash()
    with up(narval) as home:
        narval.write("recipes/other.xml", one_step("other", "basic.nothing"))
        home.loaded()
        home.ask("add", elements=[b"<go/>"])
        assert home.ask("wait", run=run)["phase"] == "done"


@pytest.mark.parametrize("runs", ["inline", "worker"])
def test_N31_a_change_of_any_file_of_a_folder_takes_effect(tmp_path: Path, runs: str) -> None:
    narval = make(tmp_path, recipes=one_step("r", "triage.judge"))
    action = MINE.replace('"inline"', f'"{runs}"').replace("'{word}'", "{WORD}").replace('"<tri', 'f"<tri')
    narval.write("modules/triage/judging.py", "from .deep.words import WORD\n" + action)
    words = narval.write("modules/triage/deep/words.py", "WORD = '\"one\"'\n")
    with up(narval) as home:
        assert home.judged() == "one"
        words.write_text("WORD = '\"two\"'\n")
        until(lambda: home.judged() == "two", "the change")
        words.write_text("WORD = (\n")
        until(lambda: home.ask("definitions")["faults"], "a fault")
        assert (home.faults(), home.judged()) == (["modules/triage/deep/words.py"], "two")
        narval.write("modules/triage.py", MINE.format(word="flat"))
        assert home.faults() == ["modules/triage", "modules/triage.py"]
        assert home.judged() == "two"
        words.unlink()
        (narval.home / "modules/triage/judging.py").unlink()
        home.comes("'modules/triage.py'")
        assert (home.faults(), home.judged()) == ([], "flat")
