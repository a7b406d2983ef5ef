"""Addressing: the agents to which the elements of a call of kind `send` go (G27)."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.elements.element import Element, Tree
from narval.core.engines.commands import Call
from narval.core.errors import ActionError
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import compile_pattern


def addressed(memory: Memory, call: Call) -> Iterator[tuple[str, Element]]:
    """Each element with the name of each agent that it goes to, oldest first. Raises ActionError."""
    select = str((call.payload or {}).get("select", ""))
    for eid in sorted(eid for _, eids in call.inputs for eid in eids):
        element = memory.element(eid)
        if element is None:
            raise ActionError(f"element {eid} was forgotten", "forgotten", final=True)
        for name in [_selected(select, element)] if select else call.name.split():
            yield name, element


def _selected(select: str, element: Element) -> str:
    expression, tree = compile_pattern(f"string({select})"), Tree(element)
    found = "" if expression.outgrown_by(tree, None) else str(tree.context.xpath(expression.text)).strip()
    if not found:
        why = f"to-select gives no name of an agent of element {element.eid} ({element.name})"
        raise ActionError(why, "no-receiver", final=True)
    return found
