"""Interpreters of scripts: each runs one script within its limits, in the calling program, which is usually a
worker (section 10).

A script takes and returns plain data: the `prelude` of its language makes `engine` and `token` from the
input, and collects the script's effects as the output. The interpreter calls none of our code while the
script runs, so there is nothing to escape to, and its limits of time and memory hold without exception. The
output is checked against types before it is used.

As a program it answers one request to run a script, and ends:

    python -m narval.system.scripts.interpreters LIMITS

It may reach only the places in LIMITS, if the system can confine it. The request comes on standard input, the
answer goes to standard output, and the script's printed lines go to standard error. The caller kills the
program when it takes too long.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from narval.core.errors import ActionError

TIME = 10.0
"""The most seconds that a script may take."""

MEMORY = 64 * 1024 * 1024
"""The most bytes of memory that a script may use."""

STACK = 512 * 1024
MOST_EFFECTS = 10_000
MOST_PRINTED = 256 * 1024
_MORE_MEMORY = 16 * 1024 * 1024
"""Additional bytes to serialize the effects of a script that has used up its own memory."""

LANGUAGES: Mapping[str, str] = {
    "js": "js", "javascript": "js", "ecmascript": "js", "": "js", "py": "python", "python": "python",
}  # fmt: skip
"""The values of `executeType`, in any case, with their languages; without one, a script is in js."""

_MONTY = "pydantic-monty-runtime"
"""The package with the program that interprets Python."""


@cache
def monty_program() -> str:
    """The program that interprets Python, as installed by its package; "" if that is missing.

    Another program of this name is not accepted: scripts need no grant, because this one reaches nothing.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # here because few homes have scripts

    try:
        files = distribution(_MONTY).files or ()
    except PackageNotFoundError:
        return ""
    paths = (os.path.normpath(file.locate()) for file in files if file.name == "monty")
    return next((path for path in paths if os.access(path, os.X_OK)), "")


class Script(msgspec.Struct, frozen=True):
    """A script: `tokens` are its token and that token's ancestors, by id."""

    node: str
    text: str
    language: str
    token: dict[str, Any]
    tokens: dict[str, dict[str, Any]]
    writable: bool = True
    time: float = TIME
    memory: int = MEMORY


class Set(msgspec.Struct, frozen=True, tag_field="do", tag="set", omit_defaults=True):
    """An attribute is set or, without a value, removed."""

    of: Literal["token", "process", "set", "member"]
    name: str
    value: str | None
    set: str | None = None


class Complete(msgspec.Struct, frozen=True, tag_field="do", tag="complete"):
    """The token leaves on these arcs."""

    arcs: list[str]
    asynchronous: bool = False


class CompleteWithSet(msgspec.Struct, frozen=True, tag_field="do", tag="complete-with-new-token-set"):
    """The token leaves as a token set."""

    arcs: list[str]
    name: str
    count: int
    asynchronous: bool = False
    environment: dict[str, str | None] = {}
    members: dict[str, list[str | None]] = {}


class Backtrack(msgspec.Struct, frozen=True, tag_field="do", tag="backtrack"):
    """The process goes back to a token."""

    token: int


Effect = Set | Complete | CompleteWithSet | Backtrack


class Ran(msgspec.Struct, frozen=True):
    """The effects of a script as plain data, and the value of its last expression."""

    effects: list[dict[str, Any]]
    value: str | int | float | bool | None


def run(script: Script, write: Callable[[str], None]) -> Ran:
    """Run a script; `write` is called with each line it printed. Raises ActionError."""
    language = LANGUAGES.get(script.language.strip().lower())
    if language is None:
        languages = ", ".join(sorted({name for name in LANGUAGES if name}))
        raise ActionError(
            f"the script of node {script.node!r} is in {script.language!r}; there is {languages}",
            "script-language",
            final=True,
        )
    return _RUNNERS[language](script, write)


@cache
def _prelude(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _given(script: Script) -> dict[str, Any]:
    return {
        "token": script.token,
        "tokens": script.tokens,
        "writable": script.writable,
        "most": MOST_EFFECTS,
        "room": MOST_PRINTED,
    }


def _checked(effects: object) -> list[dict[str, Any]]:
    """The effects of a script, checked against their types. Raises ActionError."""
    try:
        checked: list[dict[str, Any]] = msgspec.to_builtins(msgspec.convert(effects, list[Effect]))
        msgspec.msgpack.encode(checked)  # what cannot be encoded cannot be stored
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        raise ActionError(f"the script left effects that are none: {error}", "script-failed") from None
    for effect in checked:
        if effect["do"] == "complete-with-new-token-set" and not 0 <= effect["count"] <= 100_000:
            raise ActionError(f"expected a count from 0 to 100,000, got {effect['count']}", "script-failed")
    return checked


def _failed(script: Script, message: str, kind: str = "script-failed") -> ActionError:
    return ActionError(f"the script of node {script.node!r}: {message}", kind)


def _refusal(script: Script, line: object, message: str, slow: bool, full: bool) -> ActionError:
    """The error for a script that failed at a line; `slow` or `full` if a limit of time or memory was hit."""
    where = f"line {line}: " if line is not None else ""
    if slow:
        return _failed(script, f"{where}it took more than {script.time:g} s", "script-timeout")
    if full:
        limit = script.memory // (1024 * 1024)
        return _failed(script, f"{where}it wanted more than {limit} MiB of memory", "script-memory")
    return _failed(script, where + message)


def _first_line(message: str) -> str:
    return next(iter(message.strip().splitlines()), "")[:500]


def _plain(value: object) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool) else None


