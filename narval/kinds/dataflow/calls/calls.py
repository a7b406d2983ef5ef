"""Calls of kind `flow`: sessions of dataflows, run by the daemon (T29)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.calls.approvals import BECAUSE, comes_of_a_model
from narval.calls.context import Target, call
from narval.calls.of_kinds import CallsOfAgent, Prepare
from narval.calls.record import Outcome
from narval.calls.targets import PreparedCall
from narval.calls.verdicts import refused_by_rule
from narval.core.elements.element import parse
from narval.core.engines.commands import Call
from narval.core.engines.events import Returned
from narval.core.errors import ActionError
from narval.core.memory.labels import SECRET
from narval.core.trust.parts import Part
from narval.core.trust.rules import Facts, Rules, decide, holds_of_all
from narval.files.outside.sources import FlowLimits
from narval.kinds.dataflow.calls.documents import GatheredOutputs, inputs_of
from narval.kinds.dataflow.calls.driver import FlowInput, with_place
from narval.kinds.dataflow.calls.earlier_file import take_over
from narval.kinds.dataflow.calls.home_side import HomeSide
from narval.kinds.dataflow.calls.messages import outside
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.results import (
    Claims,
    ResultChange,
    SessionResults,
    StoredResults,
    forget_sessions,
    session_in,
)
from narval.kinds.dataflow.calls.session import bounds, check_spilling, drive_session, remembering
from narval.kinds.dataflow.calls.spill import DiskSpill
from narval.kinds.dataflow.calls.web import PageCache, Web, pages_file
from narval.kinds.dataflow.engine.decision import PLAN_INPUT
from narval.kinds.dataflow.engine.network.batches import FlowError
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.engine.state import DataflowState, OperatorCount
from narval.kinds.dataflow.language.definition import DataflowDefinition

log = logging.getLogger("narval.flow")

MOST_GIVEN = 1 << 20
"""The most bytes of tuples that a session adds to memory."""

Judge = Callable[[Iterable[int], Iterable[str]], None]
"""A check that raises ActionError if a session may not have these elements, or what has these labels."""

MOST_PRINTED, LONGEST_PRINTED = 100, 500
"""The most printed lines of a session that are shown, the last ones, and the most characters of each."""

COUNTED_FOR = 0.05
"""The seconds for which the counts of a session's work are reused, unless it makes progress."""

PROGRESS_PACE = 0.5
"""Seconds between a session's progress and the notice to viewers of its run."""

NOBODY_AGREES = (
    "and no person can agree to what a dataflow does outside; run it before the model is asked, or trust the "
    "model: asks = false in etc/narval.toml"
)


_ASKS = (
    "{name}: {why} (label {label}), and no person can agree to what a dataflow does outside. To allow it, "
    "write into etc/trust.toml, before the rule that asks: {rule}"
)


def judge_flow(
    agent: AgentState, rules: Rules, run: Run, eids: Iterable[int], names: Iterable[str] = ()
) -> None:
    """Raise ActionError unless the rules allow a dataflow that acts outside to have these elements, and a
    file with the labels `names`. Its results are not traced to single inputs, so any element may decide where
    something is sent.
    """
    labels, having = agent.memory.labels, tuple(eid for eid in eids if eid)
    said, deciding = labels.told(labels.join(labels.of((*having, run.eid)), labels.number(names)))
    parts = (Part("inputs", "", True, tuple(said), having), Part("", labels=tuple(deciding)))
    verdict = decide(rules, Facts(run.name, run.name, parts, holds_of_all))
    agent.lookup.rule_uses.note(verdict, run.started)
    if verdict.then == "refuse":
        problem = refused_by_rule(run, run.name, verdict)
        raise ActionError(problem.message, problem.kind, final=True)
    if verdict.then == "ask" and verdict.judgement is not None:
        label = verdict.judgement.label
        origin = (
            f'secret = "{label.removeprefix(SECRET)}"' if label.startswith(SECRET) else f'from = "{label}"'
        )
        rule = f'[[rule]] {origin} action = "{run.name}" then = "allow", each on a line'
        why = verdict.why or "a rule asks first"
        message = _ASKS.format(name=run.name, why=why, label=label, rule=rule)
        raise ActionError(message, "asks-first", final=True)


