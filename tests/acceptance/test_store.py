"""Faults of the store stop the daemon with a message and lose nothing confirmed; set right, it goes on."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.home import PATIENCE, Narval, make, one_step

MODULE = """
from pathlib import Path
import narval
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")], runs="inline")
def answer(mail):
    (narval.call().home / "answered").open("a").write(mail.attributes["n"] + "\\n")
    return f"<ack n='{mail.attributes['n']}'/>"
"""
RECIPES = f"<cookbook>{one_step('answer', 'w.answer')}</cookbook>"


def small_files() -> None:
    """No file of this program grows beyond so many bytes: to SQLite that is a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


@pytest.mark.parametrize("durability", ["crash", "power"])
def test_N35_a_full_disk_stops_the_daemon_with_a_message_and_loses_nothing_confirmed(
    tmp_path: Path, durability: str
) -> None:
    narval = make(
        tmp_path / "home", module=MODULE, recipes=RECIPES, settings=f'durability = "{durability}"\n'
    )
    narval("status")
    daemon = narval.limited(small_files)
    assert daemon.stdout is not None
    assert b"is ready" in daemon.stdout.readline()
    confirmed: list[int] = []
    for number in range(500):
        done = narval(
            "start", "w.answer", "-", "--json", given=f"<mail n='{number}' pad='{'x' * 40_000}'/>".encode()
        )
        if done.returncode != 0:
            assert b"Traceback" not in done.stderr
            break
        confirmed.append(json.loads(done.stdout)["eid"])
    _, errors = daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 1
    assert 0 < len(confirmed) < 500
    assert "nothing of this turn was performed" in errors.decode()
    assert "Traceback" not in errors.decode()
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    runs = {run["eid"]: run["state"] for run in narval.ask("runs", "--limit", "all")}
    assert {runs[eid] for eid in confirmed} == {"done"}
    acks = [element["xml"] for element in narval.ask("memory", "ack", "--limit", "all")]
    assert len(acks) == len(set(acks)) >= len(confirmed)


def test_N35_a_store_from_an_interrupted_write_opens(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES)
    with narval.running() as daemon:
        confirmed = [
            json.loads(narval("start", "w.answer", "-", "--json", given=b"<mail n='1'/>").stdout)["eid"]
            for _ in range(3)
        ]
        daemon.kill()
    var = narval.home / "var"
    log = var / "store.db-wal"
    assert log.exists()
    data = log.read_bytes()
    for cut, is_noted in ((1, True), (len(data) // 3, True), (4096, False)):
        copy = Narval(tmp_path / f"cut{cut}{is_noted}")
        shutil.copytree(narval.home, copy.home, ignore=shutil.ignore_patterns("*.sock", "control*"))
        (copy.home / "var/store.db-wal").write_bytes(data[: len(data) - cut] + b"\0" * (cut // 2))
        if not is_noted:
            (copy.home / "var/store.db-shm").unlink()
        copy("add", "-", given=b"<note/>")  # records, and leaves it to the daemon to tell
        for _ in range(2):
            assert copy("run", "--until-idle", "--timeout", "120").returncode == 0
        assert len(copy.ask("memory", "ack")) <= len(confirmed)
        unreadable = copy("memory", "error[@type='unreadable']", "--json").stdout
        told = [error["xml"] for error in json.loads(unreadable)]
        assert len(told) == is_noted
        assert all("(store.db-wal) was cut short" in each for each in told)
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    assert json.loads(narval("memory", "error", "--json").stdout) == []
    assert {run["state"] for run in narval.ask("runs") if run["eid"] in confirmed} == {"done"}
    assert len(narval.ask("memory", "ack")) == len(confirmed)


def test_N35_a_store_that_another_program_holds_locked_stops_the_daemon_and_loses_nothing(
    tmp_path: Path,
) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES)
    narval("status")
    daemon = narval.daemon()
    assert daemon.stdout is not None
    assert b"is ready" in daemon.stdout.readline()
    started = narval("start", "w.answer", "-", "--wait", "--json", given=b"<mail n='1'/>")
    first = json.loads(started.stdout)["eid"]  # it is over: else its answer might not be recorded any more
    other = sqlite3.connect(narval.home / "var/store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused = narval("start", "w.answer", "-", given=b"<mail n='2'/>")
    _, errors = daemon.communicate(timeout=PATIENCE)
    assert refused.returncode != 0
    assert daemon.returncode == 1
    assert "another program holds the store locked" in errors.decode()
    assert "nothing of this turn was performed" in errors.decode()
    assert "Traceback" not in errors.decode()
    assert (narval.home / "answered").read_text().split() == ["1"]
    other.rollback()
    other.close()
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    assert [(run["eid"], run["state"]) for run in narval.ask("runs")] == [(first, "done")]
    assert narval("start", "w.answer", "-", given=b"<mail n='3'/>").returncode == 0
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    assert (narval.home / "answered").read_text().split() == ["1", "3"]


def test_N35_a_damaged_page_is_refused_by_name_and_a_backup_goes_on(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE, recipes=RECIPES)
    assert narval("start", "w.answer", "-", given=b"<mail n='1'/>").returncode == 0
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    store = narval.home / "var/store.db"
    whole = store.read_bytes()
    broken = bytearray(whole)
    for page in range(1, len(whole) // 2048):
        broken[page * 2048 : page * 2048 + 64] = b"\xff" * 64
    store.write_bytes(broken)
    done = narval("run", "--until-idle", "--timeout", "120")
    assert done.returncode == 1
    assert b"the store is damaged" in done.stderr
    assert b"put back a backup" in done.stderr
    assert b"Traceback" not in done.stderr
    store.write_bytes(whole)
    assert narval("start", "w.answer", "-", given=b"<mail n='2'/>").returncode == 0
    assert narval("run", "--until-idle", "--timeout", "120").returncode == 0
    assert (narval.home / "answered").read_text().split() == ["1", "2"]
