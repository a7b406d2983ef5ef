"""How each kind runs. A new kind is a module here and a row in this table.

An engine is imported when the first definition of its kind is to be run: workers, which see only events,
need none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from narval.definitions.library import Definition, Library
    from narval.engines import automaton, plan, process
    from narval.engines.engine import Engine

    _checked: tuple[Engine, ...] = (plan, automaton, process)


class Engines(Mapping[str, "Engine"]):
    """Engines by a word for what they run: the module of each is imported when it is asked for."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._imported: dict[str, Engine] = {}

    def __getitem__(self, word: str) -> Engine:
        engine = self._imported.get(word)
        if engine is None:
            engine = cast("Engine", import_module(f"narval.engines.{self._modules[word]}"))
            self._imported[word] = engine
        return engine

    def __contains__(self, word: object) -> bool:
        return word in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


ENGINES = Engines({"recipe": "plan", "automaton": "automaton", "process": "process"})
"""The kind of a definition, and the engine that runs it."""

RUN_KINDS = Engines({"plan": "plan", "automaton": "automaton", "process": "process"})
"""The kind of a run, and its engine."""


def import_engines(library: Library) -> None:
    """Have the engines of all that a library has to be run, before the first run waits for one."""
    for kind in ENGINES:
        if library.of(kind):
            ENGINES[kind]


def runnable(library: Library, name: str) -> Definition | None:
    """The definition of that name that can be run; an action of the same name is another thing."""
    found = (library.get(kind, name) for kind in ENGINES)
    return next((each for each in found if each is not None), None)
