"""The control socket: its answers, its limits, and that no client harms the daemon or other clients."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest

from narval.core.errors import DaemonGoneError, InternalError, OperatorError, RequestError
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from tests.surfaces.control.served import answers, ended, raw, read, request, serving, until

# --- answers --------------------------------------------------------------------------------------------


def test_a_client_gets_the_answer_to_what_it_asked(folder: Path) -> None:
    with serving(folder) as (_, path), Client(path) as client:
        assert client.ask("echo", a=1, b="é", c=b"\x00\xff", d=[None, True, 2.5], e={"f": []}) == {
            "a": 1,
            "b": "é",
            "c": b"\x00\xff",
            "d": [None, True, 2.5],
            "e": {"f": []},
        }
        assert client.ask("echo") == {}


def test_a_parameter_may_have_any_name(folder: Path) -> None:
    names = dict.fromkeys(("method", "params", "path", "client", "number"), 1)
    with serving(folder) as (_, path), Client(path) as client:
        assert client.ask("echo", **names) == names


def test_requests_on_one_connection_are_answered_as_they_end(folder: Path) -> None:
    with serving(folder) as (_, path):
        connection = raw(path)
        connection.sendall(request(7, "gated") + request(8, "echo", a=1) + request(9, "open"))
        answers = [read(connection) for _ in range(3)]
        assert {answer[1]: answer[3] for answer in answers} == {7: "through", 8: {"a": 1}, 9: None}
        assert [answer[1] for answer in answers].index(7) > 0
        connection.close()


def test_a_long_list_comes_in_parts_and_is_whole_at_the_other_end(folder: Path) -> None:
    with serving(folder) as (_, path):
        connection = raw(path)
        connection.sendall(request(1, "many", count=300, size=4000))
        kinds, eids = [], []
        while not kinds or kinds[-1] == wire.PART:
            kind, number, error, items = read(connection)
            assert (number, error) == (1, None)
            kinds.append(kind)
            eids += [item["eid"] for item in items]
        assert eids == list(range(300))
        assert len(kinds) > 3
        connection.close()
        with Client(path) as client:
            assert [item["eid"] for item in client.ask("many", count=300, size=4000)] == list(range(300))
            assert client.ask("many", count=0, size=0) == []


def test_an_answer_larger_than_a_frame_may_come_as_a_list(folder: Path) -> None:
    with serving(folder) as (_, path), Client(path) as client:
        assert len(client.ask("many", count=40, size=1_000_000)) == 40


def test_other_answers_come_between_the_parts_of_a_long_one(folder: Path) -> None:
    with serving(folder) as (_, path):
        connection = raw(path)
        connection.sendall(request(1, "many", count=40, size=200_000) + request(2, "echo"))
        order = []
        while not order or order[-1] != (wire.REPLY, 1):
            kind, number, _, _ = read(connection)
            order.append((kind, number))
        assert (wire.REPLY, 2) in order
        connection.close()


def test_an_operation_that_breaks_is_told_and_costs_nobody_else_anything(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(folder) as (_, path), Client(path) as client:
        with pytest.raises(InternalError, match="ZeroDivisionError"):
            client.ask("break")
        with pytest.raises(InternalError, match="plain data"):
            client.ask("object")
        with pytest.raises(RequestError, match="ask for less"):
            client.ask("huge")
        assert client.ask("echo") == {}
    assert "a fault of ours" in caplog.text


def test_text_that_is_no_unicode_does_not_break_the_answer(folder: Path) -> None:
    with serving(folder) as (_, path), Client(path) as client:
        assert client.ask("echo", path="caf\udce9.xml") == {"path": "caf\\udce9.xml"}


# --- who may ask ----------------------------------------------------------------------------------------


def test_the_socket_is_for_its_user_alone(folder: Path) -> None:
    folder.chmod(0o755)
    with serving(folder) as (_, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_ISSOCK(path.stat().st_mode)


def test_a_program_of_another_user_is_refused_and_told_why(folder: Path) -> None:
    stranger = os.geteuid() + 1234
    with serving(folder, uid_of=lambda connection: stranger) as (daemon, path):
        with pytest.raises(OperatorError, match=f"not user {stranger}"):
            Client(path)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        with suppress(BrokenPipeError):
            connection.sendall(request(1, "open"))
        assert read(connection)[0] == wire.GREETING
        assert ended(connection)
        connection.close()
        assert daemon.fake.finished == []


def test_root_is_let_in(folder: Path) -> None:
    with serving(folder, uid_of=lambda connection: 0) as (_, path), Client(path) as client:
        assert client.ask("echo") == {}


def test_the_system_tells_whose_program_it_is(folder: Path) -> None:
    from narval.surfaces.control.peer_credentials import peer_uid

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


# --- the socket's file ----------------------------------------------------------------------------------


def test_a_stale_socket_is_replaced_and_none_is_left_behind(folder: Path) -> None:
    path = folder / "socket"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    assert Client.reach(path) is None
    with serving(folder) as (_, path):
        assert answers(path)
    assert not path.exists()
    assert Client.reach(path) is None


def test_a_path_longer_than_the_system_takes_for_a_socket_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True, mode=0o700)
    with serving(deep) as (_, path), Client(path) as client:
        assert len(str(path)) > 200
        assert client.ask("echo", a=1) == {"a": 1}


# --- bad input ------------------------------------------------------------------------------------------


def test_a_frame_too_long_is_refused_before_it_is_read(folder: Path) -> None:
    with serving(folder) as (_, path):
        for size in (wire.MOST + 1, 2**32 - 1, 0):
            connection = raw(path)
            connection.sendall(size.to_bytes(4, "big"))
            kind, number, error, _ = read(connection)
            assert (kind, number, error["class"]) == (wire.REPLY, None, "RequestError")
            assert f"{size:,}" in error["message"]
            assert ended(connection)
            connection.close()
        with pytest.raises(RequestError, match="ask for less"), Client(path) as client:
            client.ask("echo", elements=[b"x" * (wire.MOST + 1)])


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"\x93\x00\x01",
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffab",
        b"\x94\x00\x01\xa1\xff\x80",
        b"\x94\x00\x01\xa4echo\x81\x90\x01",
        msgpack.packb([0, 1, "echo", {}]) + b"\x00",
        msgpack.packb([1, 1, None, None]),
        msgpack.packb([False, 1, "echo", {}]),
        msgpack.packb([0, None, "echo", {}]),
        msgpack.packb([0, True, "echo", {}]),
        msgpack.packb([0, 1, b"echo", {}]),
        msgpack.packb([0, 1, "echo", []]),
        msgpack.packb([0, 1, "echo", {b"a": 1}]),
        msgpack.packb([0, 1, "echo"]),
        msgpack.packb([0, 1, "echo", {}, []]),
        msgpack.packb([0, 1, "echo", {}, "ann"]),
        msgpack.packb([0, 1, "echo", {}, {"as": None}]),
        msgpack.packb([0, 1, "echo", {}, {"as": ""}]),
        msgpack.packb([0, 1, "echo", {}, {"session": "7"}]),
        msgpack.packb([0, 1, "echo", {}, {"as": "ann", "session": 7}]),
        msgpack.packb([0, 1, "echo", {}, {"agent": 3}]),
        msgpack.packb([0, 1, "echo", {}, {"scope": "read"}]),
        msgpack.packb([0, 1, "echo", {}, {}, {}]),
        msgpack.packb({"type": 0}),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_its_connection_alone(folder: Path, body: bytes) -> None:
    with serving(folder) as (daemon, path):
        other, connection = raw(path), raw(path)
        connection.sendall(len(body).to_bytes(4, "big") + body)
        kind, number, error, _ = read(connection)
        assert (kind, number, error["class"]) == (wire.REPLY, None, "RequestError")
        assert ended(connection)
        other.sendall(request(1, "echo"))
        assert read(other)[3] == {}
        other.close()
        connection.close()
        assert daemon.fake.finished == ["echo"]


def test_an_operation_that_does_not_exist_is_an_error_of_who_asked(folder: Path) -> None:
    with serving(folder) as (_, path), Client(path) as client:
        with pytest.raises(RequestError, match="frobnicate"):
            client.ask("frobnicate")
        assert client.ask("echo") == {}


@pytest.mark.parametrize("sent", [b"\x00", b"\x00\x00\x00", b"\x00\x00\x00\x09", b"\x00\x00\x00\x09abc"])
def test_half_a_frame_is_given_up_after_a_while(folder: Path, sent: bytes) -> None:
    with serving(folder, frame=0.05) as (_, path):
        connection = raw(path)
        connection.sendall(sent)
        assert ended(connection)
        connection.close()
        assert answers(path)


def test_a_connection_without_requests_is_closed_but_not_one_that_waits(folder: Path) -> None:
    with serving(folder, idle=0.05) as (_, path):
        waiting, idle = raw(path), raw(path)
        waiting.sendall(request(1, "gated"))
        assert ended(idle)
        with Client(path) as client:
            client.ask("open")
        assert read(waiting)[3] == "through"
        waiting.close()
        idle.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is told to come back does not."""
    monkeypatch.setattr("narval.surfaces.control.client.PAUSE", 1000.0)


