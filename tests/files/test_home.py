"""A home: its path, its folder `var/`, its one holder, and its socket."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.errors import HomeHeldError, NoHomeError, OperatorError
from narval.files.home import Holder, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home" / "recipes").mkdir(parents=True)
    return Home(tmp_path / "home")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- finding --------------------------------------------------------------------------------------------


def test_the_option_comes_before_the_environment_and_that_before_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("option", "environment", ".narval"):
        (tmp_path / name / "etc").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"NARVAL_HOME": str(tmp_path / "environment")}
    assert Home.find(tmp_path / "option", environ).path == tmp_path / "option"
    assert Home.find(None, environ).path == tmp_path / "environment"
    assert Home.find(None, {}).path == tmp_path / ".narval"
    assert Home.find("~/option", {}).path == tmp_path / "option"


def test_a_relative_home_stays_where_it_was_when_the_program_moves(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = Home.find("home", {})
    monkeypatch.chdir("/")
    assert found.path == home.path
    assert found.exists()


def test_where_there_is_no_home_the_message_names_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoHomeError) as raised:
        Home.find(tmp_path / "nowhere", {})
    assert str(raised.value) == (
        f"expected a home, but {tmp_path}/nowhere is not there; make one: narval init {tmp_path}/nowhere"
    )
    with pytest.raises(NoHomeError, match="is no home; make one: narval init"):
        Home.find(tmp_path, {})
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoHomeError, match=r"or name another: narval --home DIR$"):
        Home.find(None, {})


def test_looking_for_a_home_touches_nothing(home: Home) -> None:
    Home.find(home.path, {})
    assert [path.name for path in home.path.iterdir()] == ["recipes"]


def test_every_path_of_a_home(home: Home) -> None:
    expected = {
        "recipes": "recipes",
        "modules": "modules",
        "inbox": "inbox",
        "var": "var",
        "settings": "etc/narval.toml",
        "schemas": "etc/schemas",
        "memory": "data/memory.xml",
        "store": "var/store.db",
        "log": "var/narval.log",
    }
    assert {name: str(getattr(home, name).relative_to(home.path)) for name in expected} == expected


# --- var ------------------------------------------------------------------------------------------------


def test_var_is_for_its_owner_alone(home: Home) -> None:
    home.var.mkdir(mode=0o755)
    home.prepare()
    assert mode(home.var) == 0o700


def test_var_of_another_user_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(OperatorError, match=f"belongs to user {other - 1}, not to you"):
        home.prepare()


def test_var_that_is_no_folder_is_refused(home: Home) -> None:
    home.var.write_text("")
    with pytest.raises(OperatorError, match="expected a folder one may write in"):
        home.prepare()


# --- one holder -----------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from narval.files.home import Home
with Home(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""

FORKING = """
import os, signal, sys
from narval.files.home import Home
with Home(sys.argv[1]).lock():
    if os.fork() == 0:
        if os.fork() == 0:
            print("forked twice", flush=True)
        signal.pause()
    signal.pause()
"""

LEAVING = """
import os, sys
from narval.files.home import Home
with Home(sys.argv[1]).lock():
    pass
ended, alive = os.pipe()
if os.fork() == 0:
    os.close(alive)
    os.read(ended, 1)
    print("the child outlives its parent", flush=True)
"""


@pytest.fixture
def holding(home: Home) -> Iterator[subprocess.Popen[str]]:
    """Another program that holds the home until its input ends."""
    program = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "held\n"
    yield program
    program.kill()
    program.communicate()


def test_the_holder_of_a_home_is_named(home: Home, holding: subprocess.Popen[str]) -> None:
    holder = home.holder()
    assert holder is not None
    assert holder.pid == holding.pid
    with pytest.raises(HomeHeldError) as raised, home.lock():
        pass
    what = "it is not a daemon, but a program that works on the home; wait for its end, or end it"
    assert str(raised.value) == f"{home.path} is held by {holder}; {what}"
    alone = home.held_by(holder._replace(is_daemon=True))
    gone = f"its socket is gone, unless it is starting or ending; `kill {holder.pid}` ends it well"
    assert str(alone).endswith(f"; {gone}")
    home.socket().touch()
    asked = home.held_by(holder._replace(is_daemon=True))
    assert str(asked).endswith("; see it: narval status; stop it: narval stop")
    assert "is open in this program already" in str(home.held_by(holder._replace(pid=os.getpid())))
    assert str(holder).startswith(f"program {holding.pid} since 20")


def test_N35_a_home_is_free_when_its_holder_was_killed(home: Home, holding: subprocess.Popen[str]) -> None:
    holding.send_signal(signal.SIGKILL)
    holding.wait()
    assert (home.var / "lock").read_bytes() != b""
    assert home.holder() is None
    with home.lock():
        holder = home.holder()
        assert holder is not None
        assert holder.pid == os.getpid()


def test_N35_a_home_is_free_when_its_holder_was_killed_whose_forked_child_still_works(home: Home) -> None:
    """A child that `multiprocessing` forks has a copy of the lock, and would keep the home for ever."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"forked twice\n"
        holder.kill()
        home.wait_until_released()
        with home.lock():
            pass


