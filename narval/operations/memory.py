"""Operations on memory: add elements, look at those that match, count them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from msgspec import structs

from narval.errors import PatternError, RequestError
from narval.memory.elements.element import Element, Origin
from narval.memory.memory import Memory
from narval.memory.patterns.pattern import Bound, condition
from narval.operations import json_forms
from narval.operations.asker import PROGRAM, Asker
from narval.operations.documents import admitted, raise_if_over_limit, raise_if_refused
from narval.operations.lookup import command, files_of, find_run
from narval.operations.paging import eids_of, gathered
from narval.operations.registry import operation
from narval.runtime.agent.declared import LIBRARY, outdate_elements, replace_element
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.system.time_slice import TimeSlice


@operation("write")
async def add(
    daemon: Daemon, elements: list[bytes], replace: int | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Add elements: of each document the root, or each child of a root `memory`.

    With `replace` the one element given is added in place of that element, which is outdated; where
    `data/memory.xml` declares the old one, the new one is declared (N4).
    """
    schemas, origin = files_of(daemon).schemas, asker.origin()
    found = await admitted(schemas, elements)
    if replace is not None and len(found) != 1:
        raise RequestError(f"one element replaces another: expected one, got {len(found)}")

    def work(turn: Turn) -> list[int]:
        raise_if_over_limit(turn, found)
        if turn.surroundings.schemas is not schemas:
            raise_if_refused(turn, found)
        if replace is not None:
            if _outdatable(daemon, replace).eid in turn.agent.memory.outdated:
                raise RequestError(
                    f"element {replace} was replaced before: `narval why {replace}` tells by what"
                )
            made = structs.replace(origin or Origin(), inputs=(replace,))
            return [replace_element(turn, replace, found[0], made)]
        return [turn.add(element, origin) for element in found]

    return {"eids": await daemon.host.submit(work)}


@operation("write")
async def outdate(
    daemon: Daemon, eids: list[int], reason: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Let elements count no more: no input or condition gets them (N18), and `--current` leaves them out.

    An element `outdated` tells of it, with the reason. Those that count no more already are left as they are.
    """

    def work(turn: Turn) -> dict[str, Any]:
        outdated = turn.agent.memory.outdated
        found = [_outdatable(daemon, eid).eid for eid in dict.fromkeys(eids)]
        fresh = tuple([eid for eid in found if eid not in outdated])
        note = outdate_elements(turn, fresh, reason, asker.origin()) if fresh else None
        return {"eids": list(fresh), "note": note}

    return dict(await daemon.host.submit(work))


def _outdatable(daemon: Daemon, eid: int) -> Element:
    """The element of that number, which may be outdated by people. Raises RequestError."""
    memory = daemon.agent.memory
    element = memory.element(eid)
    if element is None:
        raise RequestError(f"there is no element {eid}; `{command(daemon, 'memory')}` lists those there are")
    if memory.is_run(eid):
        raise RequestError(f"{eid} is a run, not an element of its own; `narval cancel {eid}` ends it")
    if memory.declared.get(eid, "").startswith(f"{LIBRARY}:"):
        raise RequestError(
            f"element {eid} ({element.name}) tells what a file of the home says: alter the file"
        )
    if eid in memory.reserved:
        raise RequestError(f"a call under way is replacing element {eid}; ask again when it has ended")
    return element


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
