"""The protocol of the control socket: frames, errors, and the address of a socket whose path is long.

A frame is four bytes of length (big-endian) and that many bytes of msgpack, an array:

    [GREETING, None, error, about]          the daemon speaks first: its version, or the error for a refusal
    [REQUEST, id, method, params]           the client asks; several requests may be under way at once
    [REQUEST, id, method, params, asking]   the same, for an agent or in a person's name
    [PART, id, None, items]                 some items of an answer that is a list
    [REPLY, id, error, result]              the answer, or its last items; `id` is that of the request

`asking` is a map. `agent` is the asked agent, by default the home's own (G21). `as` is the person in whose
name the client asks (P39), and `session` that person's login at the monitor (M67), or `chat:NAME` for a
person who writes in a chat. `once` is the chat message (`CHAT/NUMBER`) that causes the request, which is done
once for it. A client of protocol 1 does not know this field.

`error` is None or a map that names the class of a `NarvalError`, so that the other end raises the same error.
Frames contain only plain data: no pickle, no extension types. This module is light, as every command that
asks a daemon needs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from narval.core import errors
from narval.core.errors import DefinitionError, Fault, NarvalError, RequestError, TokenError

if TYPE_CHECKING:
    from pathlib import Path

REQUEST, REPLY, PART, GREETING = range(4)

PROTOCOL = 2
"""The version in the greeting; it changes when older clients cannot talk to newer daemons."""

HEADER = 4
MOST = 32 * 1024 * 1024
"""The longest frame, either way: two elements of the largest size; a part of an answer is far smaller."""

_ASKING = {"agent": "agent", "as": "acting_as", "session": "session", "once": "once"}
_PART = 256 * 1024
_LONGEST_PATH = 100

_packer = msgpack.Packer(autoreset=True, unicode_errors="backslashreplace")

_TOKEN_ERRORS = ("TokenError", *(kind.__name__ for kind in TokenError.__subclasses__()))
_FIELDS: dict[str, tuple[str, ...]] = {
    "PatternError": ("text", "message", "column"),
    "ElementError": ("kind", "message", "line", "column"),
    "ActionError": ("message", "kind"),
    "WorkRefusedError": ("kind", "message", "detail"),
    "TaskRefusedError": ("kind", "message"),
    "UnansweredError": ("what", "then"),
    **dict.fromkeys(_TOKEN_ERRORS, ("kind", "message")),
}
"""The arguments of the errors that have more than a message."""


class WireError(Exception):
    """An invalid frame has arrived; the message says what was expected and what came."""


class WireRequest(NamedTuple):
    """A received request: its id, the operation and its arguments, the agent, the person it acts for, that
    person's session on the web, and the chat message that caused it.
    """

    number: int
    method: str
    params: dict[str, Any]
    agent: str = ""
    acting_as: str = ""
    session: str = ""
    once: str = ""


# --- frames -------------------------------------------------------------------------------------------------


def frame(*fields: Any) -> bytes:
    """A frame with its length before it. Raises RequestError if it, or a number in it, is too long."""
    try:
        body: bytes = _packer.pack(fields)
    except OverflowError:
        raise RequestError("expected whole numbers of at most 64 bits, got a longer one") from None
    return _with_length(body)


def length(header: bytes) -> int:
    """The length in a header. Raises WireError before anything of that length is read."""
    size = int.from_bytes(header, "big")
    if not 0 < size <= MOST:
        raise WireError(f"expected a frame of 1 to {MOST:,} bytes, got one of {size:,}")
    return size


def fields(body: bytes, *, most: int = 4) -> list[Any]:
    """The fields of a frame: four, or as many as `most`. Raises WireError for anything else."""
    try:
        content = msgpack.unpackb(body, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise WireError(f"expected msgpack, got something else: {error or type(error).__name__}") from None
    if not isinstance(content, list) or not 4 <= len(content) <= most:
        expectation = "4" if most == 4 else f"4 to {most}"
        raise WireError(f"expected an array of {expectation} fields, got {_outline(content)}")
    return content


def request(body: bytes) -> WireRequest:
    """A request. Raises WireError for anything else."""
    kind, number, method, params, *others = fields(body, most=5)
    if kind != REQUEST or isinstance(kind, bool):
        raise WireError(f"expected a request (type {REQUEST}), got type {_outline(kind)}")
    if not isinstance(number, int) or isinstance(number, bool):
        raise WireError(f"expected an integer as the id of a request, got {_outline(number)}")
    if not isinstance(method, str):
        raise WireError(f"expected the name of an operation as method, got {_outline(method)}")
    if not isinstance(params, dict) or not all(isinstance(name, str) for name in params):
        raise WireError(f"expected a map with names as params, got {_outline(params)}")
    asking = {_ASKING[name]: value for name, value in _asking(*others).items()}
    return WireRequest(number, method, params, **asking)


def _asking(form: Any = None) -> dict[str, str]:
    """The agent and the names in a request, if present. Raises WireError for anything else."""
    asking = {} if form is None else form
    if not isinstance(asking, dict) or not asking.keys() <= set(_ASKING):
        raise WireError(f"expected a map with {', '.join(_ASKING)}, got {_outline(form)}")
    if "session" in asking and "as" not in asking:
        raise WireError(f"expected a person (as) whose session it is, got {_outline(form)}")
    for name, value in asking.items():
        if not (isinstance(value, str) and value):
            raise WireError(f"expected a name as {name}, got {_outline(value)}")
    return asking


def answer(number: int, result: Any) -> Iterator[bytes]:
    """The frames of an answer: a long list is sent in parts, each packed after the previous one is sent."""
    if not isinstance(result, list):
        yield frame(REPLY, number, None, result)
        return
    packed: list[bytes] = []
    size = 0
    for item in result:
        data: bytes = _packer.pack(item)
        if packed and size + len(data) > _PART:
            yield _items(PART, number, packed)
            packed, size = [], 0
        packed.append(data)
        size += len(data)
    yield _items(REPLY, number, packed)


def _items(kind: int, number: int, packed: Iterable[bytes]) -> bytes:
    """A frame whose last field is a list of items already packed."""
    items = list(packed)
    head = [_packer.pack_array_header(4), *map(_packer.pack, (kind, number, None))]
    return _with_length(b"".join([*head, _packer.pack_array_header(len(items)), *items]))


def answer_in(frames: Iterable[list[Any]]) -> Any:
    """The answer in its frames. Raises the error in them, or EOFError if the last frame is missing."""
    items: list[Any] = []
    for kind, _, error, result in frames:
        if error is not None:
            raise error_of(error)
        if kind != PART or not isinstance(result, list):
            return items + result if items else result
        items += result
    raise EOFError


def _with_length(body: bytes) -> bytes:
    if len(body) > MOST:
        raise RequestError(
            f"expected at most {MOST:,} bytes in one message, got {len(body):,}; send less or ask for less"
        )
    return len(body).to_bytes(HEADER, "big") + body


def _outline(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:40]}{'…' if len(text) > 40 else ''}"


# --- errors -------------------------------------------------------------------------------------------------


def error_form(error: NarvalError) -> dict[str, Any]:
    """An error as plain data, to be rebuilt at the other end."""
    form: dict[str, Any] = {"class": type(error).__name__, "message": str(error)}
    if isinstance(error, DefinitionError):
        form["faults"] = [[fault.path, fault.line, fault.column, fault.message] for fault in error.faults]
    for name in _FIELDS.get(type(error).__name__, ()):
        form[name] = getattr(error, name, str(error))
    return form


def error_of(form: Any) -> NarvalError:
    """The error that plain data describes; for an unknown class, a plain `NarvalError`."""
    if not isinstance(form, dict):
        return NarvalError(str(form))
    name, message = str(form.get("class")), str(form.get("message"))
    try:
        if name == "DefinitionError":
            return DefinitionError(Fault(*fault) for fault in form["faults"])
        arguments = [form[field] for field in _FIELDS.get(name, ())]
    except (KeyError, TypeError, ValueError):
        return NarvalError(message)
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, NarvalError):
        return NarvalError(message)
    return kind(*(arguments or [message]))


# --- the way to a socket ------------------------------------------------------------------------------------


@contextmanager
def address(path: Path | str) -> Iterator[str]:
    """A name for a socket's path that is short enough for the system: 107 bytes at most."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    parent, name = os.path.split(path)
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)
