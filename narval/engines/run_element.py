"""The parts that the elements of runs of all kinds share (N2)."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from narval.engines.run_state import RunState


def add_caller(root: etree._Element, state: RunState, attribute: str) -> None:
    """Name the run that called this one in an attribute, and the step of it."""
    if state.caller is not None:
        if state.caller.agent:
            root.set("parent_agent", state.caller.agent)
        root.set(attribute, str(state.caller.run or state.caller.asked_by))
        root.set("parent_step", state.caller.step)


def finished(root: etree._Element, context: Iterable[int]) -> bytes:
    """The element with the run's context by reference, as bytes."""
    elements = etree.SubElement(root, "elements")
    for eid in context:
        etree.SubElement(elements, "element", eid=str(eid))
    return etree.tostring(root, encoding="utf-8")
