"""The walk through all states that a run may reach, nearest first, so that each story is the shortest.

The events that may come next to a run are all that the contract allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from narval.core.definitions.library import Definition, Library
from narval.core.engines import events
from narval.core.engines.commands import SEND, SIGNAL, Call, Watch
from narval.core.engines.engine import Engine
from narval.core.engines.registry import engine_of, is_runnable
from narval.core.engines.structure import PartKey, Structure, Walkable
from narval.core.patterns.contradictions import contradictory, demands
from narval.trials.explore.assumptions import Choices, TooManyWays, each_way
from narval.trials.explore.state import FIRST_EVENT, LAST_MOMENT, RUN, UNTROUBLED, ErrorSeen, ExplorationState
from narval.trials.explore.unknown_memory import MANY, MISFIT, Targets, UnknownMemory

MOST_STATES = 20_000
"""The default limit of states to examine."""

WAYS_A_STATE = 20
"""The average number of an event's consequences followed for each state within the limit."""

Words = dict[PartKey, str]
"""The state of each part of a run, by the list in which its engine shows it and its id there."""


class SearchNode(msgspec.Struct, frozen=True, eq=False):
    """A situation that a run can reach, and its history: the event, the contents of memory, the previous
    situation.

    `well` says that all calls so far succeeded.
    """

    reached: ExplorationState
    words: Words
    reached_by: NextEvent
    memory: Mapping[str, bool]
    before: SearchNode | None = None
    well: bool = True

    def way(self) -> Iterator[SearchNode]:
        """From the beginning to here."""
        nodes: list[SearchNode] = []
        node: SearchNode | None = self
        while node is not None:
            nodes.append(node)
            node = node.before
        return reversed(nodes)


class Explored(msgspec.Struct):
    """The results of the walk through one definition.

    `complete` says that nothing was left out, so that whatever is missing here is impossible; otherwise `cut`
    says why. `nodes` are all the situations of a run before its end. `seen` has, for a part and the word of a
    state, the nearest node where the part is in it, while all calls succeed (True) and otherwise. `ends` has
    the nearest node where a run ends in a phase, with the type and step of its error. From `stuck` nothing
    can happen.
    """

    definition: Definition
    complete: bool = True
    cut: str = ""
    seen: dict[tuple[PartKey, str, bool], SearchNode] = {}
    ends: dict[tuple[str, str, str], SearchNode] = {}
    nodes: list[SearchNode] = []
    stuck: SearchNode | None = None

    @property
    def states(self) -> int:
        """The number of nodes found."""
        return len(self.nodes)

    def at(self, part: PartKey, words: Iterable[str], well: bool) -> SearchNode | None:
        """The nearest node where a part is in one of these states, while all calls succeed or not."""
        nodes = [node for word in words if (node := self.seen.get((part, word, well))) is not None]
        return min(nodes, key=lambda node: node.reached.depth, default=None)


def structure_of(definition: Definition) -> Structure:
    """The parts of a definition whose runs can be walked through. Raises TypeError for another."""
    engine = engine_of(definition.kind)
    if not isinstance(engine, Walkable):
        raise TypeError(f"runs of kind {definition.kind} cannot be walked through")
    return engine.structure(definition)


def explore(
    definition: Definition,
    library: Library,
    most: int = MOST_STATES,
    enough: Callable[[int], bool] = lambda states: False,
) -> Explored:
    """Explore the possible futures of a run of a definition, to `most` states, or until `enough` says so."""
    walk = _Walk(definition, library, enough)
    try:
        walk.go(most)
    except TooManyWays:
        walk.found.complete, walk.found.cut = False, "events can have too many consequences"
    except _EnoughError:
        walk.found.complete = False
        walk.found.cut = f"the search was cut short after {walk.found.states} states"
    return walk.found


class _EnoughError(Exception):
    """The signal that the limit of the walk is reached."""


