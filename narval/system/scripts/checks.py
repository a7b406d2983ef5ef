"""Faults in the text of scripts, found without running them, each at its place in the file (N13).

A script is parsed by the interpreter that will run it, after a statement that ends it before it begins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from narval.core.definitions.library import Definition
from narval.core.definitions.reading.script_text import HasScripts, ScriptText
from narval.core.errors import Fault
from narval.system.scripts.interpreters import LANGUAGES, MEMORY, STACK

_NOT_BEGUN = "throw '__not_begun__';"


def faults_of_scripts(definitions: Iterable[Definition]) -> Iterator[Fault]:
    """The faults in the scripts within definitions."""
    for definition in definitions:
        if isinstance(definition, HasScripts):
            for script in definition.scripts():
                yield from _faults(script)


def _faults(script: ScriptText) -> Iterator[Fault]:
    language = LANGUAGES.get(script.language.lower())
    if language is None:
        languages = ", ".join(sorted(name for name in LANGUAGES if name))
        message = f"{script.name}: expected a script in {languages}, found {script.language!r:.60}"
        yield Fault(script.path, script.line, script.column, message)
    elif script.text and (fault := syntax_fault(language, script.text)) is not None:
        down, right, message = fault
        line = script.line + down
        column = script.column + right if down == 0 else right + 1
        yield Fault(script.path, line, column, f"{script.name}: {message}")


def syntax_fault(language: str, text: str) -> tuple[int, int, str] | None:
    """The first syntax fault of a script: line and column from 0, and the message; None: no fault."""
    return _js(text) if language == "js" else _python(text)


def _js(text: str) -> tuple[int, int, str] | None:
    import quickjs  # type: ignore[import-untyped]  # here, since few homes have scripts

    context = quickjs.Context()
    context.set_max_stack_size(STACK)
    context.set_memory_limit(MEMORY)
    context.set_time_limit(1.0)
    try:
        context.eval(_NOT_BEGUN + text)
    except (quickjs.JSException, ValueError) as error:  # ValueError for characters that no script may have
        message = str(error)
    if "__not_begun__" in message:
        return None
    place = re.search(r"<input>:(\d+)(?::(\d+))?", message)
    line = int(place[1]) - 1 if place is not None else 0
    first = next(iter(message.strip().splitlines()), "")[:200]
    return line, 0, first.removeprefix("SyntaxError: ") or "no script"


def _python(text: str) -> tuple[int, int, str] | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return max((error.lineno or 1) - 1, 0), max((error.offset or 1) - 1, 0), error.msg[:200]
    except (ValueError, MemoryError, RecursionError):
        return 0, 0, "this cannot be read: it is nested too deep, or has characters that no script has"
    return None