# --- js -------------------------------------------------------------------------------------------------


def _js(script: Script, write: Callable[[str], None]) -> Ran:
    import quickjs  # type: ignore[import-untyped]  # here, since few homes have scripts

    context = quickjs.Context()
    context.set_max_stack_size(STACK)
    context.set_memory_limit(script.memory)
    context.set_time_limit(script.time)
    context.eval(_prelude("prelude.js"))
    context.set("__given", json.dumps(_given(script)))
    context.eval("globalThis.__narval = __narval(JSON.parse(__given)); delete globalThis.__given;")
    context.eval("Object.defineProperty(globalThis, '__narval', {writable: false, configurable: false});")
    refusal, value = None, None
    try:
        value = context.eval(script.text)
    except quickjs.JSException as error:
        message = _first_line(str(error))
        place = re.search(r"(?:<eval> \(|at )<input>:(\d+)", str(error))
        full = "out of memory" in message or message == "null"
        refusal = _refusal(script, place and place[1], message, "interrupted" in message, full)
    finally:
        context.set_memory_limit(script.memory + _MORE_MEMORY)
        context.set_time_limit(1.0)
        left = _js_left(context, script, write, refusal)
    if refusal is not None:
        raise refusal
    return Ran(left, _plain(value))


def _js_left(
    context: Any, script: Script, write: Callable[[str], None], refusal: ActionError | None
) -> list[dict[str, Any]]:
    """The effects of the script; only its printed output if it failed."""
    try:
        result = json.loads(context.eval("__narval.result()"))
        for line in result["printed"]:
            write(str(line))
        return [] if refusal is not None else _checked(result["effects"])
    except ActionError:
        raise
    except Exception as error:
        if refusal is not None:
            return []
        raise _failed(script, f"what it left cannot be read: {_first_line(str(error))}") from None


# --- python ---------------------------------------------------------------------------------------------


def _python(script: Script, write: Callable[[str], None]) -> Ran:
    import pydantic_monty as monty  # here because few homes have scripts

    lines = _Lines(write)
    limits: Any = {
        "max_feed_duration_secs": script.time,
        "max_turn_duration_secs": script.time,
        "max_memory": script.memory,
    }
    if not (program := monty_program()):
        why = f"expected the program monty of the package {_MONTY}, found none; reinstall narval"
        raise ActionError(why, "no-program", final=True)
    with monty.Monty(binary_path=program) as pool, pool.checkout(limits=limits) as session:
        try:
            session.feed_run(_prelude("prelude.monty"), inputs={"given": _given(script)})
            value = session.feed_run(script.text, print_callback=lines.add)
            effects = session.feed_run("effects")
        except monty.MontyError as error:
            frames = error.traceback() if hasattr(error, "traceback") else []
            message, line = _first_line(str(error)), frames[-1].line if frames else None
            slow, full = message.startswith("TimeoutError"), message.startswith("MemoryError")
            raise _refusal(script, line, message, slow, full) from None
        finally:
            lines.end()
    return Ran(_checked(effects), _plain(value))


class _Lines:
    """The printed lines of a script, up to a limit."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write, self._rest, self._room = write, "", MOST_PRINTED

    def add(self, stream: str, text: str) -> None:
        """Add printed text. Raises ValueError if there is too much of it."""
        self._room -= len(text)
        if self._room < 0:
            raise ValueError("the script prints too much")
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._write(line)

    def end(self) -> None:
        """End the last line."""
        if self._rest:
            self._write(self._rest)
            self._rest = ""


_RUNNERS: Mapping[str, Callable[[Script, Callable[[str], None]], Ran]] = {"js": _js, "python": _python}


# --- as a program -----------------------------------------------------------------------------------------

ROOM = 512 * 1024 * 1024
"""The bytes that the interpreters need besides a script's own."""


class ScriptAnswer(msgspec.Struct, frozen=True):
    """The value of the script, or the reason why it has none."""

    value: str | int | float | bool | None = None
    kind: str = ""
    message: str = ""


def main() -> None:
    """Read, run, write."""
    from narval.system.confinement import Confinement, abi, confine_thread  # here: only the program confines
    from narval.system.memory_limit import bound_memory

    if abi():
        confine_thread(msgspec.json.decode(sys.argv[1], type=Confinement), has_hosts=False)
    script = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Script)
    bound_memory(MEMORY + ROOM)
    try:
        answer = ScriptAnswer(run(script, partial(print, file=sys.stderr)).value)
    except ActionError as error:
        answer = ScriptAnswer(None, error.kind, str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
