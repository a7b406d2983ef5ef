"""Conversion of inputs to parameters, of a result to elements, of an exception to a failure (N30)."""

from __future__ import annotations

import inspect
import keyword
import logging
import os
import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import lru_cache
from pathlib import Path
from time import monotonic
from types import CoroutineType, GeneratorType, TracebackType
from typing import Any

from lxml import etree

from narval.calls.context import CallContext, Inputs, Message, Target, enter
from narval.calls.output_capture import UNENDED, end_prints
from narval.calls.record import Outcome
from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import Element
from narval.core.elements.own_elements import xml_safe
from narval.core.engines.events import Failure, OutputElement
from narval.core.errors import ActionError, ElementError, InternalError
from narval.core.source.text import SHIPPED
from narval.system.exits import RefusedExit, ends_program
from narval.system.secret import without_given

log = logging.getLogger("narval.calls")

LONG = 5.0
"""Seconds of a blocked loop after which a call is logged, the same as for a round reported as stuck."""

_LONGEST_MESSAGE = 2_000
_MOST_FRAMES = 12
_MOST_CAUSES = 8
_LONGEST_CAUSE = 300
_NARVAL = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARIES = frozenset(("site-packages", "dist-packages"))
_EXPECTED = "expected an Element, XML text or bytes, or an lxml element"
_LIKELY = {
    GeneratorType: "a generator; return a list of what it yields, or declare an async one with source=True",
    CoroutineType: "a coroutine; an await is missing, or the action is to be an async def",
}
"""Descriptions of results that come from a slip."""
_NO_WORD = re.compile(r"[^\w.:-]+")
"""Characters that an error's type must not have, because patterns and commands name it."""
_BYTES = (bytes, bytearray)
_WRITTEN = (str, Element, *_BYTES)
_SEVERAL = (list, tuple)


class BadOutputError(ActionError):
    """The result of an action contains something that is not an element, or that only narval makes."""

    def __init__(self, message: str, kind: str = "bad-output") -> None:
        super().__init__(message, kind, final=True)


_NO_ELEMENTS = Outcome()


@lru_cache(maxsize=4096)
def parameter(input_id: str) -> str:
    """The name of the parameter that gets an input.

    Every character that is invalid in an identifier becomes "_". A keyword or other word that is still not a
    valid name gets another "_" ("2nd" is `_2nd`, "from" is `from_`).
    """
    name = re.sub(r"\W", "_", input_id)
    if keyword.iskeyword(name):
        return name + "_"
    return name if name.isidentifier() else "_" + name


def arguments(inputs: Inputs) -> dict[str, Element | list[Element] | None]:
    """The keyword arguments of a function, which may alter the lists."""
    return {
        parameter(id): list(elements) if isinstance(elements, list) else elements
        for id, elements in inputs.items()
    }


def answer_at_once(call: CallContext) -> Outcome:
    """Answer a call in the loop itself, in its own context: for actions that take microseconds (N33).

    Nothing can interrupt such an action, so its time limit is not enforced. It cannot be given up, counted or
    found under way, because it has ended by then. One that takes `LONG` seconds is logged.
    """
    began = monotonic()
    outcome = copy_context().run(answer, call)
    if (took := monotonic() - began) >= LONG:
        log_long(call, took, "inline", "leave runs='inline' out")
    return outcome


def log_long(call: CallContext, took: float, how: str, instead: str) -> None:
    """Log that a call blocked the daemon, and how to avoid that."""
    what = f"{call.target.action} of run {call.run}, step {call.step}, took {took:.0f} s {how}"
    over = call.timeout is not None and took > call.timeout
    limit = f", longer than its time limit of {call.timeout:g} s" if over else ""
    log.warning("%s%s: the daemon did nothing else meanwhile; %s", what, limit, instead)


def answer(call: CallContext) -> Outcome:
    """Call the function of a call's target with the inputs; return an outcome, whatever the function does.

    The present context of variables becomes that of the call.
    """
    enter(call)
    try:
        function = call.target.function or function_of(call.target)
        result = function(**arguments(call.inputs)) if call.inputs else function()
        return _NO_ELEMENTS if result is None else Outcome(elements(result))
    except BaseException as error:
        if ends_program(error) and threading.current_thread() is threading.main_thread():
            raise
        return Outcome(problem=failure(error, file_of(call.target), call.home))
    finally:
        if UNENDED and call.id in UNENDED:
            end_prints(call.id)


