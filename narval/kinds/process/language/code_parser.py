"""The code of a module that processes use by name: what `@node_type`, `@predicate` and others declare.

The module has been imported already; its source gives every fault its line and column.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from lxml import etree

from narval.core.definitions.reading.python import RUNS, CodeMaker, first_paragraph, misplaced_run
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.kinds.process.language.code import (
    DECLARATION,
    EVENTS,
    HOOKS,
    Code,
    CodeDeclaration,
    Where,
    mask_of,
)
from narval.kinds.process.language.definition import BUILT_IN
from narval.kinds.process.language.properties import (
    RubricType,
    are_evaluated,
    is_property_type,
    properties_of,
)

_METHOD = {"join": "join", "listener": "notify"}
"""The kinds that may be classes, and the method called on such a class."""


def declared(module: ModuleType, source: Source, group: str) -> tuple[list[Code], list[Fault]]:
    """The code that a file of a module declares for processes, in its order, and all its faults."""
    return _ProcessCodeMaker(source, group).read(module, DECLARATION, CodeDeclaration)


class _ProcessCodeMaker(CodeMaker[Code, CodeDeclaration]):
    def _make(self, variable: str, value: Any, declaration: CodeDeclaration) -> None:
        self._word = f"@{declaration.kind.replace('-', '_')}"
        name = variable if declaration.name is None else declaration.name
        if not self._is_name(name):
            return
        if declaration.kind == "node-type" and name in BUILT_IN:
            self._fault(f"narval has nodes of type {name!r} itself; expected another name")
            return
        if any((code.kind, code.name) == (declaration.kind, name) for code in self._made):
            self._fault(f"expected a new name, found {name!r} again")
        before = len(self._faults)
        hooks, properties = self._shape(value, declaration)
        where = self._where(value, declaration)
        mask = self._mask(declaration)
        if len(self._faults) > before:
            return
        description = xml_safe(first_paragraph(value), "")
        code = Code(
            kind=declaration.kind,
            group=self._group,
            name=name,
            function=variable,
            where=where,
            hooks=hooks,
            properties=properties,
            evaluated=are_evaluated(properties),
            mask=mask,
            everywhere=declaration.everywhere,
            pure=declaration.pure,
            gives=declaration.gives,
            descriptions={"en": description} if description else {},
            path=self._source.path,
            line=self._place[0],
        )
        self._keep(code, _render(code, declaration.runs))

    def _shape(self, value: Any, declaration: CodeDeclaration) -> tuple[frozenset[str], Mapping[str, Any]]:
        """Check the shape that its kind needs; return the hooks and properties of a node type."""
        if declaration.kind == "node-type":
            return self._node_type(value)
        method = _METHOD.get(declaration.kind)
        if isinstance(value, type) and method is not None:
            self._check_made_alone(value)
            if not callable(getattr(value, method, None)):
                self._fault(f"expected the class to have a method {method!r}")
            else:
                self._takes_one(getattr(value, method), f"the method {method!r}", 2)
        elif isinstance(value, type) or not callable(value):
            self._fault(f"expected a function{' or a class' * (method is not None)}, found {value!r:.80}")
        else:
            self._takes_one(value, "the function", 1)
        return frozenset(), {}

    def _node_type(self, value: Any) -> tuple[frozenset[str], Mapping[str, Any]]:
        if not isinstance(value, type):
            self._fault(f"expected a class, found {value!r:.80}")
            return frozenset(), {}
        self._check_made_alone(value)
        hooks = frozenset(name for name in HOOKS if callable(getattr(value, name, None)))
        for name in sorted(hooks):
            self._takes_one(getattr(value, name), f"the method {name!r}", 2)
        for name in ("guard", "is_backtrackable"):
            if inspect.iscoroutinefunction(getattr(value, name, None)):
                self._fault(f"the method {name!r} must answer at once: expected def, not async def")
        try:
            properties = properties_of(value)
        except Exception as error:
            self._fault(f"its annotations cannot be read: {error}")
            return hooks, {}
        for name, type_ in properties.items():
            if not is_property_type(type_) and isinstance(type_, RubricType):
                self._fault(f"the property {name!r}: expected Rubric[str], [int] or [date], found {type_}")
            elif not is_property_type(type_):
                type_name = getattr(type_, "__name__", type_)
                self._fault(f"the property {name!r}: no text can become {type_name}; give it from_text")
        return hooks, properties

    def _takes_one(self, function: Callable[..., Any], what: str, count: int) -> None:
        """Check that a function can be called with one argument (a method: besides `self`)."""
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            self._fault(f"{what} must give an answer, not yield several")
        try:
            inspect.signature(function).bind(*[None] * count)
        except TypeError:
            self._fault(f"expected {what} to take one argument{' beside self' * (count == 2)}")
        except ValueError:
            return

    def _where(self, value: Any, declaration: CodeDeclaration) -> Where:
        runs = declaration.runs
        performed = [getattr(value, hook, None) for hook in ("execute", "backtrack")]
        coroutines = [inspect.iscoroutinefunction(hook) for hook in performed if hook is not None]
        if declaration.kind != "node-type":
            if inspect.iscoroutinefunction(value):
                self._fault("it must answer at once: expected def, not async def")
            return "inline"
        if (message := misplaced_run(runs, any(coroutines))) is not None:
            self._fault(message)
        if any(coroutines) and not all(coroutines):
            self._fault("execute and backtrack must both be async def, or neither")
        if any(coroutines):
            return "async"
        return RUNS.get(str(runs), "thread")

    def _mask(self, declaration: CodeDeclaration) -> int:
        if declaration.kind != "listener":
            return 0
        try:
            return mask_of(declaration.events)
        except (ValueError, AttributeError) as error:
            self._fault(f"events: {error}")
            return 0


def _render(code: Code, runs: str | None) -> bytes:
    """The element that memory shows."""
    root = etree.Element(code.kind, {"name": code.name, "group": code.group})
    if runs is not None:
        root.set("runs", runs)
    if code.pure:
        root.set("pure", "yes")
    if code.kind == "listener":
        root.set("everywhere", "yes" if code.everywhere else "no")
    for language, text in code.descriptions.items():
        etree.SubElement(root, "description", {"lang": language}).text = text
    for hook in (hook for hook in HOOKS if hook in code.hooks):
        etree.SubElement(root, "hook", {"name": hook})
    for name, type_ in code.properties.items():
        etree.SubElement(root, "property", {"name": name, "type": getattr(type_, "__name__", str(type_))})
    for name in code.gives or ():
        etree.SubElement(root, "gives", {"name": name})
    for event in (event for event, bit in EVENTS.items() if code.mask >> bit & 1):
        etree.SubElement(root, "event", {"name": event})
    return etree.tostring(root, encoding="utf-8")
