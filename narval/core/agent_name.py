"""The name of an agent, or of a collection: the form that every home, store and message accepts.

An agent of another home is `shop@office`: the agent `shop` of the *peer* `office`. The row for a peer in the
store is named `@office`, which no agent can be.
"""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

AT = "@"
"""The separator before the name of a peer."""

CALLER = "http:"
"""The prefix of the name of a program that calls by HTTP, in rules of who may call what."""

_ANY = "*"
"""The wildcard for any agent in rules of who may do what."""


def agent_name(value: object) -> str:
    """Validate the name of an agent. Raises ValueError with what was expected."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise ValueError("the name of an agent, a lower-case letter and up to 62 more, digits, - or _")
    return value


def agent_address(value: object) -> str:
    """Validate the name of an agent of this home, or of another (`shop@office`). Raises ValueError."""
    agent, at, peer = value.partition(AT) if isinstance(value, str) else ("", "", "")
    if NAME.fullmatch(agent) is None or (at and NAME.fullmatch(peer) is None):
        raise ValueError(
            "the name of an agent, a lower-case letter and up to 62 more, digits, - or _; "
            "of one of another home with its peer: shop@office"
        )
    return str(value)


def peer_of(address: str) -> str:
    """The peer in an agent's address; "" for an agent of this home."""
    return address.partition(AT)[2]


def row_of_peer(peer: str) -> str:
    """The name of a peer's row in the store."""
    return f"{AT}{peer}"


def stands_for_peer(name: str) -> bool:
    """True for the name of a peer's row in the store, which is not an agent."""
    return name.startswith(AT)


def is_meant(rule: str, address: str) -> bool:
    """True if a rule of who may do what covers an agent: by its name, `*` for any agent of this home, or
    `*@office` for any agent of a peer. A program that calls by HTTP is covered only by its name.
    """
    if address.startswith(CALLER):
        return rule == address
    agent, _, peer = address.partition(AT)
    return bool(agent) and (rule == address or rule == (f"{_ANY}{AT}{peer}" if peer else _ANY))
