"""`narval simulate --mails`: what would become of the mails of a folder, with a home and without one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from narval.files.new_home import create_home
from narval.surfaces.cli import main
from narval.trials.simulate.mails import TOGETHER, mails_of
from narval.trials.simulate.simulated_home import simulated_home
from tests.places import ROOT
from tests.surfaces.cli.command_line import data, narval, well

DEMO = ROOT / "data" / "demo" / "Maildir"
PLAIN = "From: {0}\nTo: me@example.org\nSubject: {1}\nMessage-ID: <{1}@example.org>\n\nHello.\n"


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has no home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NARVAL_HOME", raising=False)
    return tmp_path


def simulate(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def files_below(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_mails_are_tried_without_a_home(nobody: Path) -> None:
    folder = shutil.copytree(DEMO, nobody / "Maildir")
    before = files_below(nobody)
    result = simulate("mail.triage", "--mails", folder)
    assert result.exit_code == 0, result.output
    assert "there is no home yet" in result.stderr
    told = result.stdout
    assert "\n     36  acknowledge  people     a person wrote it\n" in told
    assert "\n      1  ask          elsewhere  it wants its answers elsewhere\n" in told
    assert "\n  36 letters would go out:\n    ana@example.com: Re: Opening hours on Friday\n" in told
    assert "M52-no-mail" in told.partition("1 mail could not be read:")[2].splitlines()[1]
    assert files_below(nobody) == before


def test_the_rules_of_the_home_decide(nobody: Path) -> None:
    home = create_home(nobody / "own").path
    rule = '<rule name="lunch" order="1" when="email[@subject=\'Lunch\']" verdict="leave" why="no time"/>'
    (home / "data" / "memory.xml").write_text(
        (home / "data" / "memory.xml").read_text().replace("<rule ", f"{rule}\n  <rule ", 1)
    )
    (nobody / "box").write_text(
        "".join(
            "From x\n" + PLAIN.format("ann@example.org", subject) + "\n" for subject in ("Lunch", "Dinner")
        )
    )
    told = data(home, "simulate", "--mails", nobody / "box")
    assert told["mails"] == {
        "folder": str(nobody / "box"),
        "mails": 2,
        "unread": [],
        "verdicts": [
            {"verdict": "acknowledge", "rule": "people", "why": "a person wrote it", "count": 1},
            {"verdict": "leave", "rule": "lunch", "why": "no time", "count": 1},
        ],
        "letters": [
            {
                "action": "mail.send",
                "run": told["mails"]["letters"][0]["run"],
                "to": "ann@example.org",
                "subject": "Re: Dinner",
                "in-reply-to": "Dinner@example.org",
            }
        ],
    }
    assert (told["scenario"], told["well"]) == ("mail.triage", True)
    assert not (home / "var" / "mail").exists()


def test_a_folder_of_files_is_read_whole_and_copies_once(nobody: Path) -> None:
    folder = nobody / "saved" / "2026"
    folder.mkdir(parents=True)
    for name, subject in (("10:00", "Lunch"), ("10:30", "Dinner"), ("copy", "Lunch")):
        (folder / f"{name}.eml").write_text(PLAIN.format("ann@example.org", subject))
    (folder / "bad.eml").write_text("This is no mail.\n")
    (folder / "notes.txt").write_text("These are notes.\n")
    read: list[int] = []
    mails = mails_of(simulated_home(None), nobody / "saved", read.append)
    assert (len(mails.elements), read[-1]) == (2, 4)
    [unread] = mails.unread
    assert unread.startswith(str(folder / "bad.eml"))


def test_many_mails_are_no_endless_start(nobody: Path) -> None:
    (nobody / "box").write_text(
        "".join(
            "From x\n" + PLAIN.format(f"{number}@example.org", number) + "\n"
            for number in range(2 * TOGETHER + 1)
        )
    )
    told: dict[str, Any] = json.loads(simulate("--mails", nobody / "box", "--json").stdout)
    assert (told["stopped"], told["mails"]["verdicts"][0]["count"]) == (None, 2 * TOGETHER + 1)
    assert len({line["at"] for line in told["happened"] if line["what"] == "arrived"}) == 3


def test_a_scenario_gets_the_mails_too(nobody: Path) -> None:
    home = create_home(nobody / "own").path
    (nobody / "box").write_text("From x\n" + PLAIN.format("zoe@example.org", "Tea"))
    told = narval(home, "simulate", "triage", "--mails", nobody / "box")
    assert told.exit_code == 1, "the scenario expects so many and no more"
    assert "zoe@example.org: Re: Tea" in told.stdout


def test_what_is_wrong_is_said(nobody: Path) -> None:
    (nobody / "empty" / "new").mkdir(parents=True)
    (nobody / "nothing").mkdir()
    for folder, said in (
        ("empty", "there are no mails in"),
        ("nothing", "a folder of files .eml; found none"),
    ):
        result = simulate("mail.triage", "--mails", nobody / folder)
        assert (result.exit_code, said in result.stderr) == (1, True), result.output
    named = CliRunner().invoke(main, ["--home", str(nobody / "none"), "simulate", "--mails", str(DEMO)])
    assert (named.exit_code, "make one: narval init" in named.stderr) == (3, True)
    assert simulate("mail.triage").exit_code == 3
    bare = create_home(nobody / "bare", bare=True).path
    unknown = narval(bare, "simulate", "mail.triage", "--mails", DEMO)
    assert (
        "mail.triage ships, and is not in the home: narval take recipes/mail.xml copies it" in unknown.stderr
    )
    well(bare, "take", "recipes/mail.xml")
    (bare / "recipes/digest.page.xsl").unlink()
    unloaded = narval(bare, "simulate", "--mails", DEMO)
    assert "mail.triage is in recipes/mail.xml, which did not load; see why: narval check" in unloaded.stderr
    well(bare, "take", "recipes/digest.page.xsl")
    assert "50  leave  no rule fits it\n" in narval(bare, "simulate", "--mails", DEMO).stdout