def raisable(error: BaseException) -> Exception:
    """The error to raise in a loop for an error of a thread: SystemExit would end the loop."""
    is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
    return error if is_plain else RuntimeError(f"it raised {error!r}")  # type: ignore[return-value]


def awaited(result: object) -> object:
    """The result of a function in a program without a loop: a coroutine is run to its end."""
    if not inspect.iscoroutine(result):
        return result
    import asyncio  # seldom needed, and a worker starts sooner without it

    return asyncio.run(result)


def function_of(target: Target) -> Callable[..., Any]:
    """The function to call in this program. Raises InternalError if there is none."""
    function: Callable[..., Any] | None = target.function
    if function is None:
        raise InternalError(f"expected a function to call for {target.action}, which runs as {target.where}")
    return function


def file_of(target: Target) -> str:
    """The file whose lines are shown when the action fails: where its function was written."""
    function = target.function
    code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    return target.module_path if code is None else str(code.co_filename)


def elements(result: object) -> list[OutputElement]:
    """The elements in a function's result: nothing, one thing, a list, or a dict by output id.

    Raises BadOutputError.
    """
    if result is None:
        return []
    if isinstance(result, _WRITTEN):
        return [OutputElement(_element(result, ""))]
    if isinstance(result, dict):
        outputs = [raw for output, value in result.items() for raw in _of_output(output, value)]
    else:
        outputs = [_output(thing, place) for place, thing in _things(result)]
    if any(raw.to for raw in outputs):
        outputs.sort(key=lambda raw: bool(raw.to))  # messages come last
    return outputs


def _of_output(output: object, value: object) -> Iterator[OutputElement]:
    if not isinstance(output, str):
        raise BadOutputError(f"expected the keys of the dict to be output ids, got {_shown(output)}")
    for place, thing in _things(value):
        where = f"under the key {output!r}" + (f", {place}" if place else "")
        yield _output(thing, where, output)


def _output(thing: object, place: str, output: str | None = None) -> OutputElement:
    """One result of an action: an element, or a message with one."""
    if not isinstance(thing, Message):
        return OutputElement(_element(thing, place), output)
    if not (isinstance(thing.to, str) and thing.to):
        raise BadOutputError(f"expected a Message to name an agent, got {_shown(thing.to)}")
    return OutputElement(_element(thing.element, place), to=thing.to)


def _things(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, _SEVERAL):
        yield from ((f"item {number}", thing) for number, thing in enumerate(value, 1))
    elif value is not None:
        yield "", value


def _element(thing: object, place: str) -> bytes:
    """The canonical bytes of one result.

    Even an lxml element is parsed again from its bytes: it may be too deep, or have nodes that elements must
    not have.
    """
    prefix = f"{place}: " if place else ""
    try:
        if isinstance(thing, str):
            return canonical_given(thing)
        if isinstance(thing, Element):
            return canonical_given(thing.xml)
        if isinstance(thing, _BYTES):
            return canonical_given(bytes(thing))
        if isinstance(thing, etree._Element) and isinstance(thing.tag, str):
            return canonical_given(etree.tostring(thing, encoding="utf-8", with_tail=False))
    except ElementError as error:
        is_plain = isinstance(thing, str) and not thing.lstrip().startswith("<")
        got = f"; got {_shown(thing)}, which is not XML" if is_plain else ""
        message = f"{prefix}{error} (line {error.line}, column {error.column}){got}"
        if error.kind == "reserved":
            raise BadOutputError(message, "reserved") from None
        raise BadOutputError(message) from None
    except (ValueError, etree.LxmlError) as error:
        raise BadOutputError(f"{prefix}{_EXPECTED}, got one that cannot be written as XML: {error}") from None
    raise BadOutputError(f"{prefix}{_EXPECTED}, got {_LIKELY.get(type(thing)) or _shown(thing)}")


