"""Parts of kinds that calls need, each imported at its first use (`narval.core.kinds`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.calls.book import AgentCalls, Post
from narval.calls.targets import CallTargets, PreparedCall
from narval.core.definitions.library import Definition
from narval.core.engines.commands import NOTICE, Call
from narval.core.engines.events import Plain
from narval.core.kinds import KINDS, Kind

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
