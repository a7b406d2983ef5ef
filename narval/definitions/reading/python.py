"""Declarations in modules: where they stand, what they say of themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from narval.definitions.action.definition import Where
from narval.source.text import Source

Place = tuple[int, int]


_DEFINED = re.compile(r"^[ \t]*(?:async\s+def|def|class)\s+(\w+)", re.M)


_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def definition_of(source: Source, name: str, function: Any) -> tuple[Place, tuple[int, int]]:
    """Where the `def` or `class` of a name is, and from which to which character its decorators go."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    first = code.co_firstlineno if code is not None and code.co_filename.endswith(source.path) else 1
    start = source.offset(first)
    own = _own_name(function, name)
    found = next((each for each in _DEFINED.finditer(source.text, start) if each[1] == own), None)
    if found is None:
        return (first, 1), (start, start)
    at = found.end() - len(found[0].lstrip())
    return source.place(at), (start, at)


WHERE: Mapping[str, Where] = {"thread": "thread", "worker": "worker", "inline": "inline"}


def _own_name(function: Any, name: str) -> str:
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return getattr(unwrapped, "__name__", name)


def first_paragraph(function: Any) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def writable(text: str) -> str:
    """The text without the characters that XML does not know."""
    return _UNWRITABLE.sub("", text)
