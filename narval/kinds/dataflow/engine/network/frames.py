"""A frame: one transaction, or one call of a plan within it, through all its tries (T34, T35, T43).

A temporary error makes a frame void, and it restarts with the same inputs, a limited number of times. Any
other error, or one too many, is the error of the call that started it, or of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

from narval.core.engines.events import Failure
from narval.kinds.dataflow.engine.network.batches import VALUE, FlowError, Relation, TupleBatch
from narval.kinds.dataflow.engine.network.channels import Consumer, Passing
from narval.kinds.dataflow.engine.network.counts import Passage, Tally
from narval.kinds.dataflow.engine.network.firing import BACK, Gate, Inlet
from narval.kinds.dataflow.engine.network.machine import Afterwards, Machine
from narval.kinds.dataflow.engine.network.operators.outside import ChildFrame, PlanCall
from narval.kinds.dataflow.engine.network.requests import RequestsWithdrawn, RestartRequest
from narval.kinds.dataflow.engine.network.tries import Epoch, FrameOutput, Log
from narval.kinds.dataflow.engine.network.wiring import FlowPlan, GraphWiring, restarts_after
from narval.kinds.dataflow.language.definition import STREAMED, OperatorCall

Try = tuple[str, int]
"""A frame, and the number of one of its tries."""

FrameState = Literal["at work", "void", "done", "given up", "handed over"]


class Frames:
    """All frames of a transaction, and their pending requests."""

    def __init__(
        self, plan: FlowPlan, machine: Machine, finished: Callable[[str, Failure | None], None]
    ) -> None:
        self.plan, self.machine, self.finished = plan, machine, finished
        self.tally = Tally()
        self.live: dict[str, Frame] = {}
        self.asked: dict[int, Gate] = {}
        self.void: set[Try] = set()
        """The tries that are void, but for those that were over when the try above them became void."""
        self.above: dict[Try, Try] = {}
        """The try in which the call of each other try stands."""
        self.latest: dict[str, int] = {}
        """The number of the last try of each frame."""

    def is_void(self, frame: str, epoch: int) -> bool:
        """Test whether nothing counts of a try of a frame, as it is void or one above it. The try 0, from
        before a crash, is as the last one.
        """
        one: Try | None = (frame, epoch or self.latest.get(frame, 0))
        while one is not None and one not in self.void:
            one = self.above.get(one)
        return one is not None

    def passages(self) -> list[Passage]:
        """The tuples that passed through each operator so far, and what it waits for."""
        return self.tally.with_live(
            (frame.wiring.graph.full_name, frame.epoch.gates, frame.epoch.channels)
            for frame in self._at_work()
        )

    def streams(self, plan: str) -> dict[str, int]:
        """The tuples that each stream and relation of a plan has carried so far, by name."""
        live = (frame.epoch.channels for frame in self._at_work() if frame.wiring.graph.full_name == plan)
        return self.tally.streams(plan, live)

    def _at_work(self) -> list[Frame]:
        return [frame for frame in self.live.values() if not frame.epoch.is_over]


class Nobody:
    """A receiver that drops everything."""

    def deliver(self, kind: Passing, item: Any) -> None:
        """Drop the item."""


class Frame:
    """A live frame; `parent` is the call that started it, None for the transaction's own frame."""

    def __init__(
        self,
        frames: Frames,
        id: str,
        depth: int,
        wiring: GraphWiring,
        receivers: Mapping[str, Consumer],
        parent: Gate | None,
    ) -> None:
        self.id, self.depth, self.parent, self.wiring = id, depth, parent, wiring
        self.state: FrameState = "at work"
        self._frames = frames
        lacking = self._take_back if parent is not None else None
        self.outputs = {
            name: FrameOutput(receiver, frames.machine, wiring, lacking)
            for name, receiver in receivers.items()
        }
        settings = frames.machine.settings
        restarts = wiring.restarts and settings.restarts > 0
        self._inputs = {datum.name: Log(settings.spill) for datum in wiring.graph.inputs if restarts}
        self._attempt = 0
        self.epoch = self._try()
        frames.live[id] = self

    def _try(self) -> Epoch:
        machine = self._frames.machine
        epoch = Epoch(self, machine, self.wiring, machine.number())
        self._frames.latest[self.id] = epoch.number
        self._note_above(epoch)
        for name, output in self.outputs.items():
            epoch.channels[name].consumers.append(output)
        return epoch

    def _note_above(self, epoch: Epoch) -> None:
        """Note the try in which the call of this one stands."""
        one = (self.id, epoch.number)
        if self.parent is not None:
            self._frames.above[one] = self.parent.host.place
        else:
            self._frames.above.pop(one, None)

    def deliver(self, name: str, kind: Passing, item: Any) -> None:
        """Pass an item to an input."""
        if name in self._inputs:
            self._inputs[name].add(kind, item)
        if self.state == "at work":
            self._feed(name, kind, item)

    def _feed(self, name: str, kind: Passing, item: Any) -> None:
        channel = self.epoch.channels[name]
        if kind is Passing.TUPLES:
            channel.put(*item)
        elif kind is Passing.GIVEN and channel.type == STREAMED:
            batches = item.batches() if isinstance(item, Relation) else [TupleBatch(VALUE, [(item,)])]
            for batch in batches:
                channel.put(*batch)
            channel.close(Passing.EOS)
        else:
            channel.close(kind, item)

    # --- the owner of its try -------------------------------------------------------------------------------

    @property
    def asked(self) -> dict[int, Gate]:
        """The pending requests."""
        return self._frames.asked

    def make_frame(self, gate: Gate, tag: str) -> ChildFrame:
        """Make a frame for a call, without starting it, within the bounds on depth and number (TA34)."""
        frames = self._frames
        settings = frames.machine.settings
        if self.depth >= settings.depth:
            raise FlowError(
                "too-deep",
                f"expected at most {settings.depth} frames in each other: has the recursion an end?",
            )
        if frames.machine.begin_frame() > settings.frames:
            raise FlowError("too-many-frames", f"expected at most {settings.frames} frames in a transaction")
        receivers = {port: Inlet(gate, (BACK, at)) for at, (port, _) in enumerate(gate.outlets)}
        id = blake2b(f"{self.id} {gate.call.key} {tag}".encode(), digest_size=12).hexdigest()
        return Frame(frames, id, self.depth + 1, frames.plan.of(gate.call.plan), receivers, gate)

    def begin(self, values: Mapping[str, Any]) -> None:
        """Fire the operators that need no input, and give the present values."""
        self.epoch.start()
        for datum in self.wiring.graph.inputs:
            if datum.name in values:
                self.deliver(datum.name, Passing.GIVEN, values[datum.name])

    def forget(self, requests: Iterable[int]) -> None:
        """Withdraw requests."""
        given_up = tuple(sorted(requests))
        for number in given_up:
            self._frames.asked.pop(number, None)
        self._frames.machine.tell(RequestsWithdrawn(given_up, self.id, self.epoch.number))

    def control(self, call: OperatorCall) -> None:
        """Carry out an operator that acts on its transaction, once what enabled it has reached all others."""
        epoch = self.epoch
        self._later(lambda: None if epoch.is_over else self._control(call))

    def _control(self, call: OperatorCall) -> None:
        name = call.operator.name
        if name == "terminate":
            self.stop(counts=True)
            self._close("done", with_held=True)
        elif name == "restart" or restarts_after(self.wiring.graph, call):
            self.stop()
            self._again(Failure("restart", f"{call.operator.name} asked for it"))
        else:
            self.stop()
            self._close("void", with_held=False)

    def count(self, epoch: Epoch) -> None:
        """Count what passed in an ended try."""
        self._frames.tally.add(self.wiring.graph.full_name, epoch.gates, epoch.channels)

    def failed(self, failure: Failure) -> None:
        """Make the try void after an error, and restart if that may help (T43, TA25)."""
        if self.state != "at work":
            return
        self.stop()
        if self.wiring.restarts and not failure.final:
            self._again(failure)
        else:
            self._give_up(failure)

    def over(self) -> None:
        """Handle the end of all operators."""
        epoch = self.epoch
        self._later(lambda: None if epoch.is_over else self._close("done", with_held=True))

    def hand_over(self, gate: Gate) -> None:
        """Hand the outputs over to the frame of the last call, so that this one need not be kept, if it holds
        nothing back (T36).
        """
        running = gate.running
        child = running.only_child() if isinstance(running, PlanCall) else None
        if not isinstance(child, Frame) or gate.call.enabled or gate.inputs.waiting:
            return
        if self.wiring.holds or not all(output.is_plain for output in self.outputs.values()):
            return
        names = {port: name for port, _, name in gate.call.produced}
        lacking = child.take_place(self)
        for port, output in child.outputs.items():
            mine = self.outputs.get(names.get(port, ""))
            output.redirect(mine.receiver if mine is not None else Nobody(), lacking)
        self.epoch.shut()
        self.state = "handed over"
        self._frames.live.pop(self.id, None)

    def take_place(self, frame: Frame) -> Callable[[], None] | None:
        """Take the place of the frame that started this one; return what to call if outputs lack tuples."""
        self.depth, self.parent = frame.depth, frame.parent
        self._note_above(self.epoch)  # the one that it replaces can no longer become void
        if self.parent is None:
            return None
        running = self.parent.running
        if isinstance(running, PlanCall):
            running.replace(frame, self)
        return self._take_back

    # --- ends -----------------------------------------------------------------------------------------------

    def stop(self, *, counts: bool = False) -> None:
        """Stop the try, with the frames below it; they are void unless their work `counts`."""
        stack: list[ChildFrame] = [self]
        while stack:
            one = stack.pop()
            if not isinstance(one, Frame):
                continue
            if one.state == "at work":
                stack += one.give_up_try()
                if not counts:
                    self._frames.void.add((one.id, one.epoch.number))
            if one is not self:
                self._frames.live.pop(one.id, None)  # a frame waiting to restart does not restart

    def give_up_try(self) -> list[ChildFrame]:
        """Make only this try void; return the frames that it had started."""
        self.state = "void"
        children: list[ChildFrame] = []
        for running in self.epoch.shut():
            if isinstance(running, PlanCall):
                children += running.take_children()
            else:
                running.stop()
        return children

    def _again(self, failure: Failure) -> None:
        self._attempt += 1
        machine = self._frames.machine
        if self._attempt > machine.settings.restarts:
            self._give_up(failure)
        else:
            machine.tell(RestartRequest(self.id, self.depth, self._attempt, failure))

    def restart(self) -> None:
        """Restart with the same inputs: the same frame, the next try (TA28)."""
        if self.state != "void":
            return
        self.state = "at work"
        for output in self.outputs.values():
            output.begin_again()
        self.epoch = self._try()
        self.epoch.start()
        for name, log in self._inputs.items():
            log.replay(partial(self._feed, name))

    def _take_back(self) -> None:
        """Fail the parent's try, because one try of this frame gave tuples that another did not."""
        if self.parent is not None:
            why = f"a try of {self.wiring.graph.full_name} gave tuples that another did not"
            self.parent.fail(Failure("taken-back", why))

    def _give_up(self, failure: Failure) -> None:
        self.state = "given up"
        self._frames.live.pop(self.id, None)
        final = Failure(failure.kind, failure.message, failure.detail, final=True)
        parent = self.parent
        if parent is None:
            self.cancel_outputs()
            self._frames.finished("failed", failure)
        else:
            self._later(lambda: parent.fail(final))

    def cancel_outputs(self) -> None:
        """Cancel the outputs that have not ended."""
        for output in self.outputs.values():
            output.close(Passing.CANCEL, with_held=False)

    def _close(self, state: FrameState, *, with_held: bool) -> None:
        self.state = state
        self._frames.live.pop(self.id, None)
        for name, output in self.outputs.items():
            streams = self.wiring.types.get(name) == STREAMED
            output.close(Passing.EOS if streams and with_held else Passing.CANCEL, with_held=with_held)
        self.epoch.shut()
        if self.parent is None:
            self._frames.finished(state, None)
        elif isinstance(self.parent.running, PlanCall):
            self.parent.running.over(self)
            self.parent.schedule()

    def _later(self, act: Callable[[], None]) -> None:
        self._frames.machine.schedule(Afterwards(act))