def failure(error: BaseException, file: str, home: Path | None = None) -> Failure:
    """The failure for an exception, in words for the author of the action.

    A group with one exception, as a task group raises it, fails as its member does. `detail` has the
    traceback: the lines of `file` and of other files of the home, and the last line of a library; then,
    indented, those of its causes and members.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    kind, message = type(error).__name__, _text(error) or type(error).__name__
    if isinstance(error, ActionError):
        kind = error.kind
    elif isinstance(error, RefusedExit):
        kind, message = SystemExit.__name__, f"the action called {error.call}"
    elif isinstance(error, SystemExit):
        message = f"the action called sys.exit({'' if error.code is None else repr(error.code)})"
    elif isinstance(error, BaseExceptionGroup):
        message = "; ".join((message, *map(_named, error.exceptions)))
    return Failure(
        _NO_WORD.sub("-", str(kind)).strip("-") or "action-failed",
        xml_safe(message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"),
        "" if isinstance(error, BadOutputError) else xml_safe("\n".join(_traced(error, file, home))),
        final=_is_final(error),
    )


def _is_final(error: BaseException) -> bool:
    """True if trying again cannot help; for a group, if all members say so."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_final, error.exceptions))
    return isinstance(error, ActionError) and bool(error.final)


def _traced(error: BaseException, file: str, home: Path | None) -> Iterator[str]:
    """The lines of an exception's traceback, then those of its causes and members."""
    yield from _lines(error.__traceback__, file, home)
    seen, waiting = {id(error)}, deque(_behind(error))
    while waiting and len(seen) <= _MOST_CAUSES:
        how, behind = waiting.popleft()
        if id(behind) not in seen:
            seen.add(id(behind))
            yield f"{how} {_named(behind)}"
            yield from (f"  {line}" for line in _lines(behind.__traceback__, file, home))
            waiting.extend(_behind(behind))


def _behind(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """The exceptions behind another: its cause, the one handled when it was raised, its members."""
    if error.__cause__ is not None:
        yield "caused by", error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield "while handling", error.__context__
    if isinstance(error, BaseExceptionGroup):
        yield from (("one of them", member) for member in error.exceptions)


def _named(error: BaseException) -> str:
    """An exception in one line."""
    text = f"{type(error).__name__}: {' '.join(_text(error).split())}".removesuffix(": ")
    return text if len(text) <= _LONGEST_CAUSE else text[:_LONGEST_CAUSE] + "…"


def _lines(trace: TracebackType | None, file: str, home: Path | None) -> list[str]:
    """Lines like `modules/mail.py:12 in send: server.send(mail)`, outermost first, a library's indented."""
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_NARVAL)]
    lines = [_line(frame, path) for frame in frames if (path := _own(frame.filename, file, home))]
    if frames and not _own(frames[-1].filename, file, home):
        lines.append(f"  {_line(frames[-1], _in_library(frames[-1].filename))}")
    return lines[-_MOST_FRAMES:]


def _line(frame: traceback.FrameSummary, path: str) -> str:
    return f"{path}:{frame.lineno} in {frame.name}: {frame.line}"


def _own(path: str, file: str, home: Path | None) -> str:
    """The name shown for a file of the action's author, or one that ships with narval; "" for a library's."""
    folder = home or Path(file).parent
    if Path(path).is_relative_to(folder) and not _LIBRARIES.intersection(Path(path).parts):
        return str(Path(path).relative_to(folder)) if home is not None else path
    return path if path == file or path.startswith(f"{SHIPPED}/") else ""


def _in_library(path: str) -> str:
    """The path of a file within its library, such as `json/decoder.py`, without the machine's folders."""
    folders = [f"{folder}{os.sep}" for folder in sys.path if folder and path.startswith(f"{folder}{os.sep}")]
    return path.removeprefix(max(folders, key=len)) if folders else Path(path).name


def _text(error: BaseException) -> str:
    try:
        return without_given(str(error))
    except Exception:
        return f"{type(error).__name__} (its text cannot be shown)"


def _shown(thing: object) -> str:
    try:
        text = repr(thing)
    except Exception:
        text = "(it cannot be shown)"
    return f"{type(thing).__name__} {text if len(text) <= 80 else text[:80] + '…'}"