def _judge_without_rules(
    agent: AgentState, run: Run, asked: Call, eids: Iterable[int], names: Iterable[str] = ()
) -> None:
    """Raise ActionError if a language model's answer has entered the run, the elements or the file."""
    labels = agent.memory.labels
    having = labels.join(labels.of(eids), labels.number(names))
    if comes_of_a_model(agent, run, asked) or labels.is_hearsay(having):
        raise ActionError(f"{run.name}: {BECAUSE}, {NOBODY_AGREES}", "asks-first", final=True)


def preparer(of: CallsOfAgent) -> Prepare:
    """The function that prepares the sessions of one agent."""
    return FlowCalls(of).prepare


class FlowCalls:
    """The sessions of the dataflows of one agent."""

    def __init__(self, of: CallsOfAgent) -> None:
        self._agent, self._id, self._targets = of.agent, of.id, of.targets
        self._calls = of.calls
        self._pages: PageCache | None = None
        self._results, self._claims = StoredResults(of.agent.store, of.calls), Claims()
        self._sessions: set[str] | None = None
        """The sessions that may have results."""

    def prepare(self, run: Run, asked: Call, timeout: float | None) -> PreparedCall:
        """Prepare the call that runs a session.

        Raises ActionError for unreadable inputs, and for a run that derives from a model's answer, or that
        the rules of the home do not allow.
        """
        payload: Mapping[str, Any] = asked.payload or {}
        definition: DataflowDefinition = run.definition
        given = (payload.get("input", 0), *asked.elements)
        judge: Judge | None = None
        if definition.goes_outside:
            rules = self._agent.lookup.rules
            judge = partial(_judge_without_rules, self._agent, run, asked)
            if rules is not None:
                judge = partial(judge_flow, self._agent, rules, run)
            judge(given, ())
        limits = self._agent.home.now.dataflows.with_asked(payload)
        try:
            check_spilling(definition, limits)
            inputs = self._inputs(definition, asked, payload)
        except FlowError as error:
            raise ActionError(error.failure.message, error.failure.kind, final=True) from None
        value: dict[str, Any] = {}
        functions = self._targets.functions_for(run)
        session = f"{self._id} {run.eid} {payload['input']}.{payload['place']}"
        keep = self._calls.keep
        side = HomeSide(self._agent, self._targets.home, run.eid, asked.step, given, keep, judge=judge)
        work = partial(self._work, definition, inputs, functions, side, session, asked, limits, value)
        target = Target(action=definition.full_name, where="async", function=work)
        return PreparedCall(target, {}, asked.timeout, partial(_finished, value))

    def _inputs(
        self, definition: DataflowDefinition, asked: Call, payload: Mapping[str, Any]
    ) -> dict[str, FlowInput]:
        memory = self._agent.memory
        element = memory.element(payload["input"])
        if element is None:
            raise FlowError("forgotten", f"its inputs, element {payload['input']}, are forgotten")
        session = list(parse(element.xml).iterchildren("session"))[payload["place"] - 1]
        others = [memory.element(eid) for eid in asked.elements]
        return inputs_of(
            definition, session, [one for one in others if one is not None and one.name != PLAN_INPUT]
        )

    async def _work(
        self,
        definition: DataflowDefinition,
        inputs: dict[str, FlowInput],
        functions: Mapping[str, Callable[..., Any]],
        side: HomeSide,
        session: str,
        asked: Call,
        limits: FlowLimits,
        value: dict[str, Any],
    ) -> list[bytes]:
        """Drive a session; return its outputs as documents. Raises ActionError."""
        home, gathered = self._targets.home, GatheredOutputs(MOST_GIVEN)
        code = UserCode(functions, partial(self._calls.part, call()))
        sessions = await self._known_sessions()
        await forget_sessions(self._results, sessions, self._is_over)
        sessions.add(session)
        dataflow = remembering(definition, inputs)
        results = SessionResults(self._results, session, dataflow, self._claims, side.labels)
        web, printed = Web(self._opened_pages()), PrintedLines(definition.full_name)
        tools = FlowTools(
            code=code,
            results=results,
            web=web,
            show=printed.show,
            sources=self._agent.home.now.sources,
            senders={**side.senders, **outside(code, home, web)},
            home=home,
            elements=side.elements,
            labels=side.labels,
            of_file=side.of_file,
            to_write=side.to_write,
        )
        record, is_well = self._calls.records[call().id], False
        with closing(DiskSpill(None if home is None else home / "var")) as disk:
            network = Network(FlowPlan(definition), bounds(limits, disk), session)
            record.tell_state(LiveState(definition.full_name, network, asked.call, printed))
            moved = ProgressNews(network, partial(self._calls.moved, record.call.run))
            try:
                over = await drive_session(network, tools, gathered, inputs, limits.ttl, moved)
                documents = [document for _, document in gathered.documents()]
                if over.state == "done":
                    change = await results.ended_well()
                    record.when_recorded(results.end, also=partial(self._settle, session, change))
                    is_well = True
            except FlowError as error:
                raise ActionError(error.failure.message, error.failure.kind, final=True) from None
            finally:
                if not is_well:
                    results.end()
                record.tell_state(None)
                moved.close()
                value["printed"] = list(printed.lines)
                value["operators"] = counted(definition.full_name, network)
                value["streams"] = network.frames.streams(definition.full_name)
                value["labels"] = sorted(side.labels)
                value["unread"] = to_builtins([*tools.numbers.unread, *network.frames.tally.lacking()])
        value["state"] = over.state
        if over.state == "failed" and over.failure is not None:
            raise ActionError(with_place(over.failure), over.failure.kind, final=over.failure.final)
        return documents if over.state == "done" else []

    def _settle(self, session: str, change: ResultChange, turn: Turn) -> None:
        """Record what a successful session remembers, in the turn that takes its outcome."""
        event = turn.transaction.batch.journal[-1].event
        if isinstance(event, Returned) and event.problem is None and not event.abandoned:
            change.put(turn.transaction.batch)
            if self._sessions is not None:
                self._sessions.discard(session)

    async def _known_sessions(self) -> set[str]:
        """The sessions that may have results: at first earlier ones, ended or running."""
        if self._sessions is None:
            await take_over(self._agent.store, self._id, self._targets.home, self._results.write)
            scopes = await asyncio.to_thread(self._agent.store.scopes)
            if self._sessions is None:
                self._sessions = set()
            self._sessions.update(one for scope, _ in scopes if (one := session_in(scope)) is not None)
        return self._sessions

    def _opened_pages(self) -> PageCache:
        """The cache of fetched pages, opened on first use."""
        if self._pages is None:
            home = self._targets.home
            self._pages = PageCache(None if home is None else pages_file(home))
        return self._pages

    def _is_over(self, session: str) -> bool:
        agent, run, _ = session.split(" ", 2)
        return agent == self._id and int(run) not in self._agent.runs.active


