"""Inputs become parameters, what an action gives back becomes elements, what it raises a problem (N30)."""

from __future__ import annotations

import inspect
import keyword
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from lxml import etree

from narval.engines.events import Failure, OutputElement
from narval.errors import ActionError, ElementError, InternalError
from narval.memory.elements.canonical import canonical
from narval.memory.elements.element import Element
from narval.memory.elements.error_element import xml_safe
from narval.runtime.calls.backend import Inputs, Outcome, Task
from narval.runtime.calls.output_capture import end_prints

_LONGEST_MESSAGE = 2_000
_MOST_FRAMES = 12
_WANTED = "expected an Element, XML text or bytes, or an lxml element"
_BYTES = (bytes, bytearray)
_WRITTEN = (str, Element, *_BYTES)
_SEVERAL = (list, tuple)


class BadOutputError(ActionError):
    """An action gave back something that is no element."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "bad-output", final=True)


@lru_cache(maxsize=4096)
def parameter(input_id: str) -> str:
    """The name of the parameter that gets an input: every character that is no identifier character becomes
    "_", and what would be no name then gets one more ("2nd" is `_2nd`, "from" is `from_`).
    """
    name = re.sub(r"\W", "_", input_id)
    if keyword.iskeyword(name):
        return name + "_"
    return name if name.isidentifier() else "_" + name


def arguments(inputs: Inputs) -> dict[str, Element | list[Element] | None]:
    """What a function is called with; a list is the function's own to alter."""
    return {parameter(id): list(given) if isinstance(given, list) else given for id, given in inputs.items()}


def answer(task: Task, inputs: Inputs, call: str) -> Outcome:
    """Call the function of a task with these inputs, and tell how that ended."""
    try:
        given = arguments(inputs) if inputs else {}
        return Outcome(elements(function_of(task)(**given)))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        return Outcome(problem=problem(error, file_of(task), task.home))
    finally:
        end_prints(call)


def awaited(result: object) -> object:
    """What a function gave, in a program that has no loop: a coroutine is run to its end."""
    if not inspect.iscoroutine(result):
        return result
    import asyncio

    return asyncio.run(result)


def function_of(task: Task) -> Callable[..., Any]:
    """What a task calls in this program."""
    if task.function is None:
        raise InternalError(f"expected a function to call for {task.action}, which runs as {task.where}")
    return task.function


def file_of(task: Task) -> str:
    """The file whose lines are shown when the action fails: where its function was written."""
    code = getattr(inspect.unwrap(task.function), "__code__", None) if task.function is not None else None
    return task.module_path if code is None else str(code.co_filename)


def elements(result: object) -> list[OutputElement]:
    """What an action gave back: nothing, one thing, a list, or a dict by output id.

    Raises BadOutputError.
    """
    if result is None:
        return []
    if isinstance(result, _WRITTEN):
        return [OutputElement(_element(result, ""))]
    if isinstance(result, dict):
        return [raw for output, value in result.items() for raw in _of_output(output, value)]
    return [OutputElement(_element(thing, place)) for place, thing in _things(result)]


def _of_output(output: object, value: object) -> Iterator[OutputElement]:
    if not isinstance(output, str):
        raise BadOutputError(f"expected the keys of the dict to be output ids, got {_shown(output)}")
    for place, thing in _things(value):
        where = f"output {output!r}" + (f", {place}" if place else "")
        yield OutputElement(_element(thing, where), output)


def _things(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, _SEVERAL):
        yield from ((f"item {number}", thing) for number, thing in enumerate(value, 1))
    elif value is not None:
        yield "", value


def _element(thing: object, place: str) -> bytes:
    """The bytes of one thing.

    Even an lxml element is read back from its bytes: it may be deeper, or hold nodes that no element may.
    """
    prefix = f"{place}: " if place else ""
    try:
        if isinstance(thing, str):
            return canonical(thing)
        if isinstance(thing, Element):
            return canonical(thing.xml)
        if isinstance(thing, _BYTES):
            return canonical(bytes(thing))
        if isinstance(thing, etree._Element) and isinstance(thing.tag, str):
            return canonical(etree.tostring(thing, encoding="utf-8", with_tail=False))
    except ElementError as error:
        raise BadOutputError(f"{prefix}{error} (line {error.line}, column {error.column})") from None
    except (ValueError, etree.LxmlError) as error:
        raise BadOutputError(f"{prefix}{_WANTED}, got one that cannot be written as XML: {error}") from None
    raise BadOutputError(f"{prefix}{_WANTED}, got {_shown(thing)}")


def problem(error: BaseException, file: str, home: Path | None = None) -> Failure:
    """Why a call failed, in words for the author of the action; `detail` shows the lines of `file` passed."""
    if isinstance(error, ActionError):
        kind, message = error.kind, _text(error)
    elif isinstance(error, SystemExit):
        kind, message = (
            "SystemExit",
            f"the action called sys.exit({'' if error.code is None else repr(error.code)})",
        )
    else:
        kind, message = type(error).__name__, _text(error) or type(error).__name__
    return Failure(
        xml_safe(str(kind)),
        xml_safe(message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"),
        "" if isinstance(error, BadOutputError) else xml_safe(_lines(error.__traceback__, file, home)),
        final=isinstance(error, ActionError) and bool(error.final),
    )


def _lines(trace: TracebackType | None, file: str, home: Path | None) -> str:
    """`modules/mail.py:12 in send: server.send(mail)`, outermost first."""
    shown = file
    if home is not None and Path(file).is_relative_to(home):
        shown = str(Path(file).relative_to(home))
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename == file]
    return "\n".join(
        f"{shown}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames[-_MOST_FRAMES:]
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__} (its text cannot be shown)"


def _shown(thing: object) -> str:
    try:
        text = repr(thing)
    except Exception:
        text = "(it cannot be shown)"
    return f"{type(thing).__name__} {text if len(text) <= 80 else text[:80] + '…'}"
