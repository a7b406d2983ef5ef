"""A real daemon and programs that mean it harm: it refuses them, and answers everybody else."""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from tests.acceptance.home import Narval, make
from tests.fuzz.mutation import spoilt

NOBODY = 65534
FLOOD = 10_000


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Narval]:
    narval = make(tmp_path / "home")
    with narval.running():
        yield narval


def control(home: Narval) -> Path:
    return next((home.home / "var").rglob("control*"))


def connected(path: Path) -> socket.socket:
    """A connection; the greeting is not read."""
    connection = socket.socket(socket.AF_UNIX)
    with wire.address(path) as name:
        connection.connect(name)  # before the time limit is set: it waits where the queue is full
    connection.settimeout(60)
    return connection


def request(number: int, method: str, **params: Any) -> bytes:
    return wire.frame(wire.REQUEST, number, method, params)


def status(path: Path) -> dict[str, Any]:
    """What the daemon says of itself, tried for as long as a person would wait."""
    with Client(path, patience=60.0) as client:
        return dict(client.ask("status"))


def received(connection: socket.socket) -> list[Any]:
    """The next frame."""
    with connection.makefile("rb") as stream:
        size = int.from_bytes(stream.read(wire.HEADER), "big")
        return wire.fields(stream.read(size))


def test_another_user_cannot_even_reach_the_socket_and_is_refused_if_he_does(home: Narval) -> None:
    path = control(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    if os.geteuid() != 0:
        return  # only root can become another user: the modes are what can be seen
    assert _tried_by_nobody(path) == "PermissionError"
    for folder in (path, *list(path.parents)[:-1]):  # every door open: the peer's own credentials are left
        with suppress(PermissionError):
            folder.chmod(folder.stat().st_mode | 0o777 if folder == path else folder.stat().st_mode | 0o711)
    answer = json.loads(_tried_by_nobody(path))
    assert answer["class"] == "OperatorError"
    assert f"not user {NOBODY}" in answer["message"]
    assert status(path)["state"] == "running"


def _tried_by_nobody(path: Path) -> str:
    """The answer that a program of another user gets, or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = json.dumps(received(connected(path))[2])
        except OSError as error:
            answer = type(error).__name__
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return answer


def test_ten_thousand_silent_connections_lock_others_out_only_briefly(home: Narval) -> None:
    path = control(home)
    daemon = psutil.Process(status(path)["pid"])
    before = daemon.memory_info().rss
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left: list[socket.socket] = []
    most = min(1000, soft // 2)
    for number in range(FLOOD):
        left.append(connected(path))
        if len(left) > most:  # the oldest is left without a word, as the rest will be
            left.pop(0).close()
        if number % 2500 == 2499:
            for peer in left:
                peer.close()
            left.clear()
            assert status(path)["state"] == "running"
    assert daemon.memory_info().rss - before < 32 * 1024 * 1024


def test_silent_connections_leave_a_daemon_with_few_descriptors_answering(tmp_path: Path) -> None:
    narval = make(tmp_path / "home")
    daemon = narval.limited(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48)))
    try:
        assert daemon.stdout is not None
        assert b"is ready" in daemon.stdout.readline()
        path = control(narval)
        silent = [connected(path) for _ in range(60)]
        for _ in range(3):
            assert status(path)["pid"] == daemon.pid
        for connection in silent:
            connection.close()
    finally:
        daemon.terminate()
        errors = daemon.communicate()[1]
    assert len(errors) < 2000
    assert daemon.returncode == 0


def test_slow_and_half_frames_and_rubbish_do_not_lock_others_out(home: Narval) -> None:
    path, chance = control(home), random.Random(0)
    good = (request(1, "status"), request(2, "memory", xpath="*"))
    slow = [connected(path) for _ in range(20)]
    for number in range(300):
        for peer in slow:
            with suppress(OSError):
                peer.send(good[0][number % 7 : number % 7 + 1])  # a byte at a time, never a frame
        with connected(path) as rude, suppress(OSError):
            kind = chance.randrange(4)
            data = spoilt(chance, good) if kind else (2**32 - 1).to_bytes(4, "big") + b"x"
            rude.sendall(data)
            if kind == 1:
                rude.shutdown(socket.SHUT_WR)
    assert status(path)["state"] == "running"
    for peer in slow:
        peer.close()


def test_a_flood_of_requests_does_not_keep_status_waiting(home: Narval) -> None:
    path = control(home)
    floods = [connected(path) for _ in range(8)]
    asked = b"".join(request(number, "memory", xpath="*") for number in range(2000))
    for peer in floods:
        peer.setblocking(False)
        with suppress(BlockingIOError):
            peer.send(asked)
    for _ in range(20):
        assert status(path)["state"] == "running"
        for peer in floods:
            with suppress(OSError):
                peer.send(asked)
                peer.recv(1 << 20)
    for peer in floods:
        peer.close()
