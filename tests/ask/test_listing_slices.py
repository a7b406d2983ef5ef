"""Listings that take long give way to others, and hang together while runs begin and end (`TimeSlice`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

import narval
from narval.agent.run_table import RunTable
from narval.ask.operations import invoke
from narval.core.elements.changes import Forgotten
from narval.core.index import element_index
from narval.core.memory.memory import Memory
from narval.core.memory.packed import ElementTable
from narval.core.patterns.pattern import condition
from narval.surfaces.python.agent import Agent
from narval.system import long_work
from tests.ask.test_paging import RECIPES

AT_ONCE = 6
"""Entries that fit into a slice, where each takes a fifth of one."""


class Looks:
    """What is looked at between two breaks; at each break something may be done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.longest, self._at_break = 0, 0, list[Callable[[], Awaitable[object]]]()
        ticks = count(step=1)
        clock = SimpleNamespace(monotonic=lambda: next(ticks) * long_work.SLICE / (AT_ONCE - 1))
        monkeypatch.setattr(long_work, "time", clock)
        monkeypatch.setattr(long_work, "asyncio", SimpleNamespace(sleep=self._pause))
        for owner, name in ((Memory, "element"), (RunTable, "get")):
            self._count(monkeypatch, owner, name)
        documents = ElementTable.documents

        def read(table: ElementTable, eids: Any) -> Iterator[tuple[int, bytes]]:
            eids = list(eids)
            self.now += len(eids) // element_index.PIECE
            return documents(table, eids)

        monkeypatch.setattr(ElementTable, "documents", read)

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        look = getattr(owner, name)

        def counted(table: Any, eid: int) -> Any:
            self.now += 1
            return look(table, eid)

        monkeypatch.setattr(owner, name, counted)

    def at_break(self, *acts: Callable[[], Awaitable[object]]) -> None:
        """Do one of these at each break from now on."""
        self.now = self.longest = 0
        self._at_break = list(acts)

    async def _pause(self, seconds: float) -> None:
        self.longest, self.now = max(self.longest, self.now), 0
        if self._at_break:
            await self._at_break.pop(0)()
            self.now = 0
        await asyncio.sleep(seconds)

    @property
    def most(self) -> int:
        """The most that was looked at without a break."""
        return max(self.longest, self.now)


@pytest.fixture
def agent() -> Iterator[Agent]:
    with narval.open() as agent:
        agent.load(RECIPES)
        yield agent


@pytest.fixture
def looks(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(element_index, "PIECE", 32)
    agent.add_all([f"<note n='{number}'/>" for number in range(1200)])
    agent.start_each("t.fails", ["<x/>"] * 30)
    agent.start_each("t.ends", ["<x/>"] * 30)
    agent.until_idle()
    return Looks(monkeypatch)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("runs", {}),
        ("runs", {"text": "no such words", "limit": 5}),
        ("runs", {"state": "running", "limit": 5}),
        ("elements", {"xpath": "*[contains(@n, 'x')]"}),
        ("memory", {"xpath": "*[contains(@n, 'x')]", "limit": 5}),
        ("memory", {"xpath": "note[@n='7']", "limit": 5}),
        ("memory", {"xpath": "note[@n='7']"}),
        ("count", {"current": True}),
        ("figures", {}),
        ("gantt", {}),
    ],
)
def test_a_listing_looks_at_few_entries_without_a_break(
    agent: Agent, looks: Looks, operation: str, arguments: dict[str, Any]
) -> None:
    looks.at_break()
    agent.ask(operation, **arguments)
    assert looks.longest, "there was no break"
    assert looks.most <= 3 * AT_ONCE, "a run, its error, and what made that"


@pytest.mark.parametrize("limit", [None, 50])
def test_a_listing_has_each_run_once_while_runs_begin_and_end(
    agent: Agent, looks: Looks, limit: int | None
) -> None:
    """With no limit those that were there when it began; with one too, as the newest are looked at first."""
    waiting = agent.start_each("t.waits", ["<x/>"] * 40)
    agent.until_idle()

    def ask(operation: str, **arguments: Any) -> Callable[[], Awaitable[object]]:
        return lambda: invoke(agent.daemon, agent.asker, operation, arguments)

    ended = [waiting[0], waiting[-1], waiting[20]]
    acts = [
        ask("start", name="t.waits"),
        *(ask("cancel", run=run) for run in ended),
        ask("start", name="t.ends"),
    ]
    looks.at_break(*acts)
    listed = [run["eid"] for run in agent.ask("runs", state="active", limit=limit)]
    assert listed == sorted(set(listed), reverse=limit is not None)
    assert set(waiting) - set(ended) <= set(listed) <= set(waiting)
    assert [run["eid"] for run in agent.ask("runs", state="cancelled")] == sorted(ended)


def test_why_of_an_element_gives_way_between_the_runs_under_way(agent: Agent, looks: Looks) -> None:
    last = agent.memory("note")[-1].eid
    breaks = list[int]()

    async def note() -> None:
        breaks.append(1)

    def breaks_of_why() -> int:
        agent.why(last)
        breaks.clear()
        looks.at_break(*[note] * 100)
        agent.why(last)
        looks.at_break()
        return len(breaks)

    before = breaks_of_why()
    agent.start_each("t.waits", ["<x/>"] * 40)
    agent.until_idle()
    assert breaks_of_why() >= before + 40 // AT_ONCE


def test_an_index_that_is_made_in_slices_follows_what_comes_and_goes(agent: Agent, looks: Looks) -> None:
    memory, seventh = agent.daemon.agent.memory, agent.memory("note")[7].eid

    async def alter() -> None:
        memory.apply(Forgotten((seventh,)))
        await invoke(agent.daemon, agent.asker, "add", {"elements": [b"<note n='new'/>"]})

    looks.at_break(alter)
    assert agent.ask("memory", xpath="note[@n='new']")
    assert list(memory.index.newest(condition("note[@n='7']").bind({}), make=False)) == []
    assert list(memory.index.newest(condition("note[@n='8']").bind({}), make=False)) == [seventh + 1]
