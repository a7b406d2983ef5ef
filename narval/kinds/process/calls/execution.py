"""Execution of a node's code: a class of the user's, or a script (sections 1 and 10).

The code gets a token made of plain data, and leaves effects, also plain data. They go back to the engine as
the value of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from narval.calls import conversion
from narval.calls.context import CallContext
from narval.calls.record import Outcome
from narval.core.errors import ActionError
from narval.kinds.process.calls.token import Nearest, Token
from narval.kinds.process.language.properties import made
from narval.system.scripts.interpreters import Script, run

if TYPE_CHECKING:
    from narval.kinds.process.calls.transient import Transients

_COMPLETES = frozenset(("complete", "complete-with-new-token-set", "backtrack"))


class NodeHook:
    """One hook of a node, ready to be called with its token, which collects the effects."""

    __slots__ = ("_code", "_evaluated", "_hook", "_transients", "token")

    def __init__(
        self,
        code: type,
        payload: Mapping[str, Any],
        token: Mapping[str, Any],
        nearest: Nearest,
        transients: Transients | None = None,
    ) -> None:
        self._code, self._transients = code, transients
        self._hook, self._evaluated = payload["hook"], payload.get("evaluated")
        completes = self._hook == "execute"
        self.token = Token(token, writable=True, completes=completes, transients=transients, nearest=nearest)

    def __call__(self) -> Any:
        """Call the hook; the result of a coroutine function must be awaited."""
        return getattr(made(self._code, self.token.node.custom, self._evaluated), self._hook)(self.token)

    def completed(self, outcome: Outcome) -> Outcome:
        """The outcome of the call with the token's effects as its value."""
        if outcome.problem is not None or outcome.abandoned or outcome.value is not None:
            return outcome
        if self._transients is not None:
            self._transients.keep()
        return Outcome(outcome.elements, value={"effects": self.token.effects})


def answer(call: CallContext, load: Callable[[], type], allowance: object) -> Outcome:
    """Run the code of a node in a worker; return the outcome."""
    payload = call.payload or {}
    try:
        if "script" in payload:
            return Outcome(value={"effects": _run_script(payload)})
        hook = NodeHook(load(), payload, payload["token"], partial(_nearest, payload))
        return hook.completed(Outcome(conversion.elements(conversion.awaited(hook()))))
    except BaseException as error:
        return Outcome(problem=conversion.failure(error, call.target.module_path, call.home))


def _nearest(payload: Mapping[str, Any], node: str) -> Mapping[str, Any] | None:
    """The nearest token on a node of that name, among those passed to the worker."""
    for token in payload["near"]:
        if node in (token["node"]["name"], token["node"]["id"]):
            return {**token, "process": payload["token"]["process"]}
    return None


def _run_script(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The effects of a script. An `execute` script that does not complete its token completes it at the end
    (section 10).
    """
    effects = run(Script(**payload["script"]), print).effects
    is_complete = any(effect["do"] in _COMPLETES for effect in effects)
    if payload["hook"] == "execute" and not is_complete:
        effects.append({"do": "complete", "arcs": [""], "asynchronous": False})
    if payload["hook"] != "execute" and is_complete:
        raise ActionError("a script that goes back completes nothing", "script-failed", final=True)
    return effects
