"""Conditions as tests write them, and a plan whose one transition waits for some."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from narval.core.definitions.action.definition import Action
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition


def condition(*patterns: str, **attributes: str) -> str:
    """A `condition`; `as_` is its `as`."""
    texts = "".join(f" {name.rstrip('_')}={quoteattr(value)}" for name, value in attributes.items())
    matches = "".join(f"<match>{escape(pattern)}</match>" for pattern in patterns)
    return f"<condition{texts}>{matches}</condition>"


def waiting(*conditions: str, more: str = "", z: Action | None = None) -> tuple[Dialogue, int]:
    """A plan whose step `a` is done and whose transition `t` to the step `z` has these conditions."""
    text = recipe("g.r", step("a"), step("z"), transition("t", "a", "z", inside="".join(conditions)), more)
    said = Dialogue(text, action("m.a"), z or action("m.z"))
    run = said.start("g.r")
    said.returned("a")
    return said, run


def took(said: Dialogue, run: int, transition: str = "t") -> tuple[tuple[int, ...], ...] | None:
    """The elements that each condition of a transition took; None if it has not fired."""
    state = said.states[run].transition(transition)
    count = len(said.definitions[run].transitions[transition].conditions)
    return tuple(state.taken_by(at) for at in range(count)) if state.state == "fired" else None


def values(said: Dialogue) -> list[list[dict[str, list[int]]]]:
    """What the variables stand for in the conditions of each watch."""
    return [[_eids(bound) for bound in watch.conditions] for _, watch in said.watches.values()]


def _eids(bound: Any) -> dict[str, list[int]]:
    return {name: [element.eid for element in elements] for name, elements in bound.variables}
