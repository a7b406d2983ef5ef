"""The targets of names in calls, and the elements that calls are given."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.calls.context import ModuleCode, Target, Where
from narval.calls.record import Finish
from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.transform.definition import Transform
from narval.core.elements.element import Element
from narval.core.engines.commands import Call
from narval.core.engines.events import Failure
from narval.files.agents.collections import folder_of
from narval.files.found_files import ModuleText
from narval.files.modules import Lease, key_of
from narval.files.shipped import importable, is_shipped

_TRANSFORMS = "narval.calls.workers.transforms"
"""The module that applies stylesheets; only workers import it."""


class LoadedModules(NamedTuple):
    """The code of a library's actions: functions and classes by name, and the text of each module by group.

    `leases` keep the modules importable.
    """

    functions: Mapping[str, Callable[..., Any]]
    texts: Mapping[str, ModuleText]
    leases: frozenset[Lease] = frozenset()


class PreparedCall(NamedTuple):
    """A call prepared by its kind: its target, and the fields of `CallContext` that differ.

    `finish` makes the engine's outcome from the call's outcome.
    """

    target: Target
    payload: Mapping[str, Any] | None
    timeout: float | None
    finish: Finish | None = None


class CallTargets:
    """The targets of one agent's calls, prepared once for each library.

    `stubs` replace actions in tests and dry runs; `home` is the folder with the modules.
    """

    def __init__(self, agent: AgentState, home: Path | None) -> None:
        self._agent, self.home = agent, home
        self.stubs: dict[str, Callable[..., Any]] = {}
        self._latest = LoadedModules({}, {})
        self._modules: WeakKeyDictionary[Library, LoadedModules] = WeakKeyDictionary()
        self._targets: WeakKeyDictionary[Library, dict[tuple[str, str], Target]] = WeakKeyDictionary()
        self._asked_last: Library | None = None
        self._targets_asked_last: dict[tuple[str, str], Target] = {}

    def use(self, library: Library, modules: LoadedModules) -> None:
        """Use these modules for a library from now on; older ones are kept while runs need them."""
        self._latest = self._modules[library] = modules
        self._forget()

    def stub(self, name: str, function: Callable[..., Any]) -> None:
        """Replace an action by a function, in tests and dry runs."""
        self.stubs[name] = function
        self._forget()

    def find(self, run: Run, call: Call) -> Target | None:
        """The target of a call, in the run's active version; None if there is none."""
        library = run.library if run.library is not None else self._agent.library
        if library is not self._asked_last:
            self._asked_last, self._targets_asked_last = library, self._targets.setdefault(library, {})
        target = self._targets_asked_last.get((call.kind, call.name))
        if target is None:
            if call.kind == "program":
                return Target(action=call.name, where="program")
            definition = self._agent.lookup.definition(run, call.kind, call.name)
            if not isinstance(definition, Action | Transform):
                return None
            target = self._target(run, definition)
            self._targets_asked_last[call.kind, call.name] = target
        return target

    def outlives(self, run: Run, call: Call) -> bool:
        """True if a call may have continued without a daemon: on a cluster, which is searched (G69)."""
        target = self.find(run, call)
        return target is not None and target.where == "cluster"

    def function_of(self, run: Run, definition: Any) -> Any:
        """The function or class of code that modules declare, in the run's active version; or None."""
        return self._modules_of(run, definition).functions.get(key_of(definition))

    def functions_for(self, run: Run) -> Mapping[str, Callable[..., Any]]:
        """The functions and classes of modules by name, in the active version of a run's definition."""
        return self._modules_of(run, run.definition).functions

    def code_of(self, run: Run, definition: Definition) -> ModuleCode | None:
        """The module that declares some code, in the run's active version, for a worker; or None."""
        sources = importable(definition.group, self._modules_of(run, definition).texts)
        parts = tuple((name, self._shown(source.path), source.data) for name, source in sources)
        name = next((name for name, path, _ in parts if path == self.path_of(definition)), None)
        return ModuleCode(name, parts, _digest(parts)) if name is not None else None

    def path_of(self, definition: Definition) -> str:
        """The path of the file from which a definition was read."""
        return self._shown(definition.path)

    def inputs(self, call: Call, target: Target) -> dict[str, Element | list[Element] | None] | Failure:
        """The elements that a call is given, by input id; a Failure if one is gone."""
        inputs_of_call: dict[str, Element | list[Element] | None] = {
            input: [] if input in target.lists else None for input in target.inputs
        }
        for slot, eids in call.inputs:
            elements = []
            for eid in eids:
                element = self._agent.memory.element(eid)
                if element is None:
                    return Failure("forgotten", f"element {eid} was forgotten", final=True)
                elements.append(element)
            # A step may have narrowed a list to one element: the function still gets a list.
            inputs_of_call[slot] = elements if slot in call.listed or slot in target.lists else elements[0]
        return inputs_of_call

    def _shown(self, path: str) -> str:
        return path if self.home is None or is_shipped(path) else str(self.home / path)

    def _modules_of(self, run: Run, definition: Definition) -> LoadedModules:
        """The modules for a version of an action, or of other code."""
        library = run.library
        if library is not None and library.get(definition.kind, definition.full_name) is definition:
            return self._modules.get(library, self._latest)
        return self._latest

    def _target(self, run: Run, definition: Action | Transform) -> Target:
        where: Where = "transform"
        function, code, function_name, runner = None, None, "", _TRANSFORMS
        if isinstance(definition, Action):
            function, function_name, runner = self.function_of(run, definition), definition.function, ""
            where = definition.where
            if where == "inline" and folder_of(definition.path):
                where = "thread"  # all agents share the loop: only the home's own modules may occupy it (G13)
            if definition.tool is not None:
                function = definition.tool
            code = self.code_of(run, definition) if where in ("worker", "cluster") else None
        stub = self.stubs.get(definition.full_name)
        if stub is not None:
            function, where = stub, place_of_stub(stub)
        inputs = definition.prototype.inputs
        return Target(
            action=definition.full_name,
            where=where,
            function=function,
            module_path=self.path_of(definition),
            function_name=function_name,
            source=definition.xml if isinstance(definition, Transform) else None,
            code=code,
            runner=runner,
            inputs=tuple(input.id for input in inputs),
            lists=frozenset(input.id for input in inputs if input.list),
            resources=definition.resources if isinstance(definition, Action) else (),
            needs=definition.needs if isinstance(definition, Action) else None,
            limits=stub is None and where == "worker" and not self._is_owners(definition),
            pure=stub is None and isinstance(definition, Action) and definition.pure,
        )

    def _is_owners(self, definition: Definition) -> bool:
        """True for unconfined code: in the home's own modules, or without declared needs."""
        is_declared = isinstance(definition, Action) and definition.needs is not None and not definition.pure
        return not is_declared or not (folder_of(definition.path) or is_shipped(definition.path))

    def _forget(self) -> None:
        """Drop the prepared targets, because names now have other targets."""
        self._targets.clear()
        self._asked_last = None


def _digest(parts: Iterable[tuple[str, str, bytes]]) -> str:
    """The digest of a version of a module and everything that it may import."""
    texts = (f"{name} {hashlib.sha256(data).hexdigest()}" for name, _, data in parts)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def place_of_stub(function: Callable[..., Any]) -> Where:
    """The place where a stub runs: in the loop, inline or as a coroutine."""
    if inspect.isasyncgenfunction(function):
        return "source"
    return "async" if inspect.iscoroutinefunction(function) else "inline"
