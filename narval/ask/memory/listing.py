"""Operations that read memory: the elements that match a pattern, and their number; a page that needs no
index; the names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Any

from msgspec import Struct

from narval.agent.agent import AgentState
from narval.ask import json_forms
from narval.ask.lookup import find_run
from narval.ask.paging import eids_of, gathered, moment_from
from narval.ask.registry import operation
from narval.core.elements.element import Element
from narval.core.errors import PatternError, RequestError
from narval.core.index.element_index import TRIED_FIRST
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, Condition, condition
from narval.core.trust.origins import secrets_of
from narval.daemon.daemon import Daemon
from narval.system.long_work import TimeSlice

LOOK = 5000
"""The most elements that a request for a page of memory tries by default."""


@operation("read")
async def memory(
    daemon: Daemon,
    xpath: str | None = None,
    context: int | None = None,
    current: bool = False,
    limit: int | None = None,
    before: int | None = None,
    since: str | None = None,
    definition: str | None = None,
) -> list[dict[str, Any]]:
    """The elements that match a pattern (N9), in all of memory or in the context of a run.

    `current` leaves out replaced ones, `since` those added before that moment (ISO 8601, without an offset in
    the zone of the home), `definition` those that none of its runs made. Without `limit`, all, oldest first;
    with it the newest, newest first; with `before` only those of lower eids.
    """

    def form(element: Element | None) -> dict[str, Any] | None:
        return json_forms.element(daemon.agent, element) if element is not None else None

    query = Wanted.of(daemon, xpath, current, since, definition)
    page = await gathered(map(form, _matching(daemon, query, context, limit, before)), limit)
    await daemon.rounds.recorded()  # changes made during the search are recorded as well
    return page


@operation("read")
async def count(
    daemon: Daemon,
    xpath: str | None = None,
    context: int | None = None,
    current: bool = False,
    since: str | None = None,
    definition: str | None = None,
    among: list[str] | None = None,
    secrets: list[str] | None = None,
) -> dict[str, Any]:
    """The number of elements that match a pattern, of those that `memory` returns; with `among`, only of
    those that also match one of these patterns, and with `secrets`, of those that contain no other secret
    than these.
    """
    query = Wanted.of(daemon, xpath, current, since, definition, among, secrets)
    time_slice, count = TimeSlice(), 0
    if query == ANY and context is None:
        return {"count": len(daemon.agent.memory)}
    for element in _matching(daemon, query, context):
        await time_slice.yield_if_due()
        count += element is not None
    return {"count": count}


async def available(daemon: Daemon, condition: Condition, name: str) -> int:
    """The number of elements that satisfy a condition without variables, are current, and that no run of a
    definition of this name has used.
    """
    memory, time_slice, number = daemon.agent.memory, TimeSlice(), 0
    for element in _matching(daemon, Wanted(condition.bind(), True, None, None), None):
        await time_slice.yield_if_due()
        if element is not None and memory.is_available(element.eid, None):
            number += all(scope[0] != name for scope, _ in memory.used_by(element.eid))
    return number


@operation("read")
async def elements(
    daemon: Daemon,
    xpath: str | None = None,
    context: int | None = None,
    current: bool = False,
    limit: int | None = 50,
    before: int | None = None,
    since: str | None = None,
    definition: str | None = None,
    look: int = LOOK,
    among: list[str] | None = None,
    secrets: list[str] | None = None,
) -> dict[str, Any]:
    """A page of what `memory` returns, newest first, at a cost that does not grow with memory.

    It makes no index, but uses an existing one, and tries at most `look` elements: `tried` is their number,
    `older` the `before` of the next request, None if nothing is left. With `since`, a request ends at the
    first older element. With `among`, only those that also match one of these patterns, and with `secrets`,
    those that contain no other secret than these.
    """
    if look < 1:
        raise RequestError(f"expected look to be 1 or more, got {look}")
    agent, query = daemon.agent, Wanted.of(daemon, xpath, current, since, definition, among, secrets)
    page, tried, last, older = list[dict[str, Any]](), 0, 0, None
    time_slice = TimeSlice()
    for eid in _eids(daemon, query.bound, context, look if limit is None else limit, before):
        if tried == look or len(page) == limit:
            older = last
            break
        await time_slice.yield_if_due()
        element = agent.memory.element(eid)
        if element is not None and query.is_past(element):
            break
        tried, last = tried + 1, eid
        if element is not None and query.fits(agent, element):
            page.append(json_forms.element(agent, element))
    await daemon.rounds.recorded()  # changes made during the search are recorded as well
    return {"elements": page, "tried": tried, "older": older}


@operation("read")
async def facets(daemon: Daemon, limit: int | None = None) -> list[dict[str, Any]]:
    """The names of the elements and runs in memory, each with its count, the most frequent first; with
    `limit` at most that many names (M22).
    """
    counts = list(daemon.agent.memory.index.counts())
    most = nsmallest(len(counts) if limit is None else limit, counts, key=lambda row: (-row[1], row[0]))
    return [{"name": name, "count": count} for name, count in most]


def matching(
    daemon: Daemon,
    xpath: str | None = None,
    *,
    context: int | None = None,
    current: bool = False,
    limit: int | None = None,
    before: int | None = None,
    since: str | None = None,
    definition: str | None = None,
) -> list[Element]:
    """The elements that match a pattern, as `memory` returns them.

    Without `limit`, all, oldest first; with it the newest, newest first; with `before` only those of lower
    eids.
    """
    query = Wanted.of(daemon, xpath, current, since, definition)
    matches = _matching(daemon, query, context, limit, before)
    return list(islice((element for element in matches if element is not None), limit))


class Wanted(Struct, frozen=True):
    """The criteria for an element: a pattern, that it is current, the moment from which on it was added, the
    definition whose runs made it, further patterns of which it must match one, and the only secrets that it
    may contain.
    """

    bound: Bound | None
    current: bool
    since: float | None
    definition: str | None
    among: tuple[Bound, ...] | None = None
    secrets: frozenset[str] | None = None

    @classmethod
    def of(
        cls,
        daemon: Daemon,
        xpath: str | None,
        current: bool,
        since: str | None,
        definition: str | None,
        among: list[str] | None = None,
        secrets: list[str] | None = None,
    ) -> Wanted:
        """The criteria that these arguments express. Raises PatternError and RequestError."""
        bound = _bound(xpath) if xpath is not None else None
        others = None if among is None else tuple(map(_bound, among))
        permitted = None if secrets is None else frozenset(secrets)
        start = moment_from(since, daemon.agent.clockwork.zone)
        return cls(bound, current, start, definition, others, permitted)

    def fits(self, agent: AgentState, element: Element) -> bool:
        """True if an element meets the criteria."""
        if self.is_past(element) or (self.current and element.eid in agent.memory.outdated):
            return False
        if self.definition is not None:
            maker = agent.runs.get(element.origin.run) if element.origin is not None else None
            if maker is None or maker.name != self.definition:
                return False
        if self.secrets is not None and secrets_of(agent.memory.labels, element.eid) - self.secrets:
            return False
        if self.among is not None:
            tree = agent.memory.tree(element)
            if not any(bound.test(tree) for bound in self.among):
                return False
        return self.bound is None or self.bound.test(agent.memory.tree(element))

    def is_past(self, element: Element) -> bool:
        """True if it was added before `since`."""
        return self.since is not None and element.added < self.since


ANY = Wanted(None, False, None, None)
"""The criteria that every element meets."""


def _matching(
    daemon: Daemon, query: Wanted, context: int | None, limit: int | None = None, before: int | None = None
) -> Iterator[Element | None]:
    """Each candidate: the element if it is wanted, else None. Memory may change between two of them."""
    agent, index = daemon.agent, daemon.agent.memory.index
    if context is None and limit is not None:
        for tried, eid in enumerate(_eids(daemon, query.bound, None, limit, before)):
            if tried == TRIED_FIRST:
                break
            yield _fitting(agent, query, eid)
            before = eid
        else:
            return
    if context is None:
        for _ in index.make(query.bound):
            yield None
    for eid in _eids(daemon, query.bound, context, limit, before):
        yield _fitting(agent, query, eid)


def _fitting(agent: AgentState, query: Wanted, eid: int) -> Element | None:
    element = agent.memory.element(eid)
    return element if element is not None and query.fits(agent, element) else None


def _eids(
    daemon: Daemon,
    bound: Bound | None,
    context: int | None,
    limit: int | None,
    before: int | None,
) -> Iterator[int]:
    """The eids of the candidates, in the order of the listing; with a limit no index is made for them."""
    memory = daemon.agent.memory
    if context is not None:
        held = list(memory.contexts.of(find_run(daemon, context).eid))
        return iter(eids_of(limit, before, lambda: held, partial(_from_below, held)))
    newest = partial(memory.index.newest, bound, make=False)
    return iter(eids_of(limit, before, partial(_candidates, memory, bound), newest))


def _candidates(memory: Memory, bound: Bound | None) -> Iterable[int]:
    candidates = memory.index.oldest(bound)
    return memory if candidates is None else candidates


def _from_below(ascending: list[int], below: int | None) -> Iterator[int]:
    position = len(ascending) if below is None else bisect_left(ascending, below)
    return (ascending[at] for at in range(position - 1, -1, -1))


def _bound(xpath: str) -> Bound:
    """A pattern to search memory for. Raises PatternError for one with variables: only recipes have them."""
    bound = condition(xpath)
    if bound.variables:
        raise PatternError(xpath, f"${min(bound.variables)} is known only in a recipe")
    return bound.bind({})
