"""The findings of exploration: proofs and stories.

An *error* is a proof: something that no run can ever do. It is reported only if nothing was left out of the
walk. A *note* is a story: something that may happen in a run, as far as narval can know, and that its author
may not have intended. Unhandled errors are notes, since most recipes are intended to fail then. A story is
told as a way through the search, in words for people: events, and the states that followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from narval.core.definitions.library import Definition, Library
from narval.core.definitions.remote_calls import called
from narval.core.engines.commands import Watch
from narval.core.engines.events import Cancelled, Matched, Produced, Returned, Signalled, Started, TimerFired
from narval.core.engines.registry import engine_of, is_runnable
from narval.core.engines.story import joined
from narval.core.engines.structure import (
    Analysable,
    Exit,
    Finding,
    HasExits,
    Part,
    PartKey,
    Structure,
    Walkable,
)
from narval.core.kinds import KINDS
from narval.core.patterns.contradictions import contradictory, demands
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.trials.explore.search import (
    ERRS,
    GIVEN_UP,
    LATE,
    MOST_STATES,
    WELL,
    WRONG,
    Explored,
    SearchNode,
    explore,
    in_vain,
    structure_of,
)
from narval.trials.explore.state import RUN, ExplorationState

STUCK = "stuck"
"""The type of the error of a run in which nothing could proceed."""

ERRORS = frozenset({ERRS, LATE})
"""The outcomes of a call in error; also the types of the errors that exploration makes."""

_NUMBER = re.compile(rf"\b{str(RUN)[:4]}\d{{{len(str(RUN)) - 4}}}\b")
"""The number of an element of exploration, which is meaningless to people."""


class Examined(NamedTuple):
    """The findings of one definition; `complete` is true if nothing was left out of `states` states.

    `walked` is false for a kind of which only the graph is examined, here or when it is loaded.
    """

    findings: list[Finding]
    states: int = 0
    complete: bool = True
    walked: bool = True


def is_explorable(definition: Definition) -> bool:
    """True if a definition has runs about which something can be reported.

    Work items have none: the consequences of an answer are reported for the definition that asks.
    """
    return is_runnable(definition.kind) and not KINDS[definition.kind].asks


def examine(
    definition: Definition,
    library: Library,
    most: int = MOST_STATES,
    enough: Callable[[int], bool] = lambda states: False,
) -> Examined:
    """Explore a definition in the way of its kind: by analysis, or by a walk within limits."""
    engine = engine_of(definition.kind)
    if isinstance(engine, Analysable):
        return Examined(engine.unreachable(definition, library), walked=False)
    if not isinstance(engine, Walkable):
        return Examined([], walked=False)
    explored = explore(definition, library, most, enough)
    results = findings(explored)
    if isinstance(engine, HasExits):
        results = sorted([*results, *dead_ends(definition, library, engine)])
    return Examined(results, explored.states, explored.complete)


def findings(explored: Explored) -> list[Finding]:
    """All findings about a definition, in the order of the file."""
    collected = _Findings(explored)
    return sorted(
        [*(collected.proofs() if explored.complete else collected.unproved()), *collected.stories()]
    )


class _Findings:
    def __init__(self, explored: Explored) -> None:
        self.explored = explored
        self.definition = explored.definition
        self.structure: Structure = structure_of(self.definition)
        parts = self.structure.parts.values()
        self.idle = {
            part.key
            for part in parts
            if not any(explored.at(part.key, part.did, well) for well in (True, False))
        }

    # --- impossible parts -----------------------------------------------------------------------------

    def proofs(self) -> Iterator[Finding]:
        """The parts that no run can ever reach."""
        for part in self.structure.parts.values():
            if part.key in self.idle:
                yield self._cannot(part)
        ends = self.explored.ends.items()
        if not any(phase == "done" for (phase, _, _), _ in ends):
            failed = _nearest(node for (phase, _, _), node in ends if phase == "failed")
            end = self.structure.parts[self.structure.end]
            message = f"no {self.structure.run} can ever be done: its end is {end.name}"
            yield self._error(end, message, self.explored.stuck or self._stuck() or failed)

    def _cannot(self, part: Part) -> Finding:
        blocking = [self.structure.parts[key] for key in part.after if key in self.idle]
        if blocking and (part.needs_all or len(blocking) == len(part.after)):
            names = " and ".join(part.name for part in blocking)
            return self._error(
                part, f"{part.cannot}, as {names} never {'does' if len(blocking) == 1 else 'do'}"
            )
        node = self._not_doing(part)
        return self._error(part, part.cannot + self._reason(part, node), node)

    def _not_doing(self, part: Part) -> SearchNode | None:
        """The node where an idle part comes nearest to acting; preferably one without errors before it."""
        for well in (True, False):
            for words in (part.lost, part.ended, part.waits):
                node = self.explored.at(part.key, words, well)
                if node is not None:
                    return node
        return None

    def _reason(self, part: Part, node: SearchNode | None) -> str:
        """The reason, in the words with which the engine explains such a run."""
        if node is None:
            return ""
        engine = engine_of(self.definition.kind)
        state = msgspec.msgpack.decode(node.reached.state, type=engine.state_type)
        words = engine.explain(self.definition, state, part.key[1]) or ""
        sentence = "".join(map(str, joined([words], "")))
        vain = [_text(watch) for watch in node.reached.in_force.watches.values() if in_vain(watch)]
        reasons = [_NUMBER.sub("…", sentence)] if sentence else []
        reasons += [f"nothing can fit {text}" for text in vain]
        return f": {'; '.join(reasons)}" if reasons else ""

    # --- unproved parts -------------------------------------------------------------------------------

    def unproved(self) -> Iterator[Finding]:
        """The finding that the search was cut short, and what it did not see: none of that is proved."""
        unseen = ", ".join(part.name for key, part in self.structure.parts.items() if key in self.idle)
        never = f"; not seen to do anything by then: {unseen}" if unseen else ""
        message = f"{self.explored.cut}: what follows is not a proof{never}"
        yield Finding(self.definition.path, self.definition.line, 1, "note", "", message)

    # --- possible events ------------------------------------------------------------------------------

    def stories(self) -> Iterator[Finding]:
        """The findings about states that a run may reach."""
        run = self.structure.run
        stuck = self._stuck()
        if stuck is not None:
            yield self._note(f"a {run} can get stuck, though no error ends it: nothing can go on then", stuck)
        if self.explored.stuck is not None:
            message = f"a {run} can come to wait for ever: nothing can happen to it any more"
            yield self._note(message, self.explored.stuck)
        yield from self._unhandled()

    def _stuck(self) -> SearchNode | None:
        """The nearest node where a run fails because nothing in it could proceed."""
        return _nearest(node for (_, kind, _), node in self.explored.ends.items() if kind == STUCK)

    def _unhandled(self) -> Iterator[Finding]:
        """Errors of calls that end a run, in one report: those never handled, and those handled sometimes."""
        unhandled: dict[str, SearchNode] = {}
        for (phase, kind, part), node in self.explored.ends.items():
            if phase == "failed" and kind in ERRORS:
                unhandled.setdefault(part, node)
        handled = set(self._handled()) if self.explored.complete else set(unhandled)
        then = f"the {self.structure.run} fails{', and starts again' if self.structure.restarts else ''}"
        for text, parts in (
            ("nobody handles errors of {}: {}", [part for part in unhandled if part not in handled]),
            ("errors of {} are not always handled: {} then", [part for part in unhandled if part in handled]),
        ):
            nearest = _nearest(unhandled[part] for part in parts)
            if nearest is not None:
                names = ", ".join(sorted(parts, key=self._rank))
                yield self._note(text.format(names, then), nearest)

    def _handled(self) -> Iterator[str]:
        """The parts whose errors are handled somewhere."""
        for node in self.explored.nodes:
            for part in _erring(node, self.structure):
                if node.words[part] == self.structure.handled:
                    yield part[1]

    def _rank(self, step: str) -> int:
        return list(self.structure.parts).index((self.structure.calling, step))

    def _note(self, message: str, node: SearchNode) -> Finding:
        story = tuple(trace_of(node))
        return Finding(self.definition.path, self.definition.line, 1, "note", "", message, story)

    def _error(self, part: Part, message: str, node: SearchNode | None = None) -> Finding:
        story = tuple(trace_of(node, part.key)) if node is not None else ()
        return Finding(self.definition.path, part.line, 1, "error", part.key[1], message, story)


def _nearest(nodes: Iterable[SearchNode]) -> SearchNode | None:
    return min(nodes, key=lambda node: node.reached.depth, default=None)


def _text(watch: Watch) -> str:
    return " or ".join(bound.text for bound in watch.conditions)


def _erring(node: SearchNode, structure: Structure) -> Iterator[PartKey]:
    """The parts that were in error so far, or whose call has just ended in an error."""
    if node.before is None:
        return
    yield from (part for part, word in node.before.words.items() if word == structure.in_error)
    event = node.reached_by.event
    if isinstance(event, Returned) and node.reached_by.outcome in ERRORS:
        yield structure.calling, node.before.reached.in_force.calls[event.call].step


def dead_ends(definition: Definition, library: Library, engine: HasExits) -> Iterator[Finding]:
    """The outcomes of a part that no continuation takes, and the errors that no error continuation takes.

    If there is no continuation for errors at all, the walk reports that they are not handled.
    """
    for way_out in engine.exits(definition):
        target = library.get(*way_out.target)
        for outcome in getattr(target, "outcomes", ()):
            name = getattr(target, "answer_name", "")
            if way_out.ways and _are_closed(way_out.ways, name, f"{name}[@outcome='{outcome.name}']"):
                yield _finding(definition, way_out, f"is answered {outcome.name}, no transition")
        for error in getattr(target, "errors", ()):
            if way_out.on_error and _are_closed(way_out.on_error, "error", f"error[@type='{error}']"):
                yield _finding(definition, way_out, f"ends in the error {error}, no error link")


def _are_closed(ways: Iterable[tuple[Condition, ...]], name: str, pattern: str) -> bool:
    """True if each way has a condition on elements of a name that nothing matching the pattern satisfies."""
    compiled = compile_pattern(pattern, {})
    return all(
        any(
            contradictory(demands(Condition((*demand.patterns, compiled)).bind()))
            for demand in way
            if demand.names == frozenset({name}) and not demand.variables
        )
        for way in ways
    )


def _finding(definition: Definition, way_out: Exit, what: str) -> Finding:
    _, name = way_out.target
    message = f"step {way_out.part!r}: when {name} {what} goes on"
    return Finding(definition.path, way_out.line, 1, "note", way_out.part, message)


# --- a story in words ---------------------------------------------------------------------------------------


_BACK = {
    WELL: "comes back well",
    ERRS: "ends in an error",
    LATE: "is not back in time",
    WRONG: "gives what its outputs do not allow",
    GIVEN_UP: "is given up",
}
_PLAIN = frozenset({ERRS, LATE, "bad-output"})
"""Errors that need no further words: the event has just been described."""
_QUIET = frozenset({"todo", "wait-step", "impossible"})
"""The states of a part that are not worth mentioning."""

NOTHING = ("", "")
"""No part."""


def trace_of(node: SearchNode, about: tuple[str, str] = NOTHING) -> list[str]:
    """A line for each event on the way to a node; lost parts are mentioned only for the part `about`."""
    return [_line(node, about) for node in node.way()]


def _line(node: SearchNode, about: tuple[str, str]) -> str:
    before = node.before
    words = before.words if before is not None else dict.fromkeys(node.words, "")
    moved = [
        f"{part[1]} {word}"
        for part, word in node.words.items()
        if word != words[part] and (word not in _QUIET or (part == about and before is not None))
    ]
    happened = _happened(node, before.reached if before is not None else None)
    if node.memory:
        there = [text if holds else f"no {text}" for text, holds in node.memory.items()]
        happened += f" (in memory: {', '.join(there)})"
    followed = moved + _ended(node.reached)
    return f"{happened}: {', '.join(followed)}" if followed else happened


def _ended(reached: ExplorationState) -> list[str]:
    finish = reached.finish
    if finish is None:
        return []
    error = reached.errors.get(finish.error or 0)
    why = f" ({error.kind}: {error.message})" if error is not None and error.kind not in _PLAIN else ""
    return [f"the run {finish.state}{why}"]


def _happened(node: SearchNode, before: ExplorationState | None) -> str:
    event, outcome = node.reached_by.event, node.reached_by.outcome
    match event:
        case Started():
            return "it starts"
        case Returned() if before is not None:
            call = before.in_force.calls[event.call]
            return f"{called(call.kind, call.name, call.agent)} of {call.step} {_BACK[outcome]}"
        case Produced() if before is not None:
            call = before.in_force.calls[event.call]
            gives = "gives elements and goes on" if outcome == WELL else _BACK[outcome]
            return f"{called(call.kind, call.name, call.agent)} of {call.step} {gives}"
        case Matched() if before is not None:
            if not before.in_force.watches[event.watch].conditions:
                return "an element is replaced, or is outdated"
            texts = dict.fromkeys(bound.text for bound in before.in_force.watches[event.watch].conditions)
            return f"an element comes that fits {' or '.join(texts)}"
        case TimerFired() if before is not None:
            early = event.at < before.in_force.wakes[event.wake].at
            return "the moment comes" if not early else "the clock is set back"
        case Signalled():
            return "someone signals something to it"
        case Cancelled():
            return "someone cancels it"
    return type(event).__name__.lower()
