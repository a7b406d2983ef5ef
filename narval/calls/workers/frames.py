"""Messages between the daemon and a worker: msgpack in frames, each preceded by its length in four bytes.

A length beyond `MOST` is refused before anything is read, and every message is checked against its type.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from narval.calls.context import CallContext, Target
from narval.calls.record import Outcome
from narval.core.elements.element import Element, Origin
from narval.core.errors import ActionError
from narval.files.outside.services import AnyService
from narval.system.clock import RunClock, SimulatedClock, SystemClock

if TYPE_CHECKING:  # a worker reads no settings
    from narval.files.settings import CallLimits

MOST = 128 * 1024 * 1024
"""The most bytes of one frame."""

_LENGTH = struct.Struct("!I")


class FrameError(ActionError):
    """Received bytes, or a message to send, that are not a valid frame."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "too-large", final=True)


class Given(msgspec.Struct, frozen=True, array_like=True):
    """The elements that one input is given, each as (eid, xml, added)."""

    elements: tuple[tuple[int, bytes, float], ...]
    listed: bool
    senders: tuple[str, ...] = ()
    """The agent that sent each element, "" if none did; () if no agent sent any."""


class Allowance(msgspec.Struct, frozen=True, array_like=True):
    """Limits of foreign code: folders that it may read, bytes of memory, places inside from which it may
    fetch, and services that it may ask.
    """

    folders: tuple[str, ...]
    memory: int
    fetch: tuple[str, ...] = ()
    services: tuple[AnyService, ...] = ()


class CallFrame(msgspec.Struct, frozen=True, tag=True):
    """To a worker: answer this call, whose target has no `function` there.

    `zone` is its time zone, `moment` the time of a simulated clock, which does not advance.
    """

    call: str
    run: int
    step: str
    attempt: int
    target: Target
    inputs: dict[str, Given | None]
    deadline: float | None
    home: str | None
    allowance: Allowance
    payload: Mapping[str, Any] | None
    zone: str
    moment: float | None
    agent: str
    traceparent: str = ""
    granted: tuple[str, ...] | None = None


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it has started."""


class Progressed(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the progress of a call."""

    call: str
    done: float
    total: float | None


class Logged(msgspec.Struct, frozen=True, tag=True):
    """From a worker: a line that the action of a call has logged."""

    call: str
    logger: str
    level: int
    message: str


class Answered(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the outcome of a call."""

    call: str
    outcome: Outcome


WorkerMessage = Ready | Progressed | Logged | Answered

_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(CallFrame)
_messages: msgspec.msgpack.Decoder[WorkerMessage] = msgspec.msgpack.Decoder(WorkerMessage)


def pack(message: CallFrame | WorkerMessage) -> bytes:
    """A message as a frame. Raises FrameError if it is too large."""
    body = _encoder.encode(message)
    if len(body) > MOST:
        raise FrameError(
            f"expected at most {MOST:,} bytes of elements, got {len(body):,}; keep them as files"
        )
    return _LENGTH.pack(len(body)) + body


def read_call(body: bytes) -> CallFrame:
    """The call in a frame from the daemon."""
    return _calls.decode(body)


def read_message(body: bytes) -> WorkerMessage:
    """The message in a frame from a worker. Raises FrameError."""
    try:
        return _messages.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameError(f"a worker sent an invalid message: {error}") from None


class FrameReader:
    """Assembles received bytes into complete frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies of the frames that these bytes complete. Raises FrameError."""
        self._bytes += data
        bodies, at = [], 0
        while len(self._bytes) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, at)
            if length > MOST:
                raise FrameError(f"expected a frame of at most {MOST:,} bytes, got one of {length:,}")
            end = at + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            bodies.append(bytes(self._bytes[at + _LENGTH.size : end]))
            at = end
        del self._bytes[:at]
        return bodies


def frame_of(call: CallContext, limits: CallLimits) -> CallFrame:
    """The frame that sends a call to a worker."""
    clock = call.clock or RunClock(SystemClock())
    return CallFrame(
        call=call.id,
        run=call.run,
        step=call.step,
        attempt=call.attempt,
        target=replace(call.target, function=None),
        inputs={id: packed_input(value) for id, value in call.inputs.items()},
        deadline=call.deadline,
        home=None if call.home is None else str(call.home),
        allowance=Allowance(limits.xslt_folders, limits.transform_memory, call.fetch_allow, call.services),
        payload=call.payload,
        zone=clock.zone,
        moment=clock.standing(),
        agent=call.agent,
        traceparent=call.traceparent,
        granted=call.granted,
    )


def unpacked_call(frame: CallFrame, timeout: float | None = None) -> CallContext:
    """The call in a frame, as it is answered here; `timeout` is in seconds, None for none."""
    clock = RunClock(SystemClock() if frame.moment is None else SimulatedClock(frame.moment), frame.zone)
    call = CallContext(
        frame.call,
        frame.run,
        frame.step,
        home=None if frame.home is None else Path(frame.home),
        deadline=frame.deadline,
        attempt=frame.attempt,
        target=frame.target,
        inputs={id: unpacked_input(value) for id, value in frame.inputs.items()},
        clock=clock,
        timeout=timeout,
        payload=frame.payload,
        agent=frame.agent,
        granted=frame.granted,
        trace=partial(str, frame.traceparent) if frame.traceparent else None,
    )
    call.allow(frame.allowance.fetch, frame.allowance.services)
    return call


def packed_input(value: Element | list[Element] | None) -> Given | None:
    """The elements of an input, packed for a worker."""
    if value is None:
        return None
    listed = isinstance(value, list)
    elements = value if isinstance(value, list) else [value]
    packed = tuple((element.eid, element.xml, element.added) for element in elements)
    senders = tuple(element.sender for element in elements)
    return Given(packed, listed, senders if any(senders) else ())


def unpacked_input(sent: Given | None) -> Element | list[Element] | None:
    """The elements of an input, in the worker."""
    if sent is None:
        return None
    senders = sent.senders or ("",) * len(sent.elements)
    elements = [
        Element(eid, xml, added, Origin(agent=sender) if sender else None)
        for (eid, xml, added), sender in zip(sent.elements, senders, strict=True)
    ]
    return elements if sent.listed else elements[0]
