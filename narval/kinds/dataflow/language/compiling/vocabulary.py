"""Vocabulary of a plan: the operators and plans that it can call, and their ports (T4, T15, TA30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import closest
from narval.kinds.dataflow.language.code import DataflowCode
from narval.kinds.dataflow.language.compiling.inference import Columns
from narval.kinds.dataflow.language.compiling.matching import STREAM, type_named
from narval.kinds.dataflow.language.operators import (
    NAMES,
    OPERATOR_TABLE,
    Operator,
    OperatorClass,
    Port,
    named,
)
from narval.kinds.dataflow.language.syntax import (
    Declared,
    FilePlace,
    OperatorSyntax,
    PlanNames,
    PlanSource,
    Statement,
)

KIND = "dataflow"


class Found(NamedTuple):
    """The operator that a call names, or the reason why there is none; neither if it is not known yet."""

    operator: Operator | None = None
    problem: str = ""


class PlanVocabulary:
    """The names that plans can call: operators, operators of modules, plans.

    A vocabulary that is not `complete` is that of a single file: unknown names may be defined elsewhere. If
    the plans are `stored`, calls that always fail are no faults: a run may have begun with them.
    """

    def __init__(
        self,
        plans: Iterable[PlanSource],
        code: Iterable[DataflowCode] = (),
        *,
        complete: bool,
        stored: bool = False,
    ) -> None:
        self.plans = {plan.full_name: plan for plan in plans}
        self.signatures = {name: signature_of(plan) for name, plan in self.plans.items()}
        self.complete, self.stored = complete, stored
        self._names = PlanNames((plan.place, plan.syntax.name) for plan in self.plans.values())
        self._operators: dict[str, Operator] = {}
        self.wrappers: dict[str, Columns] = {}
        self.code: set[tuple[str, str]] = set()
        for declared in code:
            self.code.add((declared.kind, declared.name))
            if declared.operator is not None:
                self._operators[declared.name.lower()] = declared.operator
            if declared.kind == "wrapper":
                self.wrappers[declared.name] = tuple(declared.attributes)

    def find(self, statement: Statement, source: PlanSource) -> Found:
        """The operator that a call names."""
        name = statement.name
        operator = named(name)
        if operator is not None and operator.name == "subplan":
            return self._subplan(statement, source)
        if operator is None and "/" not in name:
            operator = self._declared(name, source) or self._operators.get(name.lower())
        return Found(operator) if operator is not None else self.plan(name, source.place)

    def plan(self, reference: str, at: FilePlace) -> Found:
        """The plan that a reference means."""
        paths = self._names.found(reference, at)
        if len(paths) > 1:
            listed = " and ".join(sorted(paths))
            group, _, name = paths[0].partition(".")
            return Found(
                None, f"{reference}: {listed} are meant by this; write the file too, as in {group}/{name}"
            )
        if paths:
            return Found(self.signatures[paths[0]])
        return Found()

    def unknown(self, reference: str, at: FilePlace) -> str:
        """The message that no operator or plan has a name, with the most likely one."""
        plans = self._names.known(at)
        if "/" in reference:
            every = ["/" + "/".join(path) for path in self._names.paths()]
            return f"there is no dataflow {reference}{closest(reference, [*every, *plans])}"
        if reference.lower() == "varunion":
            return f"there is no operator {reference!r}; write merge((a, b) : all), which several may consume"
        names = [*NAMES, *self._operators, *plans]
        near = closest(reference, names) or closest(reference.lower(), names)
        return f"there is no operator or dataflow {reference!r}{near}"

    @property
    def types(self) -> frozenset[str]:
        """The types that operators of modules define (T6)."""
        ports = (
            port for operator in self._operators.values() for port in (*operator.inputs, *operator.outputs)
        )
        return frozenset(port.type for port in ports)

    def _declared(self, name: str, source: PlanSource) -> Operator | None:
        declared = next((one for one in source.declared if one.name.lower() == name.lower()), None)
        if declared is None:
            return None
        operator, own = operator_of(declared), self._operators.get(name.lower())
        if own is None:
            return operator
        return msgspec.structs.replace(own, granularity=operator.granularity or own.granularity)

    def _subplan(self, statement: Statement, source: PlanSource) -> Found:
        first = statement.arguments[0] if statement.arguments else None
        if first is None or first.kind != "text":
            return Found(
                None,
                'subplan: expected the name of a dataflow first, as in subplan("Next", page : out)',
            )
        if first.text.lower() in OPERATOR_TABLE and not self._names.found(first.text, source.place):
            return Found(None, f"{first.text!r} is an operator; call it by its name")
        return self.plan(first.text, source.place)


def signature_of(plan: PlanSource) -> Operator:
    """A plan as an operator, as far as its types are declared."""
    inputs, outputs = (
        tuple(Port(port.name, type_named(port.type)) for port in ports)
        for ports in (plan.syntax.inputs, plan.syntax.outputs)
    )
    return Operator(plan.full_name, inputs, outputs, is_plan=True)


def operator_of(declared: OperatorSyntax) -> Operator:
    """The operator of a declaration in a file."""
    properties: dict[str, Any] = {}
    for name, value in declared.properties:
        if name == "granularity":
            properties[name] = 0 if value == "any" else int(value)
        elif name != "blocking":
            properties[name] = value in ("yes", "true")
    inputs, outputs = (_ports(side) for side in (declared.inputs, declared.outputs))
    blocking = ("blocking", "yes") in declared.properties or ("blocking", "true") in declared.properties
    streams = any(port.type == STREAM for port in inputs)
    kind: OperatorClass = "B" if blocking else "P" if streams else "I"
    return Operator(declared.name, inputs, outputs, kind, **properties)


def _ports(declared: Iterable[Declared]) -> tuple[Port, ...]:
    return tuple(Port(port.name, type_named(port.type), port.many) for port in declared)


def vocabulary_of(library: Library) -> PlanVocabulary:
    """The vocabulary of the definitions of a library."""
    plans: Mapping[str, Any] = library.of(KIND)
    code: list[Any] = [*library.of("operator").values(), *library.of("wrapper").values()]
    return PlanVocabulary((plan.source for plan in plans.values()), code, complete=True)


@lru_cache(maxsize=1)
def names_in(library: Library) -> PlanVocabulary:
    """The vocabulary of a library, for looking up names; made once for all references of a turn."""
    return vocabulary_of(library)
