"""Declarations in Python modules: their values, their places in the file, rules for functions, and the code
that kinds make from them.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

from msgspec.structs import replace

from narval.core.definitions.library import ModuleDefinition
from narval.core.definitions.reading.vocabulary import identifier
from narval.core.definitions.reading.xml import Place
from narval.core.errors import Fault
from narval.core.source.text import Source

Runs = Literal["thread", "worker", "inline"]
"""The places where a function that is not a coroutine may run, as written by its author."""

RUNS: Mapping[str, Runs] = {"thread": "thread", "worker": "worker", "inline": "inline"}

Declaration = TypeVar("Declaration")

_DEFINED = re.compile(r"^[ \t]*(?:async\s+def|def|class)\s+(\w+)", re.M)


def declarations(
    module: ModuleType, attribute: str, declaration_type: type[Declaration]
) -> Iterator[tuple[str, Any, Declaration]]:
    """The name, value and declaration of everything a module declares itself; imported ones are left out."""
    seen: set[int] = set()
    for name, value in list(vars(module).items()):
        own = getattr(value, "__dict__", {})
        declaration = own.get(attribute) if isinstance(own, Mapping) else None
        if (
            isinstance(declaration, declaration_type)
            and id(value) not in seen
            and getattr(value, "__module__", None) == module.__name__
        ):
            seen.add(id(value))
            yield name, value, declaration


def definition_of(source: Source, name: str, function: Any) -> tuple[Place, tuple[int, int]]:
    """The place of the `def` or `class` of a name, and the first and last offset of its decorators."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    first = code.co_firstlineno if code is not None and code.co_filename.endswith(source.path) else 1
    start = source.offset(first)
    own = getattr(inspect.unwrap(function), "__name__", name)
    match = next((line for line in _DEFINED.finditer(source.text, start) if line[1] == own), None)
    if match is None:
        return (first, 1), (start, start)
    at = match.end() - len(match[0].lstrip())
    return source.place(at), (start, at)


def misplaced_run(runs: object, is_async: bool, places: Collection[str] = tuple(RUNS)) -> str | None:
    """The fault of a declaration's `runs`, which may be one of these places; None if it is valid."""
    if runs not in (None, *places):
        *others, last = places
        return f"runs: expected {', '.join(others)} or {last}, found {runs!r}"
    if runs is not None and is_async:
        return f"runs={runs!r}: an async def runs in the loop itself; leave runs out"
    return None


def is_needed(parameter: inspect.Parameter) -> bool:
    """True if every call must pass the parameter."""
    variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return not variable and parameter.default is parameter.empty


def first_paragraph(function: Any) -> str:
    """The first paragraph of a docstring as one line; "" without one."""
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


Code = TypeVar("Code", bound=ModuleDefinition)


class CodeMaker(ABC, Generic[Code, Declaration]):
    """A maker of the code that one module file declares for a kind, with the common checks."""

    def __init__(self, source: Source, group: str) -> None:
        self._source, self._group = source, group
        self._place: Place = (1, 1)
        self._word = ""
        self._made: list[Code] = []
        self._faults: list[Fault] = []

    def read(
        self, module: ModuleType, attribute: str, declared: type[Declaration]
    ) -> tuple[list[Code], list[Fault]]:
        """The code that the file declares by an attribute, in order, and all its faults."""
        for variable, value, declaration in declarations(module, attribute, declared):
            self._place, _ = definition_of(self._source, variable, value)
            self._make(variable, value, declaration)
        return sorted(self._made, key=lambda code: code.line), sorted(set(self._faults))

    @abstractmethod
    def _make(self, variable: str, value: Any, declaration: Declaration) -> None:
        """Make the code of one declaration, or record its faults."""

    def _keep(self, code: Code, xml: bytes) -> None:
        """Add the finished code; memory shows it as this element."""
        digest = hashlib.sha256(self._source.digest.encode() + xml).hexdigest()
        self._made.append(replace(code, xml=xml, digest=digest))

    def _fault(self, message: str) -> None:
        self._faults.append(self._source.fault(f"{self._word}: {message}", *self._place))

    def _is_name(self, name: Any) -> bool:
        try:
            identifier(name)
        except (TypeError, ValueError):
            self._fault(f"expected a name without blanks, found {name!r:.80}")
            return False
        return True

    def _check_made_alone(self, value: type) -> None:
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            return
        needed = [parameter.name for parameter in parameters if is_needed(parameter)]
        if needed:
            self._fault(f"expected a class that is made without arguments, but it needs {', '.join(needed)}")
