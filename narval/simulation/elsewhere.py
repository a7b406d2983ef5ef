"""Calls of other agents in a simulation, which has but one: they are answered as a scenario says (G33)."""

from __future__ import annotations

from functools import partial
from typing import Any

from narval.engines.commands import Call
from narval.engines.events import Returned
from narval.memory.elements.element import Element, Origin
from narval.runtime.agent.loop import Request
from narval.runtime.agent.run import Run
from narval.runtime.agent.transaction import CallGivenUp
from narval.runtime.agent.turn import Turn
from narval.runtime.calls.backend import Outcome
from narval.runtime.calls.context import CallContext, Target
from narval.runtime.daemon.agents.agent_host import AgentHost
from narval.runtime.messages.stamp import stamped
from narval.simulation.executor import SimulatedExecutor


class Elsewhere:
    """The other agents, as far as a scenario knows what they answer; `executor` has its answers."""

    def __init__(self, host: AgentHost, executor: SimulatedExecutor) -> None:
        self._host, self._executor = host, executor

    def correspond(self, turn: Turn) -> None:
        """Answer what the runs of a turn ask of other agents, and what they give up."""
        for run, what in turn.transaction.remote:
            if isinstance(what, Call):
                self._call(turn, run, what)
            elif isinstance(what, CallGivenUp):
                self._executor.abandon(self._host.dispatcher.outside_id(what.call.call))

    def _call(self, turn: Turn, run: Run, call: Call) -> None:
        given = {"": call.elements, **dict(call.inputs)}
        inputs = {id: _elements(turn, eids) for id, eids in given.items() if eids}
        id = self._host.dispatcher.outside_id(call.call)
        asked = (id, run.eid, call.step, None, None, call.attempt, Target(action=call.name), inputs)
        context = CallContext(*asked, clock=self._executor.clock, agent=self._host.name)
        self._executor.start(context, partial(self._done, run.eid, call, id), _yields_nothing)

    def _done(self, run: int, call: Call, id: str, outcome: Outcome) -> None:
        self._host.post(Request(partial(_back, run, call, id, outcome), lambda value, error: None))


def _back(run: int, call: Call, id: str, outcome: Outcome, turn: Turn) -> None:
    origin = Origin(run, call.step, call.call, agent=call.agent, message=id)
    eids = tuple([turn.add(stamped(given.xml, call.agent, id), origin) for given in outcome.elements])
    problem, abandoned = outcome.problem, outcome.abandoned
    turn.tell(run, Returned(0, 0.0, call.call, eids=eids, problem=problem, abandoned=abandoned))


def _elements(turn: Turn, eids: tuple[int, ...]) -> list[Element]:
    found = (turn.agent.memory.element(eid) for eid in eids)
    return [element for element in found if element is not None]


async def _yields_nothing(elements: Any) -> None:
    """Do nothing: such a call is no source."""
