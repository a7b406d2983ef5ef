"""Requesters: the people known to have caused what an item asks (P30)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from narval.core.definitions.people.directory import Directory
from narval.core.engines.view import View

MOST_ORIGINS = 10_000
"""The elements at most whose origin is looked at; where there are more, it is not known who asked."""


class Requesters(NamedTuple):
    """The people who asked; `unknown` says why that may not be all, or is ""."""

    people: tuple[str, ...]
    unknown: str = ""


def requesters(view: View, run: int, shown: Iterable[int]) -> Requesters:
    """The people who started the top-level run, or added an element that is shown, or one it was made from.

    An origin that is forgotten, or that another agent sent without a name, is not known.
    """
    found = dict.fromkeys(_names(view.people, view.started_by(run)))
    pending, seen, unknown = list(shown), set[int](), ""
    while pending and not unknown:
        eid = pending.pop()
        if eid in seen:
            continue
        seen.add(eid)
        element = view.element(eid)
        origin = element.origin if element is not None else None
        if element is None:
            unknown = f"element {eid}, from which this came, is forgotten"
        elif len(seen) > MOST_ORIGINS:
            unknown = f"this came from more than {MOST_ORIGINS:,} elements"
        elif origin is not None:
            found.update(dict.fromkeys(_names(view.people, origin.by, origin.actor)))
            pending += origin.inputs
            if origin.agent and not origin.by:
                unknown = f"element {eid} was sent by the agent {origin.agent}, which did not say for whom"
    return Requesters(tuple(found), unknown)


def _names(people: Directory, by: str, actor: str = "") -> Iterator[str]:
    """The people that a recorded name can mean: somebody acted for that one, or it may be a login too."""
    if by:
        yield by
        known = None if actor else people.by_login(by)
        if known is not None:
            yield known.name
