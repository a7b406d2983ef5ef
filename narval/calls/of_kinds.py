"""Parts of kinds that calls need, each imported at its first use (`narval.core.kinds`), and the runs of
kinds that answer calls: each call of a runnable definition starts a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from narval.agent.agent import OVER_LIMIT, AgentState
from narval.agent.run import Run
from narval.agent.runs import cannot_start
from narval.agent.turn import Turn
from narval.calls.book import AgentCalls, Post
from narval.calls.targets import CallTargets, PreparedCall
from narval.core.definitions.library import Definition
from narval.core.engines.commands import NOTICE, Call
from narval.core.engines.events import Caller, Failure, HeldCalls, Plain, Returned
from narval.core.engines.registry import engine_of
from narval.core.kinds import KINDS, Kind

log = logging.getLogger("narval.turn")

Prepare = Callable[[Run, Call, float | None], PreparedCall]
"""Prepares a call of some kind, given its time limit in seconds. Raises ActionError."""

FunctionOf = Callable[[Run, Definition], Any]
"""The function or class of code in a run's active version, or None (`CallTargets.function_of`)."""


class CallsOfAgent(NamedTuple):
    """Parts of one agent that the preparers of its calls may use."""

    agent: AgentState
    id: str
    """The id of the agent, the prefix of its calls' external ids."""
    targets: CallTargets
    post: Post
    """Posts an item to the agent's loop, from any thread."""
    calls: AgentCalls
    """Its calls, and the parts of the coroutines' calls."""


def preparer(of: CallsOfAgent, notices: Prepare, call_kind: str) -> Prepare | None:
    """The preparer of one agent's calls of a kind, `notices` for notices; None if the kind needs none."""
    if call_kind == NOTICE:
        return notices
    for kind in KINDS.values():
        if call_kind in kind.preparers:
            made: Prepare = _part(kind, kind.preparers[call_kind])(of)
            return made
    return None


def hand_over(run: Run, call: Call, begun: Run) -> None:
    """Give a run that answers a call the objects that its caller keeps beside its state, if there are any."""
    kind = KINDS.get(begun.definition.kind)
    if run.transient and kind is not None and kind.hands_over:
        _part(kind, kind.hands_over)(run, call, begun)


class Questions:
    """Questions of one agent's engines to the user's code (`View.ask`), answered by the kind of the run."""

    def __init__(self, function_of: FunctionOf) -> None:
        self._function_of = function_of
        self._answerers: dict[str, Any] = {}

    def ask(
        self, agent: AgentState, run: Run, function: str, arguments: Mapping[str, Plain], at: float
    ) -> Plain:
        """Return a function's answer at a moment, as plain data. Raises ActionError."""
        kind = KINDS[run.definition.kind]
        answerer = self._answerers.get(kind.folder)
        if answerer is None:
            answerer = self._answerers[kind.folder] = _part(kind, kind.questions)(self._function_of)
        answer: Plain = answerer.ask(agent, run, function, arguments, at)
        return answer

    @property
    def given_up(self) -> int:
        """The number of abandoned questions whose code still runs."""
        return sum(answerer.given_up for answerer in self._answerers.values())

    def close(self) -> None:
        """Stop answering."""
        for answerer in self._answerers.values():
            answerer.close()


def _part(kind: Kind, name: str) -> Any:
    """The part `module:attribute` of a kind's folder."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{kind.folder}.{module}"), attribute)


def begin_run(run: Run, call: Call, turn: Turn, held: HeldCalls | None = None) -> None:
    """Start the run that answers a call. Do nothing if it has already started or is no longer awaited; refuse
    if its family would become too deep or too large, or its agent has as many runs as it may.

    With `held`, the run answers nothing: its result decides whether these calls are made (P72).
    """
    if call.call in turn.agent.runs.by_call or call.call not in run.calls:
        return
    if call.call in run.abandoned:
        turn.tell(run.eid, Returned(0, 0.0, call.call, abandoned=True))
        return
    families = turn.agent.runs.families
    refusal = families.refusal(run, call.name)
    if refusal is None and (over := turn.agent.excess_of_runs()):
        refusal = Failure(OVER_LIMIT, over, final=True)
    if refusal is not None:
        _refuse(turn, run, call, held, refusal)
        return
    caller = Caller(run.eid, call.step, call.call, call.nearby, held=held)
    environment: Any = (call.payload or {}).get("environment")
    arguments = {"kind": call.kind, "caller": caller, "environment": environment, "inputs": call.inputs}
    is_own = (call.kind, call.name) == (run.engine.definition_kind, run.name)  # one has begun, so another may
    begun = turn.start(
        call.name, call.elements, run_kind=engine_of(call.kind).kind if is_own else "", **arguments
    )
    if begun is None:
        definition = turn.agent.lookup.definition(run, call.kind, call.name)
        refused = cannot_start(turn.agent, definition) if definition is not None else None
        unknown = ("unknown-target", f"there is no {call.kind} named {call.name}")
        problem = Failure(*(refused or unknown), final=refused is not None or held is not None)
        _refuse(turn, run, call, held, problem)
        return
    hand_over(run, call, begun)
    if (warning := families.warning(begun)) is not None:
        log.warning("%s", warning)


def _refuse(turn: Turn, run: Run, call: Call, held: HeldCalls | None, problem: Failure) -> None:
    """Tell a run that its call, or the calls that were held back, cannot be answered."""
    for id in [call.call] if held is None else [id for id, _ in held.calls]:
        turn.tell(run.eid, Returned(0, 0.0, id, problem=problem))
