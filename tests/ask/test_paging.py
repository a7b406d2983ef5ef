"""Listings: all and oldest first, or a page and newest first, which costs what it shows (`paging`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import narval
from narval.agent.run import Run
from narval.agent.run_table import RunTable
from narval.core.elements.element import Element
from narval.core.errors import RequestError
from narval.core.index.element_index import TRIED_FIRST
from narval.core.memory.memory import Memory
from narval.surfaces.python.agent import Agent

RECIPES = """<cookbook>
<recipe group="t" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>never</match></condition></transition>
</recipe>
<recipe group="t" name="ends" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.nothing"/></recipe>
<recipe group="t" name="fails" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.error"/></recipe>
</cookbook>"""


@pytest.fixture
def agent() -> Iterator[Agent]:
    with narval.open() as agent:
        agent.load(RECIPES)
        yield agent


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The eids of elements that memory was asked for, and of runs."""
    eids: list[int] = []
    element, get = Memory.element, RunTable.get

    def counted(self: Memory, eid: int) -> Element | None:
        eids.append(eid)
        return element(self, eid)

    def counted_run(self: RunTable, eid: int) -> Run | None:
        eids.append(eid)
        return get(self, eid)

    monkeypatch.setattr(Memory, "element", counted)
    monkeypatch.setattr(RunTable, "get", counted_run)
    return eids


def notes(agent: Agent, count: int, more: str = "") -> list[int]:
    return agent.add_all([f'<note n="{number}" {more}/>' for number in range(count)])


# --- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xpath", [None, "note", "note[@n >= 0]", "*[@n]", "note | other", "note[@a='b']"])
def test_a_page_of_memory_is_the_newest_and_the_next_goes_on_before_its_last(
    agent: Agent, xpath: str | None
) -> None:
    added = notes(agent, 70, "a='b'")
    eids = [element.eid for element in agent.memory(xpath)]
    assert eids == (added if xpath is not None else list(agent.daemon.agent.memory))
    assert [element.eid for element in agent.memory(xpath, before=eids[50])] == eids[:50]
    read, before = list[int](), None
    while page := agent.ask("memory", xpath=xpath, limit=30, before=before):
        read += [row["eid"] for row in page]
        before = read[-1]
    assert read == eids[::-1]
    assert [element.eid for element in agent.memory(xpath, limit=3)] == eids[:-4:-1]


def test_a_context_has_pages_too(agent: Agent) -> None:
    run = agent.start("t.waits", *(f"<note n='{number}'/>" for number in range(5)))
    agent.until_idle()
    held = [element.eid for element in agent.memory(context=run)]
    assert [element.eid for element in agent.memory(context=run, limit=2)] == held[:-3:-1]
    assert [element.eid for element in agent.memory("note", context=run, limit=2, before=held[3])] == held[
        2:0:-1
    ]
    assert [element.eid for element in agent.memory(context=run, before=held[2])] == held[:2]


def test_a_page_leaves_out_what_was_replaced_if_that_is_asked(agent: Agent) -> None:
    eids = notes(agent, 4)
    agent.daemon.agent.memory.outdated.add(eids[2])
    assert [element.eid for element in agent.memory(current=True, limit=2)] == [eids[3], eids[1]]


@pytest.mark.parametrize("xpath", [None, "note", "note[@n >= 0]"])
def test_a_page_looks_at_no_more_than_it_shows(agent: Agent, looked_at: list[int], xpath: str | None) -> None:
    eids = notes(agent, 5000)
    looked_at.clear()
    assert len(agent.ask("memory", xpath=xpath, limit=50)) == 50
    assert len(agent.ask("memory", xpath=xpath, limit=50, before=eids[2500])) == 50
    assert looked_at == eids[:-51:-1] + eids[2499:2449:-1]


