"""narval: a daemon that remembers, notices and acts.

These names are what action modules and embedding programs may use; each is imported when first asked for, so
that a command that needs none of them starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narval.definitions.action.definition import Input as Input
    from narval.definitions.action.definition import Output as Output
    from narval.definitions.action.definition import action as action
    from narval.definitions.dataflow.code import function as function
    from narval.definitions.dataflow.code import operator as operator
    from narval.definitions.dataflow.code import wrapper as wrapper
    from narval.definitions.process.code import date_function as date_function
    from narval.definitions.process.code import join as join
    from narval.definitions.process.code import listener as listener
    from narval.definitions.process.code import node_type as node_type
    from narval.definitions.process.code import predicate as predicate
    from narval.definitions.process.code import string_function as string_function
    from narval.definitions.process.properties import Rubric as Rubric
    from narval.definitions.process.statements import Accept as Accept
    from narval.definitions.process.statements import Discard as Discard
    from narval.definitions.process.statements import Skip as Skip
    from narval.errors import ActionError as ActionError
    from narval.errors import FaultWarning as FaultWarning
    from narval.errors import NarvalError as NarvalError
    from narval.memory.elements.element import Element as Element
    from narval.memory.patterns.pattern import fits as fits
    from narval.runtime.calls.context import Message as Message
    from narval.runtime.calls.context import call as call
    from narval.runtime.calls.context import fetch as fetch
    from narval.runtime.calls.context import now as now
    from narval.runtime.calls.context import service as service
    from narval.runtime.calls.context import sleep as sleep
    from narval.runtime.calls.process_code.token import Delay as Delay
    from narval.runtime.calls.process_code.token import Token as Token
    from narval.runtime.home.outside.services import Service as Service
    from narval.runtime.system.clock import SimulatedClock as SimulatedClock
    from narval.runtime.system.fetch import Fetched as Fetched
    from narval.runtime.system.fetch import FetchError as FetchError
    from narval.surfaces.python import task as task
    from narval.surfaces.python.agent import open as open

__version__ = "0.1.0"

_WHERE = {
    "action": "narval.definitions.action.definition",
    "Input": "narval.definitions.action.definition",
    "Output": "narval.definitions.action.definition",
    "function": "narval.definitions.dataflow.code",
    "operator": "narval.definitions.dataflow.code",
    "wrapper": "narval.definitions.dataflow.code",
    "node_type": "narval.definitions.process.code",
    "predicate": "narval.definitions.process.code",
    "date_function": "narval.definitions.process.code",
    "string_function": "narval.definitions.process.code",
    "join": "narval.definitions.process.code",
    "listener": "narval.definitions.process.code",
    "Rubric": "narval.definitions.process.properties",
    "Accept": "narval.definitions.process.statements",
    "Discard": "narval.definitions.process.statements",
    "Skip": "narval.definitions.process.statements",
    "Delay": "narval.runtime.calls.process_code.token",
    "Token": "narval.runtime.calls.process_code.token",
    "Element": "narval.memory.elements.element",
    "ActionError": "narval.errors",
    "FaultWarning": "narval.errors",
    "NarvalError": "narval.errors",
    "Service": "narval.runtime.home.outside.services",
    "SimulatedClock": "narval.runtime.system.clock",
    "Message": "narval.runtime.calls.context",
    "call": "narval.runtime.calls.context",
    "fetch": "narval.runtime.calls.context",
    "service": "narval.runtime.calls.context",
    "fits": "narval.memory.patterns.pattern",
    "Fetched": "narval.runtime.system.fetch",
    "FetchError": "narval.runtime.system.fetch",
    "now": "narval.runtime.calls.context",
    "sleep": "narval.runtime.calls.context",
    "open": "narval.surfaces.python.agent",
}

__all__ = [
    "Accept",
    "ActionError",
    "Delay",
    "Discard",
    "Element",
    "FetchError",
    "Fetched",
    "Input",
    "Message",
    "NarvalError",
    "Output",
    "Rubric",
    "SimulatedClock",
    "Skip",
    "Token",
    "action",
    "call",
    "date_function",
    "fetch",
    "fits",
    "function",
    "join",
    "listener",
    "node_type",
    "now",
    "open",
    "operator",
    "predicate",
    "sleep",
    "string_function",
    "wrapper",
]


_MODULES = {"task": "narval.surfaces.python.task"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'narval' has no attribute {name!r}")
    return getattr(importlib.import_module(where), name)


def __dir__() -> list[str]:
    return sorted(__all__)
