"""Windows of rules at a moment, and the one timer of each rule (K33, KA14)."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from narval.core.engines import commands
from narval.kinds.task.engine.server.changes import RuleWakes
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.state import EventRule, rule_key
from narval.kinds.task.language.windows import Interval


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


def is_instant(window: Interval) -> bool:
    """True if a window has no length."""
    return window.start == window.end


def ends(window: Interval, now: float) -> float | None:
    """The future moment at which a window ends; None for an instant and for a window without an end."""
    return window.end if now < window.end < inf else None


def moment(decision: ServerDecision, rule: EventRule, key: str, windows: Iterable[Interval]) -> float:
    """The moment at which a rule is examined: now, or the instant for which its timer has fired.

    A timer fires a little after its instant; an instant that passed while the daemon was not running was
    missed.
    """
    wake = rule.wake
    if decision.fired != key or wake is None or decision.view.was_missed(wake):
        return decision.now
    found = inside(windows, wake) if inside(windows, decision.now) is None else None
    return wake if found is not None and is_instant(found) else decision.now


def wake_name(decision: ServerDecision, key: str) -> str:
    """The name of the timer of a rule (and of its watch), of a wait, or of a period."""
    return f"{decision.state.eid}/{key}"


def set_wake(decision: ServerDecision, event: int, number: int, at: float | None) -> None:
    """Schedule the moment at which a rule is examined again; None for never."""
    rule = decision.state.events[event].rules[number]
    stop_timer(decision, rule, rule_key(event, number), at)
    if rule.wake != at:
        decision.change(RuleWakes(event, number, at))


def stop_timer(decision: ServerDecision, rule: EventRule, key: str, at: float | None = None) -> None:
    """Cancel the timer of a rule, or set it to another moment."""
    has_fired = decision.fired == key
    is_set = rule.wake is not None and not has_fired
    if has_fired:
        decision.fired = ""
    if is_set and rule.wake != at:
        decision.command(commands.CancelTimer(wake_name(decision, key)))
    if at is not None and not (is_set and rule.wake == at):
        decision.command(commands.SetTimer(wake_name(decision, key), at, calendar=True))
