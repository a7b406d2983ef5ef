"""Calls to other agents in a simulation: those that the scenario answers, or to agents not in the home."""

from __future__ import annotations

from functools import partial

from narval.agent.loop import Request
from narval.agent.run import Run
from narval.agent.transaction import CallGivenUp
from narval.agent.turn import Turn
from narval.calls.context import CallContext, Target
from narval.calls.record import CallListener, Outcome
from narval.core.elements.element import Element, Origin
from narval.core.engines.commands import Call
from narval.core.engines.events import Returned
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.messages.envelope import stamped
from narval.trials.simulate.agents import AgentsAtPlay
from narval.trials.simulate.executor import SimulatedExecutor


class Elsewhere:
    """The agents whose answers are in a scenario; `executor` has these answers."""

    def __init__(self, agents: AgentsAtPlay, executor: SimulatedExecutor) -> None:
        self._agents, self._executor = agents, executor
        self._asked: set[str] = set()

    def stand_in(self, turn: Turn, run: Run, what: object) -> bool:
        """Answer a run's request to another agent, or give it up; False if that agent must do it."""
        host = self._agents.host_of(turn.agent)
        if isinstance(what, Call):
            return self._call(host, turn, run, what)
        if not isinstance(what, CallGivenUp):
            return False
        id, calls = host.dispatcher.external_id(what.call.call), host.dispatcher.calls
        if (record := calls.find(id)) is not None and id in self._asked:
            calls.abandon(record)
        return id in self._asked

    def _call(self, host: AgentHost, turn: Turn, run: Run, call: Call) -> bool:
        given = {"": call.elements, **dict(call.inputs)}
        inputs = {id: _elements(turn, eids) for id, eids in given.items() if eids}
        id = host.dispatcher.external_id(call.call)
        context = CallContext(
            id,
            run.eid,
            call.step,
            attempt=call.attempt,
            target=Target(action=call.name, where="inline"),
            inputs=inputs,
            clock=self._executor.clock,
            agent=host.name,
        )
        if call.agent in self._agents and not self._executor.answers(context):
            return False
        self._asked.add(id)
        host.dispatcher.calls.start(context, listener=CallListener(partial(_done, host, run.eid, call, id)))
        return True


def _done(host: AgentHost, run: int, call: Call, id: str, outcome: Outcome) -> None:
    host.post(Request(partial(_back, run, call, id, outcome), lambda value, error: None))


def _back(run: int, call: Call, id: str, outcome: Outcome, turn: Turn) -> None:
    origin = Origin(run, call.step, call.call, agent=call.agent, message=id)
    eids = tuple([turn.add(stamped(element.xml, call.agent, id), origin) for element in outcome.elements])
    problem, abandoned = outcome.problem, outcome.abandoned
    turn.tell(run, Returned(0, 0.0, call.call, eids=eids, problem=problem, abandoned=abandoned))


def _elements(turn: Turn, eids: tuple[int, ...]) -> list[Element]:
    elements = (turn.agent.memory.element(eid) for eid in eids)
    return [element for element in elements if element is not None]
