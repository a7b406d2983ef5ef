"""The names of control elements: `start-plan` and `quit` (N4, N6)."""

from __future__ import annotations

from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import CONTROL

ACTED: MarkScope = ("narval", "start-plan", "acted")
"""The scope that marks the `start-plan` elements that have been executed (N4)."""

START_PLAN, QUIT = "start-plan", "quit"
START_PLANS = (START_PLAN, f"{{{CONTROL}}}{START_PLAN}")
"""The root names of elements that start a run: plain, or in the control namespace (N6)."""

TARGET = "recipe"
"""The attribute of such an element that names the definition to start."""

CONTROLS = frozenset({*START_PLANS, QUIT, f"{{{CONTROL}}}{QUIT}"})
"""The root names of all control elements."""
