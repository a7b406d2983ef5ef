"""Messages of a peer as they arrive. Nothing in them is trusted, because only the peer vouches for it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from narval.core.agent_name import AT
from narval.core.elements.canonical import canonical
from narval.core.elements.element import local_name, parse
from narval.core.errors import ElementError, UnreadableError
from narval.core.memory.labels import ANY_MODEL, FIXED, HOOK, MODEL, SERVER, WHETHER
from narval.daemon.links.frame import Message
from narval.daemon.messages import remote_calls
from narval.daemon.messages.contract import Refusal
from narval.daemon.messages.envelope import ELEMENT, RECEIPT, UNDELIVERED, Envelope, seal, unseal
from narval.daemon.messages.withdrawals import WITHDRAW

PEER_RESTORED = "peer-restored"
"""The type of the error element that reports what a restored backup has lost."""

OF_STORE = "agent:"
"""The prefix of the label of what came from another home; the name of the peer follows."""

MOST_LABELS = 32
"""The most labels accepted from a peer with a message."""

MOST_INPUTS = 100_000
"""The most elements that a message may name as its sources."""

_CHAT = "chat"
_LABEL = re.compile(r"[a-z]{1,20}(:[\w.*@/-]{1,80})?", re.ASCII)


def data_for_receiver(message: Message) -> bytes | Refusal:
    """The data of a message in the form for a receiver here, or the reason why it cannot be taken."""
    fit = _FITTED.get(message.kind)
    if fit is None:
        return Refusal("unknown-kind", f"this version of narval takes no messages of kind {message.kind}")
    if message.until is not None and not math.isfinite(message.until):
        return Refusal("invalid", "its deadline is not a valid time")
    try:
        return fit(message.data)
    except ElementError as error:
        return Refusal("invalid", str(error))
    except UnreadableError as error:
        return Refusal("unreadable", str(error))


def envelope_here(message: Message, peer: str) -> Envelope:
    """The envelope of a message of a peer, without its statements about people and about third parties.

    Raises UnreadableError.
    """
    said = unseal(message.envelope)
    if len(said.inputs) + len(said.made_from) > MOST_INPUTS:
        raise UnreadableError(f"it is said to be made of more than {MOST_INPUTS:,} elements")
    return replace(
        said,
        sender=f"{message.sender}{AT}{peer}",
        sender_id=message.sender_id,
        by="",
        actor="",
        hearsay=False,
        labels=_labels(peer, said),
        came_from=(),
        to="",
    )


def _labels(peer: str, said: Envelope) -> tuple[str, ...]:
    """The labels of what a peer sends: one for the peer itself, and those that it names. Its labels for
    secrets, for parts, and for homes beyond it are dropped.
    """
    labels = (label.removesuffix(WHETHER) for label in said.labels)
    ways = [label for label in labels if _LABEL.fullmatch(label) and _is_way(label)][:MOST_LABELS]
    if said.hearsay:
        ways.append(ANY_MODEL)
    return (f"{OF_STORE}{peer}", *dict.fromkeys(ways))


def _is_way(label: str) -> bool:
    return label in FIXED or label == _CHAT or label.startswith((HOOK, MODEL, SERVER))


def _error(data: bytes) -> bytes:
    fit = canonical(data)
    root = parse(fit)
    if local_name(root.tag) != "error" or root.get("type") not in (UNDELIVERED, PEER_RESTORED):
        raise ElementError("invalid", "expected an error element that tells of a message")
    return fit


def _call(data: bytes) -> bytes:
    asked = remote_calls.read_asked(data)
    if not math.isfinite(asked.until):
        raise UnreadableError("its deadline is not a valid time")
    depth = min(max(asked.depth, 0), remote_calls.MOST_DEEP + 1)
    return seal(replace(asked, elements=tuple(map(canonical, asked.elements)), depth=depth))


def _reply(data: bytes) -> bytes:
    reply = remote_calls.read_reply(data)
    return seal(replace(reply, elements=tuple(map(canonical, reply.elements))))


def _nothing(_: bytes) -> bytes:
    return b""


def _same(data: bytes) -> bytes:
    return data


_FITTED: Mapping[str, Callable[[bytes], bytes]] = {
    ELEMENT: canonical,
    UNDELIVERED: _error,
    RECEIPT: _nothing,
    remote_calls.CALL: _call,
    remote_calls.CANCEL: _nothing,
    remote_calls.RETURNED: _reply,
    WITHDRAW: _same,
}
"""Conversions of the data of each kind of message to the form of a message sent here."""
