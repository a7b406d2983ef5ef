"""The gate of an operator in a frame: when it fires, what it gets in which order, and how it ends.

    waiting   a value, a WAIT name or the first token of every stream is missing
    at work   it has fired: batches go straight to it
    finishing all its inputs have ended; it gives what is left
    finished, cancelled or failed: later items are dropped

An operator fires when all its non-streaming inputs are present, and a tuple or EOS of one stream; without
streams, when all inputs are present; without inputs, at the start (T31). Then it gets its values and, for
each stream, in the order of its inputs, the waiting tuples and then the end (T32).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import VALUE, FlowError, Relation, Spill, TupleBatch
from narval.kinds.dataflow.engine.network.channels import ENDED, AnyOutlet, Ended, GateClauses, Life, Passing
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator, Handler, Steps
from narval.kinds.dataflow.engine.network.operators.table import INNER_OPERATORS
from narval.kinds.dataflow.language.definition import FixedValue, OperatorCall

Key = tuple[str, int]
"""An input: its port, and its index in the group of that port."""

WAIT = "WAIT"
"""The pseudo-port of names that an operator only waits for."""

FEW = 32
"""The most batches of a stream that wait as they are; further ones are spilled."""

BACK = "BACK"
"""The pseudo-port of results from a frame that an operator has started."""


class Host(Life, Protocol):
    """The try of a frame that a gate belongs to."""

    place: tuple[str, int]
    """The frame, and the number of this try of it."""

    @property
    def spill(self) -> Spill:
        """Storage for waiting rows."""

    def make(self, gate: Gate) -> FlowOperator:
        """The operator of a gate that fires."""

    def is_crowded_behind(self, gate: Gate) -> bool:
        """Test whether an operator downstream of a gate is overloaded."""

    def schedule(self, gate: Gate) -> None:
        """Schedule a gate."""

    def go_on(self, gate: Gate, steps: Iterator[None]) -> None:
        """Schedule the rest of a piece of work, one step at a time."""

    def enter(self) -> bool:
        """Enter the work of a gate, nested in that of another; return False if that is too deep for now."""

    def leave(self) -> None:
        """Leave the work entered last."""

    def closed(self, gate: Gate) -> None:
        """Handle the end of a gate."""

    def failed(self, gate: Gate, failure: Failure) -> None:
        """Handle the failure of an operator that nothing in the plan handles."""

    def last_left(self, gate: Gate) -> None:
        """Handle a call of a plan that has all its inputs."""


class WaitingRows(Relation):
    """The rows of many batches, waiting for an operator to fire (TA41)."""

    @classmethod
    def of(cls, batch: TupleBatch, spill: Spill) -> WaitingRows:
        """Start with the rows of a first batch."""
        rows = spill.kept()
        rows.add(batch.rows)
        return cls(batch.schema, rows, batch.relation)


class Inputs:
    """The inputs of a gate: what it has received, and what is missing (T31)."""

    def __init__(self, call: OperatorCall, streams: frozenset[str], spill: Spill) -> None:
        self._spill = spill
        self.waiting = 0
        self.values: dict[str, Any] = {}
        self.missing: set[Key] = {(WAIT, at) for at in range(len(call.wait))}
        self.queues: dict[Key, deque[tuple[Passing, Any]]] = {}
        self.handlers: dict[Key, Handler] = {}
        for port, argument in call.arguments.items():
            group = argument if isinstance(argument, tuple) else (argument,)
            if port not in streams:
                fixed = [one.value if isinstance(one, FixedValue) else None for one in group]
                self.values[port] = fixed if isinstance(argument, tuple) else fixed[0]
                self.missing |= {
                    (port, at) for at, one in enumerate(group) if not isinstance(one, FixedValue)
                }
                continue
            for at, one in enumerate(group):
                self.queues[port, at] = deque()
                if isinstance(one, FixedValue):
                    self.put((port, at), Passing.GIVEN, one.value)
        self.open, self.live = set(self.queues), set(self.queues)
        self.is_lost = False

    def put(self, key: Key, kind: Passing, item: Any) -> None:
        """Store a waiting item; a value for a stream is its only tuple, a relation its tuples."""
        queue = self.queues.setdefault(key, deque())
        if kind is Passing.TUPLES and len(queue) >= FEW:
            last = queue[-1][1]
            if isinstance(last, WaitingRows) and last.schema is item.schema:
                last.kept.add(item.rows)
                return
            queue.append((Passing.GIVEN, WaitingRows.of(item, self._spill)))
            self.waiting += 1
            return
        if kind is Passing.GIVEN and key[0] != BACK:
            whole = isinstance(item, Relation)
            queue.append((kind, item) if whole else (Passing.TUPLES, TupleBatch(VALUE, [(item,)])))
            kind, item = Passing.EOS, None
            self.waiting += 1
        queue.append((kind, item))
        self.waiting += 1

    def give(self, key: Key, value: Any) -> None:
        """Take a value."""
        port, at = key
        if port != WAIT:
            if isinstance(self.values.get(port), list):
                self.values[port][at] = value
            else:
                self.values[port] = value
        self.missing.discard(key)

    @property
    def fires(self) -> bool:
        """True if the firing rule is met."""
        if self.missing:
            return False
        return not self.queues or any(
            kind is not Passing.CANCEL for queue in self.queues.values() for kind, _ in queue
        )

    def next(self) -> tuple[Key, Passing, Any] | None:
        """The first waiting item, in the order of the inputs."""
        for key, queue in self.queues.items():
            if queue:
                kind, item = queue.popleft()
                self.waiting -= 1
                return key, kind, item
        return None

    def clear(self) -> None:
        """Drop everything."""
        self.waiting = 0
        self.values, self.missing, self.queues, self.handlers = {}, set(), {}, {}


class Inlet:
    """An input of a gate, as a channel sees it."""

    __slots__ = ("_gate", "_key")

    def __init__(self, gate: Gate, key: Key) -> None:
        self._gate, self._key = gate, key

    def deliver(self, kind: Passing, item: Any) -> None:
        """Pass the item to the gate."""
        self._gate.deliver(self._key, kind, item)


class Gate:
    """An operator in a frame."""

    def __init__(
        self,
        host: Host,
        call: OperatorCall,
        streams: frozenset[str],
        outlets: Mapping[Key, AnyOutlet],
        clauses: GateClauses,
    ) -> None:
        self.host, self.call, self.outlets, self.clauses = host, call, outlets, clauses
        self.inputs = Inputs(call, streams, host.spill)
        self.state: Literal["waiting", "at work", "finishing"] | Ended = "waiting"
        self.running: FlowOperator | None = None
        self._steps = 0
        self._is_scheduled = False

    @property
    def is_over(self) -> bool:
        """True if it takes no more input."""
        return self.state in ENDED or self.host.is_over

    @property
    def is_at_work(self) -> bool:
        """True if it has fired and has not ended."""
        return self.state in ("at work", "finishing")

    def deliver(self, key: Key, kind: Passing, item: Any) -> None:
        """Take an item that arrives on an input."""
        host, inputs = self.host, self.inputs
        is_free = self.state == "at work" and not self._steps and not inputs.waiting
        if is_free and kind is Passing.TUPLES and not host.is_over:
            handler = inputs.handlers.get(key)
            if handler is not None and host.enter():
                self._work(handler, item)
                host.leave()
                return
        if self.is_over:
            return
        if key not in inputs.queues and key[0] != BACK:
            self._take_value(key, kind, item)
        elif is_free and kind is not Passing.GIVEN and host.enter():
            self._handle(key, kind, item)
            self.settle()
            host.leave()
        else:
            inputs.put(key, kind, item)
            if kind is Passing.CANCEL and self.state == "waiting":
                self._lose(key)
            if key[0] == BACK:  # an item may still be on its way into the frame, and none may overtake it
                self.schedule()
            else:
                self.go()

    def _take_value(self, key: Key, kind: Passing, item: Any) -> None:
        """Take a value, or a token of a name that it waits for: a tuple is one, EOS alone is not."""
        if key not in self.inputs.missing:
            return
        if kind in (Passing.GIVEN, Passing.TUPLES):
            self.inputs.give(key, item)
            self.go()
        else:
            self.cancel()

    def _lose(self, key: Key) -> bool:
        """Handle the cancellation of a stream; return True if it cancels the operator too."""
        inputs = self.inputs
        inputs.live.discard(key)
        inputs.open.discard(key)
        running = INNER_OPERATORS.get(self.call.operator.name)
        lost = not inputs.live or (running is not None and key[0] in running.cancelled_by)
        if lost:
            self.cancel()
        return lost

    def schedule(self) -> None:
        """Schedule this gate."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.host.schedule(self)

    def go(self) -> None:
        """Fire if the rule is met, and process waiting items."""
        self._is_scheduled = False
        if self.is_over:
            return
        if self.inputs.is_lost:
            self.cancel()
            return
        if self._steps or (self.state == "waiting" and not self.inputs.fires):
            return
        if not self.host.enter():
            self.schedule()
            return
        if self.state == "waiting":
            self._fire()
        while not self._steps and not self.is_over and (waiting := self.inputs.next()) is not None:
            self._handle(*waiting)
        self.settle()
        self.host.leave()

    def _fire(self) -> None:
        self.state = "at work"
        self.clauses.begin()
        running = self.running = self.host.make(self)
        self.inputs.handlers = {key: running.handler(*key) for key in self.inputs.queues if key[0] != BACK}
        self._work(running.on_init, self.inputs.values)

    def _handle(self, key: Key, kind: Passing, item: Any) -> None:
        running = self.running
        assert running is not None
        if key[0] == BACK:
            self._work(running.on_back, key[1], kind, item)
        elif kind is Passing.TUPLES:
            self._work(self.inputs.handlers[key], item)
        elif kind is Passing.GIVEN:
            self._go_on(each_batch(self.inputs.handlers[key], item))
        elif kind is Passing.EOS:
            self.inputs.open.discard(key)
            self._work(running.on_eos, *key)
        elif not self._lose(key):
            self._work(running.on_cancelled, *key)

    def _work(self, act: Callable[..., Steps], *arguments: Any) -> None:
        try:
            steps = act(*arguments)
        except Exception as error:
            self.fail(failure_of(error))
        else:
            if steps is not None:
                self._go_on(steps)

    def _go_on(self, steps: Iterator[None]) -> None:
        if not self.is_over:
            self._steps += 1
            self.host.go_on(self, steps)

    def step(self, steps: Iterator[None]) -> bool:
        """Do a step of a piece of work; return False when it is done."""
        if self.is_over:
            return False
        try:
            next(steps)
            return True
        except StopIteration:
            self._steps -= 1
            self.schedule()
        except Exception as error:
            self.fail(failure_of(error))
        return False

    def settle(self) -> None:
        """Finish if all inputs have ended and no work is pending."""
        running, inputs = self.running, self.inputs
        if self.is_over or running is None or inputs.open or self._steps or inputs.waiting:
            return
        if self.state == "at work":
            self.state = "finishing"
            self._work(running.finish)
            if self._steps or self.is_over:
                return
        if running.is_busy:
            return
        running.conclude()
        self._close("finished")

    def cancel(self) -> None:
        """Cancel the remaining outputs, as a needed input is missing."""
        if self.is_over:
            return
        if self.host.enter():
            self._close("cancelled")
            self.host.leave()
        else:
            self.inputs.is_lost = True
            self.schedule()

    def fail(self, failure: Failure) -> None:
        """Pass an error to the consumers of ON_ERROR, if any, else to the frame (T42, TA24)."""
        if self.is_over:
            return
        if self.call.on_error:
            self._close("failed")
        else:
            self.host.failed(self, failure)

    def _close(self, state: Ended) -> None:
        self.state = state
        if self.running is not None:
            self.running.stop()
        for outlet in self.outlets.values():
            if state == "finished":
                outlet.end()
            else:
                outlet.cancel()
        self.clauses.end(state)
        self.inputs.clear()
        self.host.closed(self)


def each_batch(handler: Handler, relation: Relation) -> Iterator[None]:
    """Process a relation given for a stream, one batch at a time."""
    for batch in relation.batches():
        steps = handler(batch)
        if steps is not None:
            yield from steps
        yield


def failure_of(error: Exception) -> Failure:
    """The failure for an error of an operator."""
    if isinstance(error, FlowError):
        return error.failure
    return Failure("error", f"{type(error).__name__}: {error}", final=True)
