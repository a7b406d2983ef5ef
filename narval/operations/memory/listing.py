"""Operations that look at memory: the elements that match a pattern, and how many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from narval.errors import PatternError
from narval.memory.elements.element import Element
from narval.memory.memory import Memory
from narval.memory.patterns.pattern import Bound, condition
from narval.operations import json_forms
from narval.operations.lookup import find_run
from narval.operations.paging import eids_of, gathered
from narval.operations.registry import operation
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.system.time_slice import TimeSlice


@operation("read")
async def memory(
    daemon: Daemon,
    xpath: str | None = None,
    context: int | None = None,
    current: bool = False,
    limit: int | None = None,
    before: int | None = None,
) -> list[dict[str, Any]]:
    """The elements that match a pattern (N9): of all memory, or of the context of a run.

    `current` leaves out those that have been replaced. All, oldest first; with `limit` the newest so many,
    newest first; with `before` only those of lower eids.
    """

    def form(element: Element | None) -> dict[str, Any] | None:
        return json_forms.element(daemon.agent, element) if element is not None else None

    matching = _matching(daemon, xpath, context, current, limit, before)
    found = await gathered(map(form, matching), limit)
    await daemon.rounds.recorded()  # what changed meanwhile is recorded as well
    return found


@operation("read")
async def count(
    daemon: Daemon, xpath: str | None = None, context: int | None = None, current: bool = False
) -> dict[str, Any]:
    """The number of elements that match a pattern."""
    time_slice, count = TimeSlice(), 0
    for element in _matching(daemon, xpath, context, current):
        await time_slice.yield_if_due()
        count += element is not None
    return {"count": count}


def elements(
    daemon: Daemon,
    xpath: str | None = None,
    *,
    context: int | None = None,
    current: bool = False,
    limit: int | None = None,
    before: int | None = None,
) -> list[Element]:
    """The elements that match a pattern (N9); `current` leaves out those that have been replaced.

    All, oldest first; with `limit` the newest so many, newest first; with `before` only those of lower eids.
    """
    matching = _matching(daemon, xpath, context, current, limit, before)
    return list(islice((element for element in matching if element is not None), limit))


def _matching(
    daemon: Daemon,
    xpath: str | None,
    context: int | None,
    current: bool,
    limit: int | None = None,
    before: int | None = None,
) -> Iterator[Element | None]:
    """Each candidate: the element if it matches, else None. Memory may change between two of them."""
    memory = daemon.agent.memory
    bound = _bound(xpath) if xpath is not None else None
    if context is not None:
        held = list(memory.contexts.of(find_run(daemon, context).eid))
        eids = eids_of(limit, before, lambda: held, partial(_from_below, held))
    else:
        newest = partial(memory.index.newest, bound)
        eids = eids_of(limit, before, partial(_candidates, memory, bound), newest)
    for eid in eids:
        element = memory.element(eid)
        fits = element is not None and (bound is None or bound.test(memory.tree(element)))
        yield element if fits and not (current and eid in memory.outdated) else None


def _candidates(memory: Memory, bound: Bound | None) -> list[int]:
    candidates = memory.index.candidates(bound) if bound is not None else None
    return list(memory if candidates is None else candidates)


def _from_below(ascending: list[int], below: int | None) -> Iterator[int]:
    position = len(ascending) if below is None else bisect_left(ascending, below)
    return (ascending[at] for at in range(position - 1, -1, -1))


def _bound(xpath: str) -> Bound:
    """A pattern to look for in memory. Raises PatternError for one with variables: they are a recipe's."""
    found = condition(xpath)
    if found.variables:
        raise PatternError(xpath, f"${min(found.variables)} is known only in a recipe")
    return found.bind({})
