"""The work that a type asks of people, if no program does it: the answers are the states in which it ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lxml import etree

from narval.core.definitions.library import Parsed
from narval.core.definitions.parsing import parse
from narval.core.kinds import ASKING
from narval.core.source.text import Source
from narval.kinds.task.language.definition import TaskDefinition, outcome_of

INPUT = "object"
"""The id of the input that is the object."""

PERSON = re.compile(r"[a-z][a-z0-9-]{0,31}")
ROLE = re.compile(r"[a-z][a-z0-9-]{0,63}")


def work_of(task: TaskDefinition, ends: Iterable[str]) -> Parsed:
    """The work of an interactive type that may end in these states."""
    root = etree.Element(ASKING, group=task.group, name=task.name)
    etree.SubElement(root, "title").text = f"{task.name}: {{name(${INPUT})}} {{${INPUT}/@id}}"
    audience = {"people": " ".join(task.users), "roles": " ".join(task.roles)}
    etree.SubElement(root, "for", {name: words for name, words in audience.items() if words})
    etree.SubElement(etree.SubElement(root, "input", id=INPUT), "match").text = "*"
    for state in ends:
        etree.SubElement(root, "outcome", name=outcome_of(state))
    return parse(Source(f"{task.full_name}.xml", etree.tostring(root)))
