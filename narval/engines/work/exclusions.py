"""The people whom rules exclude (P29): whoever asked (P30), and who answered at another step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml import etree

from narval.engines.view import View
from narval.engines.work.state import WorkState


def requesters(view: View, run: int, shown: Iterable[int]) -> tuple[str, ...]:
    """The people who started the top-level run, or added an element that is shown, or one it was made from.

    What is forgotten, or came without a name, tells nothing.
    """
    starter = view.started_by(run)
    found = {starter: None} if starter else {}
    pending, seen = list(shown), set[int]()
    while pending:
        eid = pending.pop()
        element = view.element(eid)
        if eid in seen or element is None or element.origin is None:
            continue
        seen.add(eid)
        if element.origin.by:
            found[element.origin.by] = None
        pending += element.origin.inputs
    return tuple(found)


def answerers(view: View, state: WorkState, step: str) -> Iterator[str]:
    """The people who answered the items of a step, in the runs that called this one, directly or not."""
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
