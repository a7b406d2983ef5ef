"""The tries of a frame, and what outlives each (TA27, TA28).

A try has the channels and gates of its graph, until it ends or is void. What outlives it is what arrived on
the frame's inputs, and its outputs (T35, T43): what a void try has given is not given again, and what it
should not have given is undone by voiding the parent's try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network import channels
from narval.kinds.dataflow.engine.network.batches import (
    Kept,
    Relation,
    Row,
    Schema,
    Spill,
    TupleBatch,
    placed_rows,
    remaining,
    widened,
)
from narval.kinds.dataflow.engine.network.channels import Consumer, Passing
from narval.kinds.dataflow.engine.network.firing import Gate, Inlet, Key
from narval.kinds.dataflow.engine.network.machine import Machine
from narval.kinds.dataflow.engine.network.operators.flow_operator import FlowOperator
from narval.kinds.dataflow.engine.network.operators.outside import (
    Asked,
    ChildFrame,
    Control,
    EachTuple,
    Outside,
    PlanCall,
)
from narval.kinds.dataflow.engine.network.operators.table import INNER_OPERATORS
from narval.kinds.dataflow.engine.network.requests import (
    DataArrived,
    FlowListener,
    OperatorMoved,
    OperatorRequest,
)
from narval.kinds.dataflow.engine.network.wiring import CONTROL, GraphWiring, is_outside
from narval.kinds.dataflow.language.definition import OperatorCall


class Owner(Protocol):
    """The frame that this is a try of."""

    id: str
    depth: int

    @property
    def asked(self) -> dict[int, Gate]:
        """The pending requests, and their gates."""

    def make_frame(self, gate: Gate, tag: str) -> ChildFrame:
        """Make a frame for a call, without starting it."""

    def control(self, call: OperatorCall) -> None:
        """Carry out an operator that acts on its transaction."""

    def forget(self, requests: Iterable[int]) -> None:
        """Withdraw requests."""

    def count(self, epoch: Epoch) -> None:
        """Count what passed in an ended try."""

    def failed(self, failure: Failure) -> None:
        """Handle the failure of an operator."""

    def over(self) -> None:
        """Handle the end of all operators."""

    def hand_over(self, gate: Gate) -> None:
        """Hand the outputs over to the last call, if nothing else is left to do (T36)."""


class Epoch:
    """One try of a frame."""

    def __init__(self, owner: Owner, machine: Machine, wiring: GraphWiring, number: int) -> None:
        self.number, self.wiring, self.place = number, wiring, (owner.id, number)
        self.is_over = False
        self._owner, self._machine = owner, machine
        self.enter, self.leave = machine.enter, machine.leave
        self.schedule, self.go_on = machine.schedule, machine.go_on
        self.channels = {
            name: channels.Channel(type, self, wiring.producers[name]) for name, type in wiring.types.items()
        }
        for name in wiring.checked:
            self.channels[name].check()
        self.gates = [
            Gate(self, call, streams, *self._ends(call))
            for call, streams in zip(wiring.graph.calls, wiring.streams, strict=True)
        ]
        listener = machine.settings.listener
        for name, consumers in wiring.consumers.items():
            for at, key in consumers:
                inlet: channels.Consumer = Inlet(self.gates[at], key)
                if listener is not None:
                    inlet = HeardInlet(inlet, partial(self._hear_data, listener, self.gates[at], key))
                self.channels[name].consumers.append(inlet)
        self._open = len(self.gates)

    def _ends(self, call: OperatorCall) -> tuple[dict[Key, channels.AnyOutlet], channels.GateClauses]:
        spill = self._machine.settings.spill
        outlets: dict[Key, channels.AnyOutlet] = {}
        named = {(port, at): name for port, at, name in call.produced}
        for port in call.operator.outputs:
            output = call.outputs.get(port.name)
            for at in range(len(output) if isinstance(output, tuple) else not port.many):
                name = named.get((port.name, at))
                channel = self.channels[name] if name is not None else channels.Channel(port.type, self)
                outlets[port.name, at] = channels.outlet_of(channel, spill)
        for key, name in named.items():
            if key not in outlets:
                outlets[key] = channels.outlet_of(self.channels[name], spill)
        started, enable, on_error = (
            [channels.outlet_of(self.channels[name], spill) for name in names]
            for names in (call.started, call.enable, call.on_error)
        )
        return outlets, channels.GateClauses(started, enable, on_error)

    @property
    def spill(self) -> Spill:
        """Storage for waiting rows."""
        return self._machine.settings.spill

    def start(self) -> None:
        """Fire the operators that need no input."""
        for gate in self.gates:
            gate.go()

    def shut(self) -> list[FlowOperator]:
        """Drop all pending work; return the operators that were running."""
        if not self.is_over:
            self._owner.count(self)
        self.is_over = True
        return [gate.running for gate in self.gates if gate.running is not None and gate.is_at_work]

    # --- listeners ------------------------------------------------------------------------------------------

    def _hear_data(
        self, listener: FlowListener, gate: Gate, key: Key, kind: channels.Passing, item: Any
    ) -> None:
        plan, (port, at) = self.wiring.graph.full_name, key
        listener(DataArrived(plan, self._owner.id, gate.call, port, at, item, _KINDS[kind]))

    def _hear_gate(self, gate: Gate, state: str) -> None:
        listener = self._machine.settings.listener
        if listener is not None:
            listener(OperatorMoved(self.wiring.graph.full_name, self._owner.id, gate.call, state))

    # --- the host of its gates ------------------------------------------------------------------------------

    def make(self, gate: Gate) -> FlowOperator:
        """The operator of a gate that fires."""
        self._hear_gate(gate, "fired")
        call, machine = gate.call, self._machine
        spill, settings = machine.settings.spill, machine.settings
        name = call.operator.name
        if call.plan:
            make, fed = partial(self._owner.make_frame, gate), partial(self.last_left, gate)
            return PlanCall(call, gate.outlets, spill, make, fed, settings.concurrency)
        if name in CONTROL:
            return Control(call, gate.outlets, spill, partial(self._owner.control, call))
        if is_outside(call):
            ask, crowd = partial(self._ask, gate), partial(machine.crowd, gate)
            return Outside(call, gate.outlets, spill, settings, ask, crowd, self._owner.forget)
        if call.lifted:
            return EachTuple(call, gate.outlets, spill, INNER_OPERATORS[name])
        return INNER_OPERATORS[name](call, gate.outlets, spill)

    def _ask(self, gate: Gate, asked: Asked) -> int:
        """Request outside work of an operator; return the number of the request."""
        number, owner = self._machine.number(), self._owner
        owner.asked[number] = gate
        phase, arguments, port, at, batch = asked
        request = OperatorRequest(
            number, owner.id, owner.depth, self.number, gate.call, phase, arguments, port, at, batch
        )
        self._machine.tell(request)
        return number

    def is_crowded_behind(self, gate: Gate) -> bool:
        """Test whether an operator downstream of a gate is overloaded."""
        behind = self.wiring.behind(self.gates.index(gate))
        return any(self._machine.has_crowd(self.gates[place]) for place in behind)

    def failed(self, gate: Gate, failure: Failure) -> None:
        """Handle the failure of an operator, adding its place to the failure."""
        if not failure.detail:
            where = f"in {gate.call.key} of {self.wiring.graph.full_name}, line {gate.call.line}"
            failure = replace(failure, detail=where)
        self._owner.failed(failure)

    def closed(self, gate: Gate) -> None:
        """Handle the end of a gate."""
        self._hear_gate(gate, gate.state)
        self._machine.move()
        self._open -= 1
        if self._open == 0:
            self._owner.over()
        elif self._open == 1:
            for last in [one for one in self.gates if one.state not in channels.ENDED]:
                self.last_left(last)

    def last_left(self, gate: Gate) -> None:
        """Hand over to a call that has all its inputs, if nothing else is left."""
        if self._open == 1 and gate.call.tail and gate.state == "finishing":
            self._owner.hand_over(gate)


class HeardInlet:
    """An input of a gate with a listener."""

    __slots__ = ("_hear", "_inlet")

    def __init__(self, inlet: channels.Consumer, hear: Callable[[channels.Passing, Any], None]) -> None:
        self._inlet, self._hear = inlet, hear

    def deliver(self, kind: channels.Passing, item: Any) -> None:
        """Tell the listener, then the gate."""
        self._hear(kind, item)
        self._inlet.deliver(kind, item)


_KINDS: Mapping[channels.Passing, Literal["tuples", "value", "end", "cancelled"]] = {
    channels.Passing.TUPLES: "tuples",
    channels.Passing.GIVEN: "value",
    channels.Passing.EOS: "end",
    channels.Passing.CANCEL: "cancelled",
}


# --- what outlives a try --------------------------------------------------------------------------------


class Log:
    """A replayable record of what arrived on a datum: tuples, then a value or the end."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._kept: Kept | None = None
        self.schema: Schema = ()
        self.closing: tuple[Passing, Any] | None = None

    def add(self, kind: Passing, item: Any) -> None:
        """Record an item."""
        if kind is not Passing.TUPLES:
            self.closing = (kind, item)
            return
        if self._kept is None:
            self._kept, self.schema = self._spill.kept(), item.schema
        self.schema, rows = placed_rows(item, self.schema)
        self._kept.add(rows)

    def replay(self, receiver: Callable[[Passing, Any], None]) -> None:
        """Deliver everything again."""
        if self._kept is not None:
            for rows in self._kept.batches():
                receiver(Passing.TUPLES, TupleBatch(self.schema, widened(rows, self.schema)))
        if self.closing is not None:
            receiver(*self.closing)

    def counted(self) -> Counter[Row]:
        """The tuples, with their counts."""
        counts: Counter[Row] = Counter()
        if self._kept is not None:
            for rows in self._kept.batches():
                counts.update(widened(rows, self.schema))
        return counts


