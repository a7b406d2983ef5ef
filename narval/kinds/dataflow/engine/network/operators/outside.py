"""Operators whose work is done elsewhere: outside the network, or in frames of their own.

Each piece of work outside, I/O and user code, is a request. One is pending at a time, or several if the
operator is parallelizable or runs once for each tuple (TA7). The end of a stream is sent when all its tuples
have been answered. A call of a plan works in its own frame (T34). Others act on their own transaction: void,
restart, terminate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from narval.kinds.dataflow.engine.network.batches import FlowError, Spill, TupleBatch, text_of
from narval.kinds.dataflow.engine.network.channels import Passing
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, Handler, Outlet, Steps
from narval.kinds.dataflow.engine.network.requests import FlowSettings, Phase
from narval.kinds.dataflow.language.definition import OperatorCall

Asked = tuple[Phase, Mapping[str, Any], str, int, TupleBatch | None]


class Outside(FlowOperator):
    """An operator that works outside.

    `ask` requests work and returns the number of the request, `crowd` is told whether the backlog is too
    large, and `forget` withdraws requests, and their instance.
    """

    def __init__(
        self,
        call: OperatorCall,
        outlets: Mapping[tuple[str, int], Outlet],
        spill: Spill,
        settings: FlowSettings,
        ask: Callable[[Asked], int],
        crowd: Callable[[bool], None],
        forget: Callable[[Iterable[int]], None],
    ) -> None:
        super().__init__(call, outlets, spill)
        self._ask_for, self._crowd, self._forget = ask, crowd, forget
        self._bound = settings.queue
        many = call.lifted or call.operator.parallelizable or call.operator.reentrant
        self._most = settings.concurrency if many else 1
        self._queue: deque[Asked] = deque()
        self._out: set[int] = set()
        self.requests = 0
        self._is_full = False

    def on_init(self, values: Mapping[str, Any]) -> None:
        self._arguments = dict(values)
        self._lifted = lifted_ports(self.call)
        if not self.call.lifted and not any(self._is_stream(port) for port in self.call.arguments):
            self._add("run", "", 0, None)

    def _is_stream(self, port: str) -> bool:
        declared = self.call.operator.input(port)
        return declared is not None and declared.type == "TupleStream"

    def handler(self, port: str, at: int) -> Handler:
        if port in self.call.lifted:
            return partial(self._each, port)
        return partial(self._some, port, at)

    def _some(self, port: str, at: int, batch: TupleBatch) -> None:
        size = self.call.operator.granularity
        if not size and self.call.operator.parallelizable:
            size = -(-len(batch.rows) // self._most)
        for start in range(0, len(batch.rows), size or len(batch.rows)):
            rows = batch.rows[start : start + size] if size else batch.rows
            self._add("batch", port, at, batch._replace(rows=rows))

    def _each(self, port: str, batch: TupleBatch) -> None:
        if port != self._lifted[0]:
            return
        for row in batch.rows:
            lifted = lifted_values(self._lifted, batch, row)
            self._add("run", "", 0, batch._replace(rows=[row]), lifted)

    def on_eos(self, port: str, at: int) -> None:
        if port not in self.call.lifted:
            self._add("eos", port, at, None)

    def _add(
        self,
        phase: Phase,
        port: str,
        at: int,
        batch: TupleBatch | None,
        lifted: Mapping[str, Any] | None = None,
    ) -> None:
        arguments = self._arguments if lifted is None else {**self._arguments, **lifted}
        self._queue.append((phase, arguments, port, at, batch))
        self._ask()

    def _ask(self) -> None:
        queue, out = self._queue, self._out
        while queue and len(out) < self._most and not (queue[0][0] == "eos" and out):
            out.add(self._ask_for(queue.popleft()))
            self.requests += 1
        if self._is_full != (len(queue) > self._bound):
            self._is_full = not self._is_full
            self._crowd(self._is_full)

    def answered(self, request: int) -> None:
        """Handle the end of a request."""
        self._out.discard(request)
        self._ask()

    def conclude(self) -> None:
        """Choose the last outlet of a conditional operator if none was chosen; it ends empty (T40)."""
        outlets = list(self.outlets.values())
        if self.call.operator.conditional and all(outlet.is_open for outlet in outlets):
            for outlet in outlets[:-1]:
                outlet.cancel()

    @property
    def is_busy(self) -> bool:
        return bool(self._queue or self._out)

    @property
    def under_way(self) -> str:
        """Describe the pending requests."""
        return f"{len(self._out)} requests under way, {len(self._queue)} behind them"

    def stop(self) -> None:
        self._queue.clear()
        if self._is_full:
            self._is_full = False
            self._crowd(False)
        if self._out:
            self._forget(self._out)
            self._out.clear()


def lifted_ports(call: OperatorCall) -> tuple[str, ...]:
    """The parameters that are fed one stream; the operator runs once for each of its tuples (TA7)."""
    names = {str(getattr(call.arguments[port], "name", "")) for port in call.lifted}
    if len(names) > 1:
        raise FlowError(
            "lifted-twice",
            f"expected one stream for {', '.join(call.lifted)}, found {', '.join(sorted(names))}",
        )
    return call.lifted


def lifted_values(ports: tuple[str, ...], batch: TupleBatch, row: tuple[Any, ...]) -> dict[str, Any]:
    """The values of parameters in a tuple: the attribute with the parameter's name, else the only one."""
    values = {}
    for port in ports:
        if port in batch.schema:
            values[port] = row[batch.schema.index(port)]
        elif len(row) == 1:
            values[port] = row[0]
        else:
            raise FlowError(
                "no-attribute",
                f"expected the attribute {port}, or only one, found {', '.join(batch.schema)}; project it",
            )
    return {
        port: value if isinstance(value, int | float) else text_of(value) for port, value in values.items()
    }


# --- calls of plans -------------------------------------------------------------------------------------


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
    """An operator that acts on its own transaction, which ends its try; it is busy until then."""

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

    @property
    def is_busy(self) -> bool:
        return True