@pytest.mark.usefixtures("at_once")
def test_more_connections_than_allowed_are_told_to_come_back(folder: Path) -> None:
    with serving(folder, connections=2, mute=600.0) as (daemon, path):
        first, second = raw(path), raw(path)
        with pytest.raises(DaemonGoneError, match="busy with 2 programs"):
            Client(path)
        first.close()
        until(lambda: daemon.server.connections < 2)
        assert answers(path)
        second.close()


def test_who_asks_nothing_makes_room_for_who_does(folder: Path) -> None:
    with serving(folder, connections=3, mute=0.05) as (daemon, path):
        waiting, half, silent = raw(path), raw(path), raw(path)
        waiting.sendall(request(1, "gated"))
        half.sendall(request(1, "echo")[:5])
        until(lambda: daemon.fake.running == 1)
        assert answers(path)
        assert answers(path)
        assert ended(half)
        with Client(path), Client(path) as client:
            assert client.ask("echo", a=1) == {"a": 1}
            assert ended(silent)
            client.ask("open")
        assert read(waiting)[1] == 1
        for connection in (waiting, half, silent):
            connection.close()


@pytest.mark.usefixtures("at_once")
def test_who_waits_takes_nobodys_place(folder: Path) -> None:
    with serving(folder, connections=1, waiting=2, mute=600.0) as (daemon, path):
        waiting = [raw(path)]
        waiting[0].sendall(request(1, "gated", wait=60.0))
        until(lambda: daemon.fake.running == 1)
        waiting.append(raw(path))
        waiting[1].sendall(request(1, "gated", wait=60.0))
        until(lambda: daemon.fake.running == 2)
        with pytest.raises(DaemonGoneError, match="busy with 2 programs"):
            Client(path)
        waiting.pop().close()
        until(lambda: daemon.server.connections < 2)
        with Client(path) as client:
            client.ask("open")
        assert read(waiting[0])[3] == "through"
        waiting[0].close()


