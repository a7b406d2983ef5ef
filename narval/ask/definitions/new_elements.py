"""New elements beside a home: those that nobody may propose, and their effects on existing definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Sized

from narval.ask.definitions.checking import HomeAsRead
from narval.core.definitions.library import RunDefinition
from narval.core.definitions.telling.words import listed
from narval.core.elements.control_elements import CONTROLS, START_PLANS, TARGET
from narval.core.elements.element import Element, Tree, identity
from narval.core.elements.grant_request import GRANT_REQUEST
from narval.core.elements.reserved import SAID
from narval.core.errors import Fault
from narval.core.patterns.pattern import Condition
from narval.core.trust.flow import InMemory, Origin, flow_of
from narval.core.trust.known_values import values_in
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
