"""Tokens, the sets they are members of, and the lines they stand in (sections 1 and 7). Plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

_COMPACT_AFTER = 32


ExecutionType = Literal["Forward", "ForwardBacktracked", "Backtracked", "UTurn", "UTurnBacktracked"]


class NodeToken(msgspec.Struct, omit_defaults=True, gc=False):
    """A token on a node. It is active from being accepted, skipped or delayed until it is complete.

    `guard` is what the guard said last. `reverses` is the token from which was gone back to this one. `call`
    executes the node, `watch` waits for memory, `wake` for the moment `until`; `produced` are the elements
    its call gave. It is `queued` while other code of the process runs; of its calls, `tries` have failed and
    are made again. `cancelled` is the token that cancelled it. `environment` is never altered in place:
    tokens share it with those they come from.
    """

    id: int
    node: str
    created: float
    parents: list[int] = []
    children: list[int] = []
    execution_type: ExecutionType = "Forward"
    guard: str = ""
    completed: float | None = None
    environment: dict[str, str] = {}
    sets: dict[int, int] = {}
    reverses: int | None = None
    delays: int = 0
    until: float | None = None
    wake: str = ""
    call: str = ""
    queued: bool = False
    tries: int = 0
    watch: str = ""
    produced: tuple[int, ...] = ()
    cancelled: int = 0

    @property
    def backtracked(self) -> bool:
        """True if it was gone back from, or is itself part of going back."""
        return self.execution_type not in FORWARD


class ArcToken(msgspec.Struct, omit_defaults=True, gc=False):
    """A token on an arc, from the node token `parent` to a node: pending, then active, then complete.

    `reverses` is the arc token from which it goes back. `waits`: it stands in the lines of its node.
    `cancelled` is the token that cancelled it.
    """

    id: int
    arc: int
    parent: int
    to: str
    child: int | None = None
    pending: bool = False
    complete: bool = False
    execution_type: ExecutionType = "Forward"
    sets: dict[int, int] = {}
    reverses: int | None = None
    waits: bool = False
    cancelled: int = 0

    @property
    def backtracked(self) -> bool:
        """True if its way was gone back, or is itself a way back."""
        return self.execution_type not in FORWARD

    @property
    def places(self) -> list[str]:
        """The places in which it waits at the end of its arc."""
        return [place(self.arc), *(place_of(self.arc, member) for member in self.sets.items() or [None])]


def place(arc: int) -> str:
    """The place in which all arc tokens of an arc wait."""
    return str(arc)


def place_of(arc: int, member: tuple[int, int] | None) -> str:
    """The place in which those wait that are this member of a set, or that are in no set."""
    return f"{arc}/{member[0]}/{member[1]}" if member is not None else f"{arc}/"


FORWARD = frozenset({"Forward", "UTurn"})


class TokenSet(msgspec.Struct, omit_defaults=True, gc=False):
    """Tokens that were made together (section 7); `nodes` and `arcs` are its active ones.

    `heading` counts the active arc tokens by the node they head for; `members` are the attributes of single
    members.
    """

    id: int
    name: str
    count: int
    level: int
    environment: dict[str, str] = {}
    members: dict[int, dict[str, str]] = {}
    nodes: dict[int, None] = {}
    arcs: dict[int, None] = {}
    heading: dict[str, int] = {}

    def all_at(self, node: str) -> bool:
        """True if no node token of it is active, and all its active arc tokens head for a node."""
        return not self.nodes and self.heading.get(node, 0) == len(self.arcs)


class Line(msgspec.Struct, gc=False):
    """Tokens in the order they came. Those that left are dropped when they come to the head, or are many.

    So it costs the same however many stand in it: a dictionary would look past all that had left before it
    finds its first.
    """

    tokens: list[int] = []
    head: int = 0
    gone: int = 0

    def join(self, token: int) -> None:
        """The token is the last."""
        self.tokens.append(token)

    def leave(self, token: int, stands: Callable[[int], bool]) -> None:
        """A token left, from wherever it stood; `stands` tells of a token whether it has not."""
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
        """The one that came first."""
        return self.tokens[self.head] if self.head < len(self.tokens) else None

    def all(self, stands: Callable[[int], bool]) -> Iterator[int]:
        """All that stand in it."""
        return (token for token in self.tokens[self.head :] if stands(token))
