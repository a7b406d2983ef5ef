"""How each kind runs. A new kind is a module here and a row in this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from narval.definitions.library import Definition, Library
from narval.engines import plan
from narval.engines.engine import Engine

ENGINES: Mapping[str, Engine] = MappingProxyType({"recipe": plan})
"""The kind of a definition, and the engine that runs it."""

RUN_KINDS: Mapping[str, Engine] = MappingProxyType({engine.kind: engine for engine in ENGINES.values()})
"""The kind of a run, and its engine."""


def runnable(library: Library, name: str) -> Definition | None:
    """The definition of that name that can be run; an action or transform of the same name is another thing."""
    found = (library.get(kind, name) for kind in ENGINES)
    return next((each for each in found if each is not None), None)
