"""narval: a daemon that remembers, notices and acts.

These names are what action modules and embedding programs may use; each is imported when first asked for, so
that a command that needs none of them starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narval.definitions.action import Input as Input
    from narval.definitions.action import Output as Output
    from narval.definitions.action import action as action
    from narval.errors import ActionError as ActionError
    from narval.errors import NarvalError as NarvalError
    from narval.memory.element import Element as Element
    from narval.runtime.calling import call as call
    from narval.runtime.calling import sleep as sleep
    from narval.runtime.clock import SimulatedClock as SimulatedClock
    from narval.surfaces.embedded import open as open

__version__ = "0.1.0"

_WHERE = {
    "action": "narval.definitions.action",
    "Input": "narval.definitions.action",
    "Output": "narval.definitions.action",
    "Element": "narval.memory.element",
    "ActionError": "narval.errors",
    "NarvalError": "narval.errors",
    "SimulatedClock": "narval.runtime.clock",
    "call": "narval.runtime.calling",
    "sleep": "narval.runtime.calling",
    "open": "narval.surfaces.embedded",
}

__all__ = [
    "ActionError",
    "Element",
    "Input",
    "NarvalError",
    "Output",
    "SimulatedClock",
    "action",
    "call",
    "open",
    "sleep",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'narval' has no attribute {name!r}")
    return getattr(importlib.import_module(where), name)


def __dir__() -> list[str]:
    return sorted(__all__)
