"""The engine of the service runs of task types and global events (K21, K33, K41, K62).

`queue` has the objects, `instances` the instances and the end of actions, `raising` and `rules` the events
from their raise to their actions, and those that come by themselves, `ending` their end and the waits for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narval.core.engines.events import Cancelled, Event, Matched, Returned, Signalled, Started, TimerFired
from narval.kinds.task.engine.server import instances, queue, raising, rules
from narval.kinds.task.engine.server.changes import (
    RaiserGone,
    ServerBegan,
    ServerChange,
    ServerEnded,
    ServerLoaded,
)
from narval.kinds.task.engine.server.decision import ServerDecision
from narval.kinds.task.engine.server.ending import (
    CIRCLE,
    WAIT,
    WAITS,
    break_circle,
    end_wait,
    end_waits,
    extend_path,
    wait,
    wait_woken,
)
from narval.kinds.task.engine.server.explain import diagnose as diagnose
from narval.kinds.task.engine.server.explain import explain as explain
from narval.kinds.task.engine.server.explain import graph as graph
from narval.kinds.task.engine.server.explain import part_word as part_word
from narval.kinds.task.engine.server.explain import parts as parts
from narval.kinds.task.engine.server.explain import render as render
from narval.kinds.task.engine.server.explain import story as story
from narval.kinds.task.engine.server.explain import waiting_for as waiting_for
from narval.kinds.task.engine.server.state import RaisedEvent, TaskServerState, read_key

kind = "task-server"
definition_kind = "task"
changes = ServerChange.union()
state_type = TaskServerState
decision_type = ServerDecision
instead_of_retry = "it goes on for as long as its type is loaded; put the object again"


def advance(decision: ServerDecision, event: Event) -> None:
    """Decide the changes and commands that follow from one event."""
    state = decision.state
    match event:
        case Started() if state.status == "ready":
            decision.change(ServerBegan(event.at, event.elements, event.caller, event.attempt))
            _load(decision)
        case Signalled():
            _signalled(decision, event)
        case Returned() if not state.over:
            _returned(decision, event)
        case TimerFired() if not state.over:
            _woken(decision, event.wake)
        case Matched() if not state.over:
            _judge(decision, event.watch)
        case Cancelled() if not state.over:
            _over(decision, "cancelled")
    if not state.over:
        rules.look_at_loose(decision)
        queue.hand_out(decision)
        instances.begin_more(decision)
        raising.catch_up(decision)


def fail(decision: ServerDecision, error: int) -> None:
    """Decide the end of a service run whose advance raised."""
    _over(decision, "failed", error)


def _load(decision: ServerDecision) -> None:
    """Begin what a version of the type does by itself, unless it did so before its file disappeared."""
    digest = decision.definition.digest or "-"
    is_new = digest != decision.state.version
    decision.change(ServerLoaded(decision.now, digest))
    raising.loaded(decision, comes=is_new)


def _over(decision: ServerDecision, status: str, error: int | None = None) -> None:
    """End the service run: it gives up everything that it waits for."""
    raising.stop(decision)
    raising.let_go(decision)
    end_waits(decision)
    decision.change(ServerEnded(decision.now, status, error))
    decision.report_end(())


# --- signals and returns ----------------------------------------------------------------------------------


def _signalled(decision: ServerDecision, event: Signalled) -> None:
    """Handle a signal from another run, a person or narval itself."""
    if not event.sender and (event.act is None or event.name not in _FOR_PEOPLE):
        why = "only instances, cases and `narval task` may signal it"
        decision.refuse(event, "not-listening", why)
    elif decision.state.over:
        decision.refuse(event, "over", f"the service run of {decision.definition.full_name} is over")
    elif event.name in _SIGNALS:
        _SIGNALS[event.name](decision, event)
    else:
        names = ", ".join(_SIGNALS)
        decision.refuse(event, "not-listening", f"expected one of {names}, got {event.name!r:.80}")


def _reload(decision: ServerDecision, event: Signalled) -> None:
    """Follow another version of the type, or none while its file is gone."""
    if event.arguments.get("gone") is True:
        decision.change(ServerLoaded(decision.now))
        raising.stop(decision)
    else:
        rules.follow(decision)
        _load(decision)


def _gone(decision: ServerDecision, event: Signalled) -> None:
    """Forget a signal that no longer needs an answer."""
    state, signal = decision.state, event.text("signal")
    if signal in state.raisers:
        decision.change(RaiserGone(decision.now, state.raisers[signal]))
    elif signal in state.waits:
        end_wait(decision, signal)
    else:
        instances.gone(decision, event.sender, signal)


_SIGNALS: Mapping[str, Callable[[ServerDecision, Signalled], None]] = {
    "put": queue.put,
    "join": instances.join,
    "take": queue.take,
    "at": instances.at,
    "raise": raising.raise_event,
    "wait": wait,
    "down": instances.down,
    "withdraw": queue.withdraw,
    "reload": _reload,
    "gone": _gone,
    WAITS: extend_path,
    CIRCLE: break_circle,
}


_FOR_PEOPLE = frozenset({"put", "raise", "wait", "gone"})
"""The signals that people and programs may send with `narval task`."""


def _returned(decision: ServerDecision, event: Returned) -> None:
    """Handle the return of a call."""
    state = decision.state
    if event.call in state.acts:
        identifier, number = read_key(state.acts[event.call])
        instances.action_over(decision, state.events[identifier], number, event)
    if event.call in state.called:
        instances.returned(decision, event)
    if event.call in state.withdrawing:
        queue.withdrawn(decision, event)
    if event.call in state.sent:
        queue.sent(decision, event)


def _woken(decision: ServerDecision, wake: str) -> None:
    """Do the work that a timer deferred, if it is still needed."""
    _, what, rest = (*wake.split("/", 2), "")[:3]
    if what == raising.EVERY:
        raising.ticked(decision)
    elif what == WAIT:
        wait_woken(decision, rest)
    elif (event_and_rule := _rule(decision, what, rest)) is not None:
        rules.woken(decision, *event_and_rule)


def _judge(decision: ServerDecision, watch: str) -> None:
    """Judge a condition again when an element may have changed its result."""
    _, event, number = watch.split("/")
    event_and_rule = _rule(decision, event, number)
    if event_and_rule is not None and event_and_rule[0].rules[event_and_rule[1]].stage == "false":
        rules.judge(decision, *event_and_rule)


def _rule(decision: ServerDecision, event: str, number: str) -> tuple[RaisedEvent, int] | None:
    """The event, and the number of its rule; None if the rule has ended."""
    raised = decision.state.events.get(int(event))
    return (raised, int(number)) if raised is not None and int(number) in raised.rules else None
