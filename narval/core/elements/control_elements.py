"""The names of control elements: `start-plan` and `quit`, `task-object` (K21)."""

from __future__ import annotations

from narval.core.elements.changes import MarkScope
from narval.core.elements.element import CONTROL

ACTED: MarkScope = ("narval", "start-plan", "acted")
"""The scope that marks the `start-plan` and `task-object` elements that have been executed."""

SENT = "sent"
"""The place of the scopes that mark what was sent to other agents."""


def sent_to(receiver: str) -> MarkScope:
    """The scope that marks what was sent to an agent, or was in what was sent."""
    return "narval", SENT, receiver


def is_sending(scope: MarkScope) -> bool:
    """True if a scope marks what was sent to an agent."""
    return scope[1] == SENT and scope[0] == "narval"


START_PLAN, QUIT = "start-plan", "quit"
START_PLANS = (START_PLAN, f"{{{CONTROL}}}{START_PLAN}")
"""The root names of elements that start a run: plain, or in the control namespace."""

TARGET = "recipe"
"""The attribute of such an element that names the definition to start."""

TASK_OBJECT = f"{{{CONTROL}}}task-object"
"""The root name of elements that put the object within them to a task."""

TASK = "type"
"""The attribute of such an element that names the task."""

STARTING = (*START_PLANS, TASK_OBJECT)
"""The root names of elements that begin a run, and wait for its definition if need be."""

CONTROLS = frozenset({*STARTING, QUIT, f"{{{CONTROL}}}{QUIT}"})
"""The root names of all control elements."""
