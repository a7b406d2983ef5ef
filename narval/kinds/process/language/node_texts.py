"""The texts within nodes: guards in Rubric or XPath, joins in JoinLang. Faults point at the exact
character.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from narval.core.definitions.reading.lexer import Locate, SyntaxFault
from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.patterns.pattern import Condition
from narval.kinds.process.language import joinlang, rubric
from narval.kinds.process.language.definition import Guard, MemoryGuard
from narval.kinds.process.language.statements import DelayUntil, Discard, If, Join, Result, Skip, StringValue


class NodeTexts(NamedTuple):
    """The guard and the join of a node, as written and as parsed."""

    guard: Guard | None
    guard_text: str
    join_text: str
    joinlang: Join


class NodeTextReader:
    """A reader of the guards and joins of `node` entries."""

    def __init__(self, reading: Reading, patterns: Patterns) -> None:
        self._reading, self._patterns = reading, patterns

    def texts(self, entry: Entry) -> NodeTexts:
        """The guard and the join of a node."""
        text, join = self._join(entry)
        guard = self._reading.one(entry, "guard")
        if guard is None or not guard.node.text.strip():
            return NodeTexts(None, "", text, join)
        read = self._memory_guard if guard.get("type") == "xpath" else self._rubric
        return NodeTexts(read(guard), guard.node.text.strip(), text, join)

    def _rubric(self, entry: Entry) -> Guard | None:
        if "else" in entry.written:
            message = 'only a guard of type="xpath" has an else; write IF … THEN … ELSE'
            self._reading.fault(entry, message, "else")
        locate = entry.node.text_places()
        read = rubric.parse(entry.node.text, locate)
        self._report("guard", read.faults, locate)
        return read.statement

    def _memory_guard(self, entry: Entry) -> Guard | None:
        pattern = self._patterns.of_text(entry)
        otherwise: Result = Discard()
        if "else" in entry.written:
            text, locate = entry.node.attributes[entry.written["else"]], partial(entry.place, "else")
            read = rubric.parse(text, locate, (Discard, Skip, DelayUntil, StringValue))
            self._report("else", read.faults, locate)
            if isinstance(read.statement, If):
                self._reading.fault(entry, "else: expected Discard, Skip or DELAY UNTIL, found IF", "else")
            elif read.statement is not None:
                otherwise = read.statement
        return None if pattern is None else MemoryGuard(Condition((pattern,)), otherwise)

    def _join(self, entry: Entry) -> tuple[str, Join]:
        """The parameter of a node's join, and its requirements if it is JoinLang."""
        kind, reading = entry.get("joinType", "or"), self._reading
        written = reading.one(entry, "join")
        text = entry.get("joinParam", "") if written is None else written.node.text.strip()
        if written is not None and text and entry.get("joinParam", text) != text:
            reading.fault(written, "joinParam says something else; remove one of the two")
        if kind in ("joinlang", "class") and not text:
            expectation = "require all arcs" if kind == "joinlang" else "NAME"
            reading.fault(entry, f"the join {kind} needs a text; add <join>{expectation}</join>")
        elif kind == "joinlang":
            return text, self._joinlang(entry, written)
        return text, ()

    def _joinlang(self, entry: Entry, written: Entry | None) -> Join:
        text, locate = (
            (entry.node.attributes[entry.written["joinParam"]], partial(entry.place, "joinParam"))
            if written is None
            else (written.node.text, written.node.text_places())
        )
        read = joinlang.parse(text, locate)
        self._report("join", read.faults, locate)
        return read.join

    def _report(self, what: str, faults: Iterable[SyntaxFault], locate: Locate) -> None:
        for fault in faults:
            self._reading.fault_at(locate(fault.at), f"{what}: {fault.message}")
