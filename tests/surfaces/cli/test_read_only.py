"""A home that one may only read can be looked at, and is left as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from narval.core.errors import OperatorError
from narval.files.home import Home
from tests.surfaces.cli.command_line import data, make_home, narval, well


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two runs, of which nothing may be written any more."""
    made = make_home(tmp_path / "home")
    narval(made, "start", "demo.greet", "-", "--wait", given="<name>Ann</name>")
    narval(made, "start", "demo.fail", "--wait")
    locked = Home.lock

    @contextmanager
    def lock(self: Home, *, as_daemon: bool = False) -> Iterator[None]:
        if self.var.parent == made:
            raise OperatorError("the home cannot be written")
        with locked(self, as_daemon=as_daemon):
            yield

    monkeypatch.setattr(Home, "lock", lock)
    return made


def state(home: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in home.rglob("*") if path.is_file())
    return {str(path): (os.stat(path).st_mtime_ns, path.read_bytes()) for path in files}


def test_it_can_be_looked_at_and_nothing_of_it_changes(home: Path) -> None:
    before = state(home)
    failed, done = data(home, "runs")
    assert [done["state"], failed["state"]] == ["done", "failed"]
    assert [step["state"] for step in data(home, "show", done["eid"])["steps"]] == ["history", "done"]
    assert data(home, "memory", "greeting")[0]["xml"].endswith("Hello Ann</greeting>")
    assert data(home, "history", failed["eid"])[-1]["what"] == "Finish"
    assert data(home, "why", failed["eid"])["reason"]
    assert data(home, "status")["home"] == str(home)
    assert len(data(home, "log")) > 0
    assert well(home, "show", failed["eid"], "--dot")
    assert state(home) == before


CHANGING = [("add", "-"), ("start", "demo.greet"), ("cancel", "1"), ("retry", "1")]


@pytest.mark.parametrize("arguments", CHANGING)
def test_what_would_change_it_is_refused(home: Path, arguments: tuple[str, ...]) -> None:
    before = state(home)
    result = narval(home, *arguments, given="<name/>")
    assert (result.exit_code, "the home cannot be written" in result.stderr) == (1, True)
    assert state(home) == before


def test_a_home_that_cannot_be_locked_says_that_one_may_look(tmp_path: Path) -> None:
    (tmp_path / "var" / "lock").mkdir(parents=True)
    said = f"{tmp_path} cannot be written: Is a directory: .*; commands that only look at a home work"
    with pytest.raises(OperatorError, match=said), Home(tmp_path).lock():
        pass
