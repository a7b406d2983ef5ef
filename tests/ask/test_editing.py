"""Editing the file of a definition: judged as a whole, saved at once with its grants, and taken back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import narval
from narval.ask.asker import WEB
from narval.ask.operations import invoke
from narval.core.errors import NarvalError, RequestError
from narval.files import grants
from narval.files.proposals import altering
from narval.files.proposals.altering import finish_altering
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import data, well
from tests.surfaces.cli.command_line import narval as command

QUIET = """<recipe group="post" name="send" start_step="w" end_step="w">
  <step id="w" type="action" target="basic.nothing"/>
</recipe>
"""
ELSE = QUIET.replace("<step", "<!-- as before -->\n  <step")
SENDS = """<recipe group="post" name="send" start_step="w" end_step="w">
  <step id="w" type="action" target="mail.write">
    <arguments><draft to="x@example.org" subject="hi">text</draft></arguments>
  </step>
</recipe>
"""
BOTH = f"<cookbook>{QUIET}<recipe group='post' name='other' start_step='w' end_step='w'>" + (
    "<step id='w' type='action' target='basic.nothing'/></recipe></cookbook>\n"
)
CALLS = """<recipe group="post" name="calls" start_step="w" end_step="w">
  <step id="w" type="recipe" target="post.other"/>
