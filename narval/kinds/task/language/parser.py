"""The parser of `.task` files: each type and global event is a definition (K70).

The group is the name of the file without its suffix.

A type may ask work of people, if no program does it. Its answers are the states in which the task ends. The
type may write it in the language of work, as `WORK <work>…</work>`. The people asked, the name and the
answers come from the type, and are inserted into it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import PurePath
from typing import NamedTuple

from lxml import etree
from msgspec.structs import replace

from narval.core.definitions import parsing
from narval.core.definitions.library import Definition, Parsed
from narval.core.definitions.reading.xml import Place, Reading
from narval.core.elements.canonical import canonical
from narval.core.elements.element import local_name
from narval.core.elements.titles import NAMING
from narval.core.errors import DefinitionError, Fault
from narval.core.kinds import ASKING
from narval.core.source.text import NEWLINE, Source
from narval.core.source.tokens import Token
from narval.core.source.xml import XmlNode, read_xml
from narval.kinds.task.language.calls import ScriptRules
from narval.kinds.task.language.definition import PREDEFINED, Rule, TaskDefinition, TaskState, outcome_of
from narval.kinds.task.language.faults import ClauseRules, TypeFacts, compensators, complaints, cycles_of
from narval.kinds.task.language.grammar import read
from narval.kinds.task.language.texts_of import definition_text
from narval.kinds.task.language.words import WORK
from narval.kinds.task.language.written import (
    Specification,
    StateTable,
    WrittenRule,
    WrittenState,
    WrittenType,
)

_UNWRITABLE = re.compile("[^\t\n\r\f -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GROUP = re.compile(r"[^\s./]+")


def parse(source: Source, _: XmlNode | None) -> Parsed:
    """The types and global events of a file, and the work that types ask of people."""
    reading = Reading(source, {})
    group = PurePath(source.path).name.removesuffix(".task")
    return _FileReader(reading, group).parsed()


class _FileReader:
    """A reader that makes the definitions of one file."""

    def __init__(self, reading: Reading, group: str) -> None:
        self._reading, self._group = reading, group
        self._names: dict[str, Token] = {}
        self._compensators: Mapping[str, str] = {}

    def parsed(self) -> Parsed:
        """The definitions, and all faults of the file."""
        return self._reading.parsed(lambda *_: self._definitions(), None)  # type: ignore[arg-type]

    def _definitions(self) -> Iterator[Definition | None]:
        source = self._reading.source
        if not _GROUP.fullmatch(self._group):
            message = f"the file's name gives the group {self._group!r:.60}, expected a name without dots"
            self._reading.fault_at((1, 1), f"{message} and blanks; call it NAME.task")
            self._group = re.sub(r"[\s./]+", "-", self._group) or TaskDefinition.kind
        specification, faults = read(source.text, source.place)
        for fault in faults:
            self._reading.fault_at(source.place(fault.at), fault.message)
        if (unwritable := _UNWRITABLE.search(source.text)) is not None:
            message = f"expected text, found the control character U+{ord(unwritable[0]):04X}; remove it"
            self._reading.fault_at(source.place(unwritable.start()), message)
            return
        yield from self._of(specification)

    def _of(self, specification: Specification) -> Iterator[Definition | None]:
        self._compensators = compensators(specification.types, self._group)
        for word, message in cycles_of(specification.types, self._group):
            self._note(word, message)
        for type in specification.types:
            yield from self._type(type)
        for event in (
            *specification.events,
            *(rule for type in specification.types for rule in type.globals),
        ):
            yield self._event(event)

    # --- places and names -------------------------------------------------------------------------------

    def _place(self, word: Token) -> Place:
        return self._reading.source.place(word.at)

    def _note(self, word: Token, message: str) -> None:
        self._reading.fault_at(self._place(word), message)

    def _is_new(self, name: Token) -> bool:
        first = self._names.setdefault(name.text, name)
        self._reading.names.add((TaskDefinition.kind, f"{self._group}.{name.text}"))
        if first is not name:
            line = self._place(first)[0]
            self._note(name, f"expected a new name, found {name.text!r:.60} of line {line} again")
        return first is name

    # --- types ------------------------------------------------------------------------------------------

    def _type(self, type: WrittenType) -> Iterator[Definition | None]:
        first, faults = len(self._reading.references), len(self._reading.faults)
        is_new = self._is_new(type.name)
        states = StateTable(type, self._note)
        scripts = ScriptRules(self._reading, self._group, states)
        routes = {
            name: scripts.checked(script, no_assert="the task is over here, and asserts no state")
            for text, (_, script) in type.routes.items()
            if (name := states.find(text) or text)
        }
        clauses = ClauseRules(self._reading, self._group, type).values(states)
        by = (name for name, of in self._compensators.items() if of == type.name.text)
        made = TaskDefinition(
            group=self._group,
            name=type.name.text,
            **clauses | {"compensated_by": clauses["compensated_by"] or next(by, "")},
            final=states.final,
            states=self._states(states, scripts),
            routes=routes,
        )
        is_compensator = made.name in self._compensators or made.invocation == "compensation"
        for word, message in complaints(TypeFacts(type, states, made, is_compensator)):
            self._note(word, message)
        task = self._whole(made, type.name, first)
        if is_new:
            yield task
            if task.is_interactive and len(self._reading.faults) == faults:
                yield self._work(type, task, states)
            elif WORK in type.given and not task.is_interactive:
                who = (
                    "its TASK CODE does the work" if task.code or task.program else "no person does the work"
                )
                message = f"WORK says what people are asked, and {who}; name USERS or ROLES, and no TASK CODE"
                self._note(type.given[WORK], message)

    # --- states and rules -------------------------------------------------------------------------------

    def _states(self, states: StateTable, scripts: ScriptRules) -> dict[str, TaskState]:
        made = {name: self._state(name, state, states, scripts) for name, state in states.written.items()}
        return made | {name: TaskState(name) for name in PREDEFINED if name not in made}

    def _state(self, name: str, state: WrittenState, states: StateTable, scripts: ScriptRules) -> TaskState:
        leaving = "a state that is left goes where it goes"
        line, column = self._place(state.ref)
        return TaskState(
            name,
            states.number_of(name),
            state.exposed,
            scripts.checked(state.scripts.get("ON ASSERT", ()), name),
            scripts.checked(state.scripts.get("ON LEAVING", ()), no_assert=leaving),
            states.edges[name],
            tuple(self._rule(rule, scripts, name) for rule in state.rules if not rule.is_global),
            line,
            column,
        )

    def _rule(self, rule: WrittenRule, scripts: ScriptRules, at: str) -> Rule:
        line, column = self._place(rule.event)
        return Rule(
            rule.event.text,
            tuple(parameter.text for parameter in rule.parameters),
            rule.mode,
            rule.before_condition,
            rule.condition,
            rule.before_action,
            scripts.checked(rule.action, at),
            line,
            column,
            rule.retries,
        )

    def _event(self, event: WrittenRule) -> TaskDefinition | None:
        first, is_new = len(self._reading.references), self._is_new(event.event)
        rule = self._rule(event, ScriptRules(self._reading, self._group, None), "")
        made = TaskDefinition(
            group=self._group, name=rule.event, period=event.period, weekdays=event.weekdays, rule=rule
        )
        return self._whole(made, event.event, first) if is_new else None

    # --- wholes -----------------------------------------------------------------------------------------

    def _whole(self, made: TaskDefinition, name: Token, first_reference: int) -> TaskDefinition:
        """A definition, completed with its references, digest, XML and place."""
        root = etree.Element(TaskDefinition.kind, group=made.group, name=made.name)
        root.text = f"\n{definition_text(made)}"
        xml = canonical(root)
        return replace(
            made,
            references=tuple(self._reading.references[first_reference:]),
            digest=hashlib.sha256(xml).hexdigest(),
            xml=xml,
            path=self._reading.source.path,
            line=self._place(name)[0],
            column=self._place(name)[1],
        )

    def _work(self, type: WrittenType, task: TaskDefinition, states: StateTable) -> Definition | None:
        """The work of an interactive type."""
        entered = states.after(task.initial)
        names = dict.fromkeys(name for name in (*states.final, *PREDEFINED) if name in entered)
        words: dict[str, str] = {}
        for name in (*names, *(name for name in task.states if name in entered and name not in names)):
            if (other := words.setdefault(outcome_of(name), name)) != name:
                self._note(type.name, f"people could not tell the states {name} and {other}; rename one")
        self._reading.names.add((ASKING, task.full_name))
        written = type.given.get(WORK)
        read = work_of(task, names, None if written is None else self._source_of(written))
        for fault in read.faults:
            if written is not None:
                self._reading.fault_at((fault.line, fault.column), f"WORK: {fault.message}")
            else:
                message = f"people answer with the name of a state: {fault.message}; rename the state"
                self._note(type.name, message)
        return next((replace(work, path=task.path, line=task.line) for work in read.definitions), None)

    def _source_of(self, written: Token) -> Source:
        """The XML in a WORK, with its place in the file."""
        begin = written.text.index("<")
        line, column = self._reading.source.place(written.at + begin)
        return Source.of_text(self._reading.source.path, written.text[begin:], line, column)


# --- the work that a type asks of people ----------------------------------------------------------------

INPUT = "object"
"""The id of the input that is the object."""

_SAYING = [*(f"@{name}" for name in NAMING), "@*[name()!='eid']", "text()"]
_BETTER = [" or ".join(f"{place}[normalize-space()]" for place in _SAYING[:at]) for at in range(len(_SAYING))]
_FIRST = (
    f"$object[not({better or 'false()'})]/{place}" for place, better in zip(_SAYING, _BETTER, strict=True)
)
_OWN = f"({' | '.join(_FIRST)})[normalize-space()][1]"
"""The words that identify an object: its best name, else its first attribute, else its text."""

_TITLE = (
    f"{{name($object)}}{{substring(': ', 1 + 2 * number(not({_OWN})))}}"
    f"{{normalize-space(substring({_OWN}, 1, 80))}}"
)
"""The end of the title of an item: the name of the object, and the words that identify it."""

_ROOT = re.compile(r"<work")
_END = re.compile(r"(/>|</work\s*>)\Z")


def work_of(task: TaskDefinition, ends: Iterable[str], written: Source | None = None) -> Parsed:
    """The work of an interactive type that may end in these states, based on the `written` one, if any."""
    source = written or Source.of_text(task.path, "<work/>")
    answers = tuple(map(outcome_of, ends))
    try:
        root = read_xml(source)
    except DefinitionError as error:
        return Parsed((), faults=error.faults)
    if faults := tuple(_misplaced(source, root, answers)):
        return Parsed((), faults=faults)
    whole, put = _whole(task, answers, source, root)
    read = parsing.parse(whole)
    return read._replace(faults=tuple(_in_place(fault, source, put) for fault in read.faults))


def _misplaced(source: Source, root: XmlNode, answers: tuple[str, ...]) -> Iterator[Fault]:
    """The faults of a WORK that repeats or contradicts its type."""
    for name in ("group", "name"):
        if name in root.attributes:
            message = f"{name}: it has the name of the type; remove this"
            yield source.fault(message, *root.place(name))
    for child in root.children:
        tag = local_name(child.tag)
        if tag == "outcome" and (answer := child.attributes.get("name", "")) not in answers:
            message = f"the task cannot end in {answer!r:.60}; expected {' or '.join(answers)}"
            yield source.fault(f"outcome: {message}", *child.place("name"))
        for who, clause in (("people", "USERS"), ("roles", "ROLES")):
            if tag == "for" and who in child.attributes:
                message = f"for: {who} are said by {clause} of the type; remove this"
                yield source.fault(message, *child.place(who))


class _Put(NamedTuple):
    """A number of characters inserted before a place of the written text."""

    line: int
    column: int
    length: int


def _whole(
    task: TaskDefinition, answers: tuple[str, ...], source: Source, root: XmlNode
) -> tuple[Source, list[_Put]]:
    """The work, completed from the type, and the insertions with their places; lines keep their numbers."""
    has = {local_name(child.tag) or child.tag for child in root.children}
    people = {"people": " ".join(task.users), "roles": " ".join(task.roles)}
    audience = "".join(f' {name}="{escape(words)}"' for name, words in people.items() if words)
    more = "" if "title" in has else f"<title>{task.name} {_TITLE}</title>"
    ids = [child.attributes.get("id") for child in root.children if local_name(child.tag) == "input"]
    more += "" if INPUT in ids else f'<input id="{INPUT}"><match>*</match></input>'
    more += "" if "outcome" in has else "".join(f'<outcome name="{answer}"/>' for answer in answers)
    text = source.text
    named = f' group="{escape(task.group)}" name="{escape(task.name)}"'
    put = [_Put(source.line, source.column + len("<work"), len(named))]
    if "for" in has and audience:
        (asked, *_) = (child for child in root.children if local_name(child.tag) == "for")
        at = _offset(source, asked) + len("<for")
        text = text[:at] + audience + text[at:]
        put.append(_Put(asked.line, asked.column + len("<for"), len(audience)))
    elif audience:
        more += f"<for{audience}/>"
    end = _END.search(text)
    assert end is not None, text
    tail = f">{more}</work>" if end[1] == "/>" else f"{more}{end[1]}"
    text = text[: end.start()] + tail
    text = _ROOT.sub(f"<work{named}", text, count=1)
    return Source.of_text(f"{task.full_name}.xml", text, source.line, source.column), put


def _offset(source: Source, node: XmlNode) -> int:
    """The offset in the text of the start of a node."""
    line = node.line - source.line
    return source.offset(line + 1) + node.column - (source.column if line == 0 else 1)


def _in_place(fault: Fault, source: Source, put: Iterable[_Put]) -> Fault:
    """A fault of the completed work, at its place in the written text."""
    column = fault.column
    for line, at, length in put:
        if fault.line == line and column > at:
            column = max(at, column - length)
    lines = NEWLINE.split(source.text)
    last = fault.line - source.line
    if 0 <= last < len(lines):
        column = min(column, len(lines[last]) + (source.column if last == 0 else 1))
    return Fault(fault.path, fault.line, column, fault.message)
