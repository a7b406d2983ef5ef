"""Lookup: versions of definitions for a run (N31), the directory of people (P15), rules and grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from narval.agent.run import Run
from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.people.directory import Directory
from narval.core.engines.commands import FLOW, PROGRAM, Call, Command
from narval.core.engines.events import Produced, Returned
from narval.core.kinds import NESTS_CURRENT
from narval.core.memory import labels
from narval.core.memory.labels import ANY_MODEL, MODEL, SECRET
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Condition
from narval.core.trust.contents import KnownValues
from narval.core.trust.grants import Grant
from narval.core.trust.rules import Rules, RuleUses
from narval.files.settings import CurrentSettings

BRINGING_IN = frozenset({PROGRAM, FLOW})
"""The kinds of calls that bring in something from outside; some actions do, too."""


class Lookup:
    """Definitions by kind and name, in the version of a run's library or the current one."""

    def __init__(self, library: Library, home: CurrentSettings) -> None:
        self._home = home
        self.rules: Rules | None = None
        """The rules of what may go where; None in a home without rules."""
        self.rule_uses = RuleUses()
        """The number of calls that each rule has judged."""
        self.known = KnownValues()
        """The values of `[known]`, in this agent's memory."""
        self.use(library, Directory())

    def use(
        self,
        library: Library,
        people: Directory,
        rules: Rules | None = None,
        grants: Mapping[str, Grant] | None = None,
    ) -> None:
        """Make these definitions, people and rules the current ones. Calls of definitions are checked against
        what was granted, unless `grants` is None.
        """
        self.library, self.people, self.grants = library, people, grants
        if rules != self.rules:
            self.known.clear()
        self.rules = rules
        secrets = rules.secrets if rules is not None else ()
        self.secrets = tuple([(f"{SECRET}{name}", Condition((pattern,)).bind()) for name, pattern in secrets])
        """The labels of the owner's secrets, each with the condition that its elements satisfy."""
        actions = [of for of in library.of(Action.kind).values() if isinstance(of, Action)]
        self.bringing_in = {of.full_name for of in actions if of.model or of.label}
        """The actions that bring in something from outside."""
        self.destroying = {of.full_name for of in actions if of.tool is not None and of.tool.destroys}
        """The tools whose servers declare them destructive."""
        self.made_once = {of.full_name for of in actions if of.tool is not None and not of.tool.is_repeatable}
        """The tools whose servers do not declare that they may be called twice."""

    def asks_first(self, tool: str) -> bool:
        """True for a destructive tool, unless its calls were approved for ever."""
        return tool in self.destroying and tool not in self._home.now.approved_tools

    def as_recorded(self, command: Command) -> Command:
        """A command as recorded. A call of a tool that may not be called twice is not made again after a
        restart, unless its step says how a restart treats it.
        """
        if type(command) is not Call or command.on_restart or command.kind != Action.kind:
            return command
        if command.name not in self.made_once or command.name in self._home.now.idempotent_tools:
            return command
        return replace(command, on_restart="error")

    def labels_of(self, run: Run, call: Call, event: Returned | Produced, memory: Memory) -> Iterable[str]:
        """The labels that a call brings in: those of its action, its program, the language model that it
        asked (unless trusted), or those met by a session of a dataflow.
        """
        if call.kind == PROGRAM:
            return (labels.PROGRAM,)
        if call.kind == FLOW:
            stated: Any = (event.value or {}).get("labels", ()) if isinstance(event, Returned) else ()
            return tuple(stated)
        action = self.definition(run, call.kind, call.name) if call.kind == Action.kind else None
        if not isinstance(action, Action):
            return ()
        if not action.model:
            return (action.label,) if action.label else ()
        by_model = {action.label} if action.label else set()
        if action.model:
            models = dict(call.inputs).get(action.model, ())
            named = (element for element in map(memory.element, models) if element is not None)
            answered = {"_".join(element.attributes.get("model", "").split()) or "*" for element in named}
            answered.difference_update(self._home.now.trusted_models)
            by_model |= {f"{MODEL}{name}" for name in answered} if models else {ANY_MODEL}
        return by_model

    def definition(self, run: Run | None, kind: str, name: str) -> Any:
        """The version that a run uses: that of its library, else the current one; or None.

        If runs of a kind nest the current version (section 9), it may be named without its group.
        """
        if kind in NESTS_CURRENT:
            return self._nested(run, kind, name)
        if run is not None and run.library is not None:
            definition = run.library.by_kind_and_name.get((kind, name))
            if definition is not None:
                return definition
        return self.library.get(kind, name)

    def _nested(self, run: Run | None, kind: str, name: str) -> Any:
        """The definition that a name can mean, if there is exactly one."""
        nests = run is not None and run.engine.definition_kind == kind
        own = run.library if run is not None and not nests else None
        group = run.definition.group if run is not None and nests else ""
        for library in (own, self.library):
            called = library.called(kind, name, group) if library is not None else ()
            if len(called) == 1:
                return called[0]
        return None

    def library_for(self, definition: Definition, parent: Run | None) -> Library:
        """The library whose versions a new run uses: that of its caller, unless it is nested."""
        if parent is None or parent.library is None:
            return self.library
        nests = definition.kind in NESTS_CURRENT and parent.engine.definition_kind == definition.kind
        return self.library if nests else parent.library

    def listeners(self, run: Run | None) -> Mapping[str, int]:
        """The listeners to every run, in the versions that this one uses: the bits of events by name."""
        library = run.library if run is not None else None
        return (library or self.library).listeners
