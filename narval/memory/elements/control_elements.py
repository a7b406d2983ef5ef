"""Names of the elements that are obeyed: start-plan and quit (N4, N6)."""

from __future__ import annotations

from narval.memory.elements.changes import MarkScope
from narval.memory.elements.element import CONTROL

ACTED: MarkScope = ("narval", "start-plan", "acted")
"""Marks the `start-plan` elements that have been acted upon (N4)."""


START_PLAN, QUIT = "start-plan", "quit"


START_PLANS = (START_PLAN, f"{{{CONTROL}}}{START_PLAN}")
"""The root names of what starts plans: plain, or in the control namespace (N6)."""


CONTROLS = frozenset({*START_PLANS, QUIT, f"{{{CONTROL}}}{QUIT}"})
"""The root names of what is obeyed."""
