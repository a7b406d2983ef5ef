"""Faults of a proposal that only its home shows: elements that nobody may propose or that existing
definitions would take, and calls that cannot work there.

Such calls are of paths outside the action's reach, and of folders that no element names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Sized
from functools import cached_property
from pathlib import Path

from narval.ask.definitions.checking import HomeAsRead
from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.needs import REFERENCE, Needs
from narval.core.definitions.library import Definition, Library, RunDefinition
from narval.core.definitions.prototype import Prototype
from narval.core.definitions.telling.sentence import listed
from narval.core.elements.element import Element, Tree, identity
from narval.core.elements.names import CONTROLS, SAID, START_PLANS, TARGET
from narval.core.elements.own_elements import GRANT_REQUEST
from narval.core.errors import ActionError, Fault
from narval.core.patterns.pattern import Condition
from narval.core.trust.contents import values_in
from narval.core.trust.flow import CallFlow, InMemory, Literal, Origin, flow_of
from narval.core.trust.needs import written_by
from narval.files.allowed_files import reachable
from narval.files.mcp_clients import TOOL_CALL
from narval.files.memory_file import SHOWN as DECLARED
from narval.files.proposals.folder import MEMORY
from narval.files.trust_file import TRUST_FILE

_NARVALS_OWN = (CONTROLS - {*START_PLANS}) | SAID | {GRANT_REQUEST, TOOL_CALL}
"""The names of elements that narval obeys, or in which narval or a person states something."""

_PATH = re.compile(r"(?:~|/)[^\s{}]*")


class NewElements:
    """The elements of a proposal, as if `data/memory.xml` of the home declared them."""

    def __init__(self, home: HomeAsRead, elements: Sequence[bytes]) -> None:
        self._home = home
        self._elements = [Element(0, xml) for xml in elements]

    def faults(self) -> Iterator[Fault]:
        """The faults of elements that are declared already, and of those that nobody may propose."""
        declared = self._home.snapshot.own.declared or ()
        identities = {identity(Element(0, xml)) for xml in declared} - {None}
        for one in self._elements:
            if one.name in _NARVALS_OWN:
                what = f"{_start_of(one)} is an element that narval obeys, or by which it or a person speaks"
                yield Fault(MEMORY, 1, 1, f"{what}; leave it out")
            elif identity(one) in identities or one.xml in declared:
                what = f"{DECLARED} has {_start_of(one)} already, or another of its name"
                yield Fault(MEMORY, 1, 1, f"{what}; leave it out, or give it another name")

    def effects(self) -> Iterator[str]:
        """Sentences on the existing definitions that would take an element or be started by it, and on the
        values that rules rely on.
        """
        there = [one for one in self._home.loaded.library if isinstance(one, RunDefinition)]
        conditions = {one.full_name: list(self._taken_by(one)) for one in there}
        rules = self._home.snapshot.trust
        for element in self._elements:
            tree, what = Tree(element), _start_of(element)
            if element.name in START_PLANS and (name := element.attributes.get(TARGET, "")) in conditions:
                yield f"It starts {name}, which is there already."
            takers = [
                name for name, fitting in conditions.items() if any(_may_fit(one, tree) for one in fitting)
            ]
            if takers:
                yield f"Its element {what} is for {listed(takers)} too, {there_already(takers)}."
            for name, expression in rules.known.items() if rules is not None else ():
                if values := values_in(tree, expression):
                    new = ", ".join(values)
                    yield f"With its elements $known.{name} of {TRUST_FILE} has {new:.80} too."

    def paths(self) -> Iterator[str]:
        """The attributes of elements that are absolute paths, or lead into a user's home directory."""
        for element in self._elements:
            yield from filter(_PATH.fullmatch, element.attributes.values())

    def _taken_by(self, definition: RunDefinition) -> Iterator[Condition]:
        """The conditions by which runs of a definition take elements of memory."""
        flow = flow_of(definition, self._home.loaded.library)
        inputs = [taken for call in flow.calls for places in call.inputs.values() for taken in places]
        origins: list[Origin] = [*flow.holds, *(taken.origin for taken in inputs)]
        for origin in origins:
            if isinstance(origin, InMemory) and origin.condition is not None:
                yield origin.condition


def there_already(names: Sized) -> str:
    """The words that definitions of these names exist already."""
    return f"which {'is' if len(names) == 1 else 'are'} there already"


def _may_fit(condition: Condition, tree: Tree) -> bool:
    """True if an element may satisfy a condition; for one with variables its name decides."""
    if condition.variables:
        return condition.names is not None and tree.name in condition.names
    return condition.bind().test(tree)


def _start_of(element: Element) -> str:
    """The first tag of an element, cut where it is long."""
    text = element.xml.decode("utf-8", "replace")
    end = text.find(">") + 1
    return text[:end] if 0 < end <= 80 else f"{text[:79]}…"


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
        places = {place[1].partition("/")[0] for value in folders for place in REFERENCE.finditer(value)}
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
