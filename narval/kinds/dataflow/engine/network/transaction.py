"""The network of one transaction: it is given inputs and answers, and says what to do outside and what comes.

It has no clock, no threads and nothing that waits: whoever drives it feeds it, lets it `run`, takes what it
tells, and answers its requests whenever and in whatever order they are done.
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
    OutputTuples,
    OutputValue,
    TransactionOver,
)
from narval.kinds.dataflow.engine.network.wiring import FlowPlan


class NetworkOutput:
    """An output of the dataflow, as its frame sees it."""

    def __init__(self, name: str, machine: Machine) -> None:
        self._name, self._machine = name, machine

    def deliver(self, kind: Passing, item: Any) -> None:
        """Tell what comes."""
        tell = self._machine.tell
        if kind is Passing.TUPLES:
            tell(OutputTuples(self._name, item))
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
        """Fire what needs no input."""
        self._top.begin({})

    def feed(self, name: str, batch: TupleBatch) -> None:
        """Give an input tuples."""
        if batch.rows:
            self._top.deliver(name, Passing.TUPLES, batch)

    def give(self, name: str, value: Any) -> None:
        """Give an input its value; one for a stream is its only one, a relation all of it."""
        self._top.deliver(name, Passing.GIVEN, value)

    def end(self, name: str) -> None:
        """Give an input EOS."""
        self._top.deliver(name, Passing.EOS, None)

    def cancel(self, name: str) -> None:
        """Say that nothing comes for an input, or nothing more."""
        self._top.deliver(name, Passing.CANCEL, None)

    # --- answers --------------------------------------------------------------------------------------------

    def answer(self, request: int, batch: TupleBatch, port: str = "", at: int = 0) -> None:
        """Give an output of an operator outside some tuples; none choose it, if the operator is conditional.

        The port may be left out if there is only one. Answers to requests that nobody waits for are dropped.
        """
        gate = self.frames.asked.get(request)
        if gate is None:
            return
        self.machine.move()
        outlet = gate.outlets.get((port, at) if port else next(iter(gate.outlets), ("", 0)))
        if outlet is None or not outlet.is_open:
            found = f"{port} {at}".strip() or "one"
            gate.fail(Failure("no-output", f"expected an open output, found {found}", final=True))
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
        """Take note that all of a request is answered."""
        gate = self._settled(request)
        if gate is not None and isinstance(gate.running, Outside):
            gate.running.answered(request)
            gate.settle()

    def fail(self, request: int, failure: Failure) -> None:
        """Take note that a request failed: with that its operator has."""
        gate = self._settled(request)
        if gate is not None:
            gate.fail(failure)

    def _settled(self, request: int) -> Gate | None:
        self.machine.move()
        return self.frames.asked.pop(request, None)

    def restart(self, frame: str) -> None:
        """Let a frame begin again that asked for it."""
        if frame in self.frames.live:
            self.frames.live[frame].restart()

    # --- the drive ------------------------------------------------------------------------------------------

    def run(self, turns: int = 256) -> bool:
        """Go on for so many turns at most; True if there is more to do at once."""
        self.machine.run(turns)
        return self.machine.has_work

    def take(self) -> list[FlowEvent]:
        """All that it has told since this was asked before."""
        return self.machine.take()

    def stop(self) -> None:
        """Make it void: it was cancelled, or its time is over."""
        for frame in list(self.frames.live.values()):
            if frame.parent is None:
                frame.stop()
                frame.cancel_outputs()
        self._finish("void", None)

    @property
    def is_crowded(self) -> bool:
        """True if it should be given nothing for now, because an operator outside is behind (TA41)."""
        return self.machine.is_crowded

    def is_crowded_behind(self, request: int) -> bool:
        """Test whether what a request gives would go on to an operator outside that is behind (TA41).

        That operator goes on by itself, and so nobody waits for one that waits for it.
        """
        gate = self.frames.asked.get(request)
        return gate is not None and self.is_crowded and gate.host.is_crowded_behind(gate)

    @property
    def progress(self) -> int:
        """A number that grows with each step forward (TA26)."""
        return self.machine.progress

    def _finish(self, state: Any, failure: Failure | None) -> None:
        if self._over is None:
            self._over = TransactionOver(state, failure)
            self.frames.asked.clear()
            self.frames.live.clear()
            self.machine.clear()
            self.machine.tell(self._over)
