"""Operators that run others: a call of a plan, which works in its own frame (T34), an operator run once for
each tuple (TA7), and those that act on their own transaction: void, restart, terminate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from narval.kinds.dataflow.engine.network.batches import FlowError, Spill, TupleBatch
from narval.kinds.dataflow.engine.network.channels import Passing
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, Handler, Outlet, Steps
from narval.kinds.dataflow.engine.network.operators.outside import lifted_ports, lifted_values
from narval.kinds.dataflow.language.definition import OperatorCall


class ChildFrame(Protocol):
    """A frame as seen by the call that made it."""

    def begin(self, values: Mapping[str, Any]) -> None:
        """Start it with its non-streaming inputs. It may give outputs, and end, before this returns."""

    def deliver(self, name: str, kind: Passing, item: Any) -> None:
        """Pass an item to an input."""

    def stop(self) -> None:
        """Make it void."""


class PlanCall(FlowOperator):
    """A call of a plan: its inputs go to its frame, and the outputs of the frame are its own.

    `make` makes a frame, without starting it; it raises if that would be too deep or one too many. `fed` is
    called when the call has all its inputs.
    """

    def __init__(
        self,
        call: OperatorCall,
        outlets: Mapping[tuple[str, int], Outlet],
        spill: Spill,
        make: Callable[[str], ChildFrame],
        fed: Callable[[], None],
        most: int,
    ) -> None:
        super().__init__(call, outlets, spill)
        self._make, self._fed, self._most = make, fed, most
        self._given = list(outlets.values())
        self._children: list[ChildFrame] = []
        self._queue: deque[tuple[dict[str, Any], str]] = deque()
        self._tags: dict[str, int] = {}

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._lifted = lifted_ports(self.call)
        if not self._lifted:
            self._begin(self._values, "")

    def _begin(self, values: Mapping[str, Any], tag: str) -> None:
        child = self._make(tag)
        self._children.append(child)
        child.begin(values)

    def _deliver(self, port: str, kind: Passing, item: Any = None) -> None:
        """Pass an item of a stream to the frame; an ended frame takes nothing."""
        if port not in self.call.lifted and self._children:
            self._children[0].deliver(port, kind, item)

    def handler(self, port: str, at: int) -> Handler:
        if port in self.call.lifted:
            return partial(self._each, port)
        return partial(self._deliver, port, Passing.TUPLES)

    def _each(self, port: str, batch: TupleBatch) -> None:
        if port != self._lifted[0]:
            return
        for row in batch.rows:
            values = lifted_values(self._lifted, batch, row)
            tag = repr(sorted(values.items()))
            before = self._tags.get(tag, 0)
            self._tags[tag] = before + 1
            self._queue.append(({**self._values, **values}, f"{tag} {before}"))
        self._fill()

    def _fill(self) -> None:
        while self._queue and len(self._children) < self._most:
            self._begin(*self._queue.popleft())

    def on_eos(self, port: str, at: int) -> None:
        self._deliver(port, Passing.EOS)

    def on_cancelled(self, port: str, at: int) -> None:
        self._deliver(port, Passing.CANCEL)

    def on_back(self, at: int, kind: Passing, item: Any) -> None:
        outlet = self._given[at]
        if kind is Passing.TUPLES:
            outlet.put(*item)
        elif kind is Passing.GIVEN:
            outlet.give(item)
        elif not self._lifted:
            if kind is Passing.EOS:
                outlet.end()
            else:
                outlet.cancel()

    def finish(self) -> None:
        self._fed()

    def over(self, child: ChildFrame) -> None:
        """Handle the end of a frame."""
        if child in self._children:
            self._children.remove(child)
            self._fill()

    def only_child(self) -> ChildFrame | None:
        """The only frame, if there will not be more; else None."""
        return self._children[0] if len(self._children) == 1 and not self.call.lifted else None

    def replace(self, child: ChildFrame, by: ChildFrame) -> None:
        """Replace one of its frames by the frame of that frame's last call (T36)."""
        self._children[self._children.index(child)] = by

    @property
    def is_busy(self) -> bool:
        return bool(self._children or self._queue)

    def take_children(self) -> list[ChildFrame]:
        """Give its frames away, and return them."""
        children, self._children, self._queue = self._children, [], deque()
        return children

    def stop(self) -> None:
        for child in self.take_children():
            child.stop()


class _Part:
    """An outlet of one run among many: it gives into their common stream, without ending it."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet, self.is_open = outlet, True
        self.put = outlet.put

    def give(self, value: Any) -> None:
        self._outlet.give(value)
        self.is_open = False

    def end(self) -> None:
        self.is_open = False

    def cancel(self) -> None:
        self.is_open = False


class EachTuple(FlowOperator):
    """An operator without streams, run once for each tuple."""

    def __init__(
        self,
        call: OperatorCall,
        outlets: Mapping[tuple[str, int], Outlet],
        spill: Spill,
        inner: type[FlowOperator],
    ) -> None:
        super().__init__(call, outlets, spill)
        self._inner = inner

    def on_init(self, values: Mapping[str, Any]) -> None:
        if len(self.call.lifted) < len([p for p in self.call.operator.inputs if p.type == "TupleStream"]):
            raise FlowError("lifted-twice", f"expected no other stream for {self.call.operator.name}")
        self._values = dict(values)
        self._lifted = lifted_ports(self.call)

    def handler(self, port: str, at: int) -> Handler:
        return self._each if port == self.call.lifted[0] else lambda batch: None

    def _each(self, batch: TupleBatch) -> Iterator[None]:
        for row in batch.rows:
            parts = {key: _Part(outlet) for key, outlet in self.outlets.items()}
            running = self._inner(self.call, parts, self.spill)
            for work in (
                partial(running.on_init, {**self._values, **lifted_values(self._lifted, batch, row)}),
                running.finish,
            ):
                steps: Steps = work()
                if steps is not None:
                    yield from steps
            yield


class Control(FlowOperator):
    """An operator that acts on its own transaction."""

    def __init__(
        self,
        call: OperatorCall,
        outlets: Mapping[tuple[str, int], Outlet],
        spill: Spill,
        act: Callable[[], None],
    ) -> None:
        super().__init__(call, outlets, spill)
        self._act = act

    def finish(self) -> None:
        self._act()
