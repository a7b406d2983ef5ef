"""The state of a process: its tokens, their sets, and the lines in which they wait (sections 1 and 7).

A process     created → executing → pending-completion → completed
              executing → pending-cancel → cancelled      any not ended → failed: narval cannot continue
A node token  created → accepted, skipped or delayed (active) → complete      created → discarded
An arc token   pending (in the queue) → processed (active) → complete (it has a child)

Tokens of both kinds and token sets share one numbering, in order of creation. Indexes hold what every event
needs: the active tokens, those that wait at the end of an arc (also by members of sets), the newest of a
node. So the cost of a step does not grow with the number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import msgspec

from narval.core.engines.commands import Call
from narval.core.engines.run_state import Moves, RunState

_COMPACT_AFTER = 32

ExecutionType = Literal["Forward", "ForwardBacktracked", "Backtracked", "UTurn", "UTurnBacktracked"]


FORWARD = frozenset({"Forward", "UTurn"})


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
    held_back: bool = False
    """True from its acceptance until its node is executed, which a listener may hold up."""

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


class ProcessState(RunState, omit_defaults=True, gc=False):
    """One run of a process."""

    KIND: ClassVar[str] = "process"
    MOVES: ClassVar[Moves] = {
        "created": frozenset({"executing", "pending-cancel", "failed"}),
        "executing": frozenset({"pending-completion", "pending-cancel", "failed"}),
        "pending-completion": frozenset({"completed", "pending-cancel", "failed"}),
        "pending-cancel": frozenset({"cancelled", "failed"}),
    }
    PHASES: ClassVar[Mapping[str, str]] = {"completed": "done", "cancelled": "cancelled", "failed": "failed"}

    environment: dict[str, str] = {}
    """The attributes of the process."""
    next_token: int = 1
    """The number of the next token or set."""
    nodes: dict[int, NodeToken] = {}
    """Node tokens by number."""
    arcs: dict[int, ArcToken] = {}
    """Arc tokens by number."""
    sets: dict[int, TokenSet] = {}
    """Token sets by number."""
    active_nodes: dict[int, None] = {}
    """The node tokens that are active."""
    active_arcs: dict[int, None] = {}
    """The arc tokens that are active."""
    queue: Line = msgspec.field(default_factory=Line)
    """Pending arc tokens, oldest first."""
    standing: dict[str, dict[int, None]] = {}
    """Active node tokens by node."""
    newest: dict[str, int] = {}
    """The newest node token of each node."""
    waiting: dict[str, Line] = {}
    """Arc tokens that wait at the end of an arc: see `place` and `place_of`."""
    calls: dict[str, int] = {}
    """Calls under way, and their node tokens."""
    hooks: dict[str, None] = {}
    """The calls under way that tell a node that it was backtracked."""
    code: str = ""
    """The call under way that runs code of the process: there is one at a time (section 18)."""
    code_line: Line = msgspec.field(default_factory=Line)
    """Node tokens whose code must still run, oldest first."""
    failed: dict[int, int] = {}
    """Active node tokens whose node failed, with their error elements."""
    undoing: list[int] = []
    """Tokens whose nodes must still be told of their backtracking; a negated number is a token that runs
    afterwards.
    """
    reserved: dict[str, tuple[int, ...]] = {}
    """The elements that a call has reserved."""
    delayed: dict[str, int] = {}
    """Node tokens by the timer that they wait for."""
    watches: dict[str, int] = {}
    """Node tokens by the watch that they wait for."""
    listeners: dict[str, int] = {}
    """Listeners of this process, and the masks of their events."""
    paused: str = ""
    """The timer after which it continues its queue; "" if the queue is not paused."""
    laps: int = 0
    """The number of advances in a row that only continued the queue."""

    @classmethod
    def blank(cls, run: int, definition: Any) -> Self:
        """The state of a process that has not started."""
        return cls(run, definition.full_name, "created")

    def progress(self) -> Iterator[tuple[str, str]]:
        """The nodes that have tokens, and the tokens."""
        return ((node, " ".join(map(str, tokens))) for node, tokens in self.standing.items())

    @property
    def is_active(self) -> bool:
        """True if a token is active, or the user's code runs for one."""
        return bool(self.active_nodes or self.active_arcs or self.calls or self.undoing)

    def waits_in_line(self, token: int) -> bool:
        """True if an arc token waits at its node."""
        return token in self.active_arcs

    def waits_for_code(self, token: int) -> bool:
        """True if code is queued for a node token."""
        return self.nodes[token].queued

    def first_in(self, place: str) -> int | None:
        """The arc token that has waited longest in a place, or None."""
        return self.waiting[place].first if place in self.waiting else None

    def standing_in(self, place: str) -> Iterator[int]:
        """The arc tokens that wait in a place, longest first."""
        return self.waiting[place].all(self.waits_in_line) if place in self.waiting else iter(())

    def deepest(self, sets: dict[int, int]) -> tuple[int, int] | None:
        """The deepest of these sets, and the place in it; None if there are none."""
        if not sets:
            return None
        deepest = max(sets, key=lambda number: self.sets[number].level)
        return deepest, sets[deepest]

    def leave_queue(self, token: ArcToken) -> None:
        """Take a pending token out of the queue."""
        token.pending = False
        self.queue.leave(token.id, lambda number: self.arcs[number].pending)

    def stand_in_line(self, token: ArcToken) -> None:
        """Let an arc token wait at the end of its arc for others to join."""
        token.waits = True
        for spot in token.places:
            if spot not in self.waiting:
                self.waiting[spot] = Line()
            self.waiting[spot].join(token.id)

    def deactivate_arc(self, token: ArcToken) -> None:
        """Take an arc token out of the queue, and out of the indexes of active ones."""
        if token.pending:
            self.leave_queue(token)
        if self.active_arcs.pop(token.id, True) is None and token.waits:
            token.waits = False
            for spot in token.places:
                line = self.waiting[spot]
                line.leave(token.id, self.waits_in_line)
                if line.first is None:
                    del self.waiting[spot]

    def leave_sets(self, token: ArcToken) -> None:
        """Take an arc token out of the active ones of its sets."""
        for number in token.sets:
            token_set = self.sets[number]
            if token_set.arcs.pop(token.id, True) is None:
                token_set.heading[token.to] -= 1
                if not token_set.heading[token.to]:
                    del token_set.heading[token.to]

    def inherited(self, arcs: list[int] | tuple[int, ...]) -> dict[str, str]:
        """The attributes of the tokens that these arc tokens come from; later ones win (section 8)."""
        if len(arcs) == 1:
            return self.nodes[self.arcs[arcs[0]].parent].environment
        merged: dict[str, str] = {}
        for number in arcs:
            merged.update(self.nodes[self.arcs[number].parent].environment)
        return merged

    def activate(self, token: NodeToken, guard: str) -> None:
        """Make a token active on its node, with the answer of the guard, "" for none. An answer clears an
        earlier failure of the guard.
        """
        token.guard = guard
        if guard and self.failed:
            self.failed.pop(token.id, None)
        self.active_nodes[token.id] = None
        self.standing.setdefault(token.node, {})[token.id] = None

    def deactivate(self, token: NodeToken) -> None:
        """Take a node token out of the indexes of active ones."""
        token.held_back = False
        if token.queued:
            token.queued = False
            self.code_line.leave(token.id, self.waits_for_code)
        if self.failed:
            self.failed.pop(token.id, None)
        if self.active_nodes.pop(token.id, True) is None:
            standing = self.standing[token.node]
            del standing[token.id]
            if not standing:
                del self.standing[token.node]