def test_a_child_that_is_forked_after_the_home_was_closed_outlives_its_parent(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(home.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "the child outlives its parent\n"


def test_a_home_is_free_when_its_holder_is_done(home: Home, holding: subprocess.Popen[str]) -> None:
    holding.communicate("")
    assert home.holder() is None
    assert (home.var / "lock").read_bytes() == b""


def test_a_home_is_held_once_within_a_program_too(home: Home) -> None:
    with home.lock():
        with (
            pytest.raises(HomeHeldError, match="open in this program already"),
            Home(home.path).lock(),
        ):
            pass
        assert home.holder() is not None
    with home.lock():
        pass
    assert home.holder() is None


def test_a_home_is_let_go_when_its_holder_fails(home: Home) -> None:
    with pytest.raises(ZeroDivisionError), home.lock():
        raise ZeroDivisionError
    assert home.holder() is None


def test_a_holder_that_has_not_written_its_number_yet(home: Home) -> None:
    with home.lock():
        (home.var / "lock").write_bytes(b"")
        assert home.holder() == Holder()
        with pytest.raises(HomeHeldError, match="is held by another program"), Home(home.path).lock():
            pass


def test_a_home_that_was_never_opened_has_no_holder(home: Home) -> None:
    assert home.holder() is None
    assert not home.var.exists()


def test_looking_for_the_holder_does_not_lock_others_out(home: Home) -> None:
    done = threading.Event()
    with home.lock():
        pass

    def look() -> None:
        while not done.is_set():
            home.holder()

    onlooker = threading.Thread(target=look)
    onlooker.start()
    try:
        for _ in range(200):
            with home.lock():
                pass
    finally:
        done.set()
        onlooker.join()


# --- the control socket ---------------------------------------------------------------------------------


@pytest.fixture
def deep(tmp_path: Path) -> Home:
    """A home whose path is too long for a socket in it."""
    path = tmp_path / ("a" * 60) / ("b" * 60)
    (path / "etc").mkdir(parents=True)
    return Home(path)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short path."""
    path = Path(os.path.realpath("/tmp")) / f"narval-test-{os.getpid()}"
    path.mkdir()
    yield path
    shutil.rmtree(path)


def test_the_socket_is_in_var(tmp_path: Path) -> None:
    home = Home("/srv/home")
    assert home.socket({}) == Path("/srv/home/var/control.sock")


def test_a_socket_with_too_long_a_path_goes_to_a_short_one(deep: Home, short: Path) -> None:
    path = deep.socket({"XDG_RUNTIME_DIR": str(short)})
    assert path.name == "control.sock"
    assert path.parent.parent == short
    assert mode(path.parent) == 0o700
    assert len(os.fsencode(path)) <= 107
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert path.exists()


def test_every_program_of_a_home_finds_the_same_socket(deep: Home, short: Path) -> None:
    path = deep.socket({"XDG_RUNTIME_DIR": str(short)})
    assert Home(deep.path).socket({}) == path
    assert Home(deep.path).socket({"XDG_RUNTIME_DIR": "/nowhere"}) == path


@pytest.mark.parametrize("base", ["", "relative", "/nowhere", "/" + "x" * 90])
def test_a_runtime_folder_that_cannot_be_used_is_passed_over(deep: Home, base: str) -> None:
    path = deep.socket({"XDG_RUNTIME_DIR": base})
    try:
        assert len(os.fsencode(path)) <= 107
        assert mode(path.parent) == 0o700
    finally:
        path.parent.rmdir()


def test_a_folder_that_others_may_enter_is_not_trusted(deep: Home, short: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(short)}
    first = deep.socket(environ)
    first.parent.chmod(0o755)
    second = deep.socket(environ)
    assert second != first
    assert mode(second.parent) == 0o700


def test_a_link_in_place_of_the_folder_is_not_trusted(deep: Home, short: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(short)}
    first = deep.socket(environ)
    first.parent.rename(short / "moved")
    first.parent.symlink_to(short / "moved")
    assert deep.socket(environ) != first


def test_a_folder_that_was_swept_away_is_made_anew(deep: Home, short: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(short)}
    first = deep.socket(environ)
    first.parent.rmdir()
    second = deep.socket(environ)
    assert second.parent.is_dir()
    assert deep.socket(environ) == second


def test_a_copy_has_a_socket_of_its_own_and_the_first_home_keeps_its(deep: Home, short: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(short)}
    first = deep.socket(environ)
    copy = Home(deep.path.with_name("copy"))
    shutil.copytree(deep.path, copy.path, symlinks=True)
    assert copy.known_socket() is None
    second = copy.socket(environ)
    assert second.parent != first.parent
    assert (deep.known_socket(), copy.known_socket()) == (str(first), str(second))
    moved = Home(deep.path.rename(deep.path.with_name("moved")))
    assert moved.known_socket() == str(first), "a home that was moved is the same home"
