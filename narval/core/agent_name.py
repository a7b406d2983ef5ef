"""The name of an agent, and of a collection: the form that every home, store and message accepts.

An agent of another home is `shop@office`: the agent `shop` of the *peer* `office`. The row of a store that
stands for a peer has the name `@office`, which no agent can have.
"""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

AT = "@"
"""The sign before the name of a peer."""

CALLER = "http:"
"""The start of the name of a program that calls by HTTP, in rules of who may call what."""

_ANY = "*"
"""The sign for any agent in rules of who may do what."""


def agent_name(value: object) -> str:
    """Read the name of an agent. Raises ValueError with what was expected."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise ValueError("the name of an agent, a lower-case letter and up to 62 more, digits, - or _")
    return value


def agent_address(value: object) -> str:
    """Read the name of an agent of this home, or of another (`shop@office`). Raises ValueError."""
    agent, at, peer = value.partition(AT) if isinstance(value, str) else ("", "", "")
    if NAME.fullmatch(agent) is None or (at and NAME.fullmatch(peer) is None):
        raise ValueError(
            "the name of an agent, a lower-case letter and up to 62 more, digits, - or _; "
            "of one of another home with its peer: shop@office"
        )
    return str(value)


def peer_of(address: str) -> str:
    """The peer whose agent has an address; "" of an agent of this home."""
    return address.partition(AT)[2]


def row_of_peer(peer: str) -> str:
    """The name of the row of the store that stands for a peer."""
    return f"{AT}{peer}"


def stands_for_peer(name: str) -> bool:
    """True of the name of a row of the store that stands for a peer, and for no agent."""
    return name.startswith(AT)


def is_meant(rule: str, address: str) -> bool:
    """True if a rule of who may do what covers an agent: by its name, `*` for any of this home, or `*@office`
    for any of a peer. Only its name covers a program that calls by HTTP.
    """
    if address.startswith(CALLER):
        return rule == address
    agent, _, peer = address.partition(AT)
    return bool(agent) and (rule == address or rule == (f"{_ANY}{AT}{peer}" if peer else _ANY))
