"""People move a task at a real daemon: by a terminal, by a file, by mail, and on the web (K16, K49, P71)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from narval.people.mail.answers import read_answer
from tests.acceptance.home import Narval, make, until

PEOPLE = """
[people.ann]
roles = ["helper"]
[people.ben]
roles = ["helper"]
[people.cleo]
[admin]
people = ["cleo"]
"""
DESK = """TASK TYPE ticket
  ROLES: helper
  WORK <work>
    <title>Ticket {$object/@number}</title>
    <field name="reply" required="commit">Reply</field>
    <ways names="terminal web file mail"/>
  </work>
  INITIAL new
  STATE new EXPOSED
    ON EVENT taken GOTO checking
  STATE checking EXPOSED
    ON EVENT asked GOTO waiting
    ON EVENT solved GOTO COMMIT
  STATE waiting EXPOSED
    ON EVENT answered GOTO checking
"""


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    made = make(tmp_path / "home")
    made.write("etc/people.toml", PEOPLE)
    made.write("recipes/desk.task", DESK)
    assert made("work", "folder", "ann").returncode == 0
    return made


def moved(narval: Narval, state: str) -> Any:
    def found() -> Any:
        rows = narval.ask("task")
        return bool(rows) and rows[0]["state"] == state and rows[0]

    return until(found, f"the task is in {state}")


def handed_in(narval: Narval, file: Path, given: str, name: str) -> None:
    text = until(lambda: file.is_file() and file.read_text(), "a file for Ann")
    assert 'state=""' in text
    scratch = narval.write("data/scratch", text.replace('state=""', f'state="{given}"').encode())
    scratch.rename(file.parent / "done" / name)
    file.unlink(missing_ok=True)


def test_K49_P71_a_task_is_moved_by_file_and_terminal(narval: Narval) -> None:
    with narval.running():
        done = narval("task", "put", "desk.ticket", "-", given=b"<ticket number='7'/>")
        assert done.returncode == 0, done.stderr
        row = moved(narval, "new")
        file = narval.home / "work" / "ann" / f"{row['item']}-desk.ticket.xml"
        handed_in(narval, file, "checking", "a.xml")
        assert moved(narval, "checking")["claimed_by"] == "ann"
        refused = narval("task", "move", str(row["eid"]), "waiting", "--as", "ben")
        assert refused.returncode == 1
        assert b"claimed by ann" in refused.stderr
        done = narval("task", "move", str(row["eid"]), "waiting", "--as", "ann")
        assert done.stdout == f"task {row['eid']} goes to waiting\n".encode()
        moved(narval, "waiting")
        handed_in(narval, file, "nowhere", "b.xml")
        reason = narval.home / "work/ann/refused/b.xml.reason.txt"
        assert "no-state: expected checking, the states that follow waiting" in until(
            lambda: reason.is_file() and reason.read_text(), "why it is refused"
        )
        done = narval("work", "answer", str(row["item"]), "commit", "--set", "reply=Done.", "--as", "ann")
        assert done.returncode == 0, done.stderr
        until(lambda: narval.ask("task") == [], "the task is over")


@pytest.mark.parametrize("line", ["move checking", "Move  Checking", "> quoted\n\nmove\tchecking\nthanks: x"])
def test_K49_P61_a_mail_moves_a_task_by_its_first_line(line: str) -> None:
    assert read_answer(line, ["commit"]) == ("move", {"state": "checking"})


@pytest.mark.parametrize("line", ["move", "move to checking", "remove checking"])
def test_P61_other_words_move_nothing(line: str) -> None:
    with pytest.raises(ValueError, match=line):
        read_answer(line, ["commit"])
