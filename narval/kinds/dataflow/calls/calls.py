"""Calls of kind `flow`: a session of a dataflow, run by the daemon (T29)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import partial
from time import time
from typing import Any, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from narval.agent.run import Run
from narval.calls.approvals import BECAUSE, comes_of_a_model
from narval.calls.context import Target, call
from narval.calls.of_kinds import CallsOfAgent, Prepare
from narval.calls.record import Outcome
from narval.calls.targets import PreparedCall
from narval.core.elements.element import parse
from narval.core.engines.commands import Call
from narval.core.errors import ActionError
from narval.kinds.dataflow.calls.documents import GatheredOutputs, inputs_of
from narval.kinds.dataflow.calls.driver import FlowInput, with_place
from narval.kinds.dataflow.calls.flow_store import FILE, FlowStore
from narval.kinds.dataflow.calls.home_side import HomeSide
from narval.kinds.dataflow.calls.performers.numbers import NumberReader
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.sending import outside
from narval.kinds.dataflow.calls.sessions import drive_session, remembering
from narval.kinds.dataflow.calls.spill import DiskSpill
from narval.kinds.dataflow.calls.web import Web
from narval.kinds.dataflow.engine.decision import PLAN_INPUT
from narval.kinds.dataflow.engine.network.batches import FlowError
from narval.kinds.dataflow.engine.network.requests import FlowSettings, TransactionOver
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.definition import DataflowDefinition

log = logging.getLogger("narval.flow")

MOST_GIVEN = 1 << 20
"""The most bytes of tuples that a session gives to memory."""


NOBODY_AGREES = (
    "and nobody can agree to what a dataflow does outside; run it before the model is asked, or trust the "
    "model: asks = false in etc/narval.toml"
)


def preparer(of: CallsOfAgent) -> Prepare:
    """The preparer of the sessions of one agent."""
    return FlowCalls(of).prepare


class FlowCalls:
    """The sessions of the dataflows of one agent."""

    def __init__(self, of: CallsOfAgent) -> None:
        self._agent, self._id, self._targets, self._loop = of.agent, of.id, of.targets, FlowLoop()
        self._post, self._sources = of.post, of.sources
        self._store: FlowStore | None = None

    def prepare(self, run: Run, asked: Call, timeout: float | None) -> PreparedCall:
        """The call that runs a session.

        Raises ActionError for inputs that cannot be read, and for a run that comes of a model's answer.
        """
        if comes_of_a_model(self._agent, run, asked):
            raise ActionError(f"{run.name}: {BECAUSE}, {NOBODY_AGREES}", "asks-first", final=True)
        definition: DataflowDefinition = run.definition
        payload: Mapping[str, Any] = asked.payload or {}
        try:
            inputs = self._inputs(definition, asked, payload)
        except FlowError as error:
            raise ActionError(error.failure.message, error.failure.kind, final=True) from None
        value: dict[str, Any] = {}
        code = UserCode(self._targets.functions_for(run))
        session = f"{self._id} {run.eid} {payload['input']}.{payload['place']}"
        home = self._targets.home
        side = HomeSide(self._agent, self._post, home, run.eid, asked.step)
        work = partial(self._work, definition, inputs, code, side, session, payload.get("ttl"), value)
        target = Target(action=definition.full_name, where="async", function=work)
        return PreparedCall(target, {}, asked.timeout, partial(_finished, value))

    def _inputs(
        self, definition: DataflowDefinition, asked: Call, payload: Mapping[str, Any]
    ) -> dict[str, FlowInput]:
        memory = self._agent.memory
        given = memory.element(payload["input"])
        if given is None:
            raise FlowError("forgotten", f"its inputs, element {payload['input']}, are forgotten")
        session = list(parse(given.xml).iterchildren("session"))[payload["place"] - 1]
        others = [memory.element(eid) for eid in asked.elements]
        return inputs_of(
            definition, session, [one for one in others if one is not None and one.name != PLAN_INPUT]
        )

    async def _work(
        self,
        definition: DataflowDefinition,
        inputs: dict[str, FlowInput],
        code: UserCode,
        side: HomeSide,
        session: str,
        ttl: float | None,
        value: dict[str, Any],
    ) -> list[bytes]:
        """Have a session run in the loop of dataflows; its outputs as documents. Raises ActionError."""
        over = frozenset(str(run) for run in self._agent.runs.active)

        def is_over(known: str) -> bool:
            agent, run, _ = known.split(" ", 2)
            return agent == self._id and run not in over

        allow, gathered = call().fetch_allow, GatheredOutputs(MOST_GIVEN)
        home = self._targets.home
        print_line = partial(_shown, definition.full_name)

        async def run_it() -> TransactionOver:
            store = self._opened(is_over)
            web, numbers = Web(allow, store, asyncio.sleep, time), NumberReader()
            tools = FlowTools(
                code,
                print_line,
                asyncio.sleep,
                time,
                store,
                session,
                web,
                numbers,
                self._sources(),
                {**side.senders, **outside(code, home, web)},
                home,
                side.elements,
                remembering(definition, inputs),
            )
            spill = DiskSpill(None if home is None else home / "var")
            network = Network(FlowPlan(definition), FlowSettings(spill=spill), session)
            try:
                return await drive_session(network, tools, gathered, inputs, ttl)
            finally:
                value["operators"] = counted(definition.full_name, network)
                value["unread"] = to_builtins(numbers.unread)
                spill.close()

        try:
            ended = await self._loop.run(run_it())
        except FlowError as error:
            raise ActionError(error.failure.message, error.failure.kind, final=True) from None
        value["state"] = ended.state
        if ended.state == "failed" and ended.failure is not None:
            raise ActionError(with_place(ended.failure), ended.failure.kind, final=ended.failure.final)
        return [document for _, document in gathered.documents()] if ended.state == "done" else []

    def _opened(self, is_over: Callable[[str], bool]) -> FlowStore:
        """The store, opened when it is first needed; sessions that are over are forgotten."""
        if self._store is None:
            home = self._targets.home
            self._store = FlowStore(None if home is None else home / "var" / FILE)
        self._store.forget_sessions(is_over)
        return self._store


def counted(plan: str, network: Network) -> list[dict[str, Any]]:
    """Count what passed through the operators of a plan, over all its frames, as the run records it."""
    return [
        {
            "key": passed.key,
            "state": max(passed.states, key=lambda state: passed.states[state], default=""),
            "taken": passed.taken,
            "given": passed.given,
            "requests": passed.requests,
        }
        for passed in network.frames.passages()
        if passed.plan == plan
    ]


def _shown(name: str, line: str) -> None:
    log.info("%s: %s", name, line)


def _finished(value: dict[str, Any], outcome: Outcome) -> Outcome:
    return replace(outcome, value=value)


Result = TypeVar("Result")


class FlowLoop:
    """A loop of events in a thread, there as long as something runs in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there; its result. It is cancelled with who waits for it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_forever, args=(self._loop,), name="narval-flows", daemon=True
                ).start()
            self._count += 1
            future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        # with the lock free, as it is called at once if all is done already
        future.add_done_callback(self._over)
        return await asyncio.wrap_future(future)

    def _over(self, _: Future[Any]) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None


def _forever(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending))
    finally:
        loop.close()
