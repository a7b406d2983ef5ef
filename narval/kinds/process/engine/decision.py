"""One advance of a process: listeners, the user's answers, waits that end, and the end of the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from narval.core.engines import commands
from narval.core.engines.decision import Decision
from narval.core.engines.events import Plain, Returned, TimerFired
from narval.core.errors import ActionError
from narval.kinds.process.engine import changes
from narval.kinds.process.engine.state import ArcToken, NodeToken, ProcessState
from narval.kinds.process.language.attribute_types import to_text
from narval.kinds.process.language.definition import BUILT_IN, Arc, Node, Process


class NodeFault(Exception):  # noqa: N818 - a fault of a node, not an error of narval
    """A node, guard, join or listener cannot continue; tokens stay where they are."""

    def __init__(self, kind: str, message: str, node: Node | None = None, error: int | None = None) -> None:
        self.kind, self.message, self.node = kind, message, node
        self.token: int | None = None
        """The active token whose node it is."""
        self.error = error
        """The error element that already reports it."""
        super().__init__(message)


class OperationRefused(Exception):  # noqa: N818 - an answer to the asker, not an error
    """An operation cannot be done; nothing has changed."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind, self.message = kind, message
        super().__init__(message)


NO_ANSWERS = frozenset[str]()
"""The answers if there are no listeners."""


class ProcessDecision(Decision[Process, ProcessState, changes.ProcessChange], kw_only=True, eq=False):
    """One advance of one process: its inputs, and what has been decided."""

    moved: int = 0
    """The number of arc tokens taken from the queue."""
    goes_on: bool = False
    """True if this advance only continues the queue."""
    leaves_queue: bool = False
    """True if the queue must not run: a token was completed asynchronously."""
    refused: bool = False
    """True if the signal was refused: a node that it led to cannot continue."""
    ways_back: list[tuple[NodeToken, Arc]] = msgspec.field(default_factory=list)
    """Active tokens that will leave by an arc that leads back, and those arcs; empty after the decision."""
    listening: dict[str, int] = msgspec.field(default_factory=dict)
    """The listeners, with the bits of the events that they receive."""
    mask: int = 0
    """The bits of all events that some listener receives."""

    def __post_init__(self) -> None:
        self.listen()

    def node(self, token: NodeToken | ArcToken) -> Node:
        """The node that a token is on, or heads for."""
        return self.definition.nodes[token.node if isinstance(token, NodeToken) else token.to]

    # --- events and listeners (section 3) ---------------------------------------------------------------

    def listen(self) -> None:
        """Find the listeners: of the graph, of the process, of all processes, in this order."""
        self.listening, self.mask = {}, 0
        graph = [(listener.name, listener.mask) for listener in self.definition.listeners]
        for name, mask in (*graph, *self.state.listeners.items(), *self.view.listeners.items()):
            self.listening[name] = self.listening.get(name, 0) | mask
            self.mask |= mask

    def happens(self, change: Any) -> frozenset[str]:
        """Record an event and tell its listeners; return the union of their answers."""
        change.apply(self.state)
        self.changes.append(change)
        if not self.mask:
            return NO_ANSWERS
        name, bit = changes.EVENT_OF_CHANGE[type(change).__name__]
        listening = [listener for listener, mask in self.listening.items() if mask >> bit & 1]
        return frozenset(action for listener in listening for action in self._notify(listener, name, change))

    def _notify(self, listener: str, event: str, change: Any) -> list[str]:
        token = getattr(change, "token", None)
        payload: dict[str, Plain] = {
            "event": event,
            "token": token if token in self.state.nodes else None,
            "arc_token": token if token in self.state.arcs else None,
        }
        if isinstance(change, changes.NodeTokenCompleted):
            payload["arcs"] = list(change.exits)
        try:
            answer = self.ask_code(f"listener:{listener}", payload, token)
        except NodeFault as fault:  # a listener that fails does not stop the event
            self.add_error(fault.kind, fault.message, token=token or 0)
            return []
        return [str(action) for action in answer] if isinstance(answer, list) else []

    def ask_code(
        self, function: str, about: dict[str, Plain], token: int | None, node: Node | None = None
    ) -> Plain:
        """Ask the user's code and record its answer. Raises NodeFault if the code fails."""
        try:
            answer = self.view.ask(function, about)
        except ActionError as error:
            raise NodeFault(error.kind, f"{function}: {error}", node) from error
        self.change(changes.QuestionAsked(function, token, answer))
        return answer

    def ask_about(
        self, function: str, token: NodeToken, node: Node, evaluated: dict[str, Plain] | None = None
    ) -> Plain:
        """The answer of the user's code about a token. The code receives only the token and the `evaluated`
        properties of the node. Raises NodeFault.
        """
        about: dict[str, Plain] = {"token": token.id}
        if evaluated:
            about["evaluated"] = evaluated
        return self.ask_code(function, about, token.id, node)

    def truth(self, function: str, answer: Plain, node: Node) -> bool:
        """The answer of code that must say true or false. Raises NodeFault."""
        if not isinstance(answer, bool):
            raise NodeFault("bad-answer", f"{function}: expected true or false, got: {answer!r:.80}", node)
        return answer

    # --- waits ------------------------------------------------------------------------------------------

    def stop_waiting(self, token: NodeToken) -> None:
        """Cancel whatever would have completed a token, or asked its guard again."""
        if token.wake:
            self.command(commands.CancelTimer(token.wake))
            self.change(changes.DelayOver(token.id))
        if token.watch:
            self.command(commands.Unwatch(token.watch))
            self.change(changes.WatchSet(token.id, ""))
        if token.call:
            self.give_up(token.call)

    def give_up(self, call: str, *, abandon: bool = True) -> None:
        """Stop waiting for a call, and free what it reserved."""
        between_tries = self.state.nodes[self.state.calls[call]].next_try is not None
        self.free(self.state.reserved.get(call, ()), well=False)
        if not between_tries:
            self.drop_limit(call)
        self.change(changes.NodeCallBack(call))
        if abandon and not between_tries:
            self.command(commands.CancelCall(call))

    def drop_limit(self, call: str) -> None:
        """Drop the time limit of a run, unless it has expired; a call at another agent was then abandoned.
        Other calls have no timer in the engine.
        """
        node, event = self.node(self.state.nodes[self.state.calls[call]]), self.event
        if node.agent:
            is_limited = not (isinstance(event, Returned) and event.abandoned)
        else:
            is_limited = node.calls_run and node.text_of("timeout") != ""
        if is_limited and not (isinstance(event, TimerFired) and event.wake == call):
            self.command(commands.CancelTimer(call))

    def leave_queue(self, asynchronous: object = True) -> None:
        """Skip the queue in this advance, if a completion is asynchronous."""
        self.leaves_queue |= bool(asynchronous)

    def resume_queue(self) -> None:
        """Continue only the queue, which was too long for one advance."""
        self.goes_on = True
        self.change(changes.Paused(laps=self.state.laps))

    def go_on(self) -> None:
        """Cancel the timer that would continue the queue."""
        if self.state.paused:
            self.command(commands.CancelTimer(self.state.paused))
            self.change(changes.Paused())

    def write(
        self,
        values: Mapping[str, Any],
        *,
        token: int | None = None,
        token_set: int | None = None,
        index: int | None = None,
    ) -> None:
        """Write attributes; None removes one. Raises OperationRefused."""
        if index is not None and token_set is not None and not 0 <= index < self.state.sets[token_set].count:
            raise OperationRefused("no-set-member", f"token set {token_set} has no member {index}")
        if values:
            texts = {name: stored(value) for name, value in values.items()}
            self.change(changes.EnvironmentSet(texts, token, token_set, index))

    def add_error(
        self,
        kind: str,
        message: str,
        node: Node | None = None,
        detail: str = "",
        call: str = "",
        token: int = 0,
    ) -> int:
        """Add an error element that names run, process and node; return its eid."""
        part = node.id if node is not None else ""
        where: dict[str, str | int | None] = {"token": token or None, "call": call}
        return self.add_error_element(kind, message, part, detail, call, self.given_to(call), where)


