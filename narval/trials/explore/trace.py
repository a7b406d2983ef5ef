"""A way through the search in words for people: events, and the states that followed."""

from __future__ import annotations

from narval.core.definitions.remote_calls import called
from narval.core.engines.events import Cancelled, Matched, Produced, Returned, Signalled, Started, TimerFired
from narval.trials.explore.next_events import ERRS, GIVEN_UP, LATE, WELL, WRONG
from narval.trials.explore.search import SearchNode
from narval.trials.explore.state import ExplorationState

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