class PrintedLines:
    """The last lines that a session printed; the log has all of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: deque[str] = deque(maxlen=MOST_PRINTED)

    def show(self, line: str) -> None:
        """Add a line."""
        log.info("%s: %s", self._name, line)
        self.lines.append(line if len(line) <= LONGEST_PRINTED else f"{line[:LONGEST_PRINTED]}…")


class ProgressNews:
    """Reports a session's progress after a short delay; while there is no progress, it reports nothing."""

    def __init__(self, network: Network, tell: Callable[[], None]) -> None:
        self._network, self._tell = network, tell
        self._timer: asyncio.TimerHandle | None = None
        self._told = network.progress

    def __call__(self) -> None:
        """Handle that the network may have made progress."""
        if self._timer is None and self._network.progress != self._told:
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_PACE, self._now)

    def _now(self) -> None:
        self._timer, self._told = None, self._network.progress
        self._tell()

    def close(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()


class LiveState:
    """Gives the state of a run, with the work so far of a running session.

    Callers at about the same time share one count, as a page of a run asks several times.
    """

    def __init__(self, plan: str, network: Network, call: str, printed: PrintedLines) -> None:
        self._plan, self._network, self._call, self._printed = plan, network, call, printed
        self._counted_at, self._until = -1, 0.0
        self._operators: tuple[OperatorCount, ...] = ()
        self._streams: dict[str, int] = {}

    def __call__(self, state: DataflowState) -> DataflowState:
        """The state, with the session's work so far."""
        place = state.calls.get(self._call)
        if place is None:
            return state
        now = asyncio.get_running_loop().time()
        if self._counted_at != self._network.progress or now >= self._until:
            self._until = now + COUNTED_FOR
            self._operators = convert(counted(self._plan, self._network), tuple[OperatorCount, ...])
            self._streams = self._network.frames.streams(self._plan)
            self._counted_at = self._network.progress
        session = replace(
            state.sessions[place],
            operators=self._operators,
            printed=tuple(self._printed.lines),
            streams=self._streams,
        )
        return state.with_session(place, session)


def counted(plan: str, network: Network) -> list[dict[str, Any]]:
    """Count what passed through the operators of a plan, over all its frames, in the recorded form."""
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


def _finished(value: dict[str, Any], outcome: Outcome) -> Outcome:
    return replace(outcome, value=value)