def stored(value: Any) -> str | None:
    """The value of an attribute as it is stored. Raises OperationRefused for one that has no text."""
    try:
        return to_text(value)
    except TypeError as error:
        raise OperationRefused("bad-argument", str(error)) from None


def hooks(decision: ProcessDecision, node: Node) -> frozenset[str]:
    """The hooks of the user's class for the type of a node; none if there is no such class."""
    node_type = decision.view.definition("node-type", node.type) if node.type not in BUILT_IN else None
    return node_type.hooks if node_type is not None else frozenset()


def given_by(decision: ProcessDecision, node: Node) -> tuple[str, ...] | None:
    """The names of the elements that the user's class for the type of a node may give; None: any."""
    node_type = decision.view.definition("node-type", node.type) if node.type not in BUILT_IN else None
    return node_type.gives if node_type is not None else None


# --- the end of a process ---------------------------------------------------------------------------------

DELAY_COMPLETE = "DELAY_PROCESS_FINALIZE_COMPLETE"
DELAY_CANCEL = "DELAY_PROCESS_FINALIZE_CANCEL"


def complete_if_done(decision: ProcessDecision) -> None:
    """Complete a process in which nothing is active, unless a listener delays that."""
    state = decision.state
    if state.status != "executing" or state.is_active or state.queue.first is not None:
        return
    if DELAY_COMPLETE not in decision.happens(changes.ProcessPendingComplete()):
        finalize_complete(decision)


def finalize_complete(decision: ProcessDecision) -> None:
    """End the process; its caller gets the result."""
    decision.go_on()
    decision.happens(changes.ProcessCompleted(decision.event.at))
    _finish(decision)


def cancel_process(decision: ProcessDecision) -> None:
    """Give up all calls, and end the process where it is, unless a listener delays that."""
    _stop(decision)
    if DELAY_CANCEL not in decision.happens(changes.ProcessPendingCancel()):
        finalize_cancel(decision)


def finalize_cancel(decision: ProcessDecision) -> None:
    """End the process; its caller gets the result."""
    decision.happens(changes.ProcessCanceled(decision.event.at))
    _finish(decision)


def fail_process(decision: ProcessDecision, error: int, *, abandon: bool = True) -> None:
    """End a process that narval cannot continue, where it is."""
    _stop(decision, abandon=abandon)
    decision.change(changes.ProcessFailed(decision.event.at, error))
    _finish(decision)


def _stop(decision: ProcessDecision, *, abandon: bool = True) -> None:
    """Stop waiting for anything: give up calls, and free what they reserved."""
    state = decision.state
    for token in (*state.delayed.values(), *state.watches.values()):
        decision.stop_waiting(state.nodes[token])
    for call in tuple(state.calls):
        decision.give_up(call, abandon=abandon)
    decision.go_on()


def _finish(decision: ProcessDecision) -> None:
    state = decision.state
    if state.PHASES[state.status] == "done":
        tokens = (token for token in state.nodes.values() if token.produced and not token.backtracked)
        eids = tuple(eid for token in tokens for eid in token.produced)
    else:
        eids = (state.error,) if state.error is not None else ()
    decision.report_end(eids)
