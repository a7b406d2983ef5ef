"""What the parts of the process engine share while one event is decided."""

from __future__ import annotations

from typing import Any

from narval.definitions.process.definition import Node, Process
from narval.engines import commands
from narval.engines.commands import Answer
from narval.engines.events import Event, Failure, Plain, Signalled
from narval.engines.process.changes import (
    EVENTS,
    DelayOver,
    NodeCallBack,
    NodeTokenCompleted,
    Paused,
    ProcessChange,
    QuestionAsked,
    WatchSet,
)
from narval.engines.process.state import APPLY, ProcessState
from narval.engines.process.tokens import ArcToken, NodeToken
from narval.engines.recorder import Recorder
from narval.engines.view import View
from narval.errors import ActionError
from narval.memory.elements.element import Element, Origin
from narval.memory.elements.error_element import make_error


class NodeFault(Exception):  # noqa: N818 - it is the fault of a node, and no error of narval
    """A node, guard, join or listener that cannot be gone on with; tokens stay where they are."""

    def __init__(
        self,
        kind: str,
        message: str,
        node: Node | None = None,
        detail: str = "",
        error: int | None = None,
    ) -> None:
        self.kind, self.message, self.node, self.detail = kind, message, node, detail
        self.error = error
        """The element that tells of it already."""
        super().__init__(message)


class OperationRefused(Exception):  # noqa: N818 - it is the answer to who asked
    """An operation that cannot be done: nothing has changed."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind, self.message = kind, message
        super().__init__(message)


class ProcessDecision:
    """One advance of one process: what is known, and what has been decided."""

    __slots__ = (
        "_heard",
        "_mask",
        "event",
        "goes_on",
        "leaves_queue",
        "moved",
        "process",
        "record",
        "state",
        "view",
    )

    def __init__(self, process: Process, state: ProcessState, event: Event, view: View) -> None:
        self.process, self.state, self.event, self.view = process, state, event, view
        self.record: Recorder[ProcessState, ProcessChange] = Recorder(state, APPLY, event, view)
        self.moved = 0
        """So many arc tokens were taken from the queue."""
        self.goes_on = False
        """Whether this advance does nothing but go on with the queue."""
        self.leaves_queue = False
        """Whether what was put into the queue is to stay there: a token was completed asynchronously."""
        self._heard: list[tuple[str, int]] = []
        self._mask = 0
        self.listen()

    def node(self, token: NodeToken | ArcToken) -> Node:
        """The node a token stands on, or heads for."""
        return self.process.nodes[token.node if isinstance(token, NodeToken) else token.to]

    def next_token(self) -> int:
        """The number of the next token or set."""
        return self.state.next_token

    # --- events and listeners (section 3) ---------------------------------------------------------------

    def listen(self) -> None:
        """Learn who listens: those of the graph, of the process, of all processes, in this order."""
        listeners = [(each.name, each.mask) for each in self.process.listeners]
        listeners += self.state.listeners.items()
        listeners += self.view.listeners.items()
        united: dict[str, int] = {}
        for name, mask in listeners:
            united[name] = united.get(name, 0) | mask
        self._heard, self._mask = list(united.items()), 0
        for mask in united.values():
            self._mask |= mask

    def happens(self, change: Any) -> frozenset[str]:
        """An event: it is recorded, those who listen hear of it, and their answers are united."""
        self.record.change(change)
        if not self._mask:
            return frozenset()
        name, bit = EVENTS[type(change)]
        if not self._mask >> bit & 1:
            return frozenset()
        actions: set[str] = set()
        for listener, mask in self._heard:
            if mask >> bit & 1:
                actions.update(self._tell(listener, name, change))
        return frozenset(actions)

    def _tell(self, listener: str, event: str, change: Any) -> list[str]:
        token = getattr(change, "token", None)
        payload: dict[str, Plain] = {
            "event": event,
            "token": token if token in self.state.nodes else None,
            "arc_token": token if token in self.state.arcs else None,
        }
        if isinstance(change, NodeTokenCompleted):
            payload["arcs"] = list(change.exits)
        try:
            answer = self.ask(f"listener:{listener}", payload, token)
        except NodeFault as fault:  # who only listens does not stop what happens
            self.add_error(fault.kind, fault.message, token=token or 0)
            return []
        return [str(each) for each in answer] if isinstance(answer, list) else []

    def ask(
        self, function: str, about: dict[str, Plain], token: int | None, node: Node | None = None
    ) -> Plain:
        """The user's code is asked; what it says is recorded. Raises NodeFault where it does not answer."""
        try:
            answer = self.view.ask(function, about)
        except ActionError as error:
            raise NodeFault(error.kind, f"{function}: {error}", node) from error
        self.record.change(QuestionAsked(function, token, answer))
        return answer

    # --- what is waited for ---------------------------------------------------------------------------

    def stop_waiting(self, token: NodeToken) -> None:
        """Whatever would have completed a token, or asked its guard again, is not needed any more."""
        if token.wake:
            self.record.command(commands.CancelTimer(token.wake))
            self.record.change(DelayOver(token.id))
        if token.watch:
            self.record.command(commands.Unwatch(token.watch))
            self.record.change(WatchSet(token.id, ""))
        if token.call:
            self.give_up(token.call)

    def woken(self, token: NodeToken) -> None:
        """The moment that a token waited for is there."""
        self.record.change(DelayOver(token.id))

    def give_up(self, call: str, *, abandon: bool = True) -> None:
        """Nobody waits for a call any more; what it reserved is free."""
        reserved = self.state.reserved.get(call)
        if reserved:
            self.record.command(commands.Release(reserved))
        self.record.change(NodeCallBack(call))
        if abandon:
            self.record.command(commands.CancelCall(call))

    def go_on(self) -> None:
        """The queue need not be woken up for any more."""
        if self.state.paused:
            self.record.command(commands.CancelTimer(self.state.paused))
            self.record.change(Paused())

    # --- memory ---------------------------------------------------------------------------------------

    def add(self, xml: bytes, step: str = "", call: str = "", inputs: tuple[int, ...] = ()) -> int:
        """A new element of this process; its eid."""
        origin = Origin(self.state.run, step, call, inputs)
        element = Element(self.view.next_eid, xml, self.event.at, origin)
        self.record.command(commands.Add(element))
        return element.eid

    def add_error(
        self,
        kind: str,
        message: str,
        node: Node | None = None,
        *,
        detail: str = "",
        call: str = "",
        token: int = 0,
    ) -> int:
        """An error element that names run, process and node; its eid."""
        xml = make_error(
            kind,
            message,
            detail,
            run=self.state.run,
            process=self.process.full_name,
            step=node.id if node is not None else "",
            token=token or None,
            call=call,
        )
        return self.add(xml, node.id if node is not None else "", call)

    # --- answers --------------------------------------------------------------------------------------

    def answer(self, event: Signalled, **value: Plain) -> None:
        """What was asked for was done."""
        self.record.command(Answer(event.signal, value))

    def refuse(self, event: Signalled, kind: str, message: str) -> None:
        """What was asked for cannot be done."""
        self.record.command(Answer(event.signal, problem=Failure(kind, message)))