def test_a_page_looks_besides_at_what_does_not_fit(agent: Agent, looked_at: list[int]) -> None:
    notes(agent, 1000, "kind='a'")
    notes(agent, 30, "kind='b'")
    looked_at.clear()
    assert len(agent.ask("memory", xpath="note[@kind='a' and @n > 0]", limit=20)) == 20
    assert len(looked_at) == 50


def test_what_is_rare_is_found_by_an_index_once_the_newest_were_tried(
    agent: Agent, looked_at: list[int]
) -> None:
    rare = notes(agent, 3, "kind='rare'")
    notes(agent, 3 * TRIED_FIRST, "kind='usual'")
    for most in (TRIED_FIRST + 10, 3):  # the index is there the second time
        looked_at.clear()
        assert [row["eid"] for row in agent.ask("memory", xpath="note[@kind='rare']", limit=5)] == rare[::-1]
        assert len(looked_at) <= most


# --- runs -----------------------------------------------------------------------------------------------


def test_a_page_of_runs_is_the_newest_and_the_next_goes_on_before_its_last(agent: Agent) -> None:
    eids = [agent.start("t.ends") for _ in range(7)]
    waiting = [agent.start("t.waits") for _ in range(3)]
    agent.until_idle()
    assert [run["eid"] for run in agent.runs()] == eids + waiting
    assert [run["eid"] for run in agent.runs(before=eids[2])] == eids[:2]
    assert [run["eid"] for run in agent.runs(limit=4)] == [*waiting[::-1], eids[-1]]
    assert [run["eid"] for run in agent.runs(limit=4, before=eids[3])] == eids[2::-1]
    assert [run["eid"] for run in agent.runs(state="done", limit=2)] == eids[:-3:-1]
    assert [run["eid"] for run in agent.runs(name="t.waits", kind="plan", limit=9)] == waiting[::-1]
    assert agent.runs(kind="automaton", limit=9) == []


def test_a_page_of_runs_looks_at_no_more_than_it_shows_and_what_does_not_fit(
    agent: Agent, looked_at: list[int]
) -> None:
    eids = [agent.start("t.ends") for _ in range(40)]
    agent.until_idle()
    eids += [agent.start("t.waits") for _ in range(5)]
    agent.until_idle()
    looked_at.clear()
    assert len(agent.runs(limit=4)) == 4
    assert len(agent.runs(limit=4, state="ready")) == 0
    assert len(agent.runs(limit=4, before=eids[20])) == 4
    assert looked_at == eids[:-5:-1] + eids[::-1] + eids[19:15:-1]


def test_a_page_of_active_or_failed_runs_looks_at_no_others(agent: Agent, looked_at: list[int]) -> None:
    waiting = [agent.start("t.waits") for _ in range(5)]
    ended = [agent.start(name) for name in ("t.ends", "t.fails") for _ in range(40)]
    agent.until_idle()
    failed = ended[40:]
    pages: list[tuple[dict[str, Any], list[int]]] = [
        ({"state": "active"}, waiting[::-1]),
        ({"state": "failed"}, failed[::-1]),
        ({"state": "failed", "before": failed[7]}, failed[6::-1]),
        ({"error": "on-purpose"}, failed[::-1]),
        ({"text": "ASKS FOR AN", "name": "t.fails"}, failed[::-1]),
    ]
    for asked, eids in pages:
        looked_at.clear()
        assert [run["eid"] for run in agent.ask("runs", limit=90, **asked)] == eids, asked
        assert set(looked_at) & {*waiting, *ended} == set(eids), asked
        assert [run["eid"] for run in agent.ask("runs", **asked)] == eids[::-1], asked
    agent.cancel(waiting[2])
    agent.until_idle()
    assert [run["eid"] for run in agent.runs(state="active")] == [*waiting[:2], *waiting[3:]]
    assert [run["eid"] for run in agent.runs(state="cancelled")] == [waiting[2]]


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_room_for_something(agent: Agent, limit: int) -> None:
    for operation in ("memory", "runs"):
        with pytest.raises(RequestError, match="expected limit to be 1 or more, or none for all, got"):
            agent.ask(operation, limit=limit)
