"""What is wrong with the text of scripts, found without running them, each at its place in the file (N13).

A script is read by what will run it, behind a statement that ends it before it begins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from narval.definitions.library import Definition
from narval.definitions.process.definition import Node, Process
from narval.errors import Fault
from narval.runtime.scripts.interpreters import LANGUAGES, MEMORY, STACK

SCRIPTS = ("execute", "backtrack", "allowBacktrack")
"""The properties of a node of the type `script` that are scripts (section 10)."""

_NOT_BEGUN = "throw '__not_begun__';"


def faults_of_scripts(definitions: Iterable[Definition]) -> Iterator[Fault]:
    """What is wrong with the scripts that processes have themselves."""
    for process in definitions:
        if isinstance(process, Process):
            nodes = process.nodes.values() if process.draft is None else process.draft.nodes
            for node in nodes:
                if node.type == "script" and not node.external:
                    yield from _of_node(process, node)


def _of_node(process: Process, node: Node) -> Iterator[Fault]:
    for key in SCRIPTS:
        text = node.text_of(key)
        line, column = node.places.get(key, (node.line, 1))
        written = node.text_of(f"{key}Type")
        language = LANGUAGES.get(written.lower())
        if language is None:
            known = ", ".join(sorted(name for name in LANGUAGES if name))
            yield Fault(
                process.path, line, column, f"{key}: expected a script in {known}, found {written!r:.60}"
            )
        elif text and (slip := slip_of(language, text)) is not None:
            down, right, message = slip
            place = (line, column + right) if down == 0 else (line + down, right + 1)
            yield Fault(process.path, *place, f"{key}: {message}")


def slip_of(language: str, text: str) -> tuple[int, int, str] | None:
    """The first thing that is no sentence of a language: line and column from 0, and what it is."""
    return _js(text) if language == "js" else _python(text)


def _js(text: str) -> tuple[int, int, str] | None:
    import quickjs  # type: ignore[import-untyped]

    context = quickjs.Context()
    context.set_max_stack_size(STACK)
    context.set_memory_limit(MEMORY)
    context.set_time_limit(1.0)
    try:
        context.eval(_NOT_BEGUN + text)
    except (quickjs.JSException, ValueError) as error:  # the latter of characters that no script has
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
