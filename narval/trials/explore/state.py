"""The progress of a run in exploration, and a test for equal progress of two runs.

The requests of a run (calls, watches, moments) are part of its progress, like its state. The numbers it meets
are recognizable: eids, identifiers and moments lie in ranges of their own, and are ignored when situations
are compared; everything else in a state matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from narval.core.elements.own_elements import read_error
from narval.core.engines.commands import Add, Command, Finish
from narval.core.engines.effects import EFFECTS, InForce
from narval.core.engines.events import Event, TimerFired

RUN = 10**12
FIRST_EID = RUN + 1
FIRST_EVENT = 10**15
FIRST_MOMENT = 1.0e9
"""The first numbers of exploration."""

LAST_MOMENT = 2.5e11
"""A moment later than any year that people write in a date."""

_IDENTIFIER = re.compile(r"\d{16}\.\d+")


class ErrorSeen(msgspec.Struct, frozen=True):
    """An error element that a run met: its type, its message, and its step."""

    kind: str
    message: str
    step: str


UNTROUBLED = ErrorSeen("", "", "")


class ExplorationState(msgspec.Struct, frozen=True):
    """The progress of a run: its state, encoded, and its active requests.

    `now` is the moment it has reached, `depth` the number of events before; `errors` are by the eid of the
    error element; `finish` is its end, once it has ended.
    """

    state: bytes
    in_force: InForce = msgspec.field(default_factory=InForce)
    errors: Mapping[int, ErrorSeen] = {}
    now: float = FIRST_MOMENT
    next_eid: int = FIRST_EID
    depth: int = 0
    finish: Finish | None = None
    rounds: int = 0
    """The number of timers that have fired and that the run will set again."""

    def after(
        self,
        event: Event,
        state: Any,
        commands: Iterable[Command],
        next_eid: int,
        errors: dict[int, ErrorSeen],
    ) -> ExplorationState:
        """The progress after an event and the commands that followed."""
        in_force, finish = self.in_force.copy(), None
        seen = {**self.errors, **errors}
        again = type(event) is TimerFired and in_force.wakes[event.wake].standing
        in_force.note(event)
        for command in commands:
            effect = EFFECTS[type(command)].in_force
            if effect is not None:
                effect(in_force, command)
            if isinstance(command, Finish):
                finish = command
            elif isinstance(command, Add) and command.element.name == "error":
                seen[command.element.eid] = ErrorSeen(*read_error(command.element))
        return ExplorationState(
            state=msgspec.msgpack.encode(state),
            in_force=in_force,
            errors=seen,
            now=event.at,
            next_eid=next_eid,
            depth=self.depth + 1,
            finish=finish,
            rounds=self.rounds + again,
        )

    def counted_on(self) -> frozenset[int]:
        """The elements whose replacement is reported to the run."""
        return frozenset(eid for watch in self.in_force.watches.values() for eid in watch.elements)

    def identity(self) -> bytes:
        """Bytes that are equal for two situations with the same possible consequences."""
        asked = self.in_force
        calls = {call: (made.step, made.kind, made.name, made.timeout) for call, made in asked.calls.items()}
        watches = {
            watch: (set_.or_outdated, *(bound.text for bound in set_.conditions))
            for watch, set_ in asked.watches.items()
        }
        whole = {
            "state": msgspec.msgpack.decode(self.state),
            "calls": calls,
            "late": self.now >= LAST_MOMENT,
            "rounds": self.rounds,
            "abandoned": asked.abandoned,
            "watches": watches,
            "wakes": {wake: (timer.at, timer.calendar) for wake, timer in asked.wakes.items()},
        }
        return msgspec.json.encode(_Naming(self.now).plain(whole))


class _Naming:
    """Plain data with identifiers renamed in the order in which they are met.

    Tables are sorted first, those by identifier by their content, so that the order of events does not
    matter. Elements get no names: an engine can tell them apart only through its view.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._names: dict[str, str] = {}

    def plain(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return self._table(value) if value else value
        if kind is list or kind is tuple:
            return [self.plain(item) for item in value]
        if kind is str:
            return self._name(value) if _is_identifier(value) else value
        if kind is float and value >= FIRST_MOMENT / 2:
            return "past" if value <= self._now else "to come"
        if kind is int and value >= RUN:
            return "element"
        return value

    def _name(self, identifier: str) -> str:
        return self._names.setdefault(identifier, f"#{len(self._names)}")

    def _table(self, table: Mapping[Any, Any]) -> dict[str, Any]:
        named, others = {}, []
        for key, value in table.items():
            if _is_identifier(key):
                others.append(key)
            else:
                named[str(key)] = value
        plain = {key: self.plain(named[key]) for key in sorted(named)}
        if len(others) > 1:
            # identifiers are made equal
            others.sort(key=lambda key: _IDENTIFIER.sub("#", repr(table[key])))
        for key in others:
            plain[self._name(key)] = self.plain(table[key])
        return plain


@lru_cache(maxsize=16384)
def _is_identifier(key: Any) -> bool:
    return isinstance(key, str) and _IDENTIFIER.fullmatch(key) is not None
