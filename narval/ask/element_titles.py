"""The titles of elements of memory, as all surfaces show them: no row has only a number."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from narval.agent.agent import AgentState
from narval.core.elements.element import Element, text_within
from narval.core.elements.own_elements import read_error
from narval.core.elements.titles import NAMING, title_of
from narval.core.source.secrets import hide_secrets, without_secrets

BRIEF = 2_000
"""The largest element in bytes whose text serves as its title if its attributes do not."""


TITLED = 60
"""The most elements of a run that are listed with their titles, the newest."""


def titles(agent: AgentState, eids: Collection[int]) -> dict[str, str]:
    """The titles of the newest `TITLED` of these elements, by eid, the newest first."""
    return {str(eid): title(agent, eid) for eid in islice(reversed(list(eids)), TITLED)}


def title(agent: AgentState, eid: int) -> str:
    """The name of an element and its subject, for people; "" for a missing one, and for a run."""
    element = agent.memory.element(eid) if not agent.memory.is_run(eid) else None
    return " · ".join(filter(None, (element.name, title_in(element)))) if element is not None else ""


def _text_of(element: Element) -> str:
    """The text of an element, with spaces between its child elements; of an error only its message."""
    if element.name == "error":
        return read_error(element)[1]
    tree = element.tree()
    for node in tree.iter():
        node.tail = node.tail or " "
    return text_within(tree)


def title_in(element: Element) -> str:
    """The words that distinguish an element from others of its name, for people; "" if it has none."""
    attributes = {
        name: value for name, value in element.attributes.items() if name != "eid" and name[0] != "{"
    }
    if len(element.xml) <= BRIEF and not any(attributes.get(name) for name in NAMING):
        text = without_secrets(_text_of(element)).strip()
        attributes |= {"title": text} if text else {}
    return title_of(hide_secrets(attributes))
