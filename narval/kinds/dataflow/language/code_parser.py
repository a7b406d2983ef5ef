"""The code of a module for dataflows, as declared by `@operator`, `@wrapper` and `@function` (T57, TA19).

The module is already imported; its source gives every fault its line and column.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal

from lxml import etree

from narval.core.definitions.reading.python import RUNS, CodeMaker, first_paragraph, misplaced_run
from narval.core.elements.own_elements import xml_safe
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.kinds.dataflow.language.code import DATAFLOW_CODE, DataflowCode, DataflowDeclaration
from narval.kinds.dataflow.language.compiling.matching import STREAM
from narval.kinds.dataflow.language.compiling.vocabulary import operator_of
from narval.kinds.dataflow.language.composition import declaration_of
from narval.kinds.dataflow.language.grammar import read_units
from narval.kinds.dataflow.language.operators import Operator, named
from narval.kinds.dataflow.language.rules import TextError, value_type
from narval.kinds.dataflow.language.syntax import OperatorSyntax


def declared(module: ModuleType, source: Source, group: str) -> tuple[list[DataflowCode], list[Fault]]:
    """The code that a file of a module declares for dataflows, in order, and all its faults."""
    return _DataflowCodeMaker(source, group).read(module, DATAFLOW_CODE, DataflowDeclaration)


class _DataflowCodeMaker(CodeMaker[DataflowCode, DataflowDeclaration]):
    def _make(self, variable: str, value: Any, declaration: DataflowDeclaration) -> None:
        self._word = f"@{declaration.kind}"
        before = len(self._faults)
        name = variable if declaration.name is None else declaration.name
        self._name(name, declaration)
        is_class = isinstance(value, type)
        if not callable(value) or (is_class and declaration.kind != "operator"):
            self._fault(f"expected a function, found {value!r:.80}")
        operator = self._operator(name, value, declaration) if declaration.kind == "operator" else None
        attributes = self._attributes(declaration)
        if len(self._faults) > before:
            return
        description = xml_safe(first_paragraph(value), "")
        code = DataflowCode(
            kind=declaration.kind,
            group=self._group,
            name=name,
            function=variable,
            where=self._where(value, declaration),
            operator=operator,
            attributes=attributes,
            pure=declaration.pure,
            descriptions={"en": description} if description else {},
            path=self._source.path,
            line=self._place[0],
        )
        self._keep(code, _render(code))

    def _name(self, name: Any, declaration: DataflowDeclaration) -> None:
        if not self._is_name(name):
            return
        if declaration.kind == "operator" and (operator := named(name)) is not None:
            self._fault(f"narval has the operator {operator.signature}; expected another name")
        if any((code.kind, code.name.lower()) == (declaration.kind, name.lower()) for code in self._made):
            self._fault(f"expected a new name, found {name!r} again")

    def _operator(self, name: Any, value: Any, declaration: DataflowDeclaration) -> Operator | None:
        properties = {
            "BLOCKING": declaration.blocking,
            "CONDITIONAL": declaration.conditional,
            "IO-BOUND": declaration.io_bound,
            "RE-ENTRANT": declaration.reentrant,
        }
        written = [f"{word}: yes;" for word, is_set in properties.items() if is_set]
        if declaration.granularity:
            written.append(f"GRANULARITY: {declaration.granularity};")
        ports = f"INPUT: {declaration.inputs}; OUTPUT: {declaration.outputs};"
        text = f"OPERATOR {name} {{ {ports} {' '.join(written)} }}"
        units, faults = read_units(Source.of_text(self._source.path, text))
        for fault in faults:
            self._fault(fault.message)
        if faults or len(units) != 1 or not isinstance(units[0], OperatorSyntax):
            return None
        operator = operator_of(units[0])
        if declaration.conditional and len(operator.outputs) < 2:
            self._fault("a conditional operator chooses between outputs; expected two or more")
        self._shape(value, operator)
        return operator

    def _shape(self, value: Any, operator: Operator) -> None:
        """Check that a class has the methods that its ports need, and takes no arguments."""
        if not isinstance(value, type):
            return
        self._check_made_alone(value)
        for port in operator.inputs:
            if port.type == STREAM and not callable(getattr(value, f"on_{port.name}", None)):
                self._fault(f"expected a method on_{port.name}, which is given the tuples of {port.name}")
        if operator.kind == "I" and not callable(getattr(value, "on_init", None)):
            self._fault("expected a method on_init: no stream comes to this operator")

    def _attributes(self, declaration: DataflowDeclaration) -> Mapping[str, str]:
        if declaration.kind != "wrapper":
            return {}
        attributes = declaration.attributes
        if not isinstance(attributes, Mapping) or not attributes:
            self._fault('expected attributes={"name": "String", …}, those of each dict that it yields')
            return {}
        types: dict[str, str] = {}
        for name, type in attributes.items():
            try:
                type_name, _ = value_type(str(type))
            except TextError as error:
                self._fault(f"attributes: {name!r}: {error.message}")
                continue
            if not isinstance(name, str) or type_name is None:
                self._fault(
                    f"attributes: expected a name, and String or Number, found {name!r}: {type!r:.40}"
                )
            else:
                types[name] = type_name
        return types

    def _where(
        self, value: Any, declaration: DataflowDeclaration
    ) -> Literal["thread", "worker", "inline", "async"]:
        is_async = inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)
        if (message := misplaced_run(declaration.runs, is_async)) is not None:
            self._fault(message)
        return "async" if is_async else RUNS.get(str(declaration.runs), "thread")


def _render(code: DataflowCode) -> bytes:
    """The element that memory shows."""
    root = etree.Element(code.kind, {"name": code.name, "group": code.group, "runs": code.where})
    if code.pure:
        root.set("pure", "yes")
    for language, text in code.descriptions.items():
        etree.SubElement(root, "description", {"lang": language}).text = text
    if code.operator is not None:
        etree.SubElement(root, "declaration").text = declaration_of(code.operator)
    for name, type in code.attributes.items():
        etree.SubElement(root, "attribute", {"name": name, "type": type})
    return etree.tostring(root, encoding="utf-8")
