"""Calls of a definition that cannot work in a home: of paths outside the action's reach, and of folders that
no element names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.needs import WRITTEN, Needs
from narval.core.definitions.library import Definition, Library
from narval.core.definitions.prototype import Prototype
from narval.core.errors import ActionError, Fault
from narval.core.trust.flow import CallFlow, Literal, flow_of
from narval.core.trust.needs import written_by
from narval.files.reachable import reachable


class OutOfReach:
    """The faults of such calls in a home with all that is loaded there; elements with the names `there` are
    declared, or come from outside.
    """

    def __init__(self, home: Path, library: Library, there: Iterable[str]) -> None:
        self._home, self._library, self._there = home, library, frozenset(there)

    def faults(self, definition: Definition, file: str) -> Iterator[Fault]:
        """The faults of the calls of a runnable definition in a file. An element that no file of the home
        provides is only a warning, since somebody may have added it to memory.
        """
        for call in flow_of(definition, self._library).calls:
            action = self._library.get(Action.kind, call.target) if call.kind == Action.kind else None
            if isinstance(action, Action) and action.needs is not None and not call.agent:
                for text in self._outside(action.needs, call):
                    yield Fault(file, call.line, 1, f"step {call.part}: {text}")
                for text in self._unnamed(action.needs, call):
                    yield Fault(file, call.line, 1, f"step {call.part}: {text}", warning=True)

    def _outside(self, needs: Needs, call: CallFlow) -> Iterator[str]:
        """The written paths outside the home, and outside the folder that their element names."""
        if named := needs.files_named_by:
            for literal in (written.literal for written in call.arguments):
                if literal.name in named:
                    yield from self._beyond(literal)

    def _beyond(self, literal: Literal) -> Iterator[str]:
        attributes = {"path": "", **dict(literal.attributes)}
        if attributes["path"] is None or attributes.get("folder", "") is None:
            return  # known only at the call
        try:
            reachable({name: text or "" for name, text in attributes.items()}, self._home)
        except ActionError as error:
            named = f': <{literal.name} folder="…">' if str(error).endswith("name the folder") else ""
            yield f"{error}{named}"

    def _unnamed(self, needs: Needs, call: CallFlow) -> Iterator[str]:
        """The inputs that say which folder a call reaches, and that nothing in the home provides."""
        folders = [] if needs.hosts else needs.folders  # whoever has an account at a server names it
        places = {place[1].partition("/")[0] for value in folders for place in WRITTEN.finditer(value)}
        for slot in call.prototype.inputs:
            names = slot.condition.names or frozenset()
            is_near = any(not taken.fallback for taken in call.inputs.get(slot.id, ()))
            if not slot.optional and not is_near and names & places and not names & self._known:
                name = min(names)
                what = f"nothing in the home gives the {name} that it takes"
                yield f"{what}: add <{name} …/> to data/memory.xml"

    @cached_property
    def _known(self) -> frozenset[str]:
        """The names of the elements that may appear in memory, as far as files say it."""
        names = set(self._there)
        for definition in self._library:
            names.update(written_by(definition))
            prototype = getattr(definition, "prototype", None)
            for output in prototype.outputs if isinstance(prototype, Prototype) else ():
                names.update(output.condition.names or ())
        return frozenset(names)
