"""The network of one transaction: it takes inputs and answers, and emits requests for outside work and
outputs.

It has no clock, no threads and nothing that blocks. Its driver feeds it, lets it `run`, takes its events, and
answers its requests at any time and in any order.
"""

from __future__ import annotations

from typing import Any

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.channels import Passing
from narval.kinds.dataflow.engine.network.firing import Gate, failure_of
from narval.kinds.dataflow.engine.network.frames import Frame, Frames
from narval.kinds.dataflow.engine.network.machine import Machine
from narval.kinds.dataflow.engine.network.operators.outside import Outside
from narval.kinds.dataflow.engine.network.requests import (
    FlowEvent,
    FlowSettings,
    OutputOver,
    OutputRetracted,
    OutputTuples,
    OutputValue,
    TransactionOver,
)
from narval.kinds.dataflow.engine.network.wiring import FlowPlan


class NetworkOutput:
    """An output of the dataflow, as seen by its frame."""

    def __init__(self, name: str, machine: Machine) -> None:
        self._name, self._machine = name, machine

    def deliver(self, kind: Passing, item: Any) -> None:
        """Report an item to the driver."""
        tell = self._machine.tell
        if kind is Passing.TUPLES:
            tell(OutputTuples(self._name, item))
        elif kind is Passing.RETRACTED:
            tell(OutputRetracted(self._name, item))
        elif kind is Passing.GIVEN:
            tell(OutputValue(self._name, item))
            tell(OutputOver(self._name, cancelled=False))
        else:
            tell(OutputOver(self._name, cancelled=kind is Passing.CANCEL))


class Network:
    """One transaction of a dataflow. `id` is its own; the ids of frames derive from it."""

    def __init__(self, plan: FlowPlan, settings: FlowSettings | None = None, id: str = "") -> None:
        self.machine = Machine(settings or FlowSettings())
        self.frames = Frames(plan, self.machine, self._finish)
        self._over: TransactionOver | None = None
        wiring = plan.of(plan.name)
        outputs = {datum.name: NetworkOutput(datum.name, self.machine) for datum in wiring.graph.outputs}
        self.machine.begin_frame()
        self._top = Frame(self.frames, id, 0, wiring, outputs, None)

    # --- inputs ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fire the operators that need no input."""
        self._top.begin({})

    def feed(self, name: str, batch: TupleBatch) -> None:
        """Give tuples to an input."""
        if batch.rows:
            self._top.deliver(name, Passing.TUPLES, batch)

    def give(self, name: str, value: Any) -> None:
        """Give a value to an input; for a stream it is the only tuple or, if it is a relation, all tuples."""
        self._top.deliver(name, Passing.GIVEN, value)

    def end(self, name: str) -> None:
        """End an input."""
        self._top.deliver(name, Passing.EOS, None)

    def cancel(self, name: str) -> None:
        """Cancel an input: it gets nothing, or nothing more."""
        self._top.deliver(name, Passing.CANCEL, None)

    # --- answers --------------------------------------------------------------------------------------------

    def answer(self, request: int, batch: TupleBatch, port: str = "", at: int = 0) -> None:
        """Give tuples to an output of an outside operator; an empty batch chooses it, if the operator is
        conditional.

        The port may be omitted if there is only one. Answers to withdrawn requests are dropped.
        """
        gate = self.frames.asked.get(request)
        if gate is None:
            return
        self.machine.move()
        outlet = gate.outlets.get((port, at) if port else next(iter(gate.outlets), ("", 0)))
        if outlet is None or not outlet.is_open:
            gate.fail(Failure("no-output", _not_open(gate, port), final=True))
            return
        if gate.call.operator.conditional:
            for other in gate.outlets.values():
                if other is not outlet:
                    other.cancel()
        try:
            outlet.put(*batch)
        except Exception as error:
            gate.fail(failure_of(error))

    def done(self, request: int) -> None:
        """Record that a request is fully answered."""
        gate = self._settled(request)
        if gate is not None and isinstance(gate.running, Outside):
            gate.running.answered(request)
            gate.settle()

    def fail(self, request: int, failure: Failure) -> None:
        """Handle the failure of a request, which fails its operator."""
        gate = self._settled(request)
        if gate is not None:
            gate.fail(failure)

    def _settled(self, request: int) -> Gate | None:
        self.machine.move()
        return self.frames.asked.pop(request, None)

    def restart(self, frame: str) -> None:
        """Restart a frame that asked for it."""
        if frame in self.frames.live:
            self.frames.live[frame].restart()

    # --- the drive ------------------------------------------------------------------------------------------

    def run(self, turns: int = 256) -> bool:
        """Run for at most `turns` turns; return True if there is more to do now."""
        self.machine.run(turns)
        return self.machine.has_work

    def take(self) -> list[FlowEvent]:
        """Take the events since the last call."""
        return self.machine.take()

    def stop(self) -> None:
        """Void the transaction, because it was cancelled or its time is up."""
        for frame in list(self.frames.live.values()):
            if frame.parent is None:
                frame.stop()
                frame.cancel_outputs()
        self._finish("void", None)

    @property
    def is_crowded(self) -> bool:
        """True if it should get no more input for now, because an outside operator is behind (TA41)."""
        return self.machine.is_crowded

    def is_crowded_behind(self, request: int) -> bool:
        """Test whether the results of a request would reach an outside operator that is behind (TA41).

        That operator continues by itself, so there are no circular waits.
        """
        gate = self.frames.asked.get(request)
        return gate is not None and self.is_crowded and gate.host.is_crowded_behind(gate)

    @property
    def progress(self) -> int:
        """A counter of progress (TA26)."""
        return self.machine.progress

    def _finish(self, state: Any, failure: Failure | None) -> None:
        if self._over is None:
            self._over = TransactionOver(state, failure)
            self.frames.asked.clear()
            self.frames.live.clear()
            self.machine.clear()
            self.machine.tell(self._over)


def _not_open(gate: Gate, port: str) -> str:
    """The message for tuples to an output that is not there, or has ended."""
    names = [name for (name, _), outlet in gate.outlets.items() if outlet.is_open]
    message = f"expected an output that is open ({', '.join(names) or 'none'}), found {port!r}"
    if gate.call.operator.conditional:
        message += "; a conditional operator gives to the output that it chose first, and to no other"
    return message
