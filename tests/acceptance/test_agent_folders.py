"""Agents with folders: put in, changed, damaged, taken away, while a daemon runs and while none does."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.home import Narval, make, one_step, until

MODULE = """\
from narval import Output, action

@action(outputs=[Output("said", "said")])
def say():
    return "<said>{word}</said>"
"""


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    return make(tmp_path / "home", module=MODULE.format(word="home"), recipes=one_step("r", "w.say"))


def states(narval: Narval) -> dict[str, str]:
    return {row["name"]: row["state"] for row in narval.ask("agents")}


def found(narval: Narval, agent: str, xpath: str) -> list[str]:
    listed = narval("memory", xpath, "--agent", agent, "--json").stdout  # it fails where there is none
    return [str(row["xml"]) for row in json.loads(listed)]


def came(narval: Narval, agent: str, xpath: str, number: int = 1) -> Callable[[], bool]:
    return lambda: agent in states(narval) and len(found(narval, agent, xpath)) == number


def put_ada(narval: Narval, word: str = "ada") -> Path:
    """A folder of an agent with all that one may have, moved in whole."""
    scratch = narval.home / "scratch"
    for path, text in {
        "agent.toml": "weight = 20\n",
        "modules/own.py": MODULE.format(word=word),
        "recipes/own.xml": one_step("r", "own.say").replace('group="w"', 'group="own"'),
        "data/memory.xml": "<memory><guest name='Eve'/><start-plan recipe='own.r'/></memory>",
        "etc/schemas/guest.dtd": "<!ELEMENT guest EMPTY><!ATTLIST guest name CDATA #REQUIRED>",
        "inbox/first.xml": "<letter/>",
    }.items():
        file = scratch / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (narval.home / "agents").mkdir(exist_ok=True)
    return scratch.rename(narval.home / "agents/ada")


def is_told(narval: Narval, words: str) -> bool:
    return any(words in fault["message"] for fault in narval.ask("status")["faults"])


def test_G2_a_folder_that_is_put_in_is_an_agent_with_files_of_its_own(narval: Narval) -> None:
    with narval.running():
        put_ada(narval)
        until(came(narval, "ada", "said"), "ada runs its own recipe")
        assert ">ada</said>" in found(narval, "ada", "said")[0]
        until(came(narval, "ada", "letter"), "ada's inbox is read")
        assert found(narval, "narval", "guest") == found(narval, "narval", "letter") == []
        refused = narval("add", "--agent", "ada", "-", given=b"<guest age='3'/>")
        assert refused.returncode == 1
        assert b"agents/ada/etc/schemas/guest.dtd" in refused.stderr
        assert narval("add", "-", given=b"<guest age='3'/>").returncode == 0  # the home has no such schema
        assert narval("start", "own.r").returncode != 0
        assert narval.ask("start", "w.r", "--agent", "ada", "--wait")["phase"] == "done"
        narval.write("agents/ada/inbox/second.xml", "<letter/>")
        until(came(narval, "ada", "letter", 2), "the second letter")
        narval.write("agents/ada/inbox/third.xml", "<guest age='3'/>")
        until((narval.home / "agents/ada/inbox/refused/third.xml").exists, "what its schema refuses")
        assert narval("check").returncode == 0


def test_G3_an_agent_follows_the_collections_that_it_names(narval: Narval) -> None:
    recipe = one_step("r", "office.say").replace('group="w"', 'group="office"')
    with narval.running():
        narval.write("collections/office/modules/office.py", MODULE.format(word="office"))
        narval.write("collections/office/recipes/office.xml", recipe)
        until(lambda: narval("agents", "add", "bob", "--collection", "office").returncode == 0, "bob")
        toml = (narval.home / "agents/bob/agent.toml").read_text()
        assert toml == 'collections = ["office", "own"]\n'
        names = {row["name"] for row in narval.ask("definitions", "--agent", "bob")["definitions"]}
        assert names == {"office.say", "office.r"}
        assert narval.ask("start", "office.r", "--agent", "bob", "--wait")["phase"] == "done"
        narval.write("collections/office/modules/office.py", MODULE.format(word="changed"))
        narval("reload")
        assert narval.ask("start", "office.r", "--agent", "bob", "--wait")["phase"] == "done"
        assert "changed" in found(narval, "bob", "said")[0]
        # what it declares, and its schemas, count for who follows it
        narval.write("collections/office/etc/schemas/guest.dtd", "<!ELEMENT guest EMPTY>")
        narval.write("collections/office/data/memory.xml", "<memory><desk key='1'/></memory>")
        narval.write("agents/bob/data/memory.xml", "<memory><lamp/></memory>")
        narval("reload")
        assert len(found(narval, "bob", "desk|lamp")) == 2
        refused = narval("add", "--agent", "bob", "-", given=b"<guest><name/></guest>")
        assert b"collections/office/etc/schemas/guest.dtd" in refused.stderr
        narval.write("collections/office/data/memory.xml", "<memory><desk key='2'/>")
        assert b"collections/office/data/memory.xml:1:" in narval("reload").stdout
        assert len(found(narval, "bob", "desk[@key='1']|lamp")) == 2
        (narval.home / "collections/office/data/memory.xml").unlink()
        # one full name from two collections is a fault at both places
        narval.write("agents/bob/agent.toml", 'collections = ["home", "office"]\n')
        narval.write("collections/office/recipes/w.xml", one_step("r", "w.say"))
        told = narval("reload").stdout.decode()
        assert "recipes/w.xml:1:1: expected a new name, found the recipe w.r of collections" in told
        assert "collections/office/recipes/w.xml:1:1: expected a new name, found the recipe w.r of" in told
        assert narval.ask("start", "w.r", "--agent", "bob", "--wait")["phase"] == "done"
        assert narval.ask("start", "w.r", "--wait")["phase"] == "done"
        narval.write("agents/bob/agent.toml", 'collections = ["ofice"]\n')
        assert (
            b"agents/bob/agent.toml:1:16: collections: expected a collection that is"
            in narval("reload").stdout
        )
        narval.write("agents/bob/agent.toml", "weight = 0\nwieght = 1\n")
        told = narval("check").stdout.decode()
        assert "agents/bob/agent.toml:1:10: weight: expected a whole number from 1 to 100, found 0" in told
        assert "agents/bob/agent.toml:2:1: unknown setting 'wieght'; did you mean 'weight'?" in told
        assert narval.ask("agents", "show", "bob")["state"] == "active"


def test_G2_a_folder_taken_away_suspends_its_agent_and_loses_nothing(narval: Narval) -> None:
    with narval.running():
        put_ada(narval)
        until(came(narval, "ada", "said"), "ada is at work")
        until(came(narval, "ada", "letter"), "ada's inbox is read")
        (narval.home / "agents/ada").rename(narval.home / "away")
        until(lambda: states(narval)["ada"] == "suspended", "ada is suspended")
        assert narval.ask("agents", "show", "ada")["why"] == "agents/ada is gone"
        assert b"continues by itself once that is corrected" in narval("agents", "resume", "ada").stderr
        assert len(found(narval, "ada", "letter")) == 1
        (narval.home / "away").rename(narval.home / "agents/ada")
        until(lambda: states(narval)["ada"] != "suspended", "ada is back")
        assert len(found(narval, "ada", "said")) == 1  # what acted has not acted again
        narval.ask("agents", "suspend", "ada", "--reason", "on leave")
        (narval.home / "agents/ada").rename(narval.home / "away")
        narval("reload")
        (narval.home / "away").rename(narval.home / "agents/ada")
        narval("reload")
        assert narval.ask("agents", "show", "ada")["why"] == "on leave"
        assert b"its folder agents/ada is; move that away" in narval("agents", "remove", "ada").stderr
        shutil.rmtree(narval.home / "agents/ada")
        narval("reload")
        assert narval.ask("agents", "remove", "ada", "--now")["removed"]
        narval("reload")
        assert "ada" not in states(narval)


@pytest.mark.parametrize("killed", [False, True])
def test_G2_what_happens_to_folders_while_no_daemon_runs_is_found(narval: Narval, killed: bool) -> None:
    def ended(daemon: Any) -> None:
        if killed:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()

    put_ada(narval)
    with narval.running() as daemon:
        until(came(narval, "ada", "said"), "ada runs its own recipe")
        ended(daemon)
    (narval.home / "agents/ada").rename(narval.home / "away")
    with narval.running() as daemon:
        assert states(narval)["ada"] == "suspended"
        ended(daemon)
    (narval.home / "away").rename(narval.home / "agents/ada")
    narval.write("agents/ada/modules/own.py", MODULE.format(word="changed"))
    narval.write("agents/ada/inbox/second.xml", "<letter/>")
    with narval.running() as daemon:
        until(came(narval, "ada", "letter", 2), "what was dropped meanwhile")
        assert narval.ask("start", "own.r", "--agent", "ada", "--wait")["phase"] == "done"
        assert "changed" in found(narval, "ada", "said")[0]
        ended(daemon)
    narval.write("agents/ada/modules/own.py", "def say(:\n")
    narval.write("agents/ada/agent.toml", "weight = -1\n")
    with narval.running():
        # its last good version is in the store; settings that are not there cannot be trusted
        assert narval.ask("agents", "show", "ada")["why"] == "agents/ada/agent.toml has faults"
        assert is_told(narval, "not Python")
        narval.write("agents/ada/agent.toml", "")
        until(lambda: states(narval)["ada"] != "suspended", "ada goes on")
        assert narval.ask("start", "own.r", "--agent", "ada", "--wait")["phase"] == "done"
        assert "changed" in found(narval, "ada", "said")[0]


def test_G2_folders_that_cannot_be_agents_are_faults_and_no_more(narval: Narval) -> None:
    narval.write("agents/Ada/agent.toml", "")
    narval.write("agents/narval/agent.toml", "")
    narval.write("agents/README", "these are ours")
    (narval.home / "agents/out").symlink_to("/tmp")
    (narval.home / "agents/toml/agent.toml").mkdir(parents=True)
    (narval.home / "agents/deep").mkdir()
    narval.write("agents/deep/agent.toml", "weight = " + "[" * 5000)
    narval.write("agents/bytes/agent.toml", b"\xff\xfe\x00weight")
    with narval.running():
        faults = {fault["path"]: fault["message"] for fault in narval.ask("status")["faults"]}
        assert "expected the name of an agent" in faults["agents/Ada"]
        assert "another name than that of the home's own" in faults["agents/narval"]
        assert "leads out of the home" in faults["agents/out"]
        told = "expected a file, found a folder; move it away, or rename it"
        assert faults["agents/toml/agent.toml"] == told
        assert "nested too deep" in faults["agents/deep/agent.toml"]
        assert "agents/bytes/agent.toml" in faults
        assert states(narval) == {"narval": "active", **dict.fromkeys(("bytes", "deep", "toml"), "suspended")}
        assert narval.ask("start", "w.r", "--wait")["phase"] == "done"
    assert os.listdir(narval.home / "agents/out") != []


def test_G3_check_simulate_and_completion_know_the_files_of_an_agent(narval: Narval) -> None:
    put_ada(narval)
    narval.write("agents/ada/recipes/bad.xml", one_step("bad", "own.no"))
    told = narval("check").stdout.decode()
    assert "agents/ada/recipes/bad.xml:1:" in told
    (narval.home / "agents/ada/recipes/bad.xml").unlink()
    assert b"own.r" in narval("simulate", "own.r", "--agent", "ada", "--until", "1h").stdout
    assert b"no definition and no scenario 'own.r'" in narval("simulate", "own.r").stderr
    names = [row["name"] for row in narval.ask("actions", "--agent", "ada")]
    assert names == ["own.say", "w.say"]
    assert [row["name"] for row in narval.ask("actions")] == ["w.say"]


def test_G16_a_file_of_an_inbox_that_is_over_a_limit_is_set_aside_with_the_reason(narval: Narval) -> None:
    with narval.running():
        narval.write("agents/bob/agent.toml", "elements = 300\n")
        until(lambda: "bob" in states(narval), "bob is there")
        narval.write("agents/bob/inbox/many.xml", f"<memory>{'<letter/>' * 300}</memory>")
        reason = narval.home / "agents/bob/inbox/refused/many.xml.reason.txt"
        until(reason.exists, "what is too much is set aside")
        assert "agents/bob/inbox/many.xml:1:1: over-limit: " in reason.read_text()
        assert ", and 300 more would be too many; " in reason.read_text()
        narval.write("agents/bob/inbox/one.xml", "<letter/>")
        until(came(narval, "bob", "letter"), "what comes after it is added")


@pytest.mark.parametrize("has_folder", [False, True])
def test_G3_an_agent_whose_settings_never_were_good_is_suspended_though_it_was_there(
    narval: Narval, has_folder: bool
) -> None:
    with narval.running():
        if has_folder:
            narval.write("agents/bob/inbox/first.xml", "<letter/>")
            until(came(narval, "bob", "letter"), "bob is there, without an agent.toml")
        else:
            narval.ask("agents", "add", "bob")
        narval.write("agents/bob/agent.toml", "receives = 3\n")
        until(lambda: states(narval)["bob"] == "suspended", "bob is suspended")
        assert narval.ask("agents", "show", "bob")["why"] == "agents/bob/agent.toml has faults"
        assert narval("send", "bob", "-", given=b"<order/>").returncode == 0
        assert found(narval, "bob", "order") == []
        narval.write("agents/bob/agent.toml", "receives = []\n")
        until(lambda: states(narval)["bob"] != "suspended", "bob goes on")
