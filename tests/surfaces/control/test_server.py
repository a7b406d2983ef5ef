"""The control socket: what it answers, and that nothing sent to it harms the daemon or the other programs."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval import errors
from narval.errors import (
    ActionError,
    DaemonGoneError,
    DefinitionError,
    ElementError,
    Fault,
    InternalError,
    NarvalError,
    OperatorError,
    PatternError,
    RequestError,
)
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from narval.surfaces.control.server import ControlLimits, ControlServer


class Fake:
    """Stands in for the operations: each method shows one thing about the socket."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.finished: list[str] = []
        self.cancelled: list[str] = []
        self.running = self.most = 0

    async def invoke(self, name: str, arguments: dict[str, Any]) -> Any:
        method = getattr(self, f"do_{name}", None)
        if method is None:
            raise RequestError(f"expected an operation, got {name!r}")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            result = await method(**arguments)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.running -= 1
        self.finished.append(name)
        return result

    async def do_echo(self, **arguments: Any) -> Any:
        return arguments

    async def do_gated(self) -> str:
        await self.gate.wait()
        return "through"

    async def do_open(self) -> None:
        self.gate.set()

    async def do_slow(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def do_many(self, count: int, size: int) -> list[dict[str, Any]]:
        return [{"eid": eid, "xml": "x" * size} for eid in range(count)]

    async def do_huge(self) -> dict[str, str]:
        return {"xml": "x" * (wire.MOST + 1)}

    async def do_raise(self, name: str) -> None:
        raise _RAISED[name]

    async def do_break(self) -> None:
        raise ZeroDivisionError("a fault of ours")

    async def do_object(self) -> list[Any]:
        return [1, object()]


_RAISED: dict[str, NarvalError] = {
    "faults": DefinitionError([Fault("b.xml", 3, 4, "no such step"), Fault("a.xml", 1, 2, "twice")]),
    "pattern": PatternError("email[", "expected ']'", 7),
    "element": ElementError("doctype", "a DOCTYPE is not accepted", 2, 5),
    "action": ActionError("it took longer than 3 seconds", "timeout"),
    "request": RequestError("expected a run, got 12"),
}


class Daemon:
    """A control server in an event loop of its own, on a thread, for clients that block."""

    def __init__(self, path: Path, limits: ControlLimits, uid_of: Callable[[Any], int] | None) -> None:
        self.path, self.limits, self.uid_of = path, limits, uid_of
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._open())
        self._ready.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.server.close())
        self.left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        self.loop.close()

    async def _open(self) -> None:
        self.fake = Fake()
        self.server = await ControlServer.open(
            self.path, self.fake.invoke, limits=self.limits, uid_of=self.uid_of
        )

    def __enter__(self) -> Daemon:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(20)
        assert not self._thread.is_alive()


@contextmanager
def serving(
    folder: Path, uid_of: Callable[[Any], int] | None = None, **limits: Any
) -> Iterator[tuple[Daemon, Path]]:
    path = folder / "socket"
    with Daemon(path, ControlLimits(**limits), uid_of) as daemon:
        yield daemon, path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "var"
    place.mkdir(mode=0o700)
    return place


def raw(path: Path) -> socket.socket:
    """A connection past its greeting."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    with wire.address(path) as name:
        connection.connect(name)
    kind, number, error, about = read(connection)
    assert (kind, number, error) == (wire.GREETING, None, None), (kind, number, error)
    assert about["protocol"] == wire.PROTOCOL
    return connection


def read(connection: socket.socket) -> list[Any]:
    size = int.from_bytes(exactly(connection, 4), "big")
    return wire.fields(exactly(connection, size))


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        received = connection.recv(count - len(data))
        if not received:
            raise EOFError(data)
        data += received
    return data


def ended(connection: socket.socket) -> bool:
    """Whether the other end hangs up without another word."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def request(number: int, method: str, **params: Any) -> bytes:
    return wire.frame(wire.REQUEST, number, method, params)


def answers(path: Path) -> bool:
    """Whether the daemon is well."""
    with Client(path) as client:
        return client.ask("echo", a=1) == {"a": 1}


def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not come about within ten seconds")


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


@pytest.mark.parametrize("name", sorted(_RAISED))
def test_an_error_is_the_same_at_the_other_end(folder: Path, name: str) -> None:
    raised = _RAISED[name]
    with serving(folder) as (_, path), Client(path) as client:
        with pytest.raises(type(raised)) as caught:
            client.ask("raise", name=name)
        assert type(caught.value) is type(raised)
        assert str(caught.value) == str(raised)
        for field in ("faults", "path", "line", "column", "kind", "text", "message"):
            assert getattr(caught.value, field, None) == getattr(raised, field, None)
        assert client.ask("echo") == {}


