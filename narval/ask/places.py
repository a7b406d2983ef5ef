"""The place of an error: file and line of the action or the part of a definition where it arose."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.core.definitions.library import RunDefinition
from narval.core.elements.element import Element, parse
from narval.core.elements.own_elements import FAILURE, read_error

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
