"""Calls of nodes, prepared for the executor: of the user's node types, and of scripts (section 10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache, partial
from itertools import islice
from typing import Any

from msgspec import structs

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.calls.context import Target
from narval.calls.of_kinds import CallsOfAgent, Prepare
from narval.calls.targets import CallTargets, PreparedCall, place_of_stub
from narval.core.definitions.action.needs import Needs
from narval.core.engines.commands import Call
from narval.core.engines.engine import tokens_of
from narval.core.errors import ActionError
from narval.kinds.process.calls import execution
from narval.kinds.process.calls.execution import NodeHook
from narval.kinds.process.calls.transient import Transients
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens.views import brief_view, nearest_token, walk
from narval.kinds.process.language.code import Code
from narval.kinds.process.language.definition import SCRIPT
from narval.system.scripts.interpreters import monty_program

SCRIPT_TIME = 10.0
"""Seconds of processor time that a script may take."""
SCRIPT_LATEST = 30.0
"""Seconds by the clock after which its worker is killed, unless the node has an earlier timeout. On a busy
machine, `SCRIPT_TIME` seconds of processor time take longer.
"""

ANCESTORS = 64
"""The most earlier tokens that a script, or code in a worker, can read."""


def preparer(of: CallsOfAgent) -> Prepare:
    """The preparer of the calls that execute or backtrack nodes, for the runs of one agent."""
    return partial(_prepare, of.agent, of.targets)


def _prepare(
    agent: AgentState, targets: CallTargets, run: Run, call: Call, timeout: float | None
) -> PreparedCall:
    """The call of a node's script, or of the user's class for its type. Raises ActionError."""
    if call.name == SCRIPT:
        return _script_call(run, call, timeout)
    definition = agent.lookup.definition(run, "node-type", call.name)
    code = targets.function_of(run, definition) if isinstance(definition, Code) else None
    if code is None:
        raise ActionError(f"there is no node type named {call.name}", "unknown-target", final=True)
    stub = targets.stubs.get(call.name)
    if stub is not None:
        where: Any = place_of_stub(stub)
        code, definition = _stand_in(code, stub), structs.replace(definition, where=where)
    target = Target(
        action=call.name,
        where=definition.where,
        module_path=targets.path_of(definition),
        function_name=definition.function,
        code=targets.code_of(run, definition) if definition.where == "worker" else None,
        runner=execution.__name__,
    )
    return _node_call(run, call, definition, code, target, timeout)


def _node_call(
    run: Run, call: Call, definition: Code, code: Any, target: Target, timeout: float | None
) -> PreparedCall:
    """The call of a class. Raises ActionError if the class lacks the hook."""
    payload: Any = call.payload or {}
    hook = str(payload.get("hook"))
    if hook not in definition.hooks:
        raise ActionError(f"the node type {definition.name!r} has no {hook}", "no-hook", final=True)
    token = _token_view(run, payload["token"])
    if definition.where == "worker":
        before = _near(run, payload["token"])
        return PreparedCall(target, {**payload, "token": token, "near": before}, timeout)
    ready = NodeHook(
        code,
        payload,
        token,
        partial(nearest, run, payload["token"]),
        Transients(run, payload["token"], call.call),
    )
    return PreparedCall(structs.replace(target, function=ready), {"hook": hook}, timeout, ready.completed)


def _script_call(run: Run, call: Call, timeout: float | None) -> PreparedCall:
    """The call of a node's script: in a worker, which is killed if nothing else ends it."""
    payload: Any = call.payload or {}
    hook = str(payload.get("hook"))
    time = SCRIPT_TIME if timeout is None else min(SCRIPT_TIME, timeout)
    script = {**script_of(run, hook, payload["token"]), "time": time}
    target = structs.replace(script_target(), action=f"the script of node {call.step}")
    latest = SCRIPT_LATEST if timeout is None else min(SCRIPT_LATEST, timeout + 2.0)
    return PreparedCall(target, {"hook": hook, "script": script}, latest)


@cache
def script_target() -> Target:
    """The target of every script: a worker that has access to nothing but the interpreters."""
    needs = Needs(programs=(monty_program(),))
    return Target(where="script", runner=execution.__name__, needs=needs, limits=True)


def script_of(run: Run, hook: str, token: int) -> dict[str, Any]:
    """The script of a node for a hook, and the tokens that it may read: its own and earlier ones."""
    tokens = _before(run, token)
    view = tokens[str(token)]
    custom = view["node"]["custom"]
    return {
        "node": view["node"]["name"],
        "text": custom.get(hook, ""),
        "language": custom.get(f"{hook}Type", ""),
        "token": view,
        "tokens": tokens,
        "writable": hook != "allowBacktrack",
    }


def nearest(run: Run, token: int, node: str) -> dict[str, Any] | None:
    """The nearest token on a node of that name, as plain data: the given token or one it descends from."""
    if token not in run.state.nodes:
        return None
    match = nearest_token(run.definition, run.state, token, node)
    return None if match is None else _token_view(run, match.id)


def _near(run: Run, token: int) -> list[dict[str, Any]]:
    """A token and the earlier ones that code in a worker may read, in brief, nearest first."""
    tokens = walk(run.state, token, "breadth", "back")
    near = islice((one for one in tokens if isinstance(one, NodeToken)), ANCESTORS)
    return [brief_view(run.definition, run.state, one) for one in near if not one.backtracked]


def _before(run: Run, token: int) -> dict[str, Any]:
    """A token and the earlier ones that a script may read, by id."""
    ancestors, waiting = dict[str, Any](), deque([token])
    while waiting and len(ancestors) < ANCESTORS:
        number = waiting.popleft()
        if str(number) not in ancestors:
            ancestors[str(number)] = _token_view(run, number)
            waiting.extend(ancestors[str(number)].get("parents", ()))
    return ancestors


def _token_view(run: Run, token: int) -> dict[str, Any]:
    """A token as plain data, as the engine describes it to the user's code."""
    return tokens_of(run.engine).token_view(run.definition, run.state, token)


def _stand_in(code: type, stub: Callable[..., Any]) -> type:
    """A node type with the properties of another; each hook is a stub that is called with the token."""
    return type("Stub", (code,), {hook: staticmethod(stub) for hook in ("execute", "backtrack")})
