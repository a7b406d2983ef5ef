"""One advance of a service run: what it tells others, the present versions of objects, the one timer of each
rule (K33, KA14).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import msgspec

from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Plain
from narval.kinds.task.engine.server.changes import RuleWakes, ServerChange
from narval.kinds.task.engine.server.state import RaisedEvent, TaskServerState, rule_key
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.language.windows import Interval


class ServerDecision(Decision[TaskDefinition, TaskServerState, ServerChange], kw_only=True, eq=False):
    """One advance of a service run.

    `fired` is the rule whose timer has fired and is not set again; `loose` are events that are no longer
    bound to a state.
    """

    fired: str = ""
    loose: list[int] = msgspec.field(default_factory=list)

    @property
    def now(self) -> float:
        """The moment of the event."""
        return self.event.at

    def tell(
        self,
        signal: str,
        said: dict[str, Plain],
        *,
        run: int = 0,
        name: str = "",
        elements: tuple[int, ...] = (),
    ) -> str:
        """Send a signal to a run, or to the service run of that name; return the id of the call."""
        call, target = self.identifier(), name or self.definition.full_name
        self.command(commands.telling(call, target, signal, signal, said, elements, run=run))
        return call

    def elements(self, eid: int) -> tuple[int, ...]:
        """The present version of an object; () if it is gone or `eid` is 0."""
        current = self.view.current(eid) if eid else None
        return () if current is None or self.view.element(current) is None else (current,)

    def reply(self, signal: str, **value: Any) -> None:
        """Answer an earlier signal."""
        self.ask(commands.Answer(signal, value))


def inside(windows: Iterable[Interval], now: float) -> Interval | None:
    """The window that contains a moment, or None."""
    for window in windows:
        if window.start <= now and (now < window.end or (window.closed and now == window.end)):
            return window
    return None


def upcoming(windows: Iterable[Interval], now: float) -> Interval | None:
    """The next window to begin after a moment, or None."""
    later = (window for window in windows if window.start > now)
    return min(later, key=lambda window: window.start, default=None)


def ends(window: Interval, now: float) -> float | None:
    """The future moment at which a window ends; None for an instant and for a window without an end."""
    return window.end if now < window.end < inf else None


def moment(decision: ServerDecision, event: RaisedEvent, number: int, windows: Iterable[Interval]) -> float:
    """The moment at which a rule is examined: now, or the instant for which its timer has fired.

    A timer fires a little after its instant; an instant that passed while the daemon was not running was
    missed.
    """
    wake = event.rules[number].wake
    if decision.fired != rule_key(event.id, number) or wake is None or decision.view.was_missed(wake):
        return decision.now
    window = inside(windows, wake) if inside(windows, decision.now) is None else None
    return wake if window is not None and window.start == window.end else decision.now


def wake_name(decision: ServerDecision, key: str) -> str:
    """The name of the timer of a rule (and of its watch), of a wait, or of a period."""
    return f"{decision.state.eid}/{key}"


def set_wake(decision: ServerDecision, event: RaisedEvent, number: int, at: float | None) -> None:
    """Schedule the moment at which a rule is examined again; None for never."""
    stop_timer(decision, event, number, at)
    if event.rules[number].wake != at:
        decision.change(RuleWakes(event.id, number, at))


def stop_timer(decision: ServerDecision, event: RaisedEvent, number: int, at: float | None = None) -> None:
    """Cancel the timer of a rule, or set it to another moment."""
    rule = event.rules[number]
    if at is None and rule.wake is None and not decision.fired:  # most rules have no windows
        return
    key = rule_key(event.id, number)
    has_fired = decision.fired == key
    is_set = rule.wake is not None and not has_fired
    if has_fired:
        decision.fired = ""
    if is_set and rule.wake != at:
        decision.command(commands.CancelTimer(wake_name(decision, key)))
    if at is not None and not (is_set and rule.wake == at):
        decision.command(commands.SetTimer(wake_name(decision, key), at, calendar=True))


def unwatch(decision: ServerDecision, event: RaisedEvent, number: int) -> None:
    """Stop watching the condition of a rule."""
    if event.rules[number].watched:
        decision.command(commands.Unwatch(wake_name(decision, rule_key(event.id, number))))
