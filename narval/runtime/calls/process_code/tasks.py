"""Calls of nodes, made into tasks for the executor: of the user's node types, and of scripts (section 10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from narval.definitions.process.code import Code
from narval.engines.commands import Call
from narval.engines.engine import tokens_of
from narval.errors import ActionError
from narval.runtime.agent.run import Run
from narval.runtime.calls.backend import Outcome, Where
from narval.runtime.calls.process_code.execution import Acting

SCRIPT = "script"
"""The type of nodes whose code is in their definition."""

SCRIPT_TIME = 10.0
"""Seconds that a script may take; its worker has two more before it is killed."""

ANCESTORS = 64
"""So many tokens before its own a script can look at."""


class NodeTask(NamedTuple):
    """What the executor is to be told of a node: the fields of a task that differ from an action's.

    `finished` makes of how it ended what goes back to the engine.
    """

    where: Where
    function: Callable[..., Any] | None
    payload: Mapping[str, Any] | None
    timeout: float | None
    finished: Callable[[Outcome], Outcome]


def node_task(run: Run, call: Call, definition: Code, code: Any, timeout: float | None) -> NodeTask:
    """How a node is executed, or backtracked, by a class. Raises ActionError where it has no such hook."""
    payload: Any = call.payload or {}
    hook = str(payload.get("hook"))
    if hook not in definition.hooks:
        raise ActionError(f"the node type {definition.name!r} has no {hook}", "no-hook", final=True)
    portrait = _portray(run, payload["token"])
    if definition.where == "worker":
        return NodeTask("worker", None, {"hook": hook, "token": portrait}, timeout, _as_it_is)
    acting = Acting(code, hook, portrait)
    return NodeTask(definition.where, acting, {"hook": hook}, timeout, acting.completed)


def script_task(run: Run, call: Call, timeout: float | None) -> NodeTask:
    """How the script of a node is run: in a worker, which is killed if nothing else ends it."""
    payload: Any = call.payload or {}
    hook = str(payload.get("hook"))
    time = SCRIPT_TIME if timeout is None else min(SCRIPT_TIME, timeout)
    script = {**script_of(run, hook, payload["token"]), "time": time}
    return NodeTask("script", None, {"hook": hook, "script": script}, time + 2.0, _as_it_is)


def script_of(run: Run, hook: str, token: int) -> dict[str, Any]:
    """The script of a node for a hook, and what it may look at: its token, and those before it."""
    tokens = _before(run, token)
    portrait = tokens[str(token)]
    custom = portrait["node"]["custom"]
    return {
        "node": portrait["node"]["name"],
        "text": custom.get(hook, ""),
        "language": custom.get(f"{hook}Type", ""),
        "token": portrait,
        "tokens": tokens,
        "writable": hook != "allowBacktrack",
    }


def _before(run: Run, token: int) -> dict[str, Any]:
    """A token, and those before it as far as a script may look, by id."""
    found, waiting = dict[str, Any](), deque([token])
    while waiting and len(found) < ANCESTORS:
        number = waiting.popleft()
        if str(number) not in found:
            found[str(number)] = _portray(run, number)
            waiting.extend(found[str(number)].get("parents", ()))
    return found


def _portray(run: Run, token: int) -> dict[str, Any]:
    """What the engine says of a token, as plain data."""
    return tokens_of(run.engine).token_view(run.definition, run.state, token)


def _as_it_is(outcome: Outcome) -> Outcome:
    return outcome
