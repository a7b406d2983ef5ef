"""Homes go from a release to this narval with runs under way, and back; both share a store (issue 40, 1)."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from narval.store.batch import STORE
from narval.store.releases import TABLES_FOR
from narval.store.tables import HEAD
from tests.acceptance.home import Narval, until
from tests.postgres import fresh_schema, shared_server
from tests.releases.records import records
from tests.releases.released import BEGUN, HERE, WHEELS, Released, begin, install, new_home, put, version_of

MOST = 3_000_000
UNDER_WAY = {"running", "executing"}


def states(narval: Narval) -> list[tuple[str, str]]:
    return sorted((run["name"], run["state"]) for run in narval.ask("runs"))


def eid(narval: Narval, name: str) -> str:
    return next(str(run["eid"]) for run in narval.ask("runs") if run["name"] == name)


def does(narval: Narval, *words: str, given: bytes = b"") -> None:
    done = narval(*words, given=given)
    assert done.returncode == 0, (words, done.stderr)


@pytest.fixture(scope="module", params=WHEELS, ids=version_of)
def release(request: pytest.FixtureRequest) -> Path:
    """The wheel of a release."""
    wheel: Path = request.param
    return wheel


@pytest.fixture(scope="module")
def python(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the release."""
    return install(release, tmp_path_factory.mktemp("release") / "venv")


def test_releases_take_little_room() -> None:
    assert WHEELS
    assert sum(path.stat().st_size for path in HERE.iterdir() if path.is_file()) <= MOST
    assert [(HERE / f"{version_of(wheel)}.sql").exists() for wheel in WHEELS] == [True] * len(WHEELS)


def test_what_a_release_does_not_know_is_listed_with_a_reason(python: Path) -> None:
    said = subprocess.run([python, HERE / "records.py"], capture_output=True, check=True, cwd=HERE)
    before, now = json.loads(said.stdout), records()
    assert "recipe.PlanMigrated" in before
    listed = tomllib.loads((HERE / "new_records.toml").read_text("utf-8"))
    assert news(before, now) == set(listed), "list it in tests/releases/new_records.toml, as that says"
    assert all(listed.values())
    left_out = {f"{name}.{field}" for name in before for field in unwritten(before[name], now.get(name, []))}
    assert left_out == set(), "the release cannot read a record without it: keep it for one minor version"


def test_a_new_record_a_new_field_and_one_that_is_left_out_are_seen() -> None:
    before = {"recipe.Fired": ["at!", "why"]}
    now = {"recipe.Fired": ["why", "by"], "recipe.Swapped": ["to!"]}
    assert news(before, now) == {"recipe.Fired.by", "recipe.Swapped"}
    assert unwritten(before["recipe.Fired"], now["recipe.Fired"]) == {"at"}


def news(before: dict[str, list[str]], now: dict[str, list[str]]) -> set[str]:
    """The records and fields that are new."""
    fields = {
        f"{name}.{field}"
        for name in now.keys() & before.keys()
        for field in plain(now[name]) - plain(before[name])
    }
    return fields | (now.keys() - before.keys())


def unwritten(before: list[str], now: list[str]) -> set[str]:
    """The fields that a release wants and that are no longer written, where the record still is."""
    return {field.rstrip("!") for field in before if field.endswith("!")} - plain(now) if now else set()


def plain(fields: list[str]) -> set[str]:
    """The names of fields."""
    return {field.rstrip("!") for field in fields}


@pytest.mark.parametrize("written", [pytest.param("by the wheel", marks=pytest.mark.soak), "and kept"])
def test_runs_of_a_release_go_on_with_this_narval_and_back(
    written: str, release: Path, python: Path, tmp_path: Path
) -> None:
    this = new_home(tmp_path / "home")
    old = Released(this.home, python)
    if written == "and kept":
        put(this.home, release)
    else:
        begin(old)
    with this.running():
        before = states(this)
        assert {name for name, _ in before} == set(BEGUN)
        assert {state for _, state in before} <= UNDER_WAY
        does(this, "add", "-", given=b"<go/>")
        until(lambda: ("w.waits", "done") in states(this), "one plan has gone on")
        does(this, "complete", eid(this, "desk.order"), "enter")
        does(this, "start", "w.ends")
        until(lambda: ("w.ends", "done") in states(this), "a new run")
    add_to_tables(this.home)
    with old.running():
        assert this.ask("status")["version"] == version_of(release)
        does(old, "add", "-", given=b"<go/>")
        order, door = eid(this, "desk.order"), eid(this, "guard.door")  # commands of this ask its daemon
        for node in ("bill", "ship"):
            does(this, "complete", order, node)
        does(this, "signal", door, "open")
        until(lambda: not UNDER_WAY & {state for _, state in states(this)}, "all have ended")
        ended = states(old)
    assert len(this.ask("memory", "told")) == 3, "each told once"
    assert states(this) == ended
    assert "failed" not in {state for _, state in states(this)}


def add_to_tables(home: Path) -> None:
    """Have the store of a home tables that only have more than those of this narval, as a later one may."""
    with closing(sqlite3.connect(home / "var" / "store.db")) as store, store:
        store.execute("ALTER TABLE runs ADD COLUMN colour TEXT")
        store.execute("UPDATE version SET number = ?", (HEAD + 1,))
        store.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (STORE, TABLES_FOR, str(HEAD)))


@pytest.mark.soak
def test_daemons_of_two_releases_share_a_store(release: Path, python: Path, tmp_path: Path) -> None:
    with fresh_schema(shared_server()) as url:
        this, other = (new_home(tmp_path / name) for name in ("attic", "barn"))
        for home, name in ((this, "attic"), (other, "barn")):
            home.write("etc/narval.toml", f"name = '{name}'\nstore = '{url}'\n")
        old = Released(other.home, python)
        with old.running():
            does(old, "agents", "add", "ada")
            does(old, "--agent", "ada", "add", "-", given=b"<memory><mail n='1'/><mail n='2'/></memory>")
            does(old, "--agent", "ada", "start", "w.waits")
            with this.running():
                listed = this.ask("status")["fleet"]
                assert {daemon["home"]: daemon["version"] for daemon in listed}["barn"] == version_of(release)
                does(old, "stop", "--drain")
                until(lambda: owner(this, "ada") == "attic", "ada is at work at the new one")
                does(this, "--agent", "ada", "add", "-", given=b"<go/>")
                until(lambda: this.ask("--agent", "ada", "runs")[0]["state"] == "done", "its plan has ended")
                does(this, "--agent", "ada", "start", "w.waits")
                with old.running():
                    does(this, "stop", "--drain")
                    until(lambda: owner(old, "ada") == "barn", "ada is back at the old one")
                    does(old, "--agent", "ada", "add", "-", given=b"<go/>")
                    until(
                        lambda: {run["state"] for run in old.ask("--agent", "ada", "runs")} == {"done"},
                        "what the new one began has ended",
                    )


def owner(narval: Narval, agent: str) -> str:
    """The home where an agent is at work."""
    return next(str(row.get("owner") or "") for row in narval.ask("agents") if row["name"] == agent)
