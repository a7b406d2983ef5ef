"""The daemon as a service: notifications of a service manager, and the log in the journal."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.home import PATIENCE, Narval, make, one_step
from tests.places import ROOT

MODULE = """
from pathlib import Path
from narval import action

HERE = Path(__file__).parent

@action(runs="inline")
def hang():
    (HERE / "hanging").touch()
    with (HERE / "pipe").open("rb") as pipe:  # the loop itself hangs, until something is written
        pipe.read()
"""


@pytest.fixture
def narval(tmp_path: Path) -> Narval:
    return make(tmp_path / "home", module=MODULE, recipes=one_step("hang", "w.hang"))


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE)
        yield listening


def begun(narval: Narval, **environ: str) -> subprocess.Popen[bytes]:
    kept = {**os.environ, **environ}
    log = (narval.home / "stderr").open("wb")
    status = os.fstat(log.fileno())
    kept["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
    with log:
        return subprocess.Popen(narval.line("run"), stdout=subprocess.PIPE, stderr=log, env=kept)


def messages(manager: socket.socket) -> Iterator[str]:
    while True:
        yield manager.recv(4096).decode()


def test_the_manager_is_notified_of_readiness_reload_and_stop(narval: Narval, manager: socket.socket) -> None:
    daemon = begun(narval, NOTIFY_SOCKET=manager.getsockname())
    assert next(messages(manager)) == "READY=1\nSTATUS=0 runs under way, 0 calls running"
    daemon.send_signal(signal.SIGHUP)
    assert next(messages(manager)).startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert next(messages(manager)) == "READY=1"
    daemon.send_signal(signal.SIGTERM)
    assert next(messages(manager)) == "STOPPING=1\nSTATUS=stopping"
    daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 0


def test_a_loop_that_hangs_is_not_alive(narval: Narval, manager: socket.socket) -> None:
    os.mkfifo(narval.home / "modules" / "pipe")
    daemon = begun(narval, NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="200000")
    received = messages(manager)
    words = {next(received).partition("\n")[0] for _ in range(3)}
    assert words == {"READY=1", "WATCHDOG=1"}
    asking = subprocess.Popen(narval.line("start", "w.hang"), stdout=subprocess.DEVNULL)
    while not (narval.home / "modules" / "hanging").exists():
        time.sleep(0.01)
    manager.setblocking(False)
    with suppress(BlockingIOError):
        while manager.recv(4096):
            pass
    time.sleep(1.0)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)
    manager.settimeout(PATIENCE)
    (narval.home / "modules" / "pipe").write_bytes(b"go on")
    assert next(received).startswith("WATCHDOG=1")
    asking.communicate(timeout=PATIENCE)
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 0


def test_the_journal_has_the_log_and_the_file_says_so(narval: Narval, manager: socket.socket) -> None:
    daemon = begun(narval, NOTIFY_SOCKET=manager.getsockname())
    next(messages(manager))
    logged = [line["message"] for line in narval.ask("log")]
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=PATIENCE)
    written = (narval.home / "stderr").read_text().splitlines()
    assert any(line.startswith("<6>narval.daemon: started on") for line in written)
    assert any(line.startswith("<6>narval.daemon: stopped") for line in written)
    assert all(line.startswith("<") for line in written)
    kept = narval.ask("log")
    assert "journalctl" in kept[-1]["message"]
    assert kept[-1]["message"] in logged
    again = narval.ask("run", "--until-idle")
    assert again["idle"]
    assert narval.ask("log")[-1]["message"] == "stopped"


def test_a_second_interruption_ends_it_at_once_and_loses_nothing(narval: Narval) -> None:
    os.mkfifo(narval.home / "modules" / "pipe")
    narval.write("modules/w.py", MODULE.replace('runs="inline"', 'runs="thread"'))
    run = narval.ask("start", "w.hang")["eid"]
    daemon = narval.daemon()
    assert daemon.stdout is not None
    assert b"is ready" in daemon.stdout.readline()
    while not (narval.home / "modules" / "hanging").exists():
        time.sleep(0.01)
    daemon.send_signal(signal.SIGINT)
    assert daemon.stderr is not None
    assert b"interrupt it again" in daemon.stderr.readline()
    daemon.send_signal(signal.SIGINT)
    daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == 130
    assert narval.ask("show", str(run))["phase"] == "active"
    assert narval.ask("status")["calls_left"] == 1


def test_the_unit_names_this_program_and_this_home(narval: Narval, tmp_path: Path) -> None:
    home = tmp_path / "a home, 100% odd"
    shutil.copytree(narval.home, home)
    text = Narval(home)("service").stdout.decode()
    shipped = (ROOT / "etc" / "narval.service").read_text()
    (line,) = [line for line in text.splitlines() if line not in shipped.splitlines()]
    assert line.startswith("ExecStart=/")
    assert line.endswith(f'-m narval --home "{str(home).replace("%", "%%")}" run')


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(narval: Narval, tmp_path: Path) -> None:
    unit = tmp_path / "narval.service"
    unit.write_bytes(narval("service").stdout)
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)], capture_output=True, env=environ, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_home_with_a_long_path_and_its_copy_never_meet(tmp_path: Path) -> None:
    first = make(tmp_path / ("a" * 60) / ("b" * 60) / "first")
    with first.running():
        assert first.ask("status")["home"] == str(first.home)
        second = Narval(first.home.with_name("second"))
        shutil.copytree(first.home, second.home)
        assert second.ask("status")["state"] == "stopped"
        with second.running():
            homes = [narval.ask("status") for narval in (first, second)]
            assert [found["home"] for found in homes] == [str(first.home), str(second.home)]
            assert [found["state"] for found in homes] == ["running", "running"]
        assert first.ask("status")["state"] == "running"
