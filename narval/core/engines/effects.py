"""Effects: one table with what each command does (§ "One turn").

A row has what a command changes in memory (`facts`), what its run has in force from then on (`in_force`), and
what it does in the agent (`act`). A turn does all three, unless a limit is reached (`admit`). Replay of a
journal does only the second, since memory and agent have tables of their own. Exploration does the first on
assumed elements, and the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec.structs import replace

from narval.core.elements import changes
from narval.core.elements.changes import Change
from narval.core.engines import commands
from narval.core.engines.commands import Call, Command, Reserve, SetTimer, Watch
from narval.core.engines.events import CallApproved, CallStarting, Cancelled, Event, Returned, TimerFired


class _NoRequests(dict[Any, Any]):
    """The requests of a run that has ended: there is nothing to take out, and nothing can be added."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(f"a run that has ended asks for {value!r:.200}")

    def update(self, *requests: Any, **more: Any) -> None:
        """Add nothing. Raises TypeError if there is something to add."""
        if any(requests) or more:
            raise TypeError(f"a run that has ended reserves {requests!r:.200}")


_NO_REQUESTS = _NoRequests()
"""Shared by all runs that have ended; one that writes to people about its end gets calls of its own."""


class InForce(msgspec.Struct, kw_only=True, eq=False):
    """The active requests of a run: calls, abandoned calls, watches, timers, reserved elements.

    `entries` counts the noted events. `cancelled` is the event that cancelled the run.
    """

    calls: dict[str, Call] = msgspec.field(default_factory=dict)
    abandoned: dict[str, None] = msgspec.field(default_factory=dict)
    watches: dict[str, Watch] = msgspec.field(default_factory=dict)
    wakes: dict[str, SetTimer] = msgspec.field(default_factory=dict)
    reserved: dict[int, None] = msgspec.field(default_factory=dict)
    entries: int = 0
    cancelled: Cancelled | None = None

    SETTLED_BY: ClassVar[tuple[type, ...]] = (Returned, CallStarting, CallApproved, TimerFired)
    """The events that settle a request."""

    def note(self, event: Event | None) -> None:
        """Count an event, and settle its call or timer; None for an event about neither."""
        self.entries += 1
        if type(event) is Returned:
            self.calls.pop(event.call, None)
            if self.abandoned:
                self.abandoned.pop(event.call, None)
        elif type(event) is CallStarting:
            if (call := self.calls.get(event.call)) is not None:
                self.calls[call.call] = replace(call, begun=True)
        elif type(event) is CallApproved:
            if (call := self.calls.get(event.call)) is not None:
                before = call.approved if call.version == event.version else ()
                works = (*before, event.work)
                self.calls[call.call] = replace(
                    call, approved=works, version=event.version, always=event.always
                )
        elif type(event) is TimerFired:
            self.wakes.pop(event.wake, None)
        elif type(event) is Cancelled:
            self.cancelled = event

    def copy(self) -> InForce:
        """A copy that can change independently."""
        return InForce(
            calls=dict(self.calls),
            abandoned=dict(self.abandoned),
            watches=dict(self.watches),
            wakes=dict(self.wakes),
            reserved=dict(self.reserved),
            cancelled=self.cancelled,
        )

    def wait_for_nothing(self) -> None:
        """Drop calls, watches and timers."""
        for asked in (self.wakes, self.watches, self.calls, self.abandoned):
            asked.clear()

    def rest(self) -> None:
        """Share the empty requests of all runs that have ended: an agent has very many of them."""
        self.calls = self.abandoned = self.watches = self.wakes = self.reserved = _NO_REQUESTS

    def commands(self) -> list[Command]:
        """The commands that restore these requests."""
        asked: list[Command] = [*self.calls.values(), *self.watches.values(), *self.wakes.values()]
        asked += map(commands.CancelCall, self.abandoned)
        return [*asked, Reserve(tuple(self.reserved))] if self.reserved else asked


class Effect(NamedTuple):
    """A row of the table.

    `facts` get the eid of the run; a fact that memory already has changes nothing. `act` is a method of the
    agent's `TurnEffects`. With `at_once`, `in_force` and `act` happen when the command is given, as facts do,
    since later decisions of the same advance may read them; else after `advance` has returned. `admit` is
    another method: given the command, it raises ActionError at once if a limit is reached.
    """

    facts: Callable[[int, Any], tuple[Change, ...]] | None = None
    in_force: Callable[[InForce, Any], object] | None = None
    act: str = ""
    at_once: bool = False
    admit: str = ""


def _watch(run: InForce, command: Watch) -> None:
    run.watches[command.watch] = command


def _set_timer(run: InForce, command: SetTimer) -> None:
    run.wakes[command.wake] = command


def _call(run: InForce, command: Call) -> None:
    if run.calls is _NO_REQUESTS:
        run.calls = {}
    run.calls[command.call] = command


def _cancel_call(run: InForce, command: commands.CancelCall) -> None:
    run.abandoned[command.call] = None


def _reserve(run: InForce, command: Reserve) -> None:
    run.reserved.update(dict.fromkeys(command.eids))


def _let_go(run: InForce, command: commands.Release | commands.Outdate) -> None:
    for eid in command.eids:
        run.reserved.pop(eid, None)


EFFECTS: Mapping[type, Effect] = MappingProxyType(
    {
        commands.Add: Effect(
            lambda run, command: (changes.Added(command.element, "", run if command.held else 0),)
        ),
        commands.AddToContext: Effect(lambda run, command: (changes.Held(run, command.eids),)),
        commands.MarkUsed: Effect(lambda run, command: (changes.Used(command.scope, command.eids, run),)),
        commands.RecordUnique: Effect(
            lambda run, command: (changes.Keyed(command.name, command.expression, command.value),)
        ),
        Reserve: Effect(  # at once, as it may be released in the same advance
            lambda run, command: (changes.Reserved(command.eids),), _reserve, at_once=True
        ),
        commands.Release: Effect(
            lambda run, command: (changes.Released(command.eids),), _let_go, "offer_released", at_once=True
        ),
        commands.Outdate: Effect(
            lambda run, command: (changes.Released(command.eids), changes.Outdated(command.eids)),
            _let_go,
            "follow_outdated",
        ),
        Watch: Effect(None, _watch, "watch", at_once=True),
        commands.Unwatch: Effect(
            None, lambda run, command: run.watches.pop(command.watch, None), "unwatch", at_once=True
        ),
        SetTimer: Effect(None, _set_timer, "set_timer", admit="admit_timer"),
        commands.CancelTimer: Effect(
            None, lambda run, command: run.wakes.pop(command.wake, None), "cancel_timer"
        ),
        commands.ScheduleForget: Effect(act="schedule_forget"),
        commands.Start: Effect(act="start_run"),
        commands.Finish: Effect(act="finish_run"),
        Call: Effect(None, _call, "make_call"),
        commands.CancelCall: Effect(None, _cancel_call, "perform"),
        commands.Answer: Effect(act="perform"),
    }
)
