"""Compiler: parsed plans become graphs, and all faults are reported at once.

Types and attributes are inferred over all plans that call one another, until nothing changes. Then each plan
is checked: its names, types, texts, order and branches. Recursion needs a guard (TA34).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from narval.core.definitions.reading.lexer import MOST_FAULTS
from narval.core.errors import Fault
from narval.kinds.dataflow.language.compiling import checking
from narval.kinds.dataflow.language.compiling.assembly import assembled
from narval.kinds.dataflow.language.compiling.inference import Inferred, infer
from narval.kinds.dataflow.language.compiling.matching import (
    FUNCTION,
    Match,
    MismatchError,
    flat,
    has_alias_order,
    loose,
    match,
)
from narval.kinds.dataflow.language.compiling.vocabulary import PlanVocabulary
from narval.kinds.dataflow.language.compiling.wiring import Conditions, Wiring
from narval.kinds.dataflow.language.conditions import parse_text
from narval.kinds.dataflow.language.definition import DataflowGraph
from narval.kinds.dataflow.language.operators import NAMES
from narval.kinds.dataflow.language.rules import TextError
from narval.kinds.dataflow.language.syntax import PlanSource, Statement, Written

MOST_ROUNDS = 12
"""The most rounds of inference over plans that call one another."""


class Compiled(msgspec.Struct, frozen=True):
    """The result of compiling plans: the graphs of whole plans by full name, and all faults.

    `calls` are the plans that each plan calls, `functions` the functions of modules that it names.
    """

    graphs: Mapping[str, DataflowGraph] = {}
    faults: tuple[Fault, ...] = ()
    calls: Mapping[str, frozenset[str]] = {}
    functions: Mapping[str, tuple[Written, ...]] = {}

    def reached(self, name: str) -> dict[str, DataflowGraph] | None:
        """The graphs of a plan (first) and of every plan that it calls; None if one of them is not whole."""
        graphs: dict[str, DataflowGraph] = {}
        left = [name]
        while left:
            following = left.pop()
            if following in graphs:
                continue
            if following not in self.graphs:
                return None
            graphs[following] = self.graphs[following]
            left += sorted(self.calls[following])
        return graphs


def compile_plans(names: Iterable[str], vocabulary: PlanVocabulary) -> Compiled:
    """Compile plans of a vocabulary, and every plan that they call."""
    compilers: dict[str, _PlanCompiler] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name not in compilers:
            compilers[name] = _PlanCompiler(vocabulary.plans[name], vocabulary)
            left += compilers[name].called.values()
    ordered = [compilers[name] for name in sorted(compilers)]
    for _ in range(MOST_ROUNDS):
        if sum(compiler.infer() for compiler in ordered) == 0:
            break
    for compiler in ordered:
        compiler.check()
    for compiler, at, name in _unguarded(ordered):
        compiler.tell(
            compiler.matches[at].statement,
            f"{name} calls itself here in every case, so it never ends; put the call behind a conditional "
            f"operator, such as atleastone",
        )
    return Compiled(
        {compiler.full_name: graph for compiler in ordered if (graph := compiler.graph()) is not None},
        tuple(sorted({fault for compiler in ordered for fault in compiler.faults})),
        {compiler.full_name: frozenset(compiler.called.values()) for compiler in ordered},
        {compiler.full_name: tuple(compiler.functions()) for compiler in ordered},
    )


class _Placed(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class _PlanCompiler:
    """Compiles one plan of a vocabulary."""

    def __init__(self, source: PlanSource, vocabulary: PlanVocabulary) -> None:
        self._source, self._vocabulary = source, vocabulary
        self.full_name = source.full_name
        self.faults: list[Fault] = []
        self.called: dict[int, str] = {}
        self.matches = self._match_all()
        self._wiring = Wiring(source.syntax, self.matches)
        self._parsed = {matched.key: self._parse(matched) for matched in self.matches}
        self._inferred = Inferred({}, {})
        self._conditions: Conditions | None = None

    def tell(self, at: _Placed, message: str) -> None:
        """Record a fault at the place of a written part."""
        self.faults.append(Fault(self._source.path, at.line, at.column, message))

    # --- calls --------------------------------------------------------------------------------------------

    def _match_all(self) -> list[Match]:
        counted: Counter[str] = Counter()
        matches: list[Match] = []
        for at, statement in enumerate(self._source.syntax.statements):
            name = NAMES.get(statement.name.lower(), statement.name)
            counted[name] += 1
            matches.append(self._match(at, f"{name}-{counted[name]}", statement))
        if not matches and not self._source.syntax.partial:
            self.tell(self._source.syntax, "a dataflow needs at least one operator in its BODY")
        return matches

    def _match(self, at: int, key: str, statement: Statement) -> Match:
        operator, problem = self._vocabulary.find(statement, self._source)
        if operator is None:
            if problem:
                self.tell(statement, problem)
            return Match(key, statement)
        if operator.is_plan:
            self.called[at] = operator.name
            by_name = NAMES.get(statement.name.lower()) == "subplan"
            arguments = tuple(flat(statement.arguments[by_name:]))
            statement = msgspec.structs.replace(statement, arguments=arguments)
        try:
            return match(key, statement, operator, self._source.aliases)
        except MismatchError as error:
            matched = loose(key, statement, operator)
            order = checking.right_order(matched, {}, self._source) if matched.operator is not None else ""
            hint = f"write {order}" if order else f"it is {operator.signature}"
            self.tell(statement, f"{statement.name}: {error}; {hint}")
            return Match(key, statement)

    def _parse(self, matched: Match) -> dict[str, Any]:
        """The constants of a call that are texts in a language, parsed."""
        parsed: dict[str, Any] = {}
        if matched.operator is None:
            return parsed
        any_case = has_alias_order(matched.statement, matched.operator, self._source.aliases)
        for port, written in matched.consumed:
            if port is None or written.kind not in ("text", "number"):
                continue
            if port.words and written.text.lower() not in port.words:
                self.tell(written, f"{port.name}: expected {', '.join(port.words)}, found {written}")
            if not port.text:
                continue
            try:
                parsed[port.name] = parse_text(port.text, written.text, any_case=any_case)
            except TextError as error:
                place = written.place(error.at)
                self.faults.append(Fault(self._source.path, *place, f"{port.name}: {error.message}"))
        return parsed

    # --- inference and checks -----------------------------------------------------------------------------

    def infer(self) -> bool:
        """Infer types and attributes from what is known of the called plans; return True on progress."""
        signatures = self._vocabulary.signatures
        for at, name in self.called.items():
            matched = self.matches[at]
            if matched.operator is not None:
                self.matches[at] = msgspec.structs.replace(matched, operator=signatures[name])
        self._wiring = Wiring(self._source.syntax, self.matches)
        self._inferred = infer(self._wiring, self._parsed, self._vocabulary.wrappers)
        before = signatures[self.full_name]
        signatures[self.full_name] = self._inferred.signature(before, self._wiring)
        return signatures[self.full_name] != before

    def check(self) -> None:
        """Record all faults of the plan by itself."""
        wiring, types = self._wiring, self._inferred.types
        infer(wiring, self._parsed, self._vocabulary.wrappers, self.tell)
        ordered = [self.matches[at] for at in wiring.order]
        self._conditions = Conditions(wiring.inputs, ordered, types)
        for check in (
            checking.wrong_names(wiring),
            checking.circle(wiring),
            checking.wrong_types(wiring, types, self._source),
            checking.wrong_attributes(wiring, self._inferred, self._parsed),
            checking.several_producers(wiring, self._conditions),
            () if self._vocabulary.stored else checking.always_failing(wiring, self._parsed),
        ):
            for at, message in check:
                self.tell(at, message)
                if len(self.faults) >= MOST_FAULTS:
                    return
        if self._vocabulary.complete:
            for at, message in checking.unknown_types(wiring, self._vocabulary.types):
                self.tell(at, message)

    def is_guarded(self, at: int) -> bool:
        """True if a call does not fire in every transaction."""
        return self._conditions is not None and self._conditions.is_guarded(self.matches[at].key)

    def functions(self) -> Iterator[Written]:
        """The functions of modules that the plan names."""
        for matched in self.matches:
            by_name = matched.operator is not None and matched.operator.name == "constructfunction"
            for port, written in matched.consumed:
                is_function = port is not None and port.type == FUNCTION
                is_text = written.kind == "text"
                if (by_name and is_text) or (is_function and not self._wiring.is_datum(written.text)):
                    yield written

    def graph(self) -> DataflowGraph | None:
        """The graph; None if the plan has faults, including faults of syntax, or unknown calls."""
        conditions, is_faulty = self._conditions, self.faults or self._source.syntax.partial
        if is_faulty or conditions is None or any(matched.operator is None for matched in self.matches):
            return None
        return assembled(self._source, self._wiring, self._inferred, self._parsed, self.called, conditions)


# --- recursion --------------------------------------------------------------------------------------------


def _unguarded(compilers: Iterable[_PlanCompiler]) -> Iterator[tuple[_PlanCompiler, int, str]]:
    """The calls by which plans call themselves unconditionally, with their plans."""
    calls = {
        compiler.full_name: (
            compiler,
            {at: name for at, name in compiler.called.items() if not compiler.is_guarded(at)},
        )
        for compiler in compilers
    }
    reach = {name: _reached(name, calls) for name in calls}
    for name, (compiler, called) in calls.items():
        for at, following in called.items():
            if name == following or name in reach[following]:
                yield compiler, at, name


def _reached(name: str, calls: Mapping[str, tuple[_PlanCompiler, Mapping[int, str]]]) -> set[str]:
    """The plans that a plan calls unconditionally, directly or not."""
    seen: set[str] = set()
    left = list(calls[name][1].values())
    while left:
        following = left.pop()
        if following not in seen:
            seen.add(following)
            left += calls[following][1].values()
    return seen