def test_a_flood_waits_in_its_own_socket_and_others_are_answered(folder: Path) -> None:
    with serving(folder, requests=4) as (daemon, path):
        flood = raw(path)
        flood.settimeout(0.2)
        with pytest.raises(TimeoutError):
            flood.sendall(b"".join(request(number, "gated") for number in range(200_000)))
        until(lambda: daemon.fake.running == 4)
        with Client(path) as client:
            assert client.ask("echo", a=1) == {"a": 1}
            assert daemon.fake.most <= 5
            client.ask("open")
        flood.settimeout(60)
        assert {read(flood)[3] for _ in range(50)} == {"through"}
        flood.close()


def test_a_peer_that_does_not_read_its_answers_is_hung_up_on(folder: Path) -> None:
    with serving(folder, frame=0.1, requests=4) as (daemon, path):
        deaf = raw(path)
        for number in range(4):
            deaf.sendall(request(number, "many", count=100, size=100_000))
        until(lambda: not daemon.server.connections)
        assert answers(path)
        deaf.close()


def test_what_was_asked_in_full_is_done_although_who_asked_has_gone(folder: Path) -> None:
    with serving(folder) as (daemon, path):
        connection = raw(path)
        connection.sendall(request(1, "slow", seconds=0.05))
        connection.close()
        until(lambda: daemon.fake.finished == ["slow"])


def test_who_only_ends_its_sending_still_gets_the_answer(folder: Path) -> None:
    with serving(folder) as (_, path):
        connection = raw(path)
        connection.sendall(request(1, "slow", seconds=0.05))
        connection.shutdown(socket.SHUT_WR)
        assert read(connection)[3] == 0.05
        assert ended(connection)
        connection.close()


def test_waiting_for_who_has_gone_ends_after_a_grace(folder: Path) -> None:
    with serving(folder, grace=0.05) as (daemon, path):
        connection = raw(path)
        connection.sendall(request(1, "gated"))
        until(lambda: daemon.fake.running == 1)
        connection.close()
        until(lambda: daemon.fake.cancelled == ["gated"])


def test_a_daemon_that_ends_tells_those_who_wait(folder: Path) -> None:
    with serving(folder, closing=0.05) as (daemon, path):
        waiting, deaf = raw(path), raw(path)
        waiting.sendall(request(1, "gated"))
        deaf.sendall(request(1, "many", count=100, size=100_000))
        until(lambda: daemon.fake.running == 1)
        daemon.end()
        _, number, error, _ = read(waiting)
        assert (number, error["class"]) == (1, "UnansweredError")
        assert ended(waiting)
        assert daemon.left == []
        waiting.close()
        deaf.close()
