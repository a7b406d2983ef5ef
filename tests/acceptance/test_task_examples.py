"""The tasks that ship, at a real daemon: cheques at three terminals (K1–K8), faxes at night (K42)."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.home import Narval, make, until
from tests.forked_commands import write_program

PEOPLE = """
[people.carl]
roles = ["clerk"]
[people.cora]
roles = ["correspondent"]
[people.sue]
roles = ["supervisor"]
"""
ACCOUNTS = (
    '<memory><account number="1001" holder="Ada" balance="500"/>'
    '<account number="2002" holder="Ben" balance="20"/></memory>'
)


@pytest.fixture
def narval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Narval:
    """A home that has taken the examples, and `narval` on the path of its programs."""
    made = make(tmp_path / "home", memory=ACCOUNTS)
    made.write("etc/people.toml", PEOPLE)
    for name in ("examples/bank", "examples/fax"):
        assert made("take", name).returncode == 0
    write_program(tmp_path / "narval")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("NARVAL_HOME", str(made.home))
    for name in ("NARVAL_TASK", "NARVAL_CALL", "NARVAL_AGENT"):
        monkeypatch.delenv(name, raising=False)
    return made


def document(**lines: str) -> str:
    inside = "".join(f'<line name="{name}">{text}</line>' for name, text in lines.items())
    return f"<document>{inside}</document>"


def cheque(number: str, amount: int, bank: str = "ours") -> str:
    return document(kind="cheque", number=number, account="1001", amount=str(amount), bank=bank)


def slip(number: str, amount: int) -> str:
    return document(kind="slip", number=number, account="2002", amount=str(amount))


class Bank:
    """A bank whose scanner has read folders."""

    def __init__(self, narval: Narval) -> None:
        self.narval = narval

    def scan(self, *folders: str) -> list[int]:
        """Put folders, and have the scanner take them, as a program of its own; their cases."""
        given = f"<memory>{''.join(f'<folder>{folder}</folder>' for folder in folders)}</memory>".encode()
        cases = self.narval("task", "put", "bank.scan", "-", given=given).stdout.split()
        scanner = ["sh", "recipes/examples/bank.scanner.sh", "1"]
        done = subprocess.run(scanner, cwd=self.narval.home, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [int(case) for case in cases]

    def answer(self, work: str, outcome: str, by: str) -> None:
        """Answer the item that a person is asked, once it is there."""
        (item, *_) = until(
            lambda: [row["item"] for row in self.narval.ask("work", "--as", by) if row["work"] == work], work
        )
        done = self.narval("work", "answer", str(item), outcome, "--as", by)
        assert done.returncode == 0, done.stderr

    def ends(self, case: int, state: str) -> None:
        until(lambda: self.narval.ask("show", str(case))["state"] == state, f"{case} is {state}")

    def booked(self) -> list[tuple[str, str]]:
        found = self.found("booking")
        return sorted((word(xml, "account"), word(xml, "amount")) for xml in found)

    def found(self, pattern: str) -> list[str]:
        """The elements that fit; `narval memory` exits with 1 where none does."""
        rows = json.loads(self.narval("memory", pattern, "--json").stdout)
        return [row["xml"] for row in rows]


def word(xml: str, name: str) -> str:
    return xml.partition(f'{name}="')[2].partition('"')[0]


def test_K1_K8_K20_a_cheque_and_its_slip_go_through_the_bank_at_three_terminals(narval: Narval) -> None:
    with narval.running():
        bank = Bank(narval)
        (case,) = bank.scan(cheque("c1", 120) + slip("s1", 120))
        until(lambda: bank.found("hold"), "the amount is held")
        assert bank.booked() == []
        assert "bank.signature" in narval("why", str(case)).stdout.decode()
        bank.answer("bank.signature", "forward", "carl")
        bank.ends(case, "committed")
        assert bank.booked() == [("1001", "-120"), ("2002", "120")]
        folder = narval.ask("task", "where", str(case))
        assert folder["state"] == "committed"
        passed = [row["type"] for row in narval.ask("task", "passed", str(folder["object"]))]
        assert passed == ["bank.scan", "bank.folder", "bank.compose", "bank.update"]
        assert narval.ask("task", "time", "bank.signature", "comparing")["times"] == 1


def test_K47_a_forged_signature_undoes_what_was_held(narval: Narval) -> None:
    with narval.running():
        bank = Bank(narval)
        (case,) = bank.scan(cheque("c2", 50) + slip("s2", 50))
        until(lambda: bank.found("hold"), "the amount is held")
        bank.answer("bank.signature", "abort", "carl")
        bank.ends(case, "aborted")
        assert [word(xml, "number") for xml in bank.found("released")] == ["c2"]
        assert bank.booked() == []


def test_K33_K52_another_bank_settles_by_an_event(narval: Narval) -> None:
    with narval.running():
        bank = Bank(narval)
        (case,) = bank.scan(cheque("c3", 70, "theirs") + slip("s3", 70))
        until(lambda: narval.ask("work", "--as", "cora"), "it is away")
        refused = narval("task", "raise", "bank.remote", "settled", "c3")
        assert refused.stderr.decode().startswith(
            "narval: settled takes 2 parameters (number, result), got 1"
        )
        done = narval("task", "raise", "bank.remote", "settled", "c3", "paid", "--sync")
        assert done.returncode == 0, done.stderr
        bank.ends(case, "committed")
        assert bank.booked() == [("2002", "70")]


def test_K29_what_nothing_covers_goes_to_the_supervisor(narval: Narval) -> None:
    with narval.running():
        bank = Bank(narval)
        (case,) = bank.scan(cheque("c4", 9000))
        bank.answer("bank.signature", "forward", "carl")
        bank.answer("bank.exception", "abort", "sue")
        bank.ends(case, "aborted")


def test_K42_faxes_wait_until_the_hour_at_which_they_are_sent(narval: Narval) -> None:
    recipe = narval.home / "recipes/examples/fax.task"
    shipped = recipe.read_text()
    recipe.unlink()  # until a daemon is running, however long that takes
    faxes = "".join(f'<fax number="089 {number}"/>' for number in range(3))
    with narval.running():
        soon = (datetime.now() + timedelta(seconds=7)).strftime("%H:%M:%S")
        recipe.write_text(shipped.replace("21:00:00", soon))
        narval.ask("reload")
        done = narval("task", "put", "fax.send", "-", given=f"<memory>{faxes}</memory>".encode())
        assert done.returncode == 0, done.stderr
        assert len(narval.ask("task", "queue", "fax.send")) == 3
        sent = narval.home / "faxed.txt"
        until(lambda: sent.exists() and len(sent.read_text().splitlines()) == 3, "all are sent")
        for case in done.stdout.decode().split():
            until(lambda case=case: narval.ask("show", case)["state"] == "committed", case)
        (night,) = narval.ask("task", "events", "fax.NIGHT") or [None]
        assert night is None or night["queue"] != "registered"
