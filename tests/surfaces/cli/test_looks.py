"""A command that only asks takes no lock, waits for nobody, and alters no byte of the home (N34, N35)."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from narval.files.home import Home
from narval.surfaces.cli.without_daemon import HomeView
from narval.surfaces.control import client
from tests.surfaces.cli.command_line import NAME, begun, daemon, data, ended, line_of, make_home, narval, well


def looks(home: Path) -> list[list[str]]:
    """Every command that only asks, on the first run of the home where it has one."""
    found = [
        ["status"], ["runs"], ["memory"], ["memory", "--count"], ["log"], ["log", "--follow"], ["reload"],
        ["definitions"], ["actions"], ["check"], ["stop"], ["simulate", "demo.await", "--until", "1m"],
    ]  # fmt: skip
    runs = data(home, "runs")
    if runs:
        run = str(runs[-1]["eid"])
        found += [["show", run], ["show", run, "--dot"], ["show", run, "--xml"], ["why", run]]
        first = str(
            data(home, "history", run, "--journal")[0]["seq"]
        )  # a turn of the daemon may come before it
        found += [["history", run], ["history", run, "--follow"], ["history", run, "--at", first]]
    return found


class Print(NamedTuple):
    """What would differ if somebody had written."""

    mode: int
    changed: int
    content: bytes


def prints(home: Path) -> dict[str, Print]:
    """All files and folders of a home. The folders of what Python compiles are its own."""
    found = {}
    for path in [home, *home.rglob("*")]:
        if not path.is_socket() and "__pycache__" not in path.parts:
            known = path.stat()
            written = 0 if path.name == "modules" else known.st_mtime_ns
            found[str(path)] = Print(known.st_mode, written, path.read_bytes() if path.is_file() else b"")
    return found


# --- homes in each state --------------------------------------------------------------------------------


def never_started(home: Path) -> None:
    assert not (home / "var").exists()


def at_rest(home: Path) -> None:
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    well(home, "start", "demo.await")
    assert sorted(path.name for path in (home / "var").glob("store*")) == ["store.db"]


def killed(home: Path) -> None:
    with daemon(home) as running:
        well(home, "start", "demo.greet", "-", "--wait", given=NAME)
        well(home, "start", "demo.await")
        running.kill()
        running.wait()
    assert (home / "var" / "store.db-wal").stat().st_size > 0


def killed_and_without_an_index(home: Path) -> None:
    killed(home)
    (home / "var" / "store.db-shm").unlink()


STATES = [never_started, at_rest, killed, killed_and_without_an_index]


@pytest.mark.parametrize("bring", STATES)
def test_no_byte_is_altered(home: Path, bring: Callable[[Path], None]) -> None:
    bring(home)
    before = prints(home)
    for arguments in looks(home):
        result = narval(home, *arguments)
        assert result.exit_code == 0, (arguments, result.output)
        assert prints(home) == before, arguments


@pytest.mark.parametrize("bring", STATES)
def test_files_that_no_daemon_has_read_yet_count(home: Path, bring: Callable[[Path], None]) -> None:
    bring(home)
    recipe = (home / "recipes" / "demo.xml").read_text().replace('group="demo"', 'group="later"')
    (home / "recipes" / "later.xml").write_text(recipe)
    (home / "data" / "memory.xml").write_text("<memory><letter to='eve'/></memory>")
    before = prints(home)
    assert data(home, "memory", "letter[@to='eve']")
    assert "later.greet" in {found["name"] for found in data(home, "definitions")["definitions"]}
    assert prints(home) == before
    (home / "data" / "memory.xml").write_text("<memory/>")
    assert narval(home, "memory", "letter").exit_code == 1


def test_a_run_that_memory_xml_starts_is_looked_at_though_it_is_recorded_nowhere(home: Path) -> None:
    (home / "data" / "memory.xml").write_text("<memory><start-plan recipe='demo.fail'/></memory>")
    (run,) = data(home, "runs")
    assert run["phase"] == "active"
    assert data(home, "history", run["eid"]) == []
    assert 'name="demo.fail"' in well(home, "show", run["eid"], "--xml")
    assert not (home / "var").exists()
    assert narval(home, "run", "--until-idle").exit_code == 1
    assert [run["phase"] for run in data(home, "runs")] == ["failed"]


def test_a_home_with_a_long_path_is_given_no_folder_for_a_socket(tmp_path: Path) -> None:
    home = make_home(tmp_path / ("a" * 60) / ("b" * 60))
    before = prints(home)
    assert data(home, "status")["state"] == "stopped"
    assert prints(home) == before


# --- beside a holder ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bring", STATES)
def test_a_holder_that_does_not_listen_is_not_waited_for(
    home: Path, bring: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(home)
    monkeypatch.setattr(client, "PATIENCE", 3600.0)
    asked = [arguments for arguments in looks(home) if arguments != ["stop"]]
    (home / "var").mkdir(mode=0o700, exist_ok=True)
    with Home(home).lock():
        for arguments in asked:
            assert narval(home, *arguments).exit_code == 0, arguments
        status = data(home, "status")
        assert (status["state"], status["pid"]) == ("held", os.getpid())
        assert f"program {os.getpid()} holds the home" in well(home, "status")
    assert data(home, "status")["state"] == "stopped"


@pytest.mark.parametrize("bring", STATES)
def test_a_daemon_starts_works_and_ends_while_somebody_looks(
    home: Path, bring: Callable[[Path], None], tmp_path: Path
) -> None:
    bring(home)
    look = HomeView(Home(home))
    try:
        before = look.ask("memory", xpath="name")
        with daemon(home) as running:  # it is ready, and nobody waited
            for number in range(3):
                well(home, "add", "-", given=f"<name n='{number}'/>")
            assert look.ask("memory", xpath="name") == before
            well(home, "stop")
            assert ended(running)[0] == 0
        # It may have folded its log into the file that was read as one that nobody writes.
        assert len(look.ask("memory", xpath="name")) in (len(before), len(before) + 3)
    finally:
        look.close()
    assert len(data(home, "memory", "name")) == len(before) + 3


def test_a_look_in_the_middle_of_which_the_file_is_written_begins_anew(home: Path) -> None:
    at_rest(home)
    look = HomeView(Home(home))
    try:
        assert look.ask("count", xpath="name") == {"count": 1}
        well(home, "add", "-", given=NAME)
        assert look.ask("count", xpath="name") == {"count": 2}
    finally:
        look.close()


def test_a_look_never_keeps_a_daemon_from_starting(home: Path) -> None:
    """Sixty looks in a row and more, while a daemon is started and killed, or ended, three times."""
    well(home, "add", "-", given=NAME)
    over, found = threading.Event(), list[tuple[int, str]]()

    def start_and_kill() -> None:
        for number in range(1_000):
            if over.is_set():
                return
            running = begun(home, "run")
            ready = line_of(running)
            if number % 3:
                running.kill()
            else:
                running.terminate()
            status, out, err = ended(running)
            found.append((status, "" if b"is ready" in ready else ready.decode() + out + err))

    starting = threading.Thread(target=start_and_kill)
    starting.start()
    try:
        for looks_made in count(1):
            result = narval(home, "memory", "name")
            if "the daemon at" not in result.stderr:  # which was asked, and killed before it answered
                assert result.exit_code == 0, result.output
            assert starting.is_alive()
            if looks_made >= 60 and len(found) >= 3:
                break
    finally:
        over.set()
        starting.join()
    assert {status for status, _ in found} <= {-9, 0}
    assert {said for _, said in found} == {""}


# --- homes that one may only read -----------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def stranger() -> Iterator[None]:
    """To be another user than root, who may write everywhere; any other may not write here already."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize("bring", STATES)
def test_a_home_that_one_may_only_read_can_be_looked_at(
    open_folder: Path, bring: Callable[[Path], None]
) -> None:
    home = make_home(open_folder / "home")
    bring(home)
    (home / "var" / "control.sock").unlink(missing_ok=True)
    asked = [["memory", "--count"], ["runs"], ["status"]]
    before = {tuple(arguments): data(home, *arguments) for arguments in asked}
    narval(make_home(open_folder / "other"), "start", "demo.greet")  # imports what is else imported too late
    for path in [*home.rglob("*"), home]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    seen = prints(home)
    try:
        with stranger():
            for arguments in asked:
                assert data(home, *arguments) == before[tuple(arguments)]
            refused = narval(home, "start", "demo.greet")
        assert (refused.exit_code, "var" in refused.stderr) == (1, True)
        assert prints(home) == seen
    finally:
        for path in [home, *home.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
