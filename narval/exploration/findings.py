"""What is to be told of a definition that was explored.

An *error* is a proof: something that no run can ever do. It is told only when nothing was left out of the
walk. A *note* is a story: something that a run may come to, as far as narval can know, and that its author
may not have meant. Errors that nobody handles are notes, for most recipes mean to fail then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from narval.engines.commands import Watch
from narval.engines.events import Returned
from narval.engines.registry import engine_of
from narval.exploration.outcomes import ERRS, LATE, in_vain
from narval.exploration.search import Explored, SearchNode
from narval.exploration.state import RUN
from narval.exploration.structure import ANATOMIES, Key, Part, Structure
from narval.exploration.trace import tell

STUCK = "stuck"
"""The type of the error of a run of which nothing could go on (N27)."""

ERRORS = frozenset({ERRS, LATE})
"""How a call comes back when it is in error; so are the types of the errors that exploration brings."""


_NUMBER = re.compile(rf"\b{str(RUN)[:4]}\d{{{len(str(RUN)) - 4}}}\b")
"""An element of exploration, which says nothing to people."""


class Finding(msgspec.Struct, frozen=True, order=True):
    """One thing that is told of a definition: where, what, and the shortest story that leads there.

    `part` is the id of the part it is about, if it is about one.
    """

    path: str
    line: int
    column: int
    severity: Literal["error", "note"]
    part: str
    message: str
    story: tuple[str, ...] = ()


def findings(explored: Explored) -> list[Finding]:
    """All that is to be told of a definition, in the order of the file."""
    told = _Telling(explored)
    return sorted([*(told.proofs() if explored.complete else told.unproved()), *told.stories()])


class _Telling:
    def __init__(self, explored: Explored) -> None:
        self.explored = explored
        self.definition = explored.definition
        self.anatomy: Structure = ANATOMIES[self.definition.kind](self.definition)
        parts = self.anatomy.parts.values()
        self.idle = {
            each.key
            for each in parts
            if not any(explored.at(each.key, each.did, well) for well in (True, False))
        }

    # --- what cannot be -------------------------------------------------------------------------------

    def proofs(self) -> Iterator[Finding]:
        """What no run can ever do."""
        for part in self.anatomy.parts.values():
            if part.key in self.idle:
                yield self._cannot(part)
        ends = self.explored.ends.items()
        if not any(phase == "done" for (phase, _, _), _ in ends):
            failed = _nearest(place for (phase, _, _), place in ends if phase == "failed")
            end = self.anatomy.parts[self.anatomy.end]
            message = f"no {self.anatomy.run} can ever be done: its end is {end.name}"
            yield self._error(end, message, self.explored.stuck or self._stuck() or failed)

    def _cannot(self, part: Part) -> Finding:
        blocking = [self.anatomy.parts[each] for each in part.after if each in self.idle]
        if blocking and (part.needs_all or len(blocking) == len(part.after)):
            names = " and ".join(each.name for each in blocking)
            return self._error(
                part, f"{part.cannot}, as {names} never {'does' if len(blocking) == 1 else 'do'}"
            )
        place = self._not_doing(part)
        return self._error(part, part.cannot + self._reason(part, place), place)

    def _not_doing(self, part: Part) -> SearchNode | None:
        """Where a part that never does anything comes nearest to it; best where nothing went wrong before."""
        for well in (True, False):
            for words in (part.lost, part.ended, part.waits):
                place = self.explored.at(part.key, words, well)
                if place is not None:
                    return place
        return None

    def _reason(self, part: Part, place: SearchNode | None) -> str:
        """Why, in the words in which the engine tells it of such a run."""
        if place is None:
            return ""
        engine = engine_of(self.definition.kind)
        state = msgspec.msgpack.decode(place.situation.state, type=engine.state_type)
        told = engine.explain(self.definition, state, part.key[1])
        vain = [_text(each) for each in place.situation.watches.values() if in_vain(each)]
        reasons = [_NUMBER.sub("…", told)] if told else []
        reasons += [f"nothing can fit {text}" for text in vain]
        return f": {'; '.join(reasons)}" if reasons else ""

    # --- what was not seen ----------------------------------------------------------------------------

    def unproved(self) -> Iterator[Finding]:
        """That the search was cut short, and what it did not see until then: none of that is proved."""
        unseen = ", ".join(each.name for key, each in self.anatomy.parts.items() if key in self.idle)
        never = f"; not seen to do anything by then: {unseen}" if unseen else ""
        message = f"{self.explored.cut}: what follows is not a proof{never}"
        yield Finding(self.definition.path, self.definition.line, 1, "note", "", message)

    # --- what may be ----------------------------------------------------------------------------------

    def stories(self) -> Iterator[Finding]:
        """What a run may come to."""
        run = self.anatomy.run
        stuck = self._stuck()
        if stuck is not None:
            yield self._note(f"a {run} can get stuck, though no error ends it: nothing can go on then", stuck)
        if self.explored.stuck is not None:
            message = f"a {run} can come to wait for ever: nothing can happen to it any more"
            yield self._note(message, self.explored.stuck)
        yield from self._unhandled()

    def _stuck(self) -> SearchNode | None:
        """Where a run fails since nothing of it could go on."""
        return _nearest(place for (_, kind, _), place in self.explored.ends.items() if kind == STUCK)

    def _unhandled(self) -> Iterator[Finding]:
        """Errors of calls that end a run, told together: what nothing handles, what is handled at times."""
        unhandled: dict[str, SearchNode] = {}
        for (phase, kind, part), place in self.explored.ends.items():
            if phase == "failed" and kind in ERRORS:
                unhandled.setdefault(part, place)
        handled = set(self._handled()) if self.explored.complete else set(unhandled)
        then = f"the {self.anatomy.run} fails{', and starts again' if self.anatomy.restarts else ''}"
        for text, parts in (
            ("nobody handles errors of {}: {}", [each for each in unhandled if each not in handled]),
            ("errors of {} are not always handled: {} then", [each for each in unhandled if each in handled]),
        ):
            nearest = _nearest(unhandled[each] for each in parts)
            if nearest is not None:
                names = ", ".join(sorted(parts, key=self._rank))
                yield self._note(text.format(names, then), nearest)

    def _handled(self) -> Iterator[str]:
        """The parts whose errors are taken up somewhere."""
        for place in self.explored.places:
            for part in _erring(place, self.anatomy):
                if place.words[part] == self.anatomy.handled:
                    yield part[1]

    def _rank(self, step: str) -> int:
        return list(self.anatomy.parts).index((self.anatomy.calling, step))

    def _note(self, message: str, place: SearchNode) -> Finding:
        story = tuple(tell(place))
        return Finding(self.definition.path, self.definition.line, 1, "note", "", message, story)

    def _error(self, part: Part, message: str, place: SearchNode | None = None) -> Finding:
        story = tuple(tell(place, part.key)) if place is not None else ()
        return Finding(self.definition.path, part.line, 1, "error", part.key[1], message, story)


def _nearest(places: Iterable[SearchNode]) -> SearchNode | None:
    return min(places, key=lambda place: place.situation.depth, default=None)


def _text(watch: Watch) -> str:
    return " or ".join(each.text for each in watch.conditions)


def _erring(place: SearchNode, anatomy: Structure) -> Iterator[Key]:
    """The parts that were in error until then, or whose call has just ended in an error."""
    if place.before is None:
        return
    yield from (part for part, word in place.before.words.items() if word == anatomy.in_error)
    event = place.happening.event
    if isinstance(event, Returned) and place.happening.outcome in ERRORS:
        yield anatomy.calling, place.before.situation.calls[event.call].step
