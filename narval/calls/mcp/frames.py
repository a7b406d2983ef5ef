"""Messages between the daemon and a bridge: msgpack in frames, each preceded by its length in four bytes.

The bridge must stay small beside the library that it needs, so this module imports almost nothing.
"""

from __future__ import annotations

import struct

import msgspec

MOST = 8 * 1024 * 1024
"""The most bytes of one frame."""

LENGTH = struct.Struct("!I")


class Connect(msgspec.Struct, frozen=True, tag=True):
    """To a bridge, first: the server with which it must speak."""

    name: str
    """The name of the server in the settings."""
    command: tuple[str, ...]
    """The words that start its program; () for a server with a `url`."""
    folder: str
    """The folder in which its program is started."""
    variables: dict[str, str]
    """The only environment variables that its program sees."""
    url: str
    """The address of a server that runs elsewhere; "" for a program."""
    token: str
    """The secret that is sent as `Authorization: Bearer`; "" for none."""
    login: str = ""
    """The file of the login whose tokens a server with a `url` gets; "" for none."""
    headers: dict[str, str] = {}
    """Additional headers of each request to a server with a `url`."""
    ca: str = ""
    """The file with the trusted certificates of authorities; "" for those of this machine."""


class CallTool(msgspec.Struct, frozen=True, tag=True):
    """To a bridge: call a tool, if it is unchanged since it was accepted. `arguments` are JSON."""

    call: str
    tool: str
    digest: str
    arguments: bytes


class CancelTool(msgspec.Struct, frozen=True, tag=True):
    """To a bridge: give up a call."""

    call: str


class Connected(msgspec.Struct, frozen=True, tag=True):
    """From a bridge: the server answers, or its tools have changed; the digests of its tools, by name."""

    tools: dict[str, str]


class Ended(msgspec.Struct, frozen=True, tag=True):
    """From a bridge, last: there is no connection to the server, or no longer one."""

    kind: str
    message: str
    final: bool = False


class ToolProgressed(msgspec.Struct, frozen=True, tag=True):
    """From a bridge: the progress of a call."""

    call: str
    done: float
    total: float | None


class ToolAnswered(msgspec.Struct, frozen=True, tag=True):
    """From a bridge: the result of a call as JSON, or the type and message of an error."""

    call: str
    structured: bytes = b""
    content: bytes = b"[]"
    kind: str = ""
    message: str = ""
    final: bool = False


ToBridge = Connect | CallTool | CancelTool
FromBridge = Connected | Ended | ToolProgressed | ToolAnswered

_encoder = msgspec.msgpack.Encoder()
_to_bridge: msgspec.msgpack.Decoder[ToBridge] = msgspec.msgpack.Decoder(ToBridge)
_from_bridge: msgspec.msgpack.Decoder[FromBridge] = msgspec.msgpack.Decoder(FromBridge)


def packed(message: ToBridge | FromBridge) -> bytes:
    """A message as a frame. Raises ValueError if it is too large."""
    body = _encoder.encode(message)
    if len(body) > MOST:
        raise ValueError(f"expected at most {MOST:,} bytes, got {len(body):,}")
    return LENGTH.pack(len(body)) + body


def why_changed(tool: str, digest: str | None, accepted: str) -> str:
    """The reason not to call a tool, "" if there is none. Compares the digest of the server's description
    (None if it does not offer the tool) with the accepted digest.
    """
    if digest == accepted:
        return ""
    if digest is None:
        return f"{tool}: its server no longer offers it"
    return f"{tool}: its server describes it otherwise than was accepted"


def read_request(body: bytes) -> ToBridge:
    """The message in a frame from the daemon."""
    return _to_bridge.decode(body)


def read_answer(body: bytes) -> FromBridge:
    """The message in a frame from a bridge. Raises msgspec.MsgspecError."""
    return _from_bridge.decode(body)
