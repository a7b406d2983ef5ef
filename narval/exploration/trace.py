"""A way through the walk, as people tell it: what happened, and what became of it."""

from __future__ import annotations

from narval.engines.events import Cancelled, Matched, Produced, Returned, Signalled, Started, TimerFired
from narval.exploration.outcomes import ERRS, GIVEN_UP, LATE, WELL, WRONG
from narval.exploration.search import SearchNode
from narval.exploration.state import ExplorationState

_BACK = {
    WELL: "comes back well",
    ERRS: "ends in an error",
    LATE: "is not back in time",
    WRONG: "gives what its outputs do not allow",
    GIVEN_UP: "is given up",
}
_PLAIN = frozenset({ERRS, LATE, "bad-output"})
"""Errors that need no more words: what happened has just been told."""
_QUIET = frozenset({"todo", "wait-step", "impossible"})
"""What is not worth telling of each part: that it has not come to anything yet, or never will."""


NOTHING = ("", "")
"""No part."""


def tell(place: SearchNode, about: tuple[str, str] = NOTHING) -> list[str]:
    """One line for each thing that happens on the way to a place; what is lost is told of one part only."""
    return [_line(node, about) for node in place.way()]


def _line(place: SearchNode, about: tuple[str, str]) -> str:
    before = place.before
    known = before.words if before is not None else dict.fromkeys(place.words, "")
    moved = [
        f"{part[1]} {word}"
        for part, word in place.words.items()
        if word != known[part] and (word not in _QUIET or (part == about and before is not None))
    ]
    happened = _happened(place, before.situation if before is not None else None)
    if place.memory:
        there = [text if found else f"no {text}" for text, found in place.memory.items()]
        happened += f" (in memory: {', '.join(there)})"
    followed = moved + _ended(place.situation)
    return f"{happened}: {', '.join(followed)}" if followed else happened


def _ended(situation: ExplorationState) -> list[str]:
    finish = situation.finish
    if finish is None:
        return []
    trouble = situation.troubles.get(finish.error or 0)
    why = (
        f" ({trouble.kind}: {trouble.message})" if trouble is not None and trouble.kind not in _PLAIN else ""
    )
    return [f"the run {finish.state}{why}"]


def _happened(place: SearchNode, before: ExplorationState | None) -> str:
    event, outcome = place.happening.event, place.happening.outcome
    match event:
        case Started():
            return "it starts"
        case Returned() if before is not None:
            call = before.calls[event.call]
            return f"{call.kind} {call.name} of {call.step} {_BACK[outcome]}"
        case Produced() if before is not None:
            call = before.calls[event.call]
            gives = "gives elements and goes on" if outcome == WELL else _BACK[outcome]
            return f"{call.kind} {call.name} of {call.step} {gives}"
        case Matched() if before is not None:
            texts = dict.fromkeys(bound.text for bound in before.watches[event.watch].conditions)
            return f"an element comes that fits {' or '.join(texts)}"
        case TimerFired() if before is not None:
            early = event.at < before.wakes[event.wake].at
            return "the moment comes" if not early else "the clock is set back"
        case Signalled():
            return "someone signals something to it"
        case Cancelled():
            return "someone cancels it"
    return type(event).__name__.lower()
