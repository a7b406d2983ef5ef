"""Names of elements with a meaning: those that control narval, such as `start-plan` and `quit` (K21), and
those that only narval makes, of runs and of definitions (N2).

A pattern such as `plan[@state='failed']` can rely on the latter: nothing else can add one.
"""

from __future__ import annotations

import re

from narval.core.elements.changes import MarkScope
from narval.core.elements.element import CONTROL, Element, local_name
from narval.core.errors import ElementError

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

RUNS = frozenset(
    {"plan", "plan-undo", "process", "automaton", "work", "task", "task-server", "task-case", "dataflow"}
)
"""The elements of runs."""

DEFINITIONS = frozenset({"recipe", "cookbook", "action", "transform", "module", "process-definition"})
"""The elements of definitions."""

SAID = frozenset({"task-object", "signal", "error", "failure", "outdated", "acknowledged", "decision"})
"""The elements by which narval reports something, or a person does through it."""

SETTLING = SAID | frozenset(
    {"start", "prompt"}
    | {"rule", "ack-template", "mailbox", "outbox", "identity", "notify", "feed", "folder", "calendar"}
    | {"service", "model", "webhook", "command", "memory", "counter"}
)
"""The elements by which narval reports something, and by which people configure a home."""


def is_reserved(name: str) -> bool:
    """True for the name of an element that narval obeys, such as `start-plan` and `quit`, or that only narval
    makes: those of runs and of definitions. With a namespace the name is `{namespace}local`.
    """
    return name in CONTROLS or local_name(name) in RUNS | DEFINITIONS


def has_meaning(name: str) -> bool:
    """True for a reserved name, and for one by which narval reports something or people configure a home,
    such as `error` and `mailbox`: text from a stranger must not become such an element.
    """
    return is_reserved(name) or name in SETTLING


_PERHAPS = re.compile(rf"<(?:[\w.-]+:)?(?:{'|'.join(RUNS | DEFINITIONS)})[\s/>]".encode())


def check_name(xml: bytes, line: int = 1, column: int = 1) -> bytes:
    """The bytes of an element from outside. Raises ElementError (`reserved`) if its name is narval's own."""
    if _PERHAPS.match(xml) is None:
        return xml
    name = local_name(Element(0, xml).name)
    if name in RUNS:
        why = f"<{name}> is what narval calls a run; give the element another name"
    elif name in DEFINITIONS:
        why = f"<{name}> is what narval calls a definition: put it in a file of recipes/ or modules/"
    else:
        return xml
    raise ElementError("reserved", why, line, column)
