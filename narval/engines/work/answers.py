"""The element of an answer (P13), and who gave those of other items of the same run (P29)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from lxml import etree

from narval.engines.view import View
from narval.engines.work.changes import Values
from narval.engines.work.state import Vote, WorkState
from narval.memory.elements.canonical import canonical


def answer_element(
    name: str,
    item: int,
    at: float,
    outcome: str,
    by: str = "",
    way: str = "",
    fields: Values | None = None,
    votes: Iterable[Vote] = (),
) -> bytes:
    """The answer to an item; each value is the text of an element (P43). Raises ElementError."""
    root = etree.Element(name, outcome=outcome, by=by, at=_shown(at))
    if way:
        root.set("way", way)
    root.set("work", str(item))
    if not by:
        root.set("default", "yes")
    _add(root, fields or {})
    for vote in votes:
        node = etree.SubElement(root, "vote", outcome=vote.outcome, by=vote.by, at=_shown(vote.at))
        if vote.way:
            node.set("way", vote.way)
        _add(node, vote.fields)
    return canonical(root)


def _add(root: etree._Element, fields: Values) -> None:
    for name, values in fields.items():
        for value in values:
            etree.SubElement(root, name).text = value


def _shown(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def answerers(view: View, state: WorkState, step: str) -> Iterator[str]:
    """Those who answered the items of a step, in the runs that called this one, directly or not."""
    caller = state.caller
    while caller is not None:
        for eid in view.context(caller.run):
            element = view.element(eid)
            made_by = element.origin.run if element is not None and element.origin is not None else 0
            asked = view.caller(made_by) if made_by else None
            if element is not None and asked is not None and asked.step == step:
                attributes = element.attributes
                if attributes.get("work") == str(made_by):
                    yield from _people_in(element.tree())
        caller = view.caller(caller.run)


def _people_in(answer: etree._Element) -> Iterator[str]:
    yield from str(answer.get("by") or "").split()
    yield from (str(vote.get("by")) for vote in answer.iterchildren("vote"))
