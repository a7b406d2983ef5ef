"""The work that a type asks of people, if no program does it. Its answers are the states in which the task
ends.

A type may write it in the language of work, as `WORK <work>…</work>`. The people asked, the name and the
answers come from the type, and are inserted into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from narval.core.definitions import parsing
from narval.core.definitions.library import Parsed
from narval.core.elements.element import local_name
from narval.core.elements.titles import NAMING
from narval.core.errors import DefinitionError, Fault
from narval.core.source.text import NEWLINE, Source
from narval.core.source.xml import XmlNode, read_xml
from narval.kinds.task.language.definition import TaskDefinition, outcome_of

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
