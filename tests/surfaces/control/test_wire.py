"""Frames: plain data and errors cross the socket unchanged, and no bytes do more than be refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.core import errors
from narval.core.errors import DefinitionError, ElementError, Fault, NarvalError, PatternError, RequestError
from narval.surfaces.control import wire
from narval.surfaces.control.client import Client
from tests.examples import examples
from tests.surfaces.control.served import RAISED, raw, request, serving, until


def test_a_number_too_long_for_a_frame_is_refused_in_words(folder: Path) -> None:
    with serving(folder) as (_, path), Client(path) as client:
        with pytest.raises(RequestError, match="expected whole numbers of at most 64 bits"):
            client.ask("echo", run=10**23)
        assert client.ask("echo") == {}


@pytest.mark.parametrize("name", sorted(RAISED))
def test_an_error_is_the_same_at_the_other_end(folder: Path, name: str) -> None:
    raised = RAISED[name]
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
    for subclass in kind.__subclasses__():
        yield from every_error(subclass)


def test_every_class_of_error_crosses_the_socket() -> None:
    made = {
        DefinitionError: DefinitionError([Fault("a", 1, 1, "m")]),
        PatternError: PatternError("a[", "m"),
        ElementError: ElementError("malformed", "m"),
    }
    for kind in every_error():
        if getattr(errors, kind.__name__, None) is not kind:
            continue
        words = (
            ("some-kind", "a message")
            if issubclass(kind, errors.TokenError | errors.WorkRefusedError | errors.TaskRefusedError)
            else ("a message",)
        )
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


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text takes a second to draw
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


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first text takes a second to draw
@given(PLAIN)
def test_no_plain_data_does_more_than_be_refused(value: Any) -> None:
    understood(msgpack.packb(value))


ASKING = st.dictionaries(st.sampled_from(("agent", "as", "session", "scope", "")), PLAIN, max_size=3) | PLAIN


@given(ASKING)
def test_no_fifth_field_does_more_than_be_refused(value: Any) -> None:
    understood(msgpack.packb([wire.REQUEST, 1, "echo", {}, value]))


def test_a_fifth_field_that_is_huge_or_nested_is_refused_as_it_is() -> None:
    for value in (
        {"agent": {"agent": {}}},
        {"as": ["ann"] * 100_000},
        [[[[]]]] * 9_999,
        {"x" * 1_000_000: 1},
    ):
        with pytest.raises(wire.WireError, match=r"^expected a .{1,200}$"):
            wire.request(msgpack.packb([wire.REQUEST, 1, "echo", {}, value]))


def test_a_request_of_either_protocol_is_understood() -> None:
    assert wire.request(msgpack.packb([0, 7, "echo", {"a": 1}])) == (7, "echo", {"a": 1}, "", "", "", "")
    asking = {"agent": "ada", "as": "ann"}
    assert wire.request(msgpack.packb([0, 7, "echo", {}, asking])) == (7, "echo", {}, "ada", "ann", "", "")
    asking |= {"session": "chat:phone", "once": "phone/7"}
    whole = (7, "echo", {}, "ada", "ann", "chat:phone", "phone/7")
    assert wire.request(msgpack.packb([0, 7, "echo", {}, asking])) == whole
    assert wire.request(msgpack.packb([0, 7, "echo", {}, {}])) == (7, "echo", {}, "", "", "", "")


def understood(body: bytes) -> None:
    with suppress(wire.WireError):
        asked = wire.request(body)
        assert isinstance(asked.number, int)
        assert isinstance(asked.params, dict)
        assert all(isinstance(name, str) for name in (asked.method, asked.agent, asked.acting_as))


def test_a_daemon_survives_whatever_is_sent(folder: Path) -> None:
    with serving(folder, frame=0.2) as (daemon, path):

        @settings(max_examples=examples(60), deadline=None)
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
