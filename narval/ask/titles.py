"""The titles of elements and the places of errors, as all surfaces show them.

No row has only a number. The place of an error is the file and line of the action or of the part of a
definition where it arose.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import islice, takewhile
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.core.definitions.library import RunDefinition
from narval.core.elements.element import Element, parse, text_within
from narval.core.elements.own_elements import FAILURE, read_error
from narval.core.elements.titles import NAMING, title_of
from narval.core.memory.lineage import current
from narval.core.source.secrets import hide_secrets, without_secrets

BRIEF = 2_000
"""The largest element in bytes whose text serves as its title if its attributes do not."""

TITLED = 60
"""The most elements of a run that are listed with their titles, the newest."""


def titles(agent: AgentState, eids: Collection[int]) -> dict[str, str]:
    """The titles of the newest `TITLED` of these elements, by eid, the newest first."""
    return {str(eid): title(agent, eid) for eid in islice(reversed(list(eids)), TITLED)}


def title(agent: AgentState, eid: int) -> str:
    """The name of an element and its subject, for people; "" for a missing one, and for a run."""
    element = agent.memory.element(eid) if not agent.memory.is_run(eid) else None
    return " · ".join(filter(None, (element.name, title_in(element)))) if element is not None else ""


def title_now(agent: AgentState, eid: int) -> str:
    """The title of the newest version of an element."""
    return title(agent, current(agent.memory, eid) or eid)


def _text_of(element: Element) -> str:
    """The text of an element, with spaces between its child elements; of an error only its message."""
    if element.name == "error":
        return read_error(element)[1]
    tree = element.tree()
    for node in tree.iter():
        node.tail = node.tail or " "
    return text_within(tree)


def title_in(element: Element) -> str:
    """The words that distinguish an element from others of its name, for people; "" if it has none."""
    attributes = {
        name: value for name, value in element.attributes.items() if name != "eid" and name[0] != "{"
    }
    if len(element.xml) <= BRIEF and not any(attributes.get(name) for name in NAMING):
        text = without_secrets(_text_of(element)).strip()
        attributes |= {"title": text} if text else {}
    return title_of(hide_secrets(attributes))


_TRACED = re.compile(r"(\S.*:\d+) (?:in [\w<>]+: |[\w-]+\.[\w.-]+(?:: it gave |$))")
"""A line with a place in the `detail` of an error, as `conversion.failure` writes it. For an action that
raised, the place is on the last such line before any indented one; the other form is for invalid results.
"""


def place_of(agent: AgentState, error: Element) -> str:
    """The place in the files of a home where an error arose, as `modules/mail.py:12`; "" if it is unknown.

    It is the line that raised the error, else that of the step with the error.
    """
    root = parse(error.xml)
    if error.name == FAILURE:
        of = agent.memory.element(int(root.get("error", "0"))) if root.get("error", "0").isdecimal() else None
        return place_of(agent, of) if of is not None and of.name != FAILURE else ""
    if (origin := error.origin) is None:
        path, line = root.get("path", ""), root.get("line", "")
        return f"{path}:{line}" if path and line else ""
    lines = (root.findtext("detail") or "").splitlines()
    if traced := [line[1] for line in takewhile(bool, map(_TRACED.match, lines)) if line]:
        return str(traced[-1])
    run = agent.runs.get(origin.run)
    return _part_of(agent, run, read_error(error)[2] or origin.step) if run is not None else ""


def _part_of(agent: AgentState, run: Run, part: str) -> str:
    """The place of a part of the definition of a run; "" if its file has changed since."""
    current: Any = agent.library.get(run.engine.definition_kind, run.name)
    definition: RunDefinition | None = run.definition or current
    if definition is None or definition.digest != run.digest or not definition.path:
        return ""
    return f"{definition.path}:{definition.line_of(part)}"
