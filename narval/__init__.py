"""narval: a daemon that remembers, notices and acts.

These names are what action modules and embedding programs may use; each is imported when first asked for, so
that a command that needs none of them starts at once.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narval.calls.context import Message as Message
    from narval.calls.context import call as call
    from narval.calls.context import fetch as fetch
    from narval.calls.context import now as now
    from narval.calls.context import service as service
    from narval.calls.context import sleep as sleep
    from narval.core.definitions.action.definition import Input as Input
    from narval.core.definitions.action.definition import Needs as Needs
    from narval.core.definitions.action.definition import Output as Output
    from narval.core.definitions.action.definition import action as action
    from narval.core.elements.element import Element as Element
    from narval.core.errors import ActionError as ActionError
    from narval.core.errors import FaultWarning as FaultWarning
    from narval.core.errors import NarvalError as NarvalError
    from narval.core.patterns.pattern import fits as fits
    from narval.files.outside.services import Service as Service
    from narval.kinds.dataflow.language.code import function as function
    from narval.kinds.dataflow.language.code import operator as operator
    from narval.kinds.dataflow.language.code import wrapper as wrapper
    from narval.kinds.dataflow.python import FlowEvent as FlowEvent
    from narval.kinds.dataflow.python import run_dataflow as run_dataflow
    from narval.kinds.process.calls.token import Delay as Delay
    from narval.kinds.process.calls.token import Token as Token
    from narval.kinds.process.language.code import date_function as date_function
    from narval.kinds.process.language.code import join as join
    from narval.kinds.process.language.code import listener as listener
    from narval.kinds.process.language.code import node_type as node_type
    from narval.kinds.process.language.code import predicate as predicate
    from narval.kinds.process.language.code import string_function as string_function
    from narval.kinds.process.language.properties import Rubric as Rubric
    from narval.kinds.process.language.statements import Accept as Accept
    from narval.kinds.process.language.statements import Discard as Discard
    from narval.kinds.process.language.statements import Skip as Skip
    from narval.surfaces.python import task as task
    from narval.surfaces.python.agent import open as open
    from narval.system.clock import SimulatedClock as SimulatedClock
    from narval.system.fetch import Fetched as Fetched
    from narval.system.fetch import FetchError as FetchError

__version__ = "0.1.0"

_WHERE = {
    "action": "narval.core.definitions.action.definition",
    "Input": "narval.core.definitions.action.definition",
    "Needs": "narval.core.definitions.action.definition",
    "Output": "narval.core.definitions.action.definition",
    "function": "narval.kinds.dataflow.language.code",
    "operator": "narval.kinds.dataflow.language.code",
    "wrapper": "narval.kinds.dataflow.language.code",
    "run_dataflow": "narval.kinds.dataflow.python",
    "FlowEvent": "narval.kinds.dataflow.python",
    "node_type": "narval.kinds.process.language.code",
    "predicate": "narval.kinds.process.language.code",
    "date_function": "narval.kinds.process.language.code",
    "string_function": "narval.kinds.process.language.code",
    "join": "narval.kinds.process.language.code",
    "listener": "narval.kinds.process.language.code",
    "Rubric": "narval.kinds.process.language.properties",
    "Accept": "narval.kinds.process.language.statements",
    "Discard": "narval.kinds.process.language.statements",
    "Skip": "narval.kinds.process.language.statements",
    "Delay": "narval.kinds.process.calls.token",
    "Token": "narval.kinds.process.calls.token",
    "Element": "narval.core.elements.element",
    "ActionError": "narval.core.errors",
    "FaultWarning": "narval.core.errors",
    "NarvalError": "narval.core.errors",
    "Service": "narval.files.outside.services",
    "SimulatedClock": "narval.system.clock",
    "Message": "narval.calls.context",
    "call": "narval.calls.context",
    "fetch": "narval.calls.context",
    "service": "narval.calls.context",
    "fits": "narval.core.patterns.pattern",
    "Fetched": "narval.system.fetch",
    "FetchError": "narval.system.fetch",
    "now": "narval.calls.context",
    "sleep": "narval.calls.context",
    "open": "narval.surfaces.python.agent",
}

__all__ = [
    "Accept",
    "ActionError",
    "Delay",
    "Discard",
    "Element",
    "FaultWarning",
    "FetchError",
    "Fetched",
    "Input",
    "Message",
    "NarvalError",
    "Needs",
    "Output",
    "Rubric",
    "Service",
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
    "service",
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
    if name == "open" and where not in sys.modules:
        from narval.system.startup_gc import FirstTime

        with FirstTime().suspended():  # it imports all that is at work in a home
            importlib.import_module(where)
    return getattr(importlib.import_module(where), name)


def __dir__() -> list[str]:
    return sorted(__all__)