class _Walk:
    def __init__(self, definition: Definition, library: Library, enough: Callable[[int], bool]) -> None:
        self.found = Explored(definition)
        self._enough = enough
        self._definition = definition
        self._engine: Engine = engine_of(definition.kind)
        self._targets = Targets(library)
        self._outlived = structure_of(definition).outlived
        self._decode = msgspec.msgpack.Decoder(self._engine.state_type).decode
        self._ways_left = 0
        self._known: set[bytes] = set()
        self._ahead: deque[SearchNode] = deque()

    def go(self, most: int) -> None:
        """Walk until there is nothing new. Raises _EnoughError before that."""
        self._ways_left = most * WAYS_A_STATE
        blank = self._engine.state_type.blank(RUN, self._definition)
        beginning = NextEvent(events.Started(FIRST_EVENT, ExplorationState(b"").now))
        self._happens(ExplorationState(msgspec.msgpack.encode(blank)), beginning, None)
        while self._ahead:
            if self.found.states >= most or self._enough(self.found.states):
                raise _EnoughError
            self._expand(self._ahead.popleft())

    def _expand(self, node: SearchNode) -> None:
        reached, moved = node.reached, False
        for coming in next_events(reached, self._targets):
            moved = True
            self._happens(reached, coming, node)
        if not moved and self.found.stuck is None:
            self.found.stuck = node
        for coming in at_any_time(reached):
            self._follow(reached, coming, node)

    def _happens(self, reached: ExplorationState, coming: NextEvent, before: SearchNode | None) -> None:
        """Handle an event now, and after the last date that comes, if that makes a difference."""
        self._follow(reached, coming, before)
        if self._outlived and reached.now < LAST_MOMENT:
            self._follow(reached, much_later(coming), before)

    def _follow(self, reached: ExplorationState, coming: NextEvent, before: SearchNode | None) -> None:
        """Follow every consequence of an event."""

        def decide(choices: Choices) -> tuple[ExplorationState, Mapping[str, bool]]:
            return self._advanced(reached, coming, choices)

        for after, memory in each_way(decide):
            self._ways_left -= 1
            if self._ways_left < 0:
                raise TooManyWays
            if self._enough(self.found.states):  # one event can have ten thousand consequences
                raise _EnoughError
            if after.finish is None:
                identity = after.identity()
                if identity in self._known:
                    continue
                self._known.add(identity)
            self._arrive(after, coming, memory, before)

    def _advanced(
        self, reached: ExplorationState, coming: NextEvent, choices: Choices
    ) -> tuple[ExplorationState, Mapping[str, bool]]:
        state, event = self._decode(reached.state), coming.event
        next_eid = max(reached.next_eid, coming.next_eid)
        watched = reached.counted_on() if isinstance(event, events.TimerFired) else frozenset[int]()
        view = UnknownMemory(self._targets, choices, reached.in_force.calls, next_eid, event.at, watched)
        decision = self._engine.decision_type(self._definition, state, event, view)
        self._engine.advance(decision, event)
        return reached.after(event, state, decision.commands, view.next_eid, coming.errors), view.answers

    def _arrive(
        self,
        reached: ExplorationState,
        coming: NextEvent,
        memory: Mapping[str, bool],
        before: SearchNode | None,
    ) -> None:
        state = self._decode(reached.state)
        well = coming.outcome in ("", WELL) and (before is None or before.well)
        node = SearchNode(reached, self.words(state), coming, memory, before, well)
        findings = self.found
        for part, word in node.words.items():
            findings.seen.setdefault((part, word, well), node)
        if reached.finish is None:
            findings.nodes.append(node)
            self._ahead.append(node)
            return
        error = reached.errors.get(reached.finish.error or 0, UNTROUBLED)
        findings.ends.setdefault((reached.finish.phase, error.kind, error.step), node)

    def words(self, state: Any) -> Words:
        """The state of each part."""
        parts = self._engine.parts(self._definition, state).items()
        return {(name, part["id"]): part["state"] for name, listed in parts for part in listed}


# --- the events that may come next --------------------------------------------------------------------------


WELL, ERRS, LATE, WRONG, GIVEN_UP = "well", "error", "timeout", "wrong", "given up"
"""The outcomes of a call: its outputs, an error, a timeout, a wrong output, or given up."""

_MESSAGES = {ERRS: "the call ended in an error", LATE: "the call was not back in time"}