class FrameOutput:
    """An output of a frame: its receiver, what it has already received, and what is held back until the end.

    `lacking` is called when a try ends the output without giving everything that an earlier try gave. It is
    None for outputs of the transaction: these retract what only a void try gave.
    """

    def __init__(
        self, receiver: Consumer, machine: Machine, wiring: GraphWiring, lacking: Callable[[], None] | None
    ) -> None:
        self._receiver, self._lacking, self._spill = receiver, lacking, machine.settings.spill
        holds = wiring.holds and lacking is not None
        restarts = wiring.restarts and machine.settings.restarts > 0
        self._held = Log(self._spill) if holds else None
        self._given = Log(self._spill) if restarts and not holds else None
        self._owed: Counter[Row] = Counter()
        self._owed_schema: Schema = ()
        self.is_over = self._is_closed = False

    @property
    def receiver(self) -> Consumer:
        """The consumer of the output."""
        return self._receiver

    @property
    def is_plain(self) -> bool:
        """True if nothing is held back, and nothing is owed from an earlier try."""
        return self._held is None and not self._owed

    def redirect(self, receiver: Consumer, lacking: Callable[[], None] | None) -> None:
        """Change the consumer of the output."""
        self._receiver, self._lacking = receiver, lacking

    def deliver(self, kind: Passing, item: Any) -> None:
        """Pass on an item, without tuples that a void try has already given."""
        if self._is_closed:
            return
        if self._held is not None:
            self._held.add(kind, item)
        elif kind is not Passing.TUPLES:
            if self._owed or (self.is_over and not self._is_same(kind, item)):
                self._lack()
            self._pass(kind, item)
        else:
            if self._owed:
                item = self._new(item)
            if item.rows and self.is_over and self._lacking is not None:
                self._lacking()
            elif item.rows:
                if self._given is not None:
                    self._given.add(kind, item)
                self._receiver.deliver(kind, item)

    def _pass(self, kind: Passing, item: Any) -> None:
        if not self.is_over:
            self.is_over = True
            if self._given is not None:
                self._given.add(kind, item)
            self._receiver.deliver(kind, item)

    def _lack(self) -> None:
        """Void the parent's try or, outside, retract what is owed, and let the output end again."""
        owed, self._owed = self._owed, Counter()
        if self._lacking is not None:
            self._lacking()
            return
        self.is_over = False
        if owed and self._given is not None:
            before, self._given = self._given.counted(), Log(self._spill)
            rows = widened([*owed.elements()], self._owed_schema)
            self._receiver.deliver(Passing.RETRACTED, TupleBatch(self._owed_schema, rows))
            rest = remaining(widened([*before.elements()], self._owed_schema), Counter(rows))
            self._given.add(Passing.TUPLES, TupleBatch(self._owed_schema, rest))

    def _is_same(self, kind: Passing, item: Any) -> bool:
        return self._given is None or self._given.closing is None or same(self._given.closing, (kind, item))

    def _new(self, batch: TupleBatch) -> TupleBatch:
        schema, rows = placed_rows(batch, self._owed_schema)
        if len(schema) > len(self._owed_schema):
            self._owed = Counter(widened([*self._owed.elements()], schema))
        self._owed_schema = schema
        return batch._replace(schema=schema, rows=remaining(rows, self._owed))

    def begin_again(self) -> None:
        """Prepare for a new try: record what need not be given again."""
        if self._held is not None:
            self._held = Log(self._spill)
        elif self._given is not None:
            self._owed, self._owed_schema = self._given.counted(), self._given.schema

    def close(self, kind: Passing, *, with_held: bool = True) -> None:
        """Pass on what was held back, `with_held`, and then end the output."""
        held, self._held = self._held, None
        if held is not None and with_held:
            held.replay(self.deliver)
        if self._owed and with_held:
            self._lack()
        self._owed = Counter()
        self._pass(kind, None)
        self._is_closed = True


def same(a: tuple[Passing, Any], b: tuple[Passing, Any]) -> bool:
    """Test whether two ends of a datum are the same."""
    if isinstance(a[1], Relation) and isinstance(b[1], Relation):
        return _bag(a[1]) == _bag(b[1])
    return a == b


def _bag(relation: Relation) -> Counter[frozenset[tuple[str, Any]]]:
    """The tuples of a relation with their counts, whatever the order of their attributes."""
    rows = ((batch.schema, row) for batch in relation.batches() for row in batch.rows)
    fields = (zip(schema, row, strict=True) for schema, row in rows)
    return Counter(frozenset((name, value) for name, value in one if value is not None) for one in fields)
