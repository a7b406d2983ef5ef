"""Calls of kind `flow`: a session of a dataflow, run by the daemon (T29)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from narval.definitions.dataflow.definition import DataflowDefinition
from narval.engines.commands import Call
from narval.engines.dataflow.batches import FlowError
from narval.engines.dataflow.decision import PLAN_INPUT
from narval.engines.dataflow.network import Network
from narval.engines.dataflow.wiring import FlowPlan
from narval.errors import ActionError
from narval.memory.elements.element import parse
from narval.runtime.agent.agent import AgentState
from narval.runtime.agent.run import Run
from narval.runtime.calls.backend import Outcome
from narval.runtime.calls.context import Target
from narval.runtime.calls.flow.desk import Desk
from narval.runtime.calls.flow.documents import Gathered, inputs_of
from narval.runtime.calls.flow.driver import FlowDriver, FlowInput
from narval.runtime.calls.flow.flow_loop import FlowLoop
from narval.runtime.calls.flow.performing import FlowTools, UserCode
from narval.runtime.calls.targets import CallTargets, PreparedCall

log = logging.getLogger("narval.flow")

MOST_GIVEN = 1 << 20
"""The most bytes of tuples that a session gives to memory."""


class FlowCalls:
    """The sessions of the dataflows of one agent."""

    def __init__(self, agent: AgentState, targets: CallTargets) -> None:
        self._agent, self._targets, self._loop = agent, targets, FlowLoop()

    def prepare(self, run: Run, call: Call, timeout: float | None) -> PreparedCall:
        """The call that runs a session. Raises ActionError for inputs that cannot be read."""
        definition: DataflowDefinition = run.definition
        payload: Mapping[str, Any] = call.payload or {}
        try:
            inputs = self._inputs(definition, call, payload)
        except FlowError as error:
            raise ActionError(error.failure.message, error.failure.kind, final=True) from None
        value: dict[str, Any] = {}
        code = UserCode(self._targets.functions_for(run))
        network_id = f"{run.eid}.{payload['input']}.{payload['place']}"
        work = partial(self._work, definition, inputs, code, network_id, payload.get("ttl"), value)
        target = Target(action=definition.full_name, where="async", function=work)
        return PreparedCall(target, {}, call.timeout, partial(_finished, value))

    def _inputs(
        self, definition: DataflowDefinition, call: Call, payload: Mapping[str, Any]
    ) -> dict[str, FlowInput]:
        memory = self._agent.memory
        given = memory.element(payload["input"])
        if given is None:
            raise FlowError("forgotten", f"its inputs, element {payload['input']}, are forgotten")
        session = list(parse(given.xml).iterchildren("session"))[payload["place"] - 1]
        others = [memory.element(eid) for eid in call.elements]
        return inputs_of(
            definition, session, [one for one in others if one is not None and one.name != PLAN_INPUT]
        )

    async def _work(
        self,
        definition: DataflowDefinition,
        inputs: dict[str, FlowInput],
        code: UserCode,
        id: str,
        ttl: float | None,
        value: dict[str, Any],
    ) -> list[bytes]:
        return await self._loop.run(self._session(definition, inputs, code, id, ttl, value))

    async def _session(
        self,
        definition: DataflowDefinition,
        inputs: dict[str, FlowInput],
        code: UserCode,
        id: str,
        ttl: float | None,
        value: dict[str, Any],
    ) -> list[bytes]:
        """Run a session in the loop of dataflows; its outputs as documents. Raises ActionError."""
        gathered = Gathered(MOST_GIVEN)
        desk = Desk(FlowTools(code, partial(_shown, definition.full_name), asyncio.sleep))
        try:
            driver = FlowDriver(Network(FlowPlan(definition), id=id), desk.hire, gathered, ttl)
            over = await driver.drive(inputs)
        except FlowError as error:
            raise ActionError(error.failure.message, error.failure.kind, final=True) from None
        finally:
            code.close()
        value["state"] = over.state
        if over.state == "failed" and over.failure is not None:
            raise ActionError(over.failure.message, over.failure.kind, final=over.failure.final)
        return [document for _, document in gathered.documents()] if over.state == "done" else []


def _shown(name: str, line: str) -> None:
    log.info("%s: %s", name, line)


def _finished(value: dict[str, Any], outcome: Outcome) -> Outcome:
    return replace(outcome, value=value)