def every_error(kind: type[NarvalError] = NarvalError) -> Iterator[type[NarvalError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from every_error(each)


def test_every_class_of_error_crosses_the_socket() -> None:
    made = {
        DefinitionError: DefinitionError([Fault("a", 1, 1, "m")]),
        PatternError: PatternError("a[", "m"),
        ElementError: ElementError("malformed", "m"),
    }
    for kind in every_error():
        if getattr(errors, kind.__name__, None) is not kind:
            continue
        words = ("some-kind", "a message") if issubclass(kind, errors.TokenError) else ("a message",)
        error = made.get(kind) or kind(*words)
        again = wire.error_of(wire.error_form(error))
        assert type(again) is kind
        assert str(again) == str(error)


def test_an_error_of_a_class_unknown_here_is_still_an_error() -> None:
    error = wire.error_of({"class": "FutureError", "message": "from tomorrow"})
    assert type(error) is NarvalError
    assert str(error) == "from tomorrow"
    for form in (None, 3, {}, {"class": "DefinitionError", "faults": 3}, {"class": "Fault", "message": "x"}):
        assert type(wire.error_of(form)) is NarvalError


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
    from narval.surfaces.control.server import peer_uid

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


# --- what a client says of a daemon that is not well ----------------------------------------------------


def test_nobody_listening_is_no_daemon_and_silence_is_one_that_is_gone(folder: Path) -> None:
    path = folder / "socket"
    assert Client.reach(path) is None
    with pytest.raises(DaemonGoneError, match="no daemon answers"):
        Client(path)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(DaemonGoneError, match=r"has not answered within 0\.05 seconds"):
            Client(path, patience=0.05)


def test_a_daemon_that_accepts_no_more_is_tried_until_patience_ends(folder: Path) -> None:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(str(path))
        full.listen(0)
        waiting = []
        for _ in range(2):
            each = socket.socket(socket.AF_UNIX)
            each.setblocking(False)
            each.connect_ex(str(path))
            waiting.append(each)
        with pytest.raises(DaemonGoneError):
            Client(path, patience=0.12)
        for each in waiting:
            each.close()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x01\xc1",
        wire.frame(wire.GREETING, None, None, {}) + b"\x00\x00",
        wire.frame(wire.GREETING, None, None, {}) + wire.frame(wire.REPLY, 99, None, 1),
        wire.frame(wire.GREETING, None, None, {}) + wire.frame("x", 1, None, 1),
    ],
)
def test_what_does_not_speak_as_a_daemon_is_no_daemon(folder: Path, said: bytes) -> None:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        impostor.listen()

        def speak() -> None:
            connection, _ = impostor.accept()
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            with connection, suppress(ConnectionError):
                while connection.recv(100):
                    pass

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(DaemonGoneError), Client(path) as client:
            client.ask("echo")
        thread.join(10)


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


def test_more_connections_than_allowed_are_told_to_come_back(folder: Path) -> None:
    with serving(folder, connections=2, mute=600.0) as (daemon, path):
        first, second = raw(path), raw(path)
        with pytest.raises(DaemonGoneError, match="busy with 2 programs"):
            Client(path, patience=0.1)
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
        for each in (waiting, half, silent):
            each.close()


def test_a_flood_waits_in_its_own_socket_and_others_are_answered(folder: Path) -> None:
    with serving(folder, requests=4) as (daemon, path):
        flood = raw(path)
        flood.settimeout(0.2)
        with pytest.raises(TimeoutError):
            flood.sendall(b"".join(request(number, "gated") for number in range(200_000)))
        assert daemon.fake.running == 4
        with Client(path) as client:
            assert client.ask("echo", a=1) == {"a": 1}
            assert daemon.fake.most <= 5
            client.ask("open")
        flood.settimeout(20)
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
        assert (number, error["class"]) == (1, "DaemonGoneError")
        assert ended(waiting)
        assert daemon.left == []
        waiting.close()
        deaf.close()


# --- fuzz -----------------------------------------------------------------------------------------------

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_data_crosses_the_socket_unchanged(value: Any) -> None:
    again = wire.fields(wire.frame(wire.REPLY, 1, None, value)[4:])[3]
    assert again == value
    if isinstance(value, list):
        frames = list(wire.answer(1, value))
        assert wire.fields(frames[-1][4:])[3] == value


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(body: bytes) -> None:
    understood(body)


@given(PLAIN)
def test_no_plain_data_does_more_than_be_refused(value: Any) -> None:
    understood(msgpack.packb(value))


def understood(body: bytes) -> None:
    with suppress(wire.WireError):
        number, method, params = wire.request(body)
        assert isinstance(number, int)
        assert isinstance(method, str)
        assert isinstance(params, dict)


def test_a_daemon_survives_whatever_is_sent(folder: Path) -> None:
    with serving(folder, frame=0.2) as (daemon, path):

        @settings(max_examples=60, deadline=None)
        @given(st.lists(st.binary(max_size=60) | st.just(request(1, "echo")), max_size=4), st.booleans())
        def attack(pieces: list[bytes], framed: bool) -> None:
            connection = raw(path)
            try:
                for piece in pieces:
                    connection.sendall(len(piece).to_bytes(4, "big") + piece if framed else piece)
            except ConnectionError:
                pass
            connection.close()

        attack()
        with Client(path) as client:
            assert client.ask("echo", a=1) == {"a": 1}
        until(lambda: not daemon.server.connections)
