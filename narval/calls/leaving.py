"""Parts of calls that go to other agents, and those that leave the home, as calls that rules judge (G27).

A call of kind `send` names its receivers, or selects them from the elements. A call of a definition at
another agent names that agent. What stays in the home is not judged: elements keep their labels there.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from narval.core.agent_name import AT
from narval.core.definitions.action.definition import Action
from narval.core.elements.element import Element, Tree
from narval.core.engines.commands import SEND, Call
from narval.core.errors import ActionError
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import compile_pattern
from narval.core.trust.paths import SlotPath
from narval.core.trust.selection import path_selected


def addressed(memory: Memory, call: Call) -> Iterator[tuple[str, Element]]:
    """Each element, oldest first, with the name of each agent that receives it. Raises ActionError."""
    select = _select(call)
    for eid in sorted(eid for _, eids in call.inputs for eid in eids):
        element = memory.element(eid)
        if element is None:
            raise ActionError(f"element {eid} was forgotten", "forgotten", final=True)
        for name in [_selected(select, element)] if select else call.name.split():
            yield name, element


def leaving(memory: Memory, call: Call) -> list[Call]:
    """The parts of a call that go to agents of other homes, one for each `agent`; none if all stays in the
    home, or nothing can be sent.
    """
    if call.kind != SEND:
        return [call] if AT in call.agent else []
    going: dict[str, list[int]] = {}
    try:
        for name, element in addressed(memory, call):
            if AT in name:
                going.setdefault(name, []).append(element.eid)
    except ActionError:
        return []
    slot = next((slot for slot, _ in call.inputs), "")
    return [replace(call, agent=name, inputs=((slot, tuple(eids)),)) for name, eids in going.items()]


def says_receiver(call: Call) -> tuple[SlotPath, ...] | None:
    """The parts of what leaves the home that determine the receiving agent: none if the author names it; None
    if any part may, as in code that sends something itself.
    """
    if call.kind == Action.kind:
        return None
    select = _select(call)
    path = path_selected(select) if select else None
    if select and path is None:
        return None
    return tuple(SlotPath(slot, path) for slot, _ in call.inputs if path is not None)


def shown_call(call: Call) -> str:
    """A description of what leaves the home: send to shop@office, bills.pay of shop@office."""
    return f"send to {call.agent}" if call.kind == SEND else f"{call.name} of {call.agent}"


def _select(call: Call) -> str:
    return str((call.payload or {}).get("select", "")) if call.kind == SEND else ""


def _selected(select: str, element: Element) -> str:
    expression, tree = compile_pattern(f"string({select})"), Tree(element)
    text = "" if expression.outgrown_by(tree, None) else str(tree.context.xpath(expression.text)).strip()
    if not text:
        why = f"to-select gives no name of an agent of element {element.eid} ({element.name})"
        raise ActionError(why, "no-receiver", final=True)
    return text
