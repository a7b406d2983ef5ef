"""The progress of a run in exploration, and when two runs have come equally far.

What a run has asked for (calls, watches, moments) belongs to it as its state does. The numbers it meets are
chosen so that they can be told from all others: eids, identifiers and moments lie where nothing else does,
and are left out of account when situations are compared; whatever else is in a state counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from narval.engines import commands
from narval.engines.commands import Call, Command, Finish, Watch
from narval.engines.events import Event, Returned, TimerFired
from narval.memory.elements.element import Element
from narval.memory.elements.error_element import read_error

RUN = 10**12
FIRST_EID = RUN + 1
FIRST_EVENT = 10**15
FIRST_MOMENT = 1.0e9
"""The first numbers of exploration."""

LAST_MOMENT = 2.5e11
"""A moment that lies after any year that a date names, as people write them."""

_IDENTIFIER = re.compile(r"\d{16}\.\d+")


class ErrorSeen(msgspec.Struct, frozen=True):
    """An error element that a run met: its type, its message, the step it is of."""

    kind: str
    message: str
    step: str


UNTROUBLED = ErrorSeen("", "", "")


class ExplorationState(msgspec.Struct, frozen=True):
    """The progress of a run: its state, encoded, and the commands that are in force.

    `now` is the moment it has reached, `depth` the number of events before; `errors` are by the eid of the
    error element; `finish` is how it ended, when it has.
    """

    state: bytes
    calls: Mapping[str, Call] = {}
    abandoned: frozenset[str] = frozenset()
    watches: Mapping[str, Watch] = {}
    wakes: Mapping[str, commands.SetTimer] = {}
    errors: Mapping[int, ErrorSeen] = {}
    now: float = FIRST_MOMENT
    next_eid: int = FIRST_EID
    depth: int = 0
    finish: Finish | None = None

    def after(
        self, event: Event, state: Any, wished: Iterable[Command], next_eid: int, errors: dict[int, ErrorSeen]
    ) -> ExplorationState:
        """The progress after an event and the commands that followed."""
        asked = _Asked(self, event, errors)
        for command in wished:
            asked.take(command)
        return ExplorationState(
            state=msgspec.msgpack.encode(state),
            calls=asked.calls,
            abandoned=frozenset(asked.abandoned),
            watches=asked.watches,
            wakes=asked.wakes,
            errors=asked.errors,
            now=event.at,
            next_eid=next_eid,
            depth=self.depth + 1,
            finish=asked.finish,
        )

    def identity(self) -> bytes:
        """Equal for two situations from which the same can follow."""
        calls = {call: (made.step, made.kind, made.name, made.timeout) for call, made in self.calls.items()}
        watches = {watch: (set_.or_outdated, *_texts(set_)) for watch, set_ in self.watches.items()}
        whole = {
            "state": msgspec.msgpack.decode(self.state),
            "calls": calls,
            "late": self.now >= LAST_MOMENT,
            "abandoned": dict.fromkeys(self.abandoned),
            "watches": watches,
            "wakes": {wake: (timer.at, timer.calendar) for wake, timer in self.wakes.items()},
        }
        return msgspec.json.encode(_Naming(self.now).plain(whole))


def _texts(watch: Watch) -> Iterator[str]:
    return (bound.text for bound in watch.conditions)


class _Asked:
    """The commands in force of a run, while an event is followed."""

    def __init__(self, before: ExplorationState, event: Event, errors: dict[int, ErrorSeen]) -> None:
        self.calls, self.watches = dict(before.calls), dict(before.watches)
        self.wakes, self.abandoned = dict(before.wakes), set(before.abandoned)
        self.errors = {**before.errors, **errors}
        self.finish: Finish | None = None
        if isinstance(event, Returned):
            self.calls.pop(event.call, None)
            self.abandoned.discard(event.call)
        elif isinstance(event, TimerFired):
            self.wakes.pop(event.wake, None)

    def take(self, command: Command) -> None:
        match command:
            case Call():
                self.calls[command.call] = command
            case commands.CancelCall():
                self.abandoned.add(command.call)
            case Watch():
                self.watches[command.watch] = command
            case commands.Unwatch():
                self.watches.pop(command.watch, None)
            case commands.SetTimer():
                self.wakes[command.wake] = command
            case commands.CancelTimer():
                self.wakes.pop(command.wake, None)
            case Finish():
                self.finish = command
            case commands.Add():
                self._note(command.element)

    def _note(self, element: Element) -> None:
        if element.name == "error":
            kind, message, step = read_error(element)
            self.errors[element.eid] = ErrorSeen(kind, message, step)


class _Naming:
    """Plain data in which identifiers are named in the order in which they are met.

    Tables are put in order first, those by identifier by what they hold, so that it does not matter what
    happened before what. Elements have no names: an engine cannot tell them apart but by asking its view.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._names: dict[str, str] = {}

    def plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._table(value)
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        if isinstance(value, str):
            return self._name(value) if _IDENTIFIER.fullmatch(value) else value
        if isinstance(value, float) and value >= FIRST_MOMENT / 2:
            return "past" if value <= self._now else "to come"
        if isinstance(value, int) and not isinstance(value, bool) and value >= RUN:
            return "element"
        return value

    def _name(self, identifier: str) -> str:
        return self._names.setdefault(identifier, f"#{len(self._names)}")

    def _table(self, table: Mapping[Any, Any]) -> dict[str, Any]:
        named = {key: value for key, value in table.items() if not _is_identifier(key)}
        others = {key: value for key, value in table.items() if _is_identifier(key)}
        plain = {str(key): self.plain(named[key]) for key in sorted(named, key=str)}
        for key in sorted(others, key=lambda key: _blank(others[key])):
            plain[self._name(key)] = self.plain(others[key])
        return plain


def _is_identifier(key: Any) -> bool:
    return isinstance(key, str) and _IDENTIFIER.fullmatch(key) is not None


def _blank(value: Any) -> str:
    """The text of a value with all identifiers made alike."""
    return _IDENTIFIER.sub("#", repr(value))