class NextEvent(msgspec.Struct, frozen=True):
    """An event, the outcome of the call if it is a return, and the error it brings, by its eid."""

    event: events.Event
    outcome: str = ""
    errors: dict[int, ErrorSeen] = {}
    next_eid: int = 0


def next_events(reached: ExplorationState, targets: Targets) -> Iterator[NextEvent]:
    """The events that may come next; good outcomes first."""
    identifier, now = FIRST_EVENT + reached.depth, reached.now
    for call in reached.in_force.calls.values():
        yield from _returns(call, reached, identifier, targets)
    for watch in reached.in_force.watches.values():
        if not (watch.standing or in_vain(watch)):
            event = events.Matched(identifier, now, watch.watch, reached.next_eid)
            yield NextEvent(event, next_eid=reached.next_eid + 1)
    for wake in sorted(reached.in_force.wakes.values(), key=lambda wake: wake.at):
        if wake.standing and reached.rounds + 1 >= MANY:  # together with the first call these are many
            continue
        yield NextEvent(events.TimerFired(identifier, max(now, wake.at), wake.wake))
        if wake.calendar and wake.at > now:
            yield NextEvent(events.TimerFired(identifier, now, wake.wake))


def at_any_time(reached: ExplorationState) -> Iterator[NextEvent]:
    """The events that may come at any moment: a signal, a cancellation."""
    identifier, now = FIRST_EVENT + reached.depth, reached.now
    yield NextEvent(events.Signalled(identifier, now, f"{identifier}.0", "any"))
    yield NextEvent(events.Cancelled(identifier, now, "someone asked"))


def much_later(coming: NextEvent) -> NextEvent:
    """The same event after all dates that will ever come."""
    return msgspec.structs.replace(coming, event=msgspec.structs.replace(coming.event, at=LAST_MOMENT))


def in_vain(watch: Watch) -> bool:
    """True if no element can ever satisfy a watch, and the watch has no other trigger."""
    return not watch.elements and all(contradictory(demands(bound)) for bound in watch.conditions)


def _returns(call: Call, reached: ExplorationState, identifier: int, targets: Targets) -> Iterator[NextEvent]:
    """The possible returns of a call."""
    now, eid = reached.now, reached.next_eid
    if is_runnable(call.kind):
        yield NextEvent(events.Returned(identifier, now, call.call, eids=(eid,)), WELL, next_eid=eid + 1)
    else:
        outputs = targets.outputs(call.kind, call.name)
        yield NextEvent(events.Returned(identifier, now, call.call, outputs), WELL)
        if targets.is_source(call.kind, call.name):
            yield from _yields(call, identifier, now, outputs)
        if call.kind not in (SEND, SIGNAL):  # it has no output
            yield NextEvent(events.Returned(identifier, now, call.call, (MISFIT,)), WRONG)
    yield _erring(call, reached, identifier, ERRS)
    yield _erring(call, reached, identifier, ERRS, final=True)
    if call.timeout is not None:
        yield _erring(call, reached, identifier, LATE)
    if call.call in reached.in_force.abandoned:
        yield NextEvent(events.Returned(identifier, now, call.call, abandoned=True), GIVEN_UP)


def _yields(
    call: Call, identifier: int, now: float, outputs: tuple[events.OutputElement, ...]
) -> Iterator[NextEvent]:
    """The elements that a source may yield before its end."""
    if outputs:
        yield NextEvent(events.Produced(identifier, now, call.call, outputs), WELL)
    yield NextEvent(events.Produced(identifier, now, call.call, (MISFIT,)), WRONG)


def _erring(
    call: Call, reached: ExplorationState, identifier: int, outcome: str, *, final: bool = False
) -> NextEvent:
    """The events in which a call ends in error; a final one cannot be retried; a run leaves its errors."""
    problem, eid = events.Failure(outcome, _MESSAGES[outcome], final=final), reached.next_eid
    if not is_runnable(call.kind):
        return NextEvent(events.Returned(identifier, reached.now, call.call, problem=problem), outcome)
    event = events.Returned(identifier, reached.now, call.call, eids=(eid,), problem=problem)
    return NextEvent(event, outcome, {eid: ErrorSeen(problem.kind, problem.message, call.step)}, eid + 1)
