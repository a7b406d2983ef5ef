"""The work that a type asks of people, if no program does it: the answers are the states in which it ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lxml import etree

from narval.definitions.task.definition import TaskDefinition
from narval.definitions.work.definition import ACTS, WorkDefinition
from narval.definitions.work.parser import parse
from narval.source.text import Source
from narval.source.xml import read_xml

INPUT = "object"
"""The id of the input that is the object."""

PERSON = re.compile(r"[a-z][a-z0-9-]{0,31}")
ROLE = re.compile(r"[a-z][a-z0-9-]{0,63}")
_WORD = re.compile(r"[a-z][a-z0-9-]*")
_TAKEN = frozenset((*ACTS, "default"))
_LONGEST = 64


def outcome_of(state: str) -> str:
    """The word by which people answer that the task is to end in a state."""
    word = state.lower().replace("_", "-")
    if not _WORD.fullmatch(word) or word in _TAKEN:
        word = f"state-{word}"
    return word[:_LONGEST]


def work_of(task: TaskDefinition, ends: Iterable[str]) -> WorkDefinition:
    """The work of an interactive type that may end in these states. Raises DefinitionError."""
    root = etree.Element("work", group=task.group, name=task.name)
    etree.SubElement(root, "title").text = f"{task.name}: {{name(${INPUT})}} {{${INPUT}/@id}}"
    audience = {"people": " ".join(task.users), "roles": " ".join(task.roles)}
    etree.SubElement(root, "for", {name: words for name, words in audience.items() if words})
    etree.SubElement(etree.SubElement(root, "input", id=INPUT), "match").text = "*"
    for state in ends:
        etree.SubElement(root, "outcome", name=outcome_of(state))
    source = Source(task.path, etree.tostring(root), line=task.line)
    work = parse(source, read_xml(source)).checked()[0]
    assert isinstance(work, WorkDefinition)
    return work
