"""The names of control elements: `start-plan` and `quit`, `task-object` (K21)."""

from __future__ import annotations

from narval.core.elements.changes import MarkScope
from narval.core.elements.element import CONTROL

ACTED: MarkScope = ("narval", "start-plan", "acted")
"""The scope that marks executed `start-plan` and `task-object` elements."""

SENT = "sent"
"""The second field of the scopes that mark what was sent to other agents."""


def sent_to(receiver: str) -> MarkScope:
    """The scope that marks what was sent to an agent, or was part of what was sent."""
    return "narval", SENT, receiver


def is_sending(scope: MarkScope) -> bool:
    """True if a scope marks what was sent to an agent."""
    return scope[1] == SENT and scope[0] == "narval"


START_PLAN, QUIT = "start-plan", "quit"
START_PLANS = (START_PLAN, f"{{{CONTROL}}}{START_PLAN}")
"""The root names of elements that start a run: plain, or in the control namespace."""

TARGET = "recipe"
"""The attribute of a start-plan that names the definition to start."""

TASK_OBJECT = f"{{{CONTROL}}}task-object"
"""The root name of elements that put the object within them to a task."""

TASK = "type"
"""The attribute of a task-object that names the task."""

STARTING = (*START_PLANS, TASK_OBJECT)
"""The root names of elements that start a run, and wait for its definition if needed."""

CONTROLS = frozenset({*STARTING, QUIT, f"{{{CONTROL}}}{QUIT}"})
"""The root names of all control elements."""
