"""Nodes of processes executed and backtracked: by a class of the user's, or by a script (sections 1 and 10).

What is called gets a token made of plain data, and leaves effects, which are plain data too; they go back to
the engine as the value of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from narval.definitions.process.code import made
from narval.errors import ActionError
from narval.runtime.calls import conversion
from narval.runtime.calls.backend import Outcome, Task
from narval.runtime.calls.process_code.token import Token

_COMPLETES = frozenset(("complete", "complete-with-new-token-set", "backtrack"))


class Acting:
    """One hook of a node, ready to be called; `value` is what it left."""

    __slots__ = ("_code", "_hook", "token")

    def __init__(self, code: type, hook: str, told: Mapping[str, Any]) -> None:
        self._code, self._hook = code, hook
        self.token = Token(told, writable=True, completes=hook == "execute")

    def __call__(self) -> Any:
        """Do what the hook does; of a coroutine function, what is to be awaited."""
        return getattr(made(self._code, self.token.node.custom), self._hook)(self.token)

    def completed(self, outcome: Outcome) -> Outcome:
        """How it ended, with what it left."""
        if outcome.problem is not None or outcome.abandoned or outcome.value is not None:
            return outcome
        return Outcome(outcome.elements, value={"effects": self.token.effects})


def answer(task: Task, load: Callable[[], type]) -> Outcome:
    """Do what a task about a node says, in a worker."""
    assert task.payload is not None
    about = task.payload
    try:
        if "script" in about:
            return Outcome(value={"effects": _script(about)})
        acting = Acting(load(), about["hook"], about["token"])
        return acting.completed(Outcome(conversion.elements(conversion.awaited(acting()))))
    except BaseException as error:
        return Outcome(problem=conversion.problem(error, task.module_path, task.home))


def _script(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The effects of a script; one that executes and does not complete its token, is done (section 10)."""
    from narval.runtime.scripts.interpreters import Script, run

    effects = run(Script(**about["script"]), print).effects
    if about["hook"] == "execute" and not any(each["do"] in _COMPLETES for each in effects):
        effects.append({"do": "complete", "arcs": [""], "asynchronous": False})
    if about["hook"] != "execute" and any(each["do"] in _COMPLETES for each in effects):
        raise ActionError("a script that goes back completes nothing", "script-failed", final=True)
    return effects
