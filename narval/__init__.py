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
    from narval.definitions.code import date_function as date_function
    from narval.definitions.code import join as join
    from narval.definitions.code import listener as listener
    from narval.definitions.code import node_type as node_type
    from narval.definitions.code import predicate as predicate
    from narval.definitions.code import string_function as string_function
    from narval.definitions.statements import Accept as Accept
    from narval.definitions.statements import Discard as Discard
    from narval.definitions.statements import Skip as Skip
    from narval.errors import ActionError as ActionError
    from narval.errors import NarvalError as NarvalError
    from narval.memory.element import Element as Element
    from narval.runtime.calling import call as call
    from narval.runtime.calling import sleep as sleep
    from narval.runtime.clock import SimulatedClock as SimulatedClock
    from narval.runtime.tokens import Delay as Delay
    from narval.runtime.tokens import Token as Token
    from narval.surfaces.embedded import open as open

__version__ = "0.1.0"

_WHERE = {
    "action": "narval.definitions.action",
    "Input": "narval.definitions.action",
    "Output": "narval.definitions.action",
    "node_type": "narval.definitions.code",
    "predicate": "narval.definitions.code",
    "date_function": "narval.definitions.code",
    "string_function": "narval.definitions.code",
    "join": "narval.definitions.code",
    "listener": "narval.definitions.code",
    "Accept": "narval.definitions.statements",
    "Discard": "narval.definitions.statements",
    "Skip": "narval.definitions.statements",
    "Delay": "narval.runtime.tokens",
    "Token": "narval.runtime.tokens",
    "Element": "narval.memory.element",
    "ActionError": "narval.errors",
    "NarvalError": "narval.errors",
    "SimulatedClock": "narval.runtime.clock",
    "call": "narval.runtime.calling",
    "sleep": "narval.runtime.calling",
    "open": "narval.surfaces.embedded",
}

__all__ = [
    "Accept",
    "ActionError",
    "Delay",
    "Discard",
    "Element",
    "Input",
    "NarvalError",
    "Output",
    "SimulatedClock",
    "Skip",
    "Token",
    "action",
    "call",
    "date_function",
    "join",
    "listener",
    "node_type",
    "open",
    "predicate",
    "sleep",
    "string_function",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'narval' has no attribute {name!r}")
    return getattr(importlib.import_module(where), name)


def __dir__() -> list[str]:
    return sorted(__all__)
