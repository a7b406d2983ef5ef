"""Tokens, the sets they are members of, and the lines they wait in (sections 1 and 7). Plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from narval.core.engines.commands import Call

_COMPACT_AFTER = 32


ExecutionType = Literal["Forward", "ForwardBacktracked", "Backtracked", "UTurn", "UTurnBacktracked"]


class NodeToken(msgspec.Struct, omit_defaults=True, gc=False):
    """A token on a node. It is active from being accepted, skipped or delayed until it is complete."""

    id: int
    """Its number."""
    node: str
    """The node that it is on."""
    created: float
    """The moment it was made."""
    parents: list[int] = []
    """The arc tokens that it was made from."""
    children: list[int] = []
    """The arc tokens that were made from it."""
    execution_type: ExecutionType = "Forward"
    """Its direction, and whether it was backtracked."""
    guard: str = ""
    """The last answer of the guard."""
    completed: float | None = None
    """The moment it left its node."""
    environment: dict[str, str] = {}
    """Its attributes; never altered in place, as tokens share them with the tokens that they come from."""
    sets: dict[int, int] = {}
    """Its place in each token set."""
    reverses: int | None = None
    """The node token that this one reverses."""
    delays: int = 0
    """The number of times that the guard has delayed it."""
    until: float | None = None
    """The moment that it waits for."""
    wake: str = ""
    """The timer of `until`."""
    call: str = ""
    """The call that executes its node."""
    queued: bool = False
    """True while it waits for other code of the process to end."""
    tries: int = 0
    """The number of its calls that failed and were retried."""
    next_try: Call | None = None
    """The call to make again, between two attempts."""
    watch: str = ""
    """The watch through which it waits for elements."""
    produced: tuple[int, ...] = ()
    """The elements that its call gave."""
    cancelled: int = 0
    """The token that cancelled it; 0 for none."""

    @property
    def backtracked(self) -> bool:
        """True if it was backtracked, or is itself part of a backtrack."""
        return self.execution_type not in FORWARD


class ArcToken(msgspec.Struct, omit_defaults=True, gc=False):
    """A token on an arc: pending, then active, then complete."""

    id: int
    """Its number."""
    arc: int
    """The arc that it is on."""
    parent: int
    """The node token that it comes from."""
    to: str
    """The node that it goes to."""
    child: int | None = None
    """The node token that it has become part of."""
    pending: bool = False
    """True while it is in the queue."""
    complete: bool = False
    """True once it is part of a node token, or cancelled."""
    execution_type: ExecutionType = "Forward"
    """Its direction, and whether it was backtracked along its arc."""
    sets: dict[int, int] = {}
    """Its place in each token set."""
    reverses: int | None = None
    """The arc token that it reverses."""
    waits: bool = False
    """True while it is in the lines of its node."""
    cancelled: int = 0
    """The token that cancelled it; 0 for none."""

    @property
    def backtracked(self) -> bool:
        """True if it was backtracked along its arc, or itself goes back."""
        return self.execution_type not in FORWARD

    @property
    def places(self) -> list[str]:
        """The places in which it waits at the end of its arc."""
        return [place(self.arc), *(place_of(self.arc, member) for member in self.sets.items() or [None])]


def place(arc: int) -> str:
    """The place in which all arc tokens of an arc wait."""
    return str(arc)


def place_of(arc: int, member: tuple[int, int] | None) -> str:
    """The place in which tokens wait that are a given member of a set, or in no set if `member` is None."""
    return f"{arc}/{member[0]}/{member[1]}" if member is not None else f"{arc}/"


FORWARD = frozenset({"Forward", "UTurn"})


class TokenSet(msgspec.Struct, omit_defaults=True, gc=False):
    """Tokens that were made together (section 7)."""

    id: int
    """Its number."""
    name: str
    """Its name."""
    count: int
    """The number of its members."""
    level: int
    """Its depth within other sets."""
    environment: dict[str, str] = {}
    """The attributes of all members."""
    members: dict[int, dict[str, str]] = {}
    """The attributes of single members."""
    nodes: dict[int, None] = {}
    """Its active node tokens."""
    arcs: dict[int, None] = {}
    """Its active arc tokens."""
    heading: dict[str, int] = {}
    """The number of its active arc tokens by the node that they head for."""

    def all_at(self, node: str) -> bool:
        """True if it has no active node token, and all its active arc tokens head for this node."""
        return not self.nodes and self.heading.get(node, 0) == len(self.arcs)


class Line(msgspec.Struct, gc=False):
    """Tokens in order of arrival. Those that left are dropped when they reach the head or become many, so the
    cost does not grow with the line. A dictionary would scan past all removed tokens to find its first.
    """

    tokens: list[int] = []
    head: int = 0
    gone: int = 0

    def join(self, token: int) -> None:
        """Append a token."""
        self.tokens.append(token)

    def leave(self, token: int, stands: Callable[[int], bool]) -> None:
        """Remove a token from any place; `stands` tells whether a token is still in line."""
        tokens, head = self.tokens, self.head
        if not self.gone and tokens[head] == token and head < _COMPACT_AFTER:
            self.head = head + 1
            return
        self.gone += 1
        while head < len(tokens) and not stands(tokens[head]):
            head += 1
            self.gone -= 1
        self.head = head
        if head > _COMPACT_AFTER and 2 * head > len(tokens):
            del tokens[:head]
            self.head = 0
        if self.gone > _COMPACT_AFTER and 2 * self.gone > len(self.tokens) - self.head:
            self.tokens = [token for token in self.tokens[self.head :] if stands(token)]
            self.head = self.gone = 0

    @property
    def first(self) -> int | None:
        """The token that came first; None if there is none."""
        return self.tokens[self.head] if self.head < len(self.tokens) else None

    def all(self, stands: Callable[[int], bool]) -> Iterator[int]:
        """All tokens still in line."""
        return (token for token in self.tokens[self.head :] if stands(token))