</recipe>
"""
OUTBOX = '<memory><identity address="me@example.org"/><outbox host="127.0.0.1" port="9" tls="none"/></memory>'
FILE = "recipes/mine/send.xml"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for path, text in {
        "etc/narval.toml": 'grants = "ask"\n', "data/memory.xml": OUTBOX, FILE: QUIET,
        "modules/talk.py": "from narval import action\n\n\n@action\ndef hush() -> None:\n    '''Hush.'''\n",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def save(agent: Agent, text: str, **more: Any) -> Any:
    return agent.ask("save_edit", name="post.send", text=text, **{"digest": digest(agent), **more})


def digest(agent: Agent) -> str:
    return str(agent.ask("edit", name="post.send")["digest"])


def granted(home: Path) -> dict[str, list[str]]:
    file = home / "etc/grants.toml"
    tables = tomllib.loads(file.read_text()) if file.exists() else {}
    return {name: table["needs"] for name, table in tables.items()}


def test_what_a_text_would_do_is_told_and_nothing_is_kept(home: Path) -> None:
    with narval.open(home) as agent:
        row = agent.ask("check_edit", name="post.send", text=SENDS)
        assert (row["path"], row["faults"], len(row["needs"])) == (FILE, [], 1)
        assert {line["change"] for line in row["changes"]} == {"added", "taken away"}
        assert any("mail.write" in line["text"] or "mail" in line["text"] for line in row["told"])
        assert f"--- {FILE}\n+++ {FILE} (edited)\n" in row["diff"]
        broken = agent.ask("check_edit", name="post.send", text=QUIET.replace("<step", "<steep"))
        assert (FILE, 2) in [(one["path"], one["line"]) for one in broken["faults"]]
        assert broken["told"] == broken["changes"] == broken["needs"] == []
        assert (home / FILE).read_text() == QUIET
        assert not (home / "var/edits").exists()
        assert agent.ask("edit", name="post.send")["versions"] == []


def test_a_save_is_the_grant_of_exactly_what_it_needs_and_the_former_text_is_taken_back(home: Path) -> None:
    with narval.open(home) as agent:
        saved = save(agent, SENDS)
        assert (saved["version"], saved["path"], len(saved["granted"])) == ("e1", FILE, 1)
        assert (home / FILE).read_text() == SENDS
        assert granted(home) == {"recipe post.send": saved["granted"]}
        assert agent.ask("grants", name="post.send")["definitions"][0]["standing"] == "granted"
        (version,) = agent.ask("edit", name="post.send")["versions"]
        assert (version["version"], version["text"], version["path"]) == ("e1", QUIET, FILE)
        taken = agent.ask("take_back_edit", name="post.send", version="e1")
        assert (taken["version"], taken["granted"]) == ("e2", [])
        assert (home / FILE).read_text() == QUIET
        assert granted(home) == {}  # what it does not need is granted no more
        assert agent.ask("definition", name="post.send")["source"].strip() == QUIET.strip()
        agent.ask("take_back_edit", name="post.send", version="e2")  # that was an edit too
        assert (home / FILE).read_text() == SENDS
        with pytest.raises(RequestError, match=r"there is no version 'e9' of .*; there are e3, e2, e1"):
            agent.ask("take_back_edit", name="post.send", version="e9")


def test_what_others_need_more_because_of_it_is_asked_for_and_told(home: Path) -> None:
    (home / "recipes/calls.xml").write_text(CALLS.replace("post.other", "post.send"))
    (home / "new.xml").write_text(SENDS)
    with narval.open(home) as agent:
        assert save(agent, ELSE)["asked"] == []
        assert save(agent, SENDS)["asked"] == ["post.calls"]
    assert well(home, "edit", "post.send", "--take-back", "e2").count("waits") == 0
    told = well(home, "edit", "post.send", home / "new.xml")
    assert "post.calls needs more because of it, and waits: narval grants post.calls" in told


def test_what_somebody_altered_meanwhile_is_not_overwritten(home: Path) -> None:
    with narval.open(home) as agent:
        opened = digest(agent)
        (home / FILE).write_text(ELSE)
        for act, more in (("save_edit", {"text": SENDS}), ("take_back_edit", {"version": "e1"})):
            with pytest.raises(RequestError, match=f"{FILE} was altered since it was opened"):
                agent.ask(act, name="post.send", digest=opened, **more)
        assert (home / FILE).read_text() == ELSE
        with pytest.raises(RequestError, match="has this text already"):
            save(agent, ELSE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (QUIET.replace("type=", "kind="), f"{FILE}:2:"),
        (BOTH.replace('name="send"', 'name="sent"'), "expected recipe post.send, which is to be changed"),
        (BOTH.replace("</cookbook>", CALLS + "</cookbook>"), "post.calls in recipes/calls.xml already"),
        (QUIET, "expected recipe post.other, for recipe post.calls in recipes/calls.xml names it"),
        (QUIET + "x" * 65_536, "expected at most 65,536 bytes"),
    ],
)
def test_a_text_with_faults_of_its_own_or_for_others_is_not_saved(home: Path, text: str, words: str) -> None:
    (home / FILE).write_text(BOTH)
    (home / "recipes/calls.xml").write_text(CALLS)
    with narval.open(home) as agent:
        with pytest.raises(RequestError) as refused:
            save(agent, text)
        assert words in str(refused.value)
        assert (home / FILE).read_text() == BOTH
        assert not (home / "var/edits").exists()


def test_only_files_of_recipes_are_edited_and_no_path_is_taken(home: Path, tmp_path: Path) -> None:
    with narval.open(home) as agent:
        for name, words in {
            "talk.hush": "is in modules/talk.py; only files in recipes/",
            "basic.nothing": "only files in recipes/",
            "../etc/narval": "there is no",
            FILE: "there is no",
        }.items():
            with pytest.raises(NarvalError, match=words):
                agent.ask("edit", name=name)
        (home / "away.xml").write_text(QUIET)
        (home / FILE).unlink()
        (home / FILE).symlink_to(home / "away.xml")
        with pytest.raises(RequestError, match=f"{FILE} is a link"):
            agent.ask("save_edit", name="post.send", text=SENDS, digest="0")
        (home / FILE).unlink()
        agent.ask("reload")
        with pytest.raises(NarvalError, match="there is no"):
            agent.ask("edit", name="post.send")
    with (
        narval.open(clock=narval.SimulatedClock(0)) as agent,
        pytest.raises(RequestError, match="a home in memory has no folders"),
    ):
        agent.ask("edit", name="post.send")


def test_a_setting_allows_it_in_the_browser_and_those_alone_who_may_grant(home: Path) -> None:
    with narval.open(home) as agent:
        given = {"name": "post.send", "text": SENDS, "digest": digest(agent)}
        (home / "etc/people.toml").write_text('[people.ann]\nweb = "operator"\n')
        agent.ask("reload")
        operator = replace(agent.asker, person="ann", way=WEB, session="1", uid=4711)
        with pytest.raises(RequestError, match=r"editing in the browser is off; write `edit = true`"):
            agent.runner.run(invoke(agent.daemon, operator, "save_edit", given))
        assert agent.ask("edit", name="post.send")["allowed"] is False
        with (home / "etc/narval.toml").open("a") as settings:
            settings.write("[web]\nedit = true\n")
        agent.ask("reload")
        assert agent.ask("edit", name="post.send")["allowed"] is True
        for asker in (replace(agent.asker, uid=4711), replace(agent.asker, actor="ann")):
            with pytest.raises(
                RequestError,
                match=r"may not grant, accept a proposal, .* that is for the owner",
            ):
                agent.runner.run(invoke(agent.daemon, asker, "save_edit", given))
        assert agent.runner.run(invoke(agent.daemon, operator, "save_edit", given))["by"] == "ann"
        assert 'by = "ann"' in (home / "etc/grants.toml").read_text()


class KilledError(BaseException):
    """The program is killed."""


def test_a_save_that_cannot_be_written_changes_nothing_and_one_that_is_cut_off_is_finished(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(altering, "KEPT", 2)
    write, written = altering.write_whole, list[Path]()
    trouble: BaseException = OSError(28, "No space left on device")

    def cut_off(path: Path, content: str | bytes) -> None:
        written.append(path)
        if len(written) == 3:  # its note and the grants are written
            raise trouble
        write(path, content)

    with narval.open(home) as agent:
        monkeypatch.setattr(altering, "write_whole", cut_off)
        with pytest.raises(RequestError, match=f"{FILE} cannot be written: No space left"):
            save(agent, SENDS)
        assert ((home / FILE).read_text(), len(granted(home))) == (QUIET, 0)
        assert [*(home / "var/edits").iterdir()] == []
        written.clear()
        trouble = KilledError()
        with pytest.raises(KilledError):
            save(agent, SENDS)
        monkeypatch.setattr(altering, "write_whole", write)
        assert ((home / FILE).read_text(), len(granted(home))) == (QUIET, 1)
        finish_altering(home)
        assert (home / FILE).read_text() == SENDS
        agent.ask("reload")
        for text in (ELSE, QUIET):
            save(agent, text)
        assert [row["version"] for row in agent.ask("edit", name="post.send")["versions"]] == ["e3", "e2"]


def test_a_grant_is_written_alone_as_an_edit_is_and_says_if_it_cannot_be(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, is_alone = grants.write_whole, list[bool]()
    troubles = [OSError(28, "No space left on device")]

    def troubled(path: Path, content: str) -> None:
        is_alone.append(altering.ONE_AT_A_TIME.locked())
        if troubles:
            raise troubles.pop()
        write(path, content)

    (home / FILE).write_text(SENDS)
    with narval.open(home) as agent:
        monkeypatch.setattr(grants, "write_whole", troubled)
        with pytest.raises(RequestError, match=r"etc/grants\.toml cannot be written: No space left"):
            agent.ask("grant", name="post.send")
        assert agent.ask("grant", name="post.send") == ["post.send"]
    assert (is_alone, len(granted(home))) == ([True, True], 1)


def test_the_grants_of_what_leaves_the_file_leave_with_it(home: Path) -> None:
    with narval.open(home) as agent:
        more = SENDS.replace('name="send"', 'name="more"')
        version = save(agent, f"<cookbook>{SENDS}{more}</cookbook>")["version"]
        assert len(granted(home)) == 2
        digest = agent.ask("edit", name="post.send")["digest"]
        agent.ask("take_back_edit", name="post.send", version=version, digest=digest)
        assert len(granted(home)) == 0


def test_the_command_checks_saves_lists_and_takes_back(home: Path) -> None:
    (home / "new.xml").write_text(SENDS)
    (home / "bad.xml").write_text("<recipe")
    checked = command(home, "edit", "post.send", home / "new.xml", "--check")
    assert checked.exit_code == 0
    assert all(word in checked.stdout for word in ("needs outside: ", "+  <step", "- "))
    bad = command(home, "edit", "post.send", home / "bad.xml", "--check")
    assert (bad.exit_code, f"{FILE}:1:" in bad.stdout) == (1, True)
    refused = command(home, "edit", "post.send", home / "bad.xml")
    assert (refused.exit_code != 0, "it has faults, and was not saved" in refused.stderr) == (True, True)
    assert "version e1 is from before: --take-back e1" in well(home, "edit", "post.send", home / "new.xml")
    assert "no versions" not in well(home, "edit", "post.send")
    assert data(home, "edit", "post.send")["versions"][0]["version"] == "e1"
    assert f"taken back: {FILE}" in well(home, "edit", "post.send", "--take-back", "e1")
    assert (home / FILE).read_text() == QUIET
    for wrong in (("--check",), (home / "new.xml", "--take-back", "e1")):
        assert command(home, "edit", "post.send", *wrong).exit_code == 2
    assert "cannot be read" in command(home, "edit", "post.send", home / "nowhere.xml").stderr
