"""A page of memory that costs what it looks at (M20, M21), and the names there are (M22)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import narval
from narval.ask.memory.listing import LOOK
from narval.core.elements.element import Element
from narval.core.errors import PatternError, RequestError
from narval.core.index.element_index import ValueIndex
from narval.core.memory.memory import Memory
from narval.surfaces.python.agent import Agent
from narval.system.clock import SimulatedClock

RECIPES = """<cookbook>
<recipe group="t" name="notes" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.copy">
    <input id="element"><match>note</match></input></step></recipe>
</cookbook>"""


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(0)


@pytest.fixture
def agent(clock: SimulatedClock) -> Iterator[Agent]:
    with narval.open(clock=clock) as agent:
        agent.load(RECIPES)
        yield agent


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The eids of elements that memory was asked for."""
    eids: list[int] = []
    element = Memory.element

    def counted(self: Memory, eid: int) -> Element | None:
        eids.append(eid)
        return element(self, eid)

    monkeypatch.setattr(Memory, "element", counted)
    return eids


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The attributes that an index was made of."""
    made: list[str] = []
    begin = ValueIndex.__init__

    def counted(self: ValueIndex, attribute: str, elements: Iterable[tuple[int, bytes]]) -> None:
        made.append(attribute)
        begin(self, attribute, elements)

    monkeypatch.setattr(ValueIndex, "__init__", counted)
    return made


def notes(agent: Agent, count: int, more: str = "") -> list[int]:
    return agent.add_all([f'<note n="{number}" {more}/>' for number in range(count)])


@pytest.mark.parametrize("xpath", [None, "note", "note[@n >= 0]", "*[@n]", "note | other", "note[@a='b']"])
def test_M21_pages_follow_each_other_until_all_were_shown(agent: Agent, xpath: str | None) -> None:
    notes(agent, 70, "a='b'")
    all_of_it = [row["eid"] for row in agent.ask("memory", xpath=xpath)]
    read, before = list[int](), None
    while True:
        page = agent.ask("elements", xpath=xpath, limit=30, before=before)
        read += [row["eid"] for row in page["elements"]]
        before = page["older"]
        if before is None:
            break
        assert len(page["elements"]) == 30
    assert read == all_of_it[::-1]


def test_M21_a_row_is_that_of_memory(agent: Agent) -> None:
    notes(agent, 3)
    page = agent.ask("elements", xpath="note", limit=2)
    assert page["elements"] == agent.ask("memory", xpath="note", limit=2)
    assert (page["tried"], page["older"]) == (2, page["elements"][-1]["eid"])
    last = agent.ask("elements", xpath="note", limit=2, before=page["older"])
    assert (last["tried"], last["older"]) == (1, None)


def test_M21_a_look_tries_so_many_and_makes_no_index(
    agent: Agent, looked_at: list[int], indexed: list[str]
) -> None:
    rare = notes(agent, 1, "kind='rare'")
    eids = notes(agent, 2 * LOOK, "kind='usual'")
    looked_at.clear()
    page = agent.ask("elements", xpath="note[@kind='rare']")
    assert (page["elements"], page["tried"], page["older"]) == ([], LOOK, eids[LOOK])
    assert len(looked_at) == LOOK
    while page["older"] is not None:
        page = agent.ask("elements", xpath="note[@kind='rare']", before=page["older"])
    assert [row["eid"] for row in page["elements"]] == rare
    assert indexed == []


def test_M21_an_index_that_is_there_is_asked(agent: Agent, looked_at: list[int], indexed: list[str]) -> None:
    rare = notes(agent, 3, "kind='rare'")
    notes(agent, 2 * LOOK, "kind='usual'")
    assert len(agent.ask("memory", xpath="note[@kind='rare']")) == 3
    assert indexed == ["kind"]
    looked_at.clear()
    page = agent.ask("elements", xpath="note[@kind='rare'][@n >= 1]", look=10)
    assert ([row["eid"] for row in page["elements"]], page["tried"], page["older"]) == (rare[:0:-1], 3, None)
    assert looked_at == rare[::-1]
    assert indexed == ["kind"]


@pytest.mark.parametrize("xpath", [None, "note", "*[@n]"])
def test_M85_a_page_of_a_large_memory_costs_what_it_shows(
    agent: Agent, looked_at: list[int], indexed: list[str], xpath: str | None
) -> None:
    eids = notes(agent, 20_000)
    looked_at.clear()
    agent.ask("elements", xpath=xpath)
    agent.ask("elements", xpath=xpath, before=eids[10_000])
    assert looked_at == eids[:-51:-1] + eids[9_999:9_949:-1]
    assert indexed == []


def test_M20_only_what_counts_what_a_run_holds_and_what_a_definition_made(agent: Agent) -> None:
    eids = notes(agent, 3)
    agent.outdate([eids[0]])
    run = agent.start("t.notes", "<note n='7'/>")
    agent.until_idle()

    def found(**given: object) -> list[int]:
        rows = agent.ask("elements", xpath="note", **given)["elements"]
        assert rows == agent.ask("memory", xpath="note", limit=50, **given)
        assert agent.ask("count", xpath="note", **given) == {"count": len(rows)}
        return [int(row["eid"]) for row in rows]

    copied, given = found(context=run)
    assert found(current=True) == [copied, given, eids[2], eids[1]]
    assert found(definition="t.notes") == [copied]
    assert found(definition="t.others") == []


def test_M20_since_a_moment(agent: Agent, clock: SimulatedClock, looked_at: list[int]) -> None:
    notes(agent, 100)
    clock.advance(3600)
    young = notes(agent, 3)
    looked_at.clear()
    page = agent.ask("elements", since="1970-01-01T00:30:00+00:00")
    assert [row["eid"] for row in page["elements"]] == young[::-1]
    assert (page["tried"], page["older"]) == (3, None)
    assert len(looked_at) == 4
    assert agent.ask("count", since="1970-01-01T00:30:00+00:00") == {"count": 3}
    assert [element.eid for element in agent.memory("note", since="1970-01-01T00:30+00:00")] == young


def test_M20_what_cannot_be_asked_is_refused(agent: Agent) -> None:
    with pytest.raises(RequestError, match=r"expected a moment such as 2026-01-31 or .*got 'yesterday'"):
        agent.ask("elements", since="yesterday")
    with pytest.raises(RequestError, match="expected look to be 1 or more, got 0"):
        agent.ask("elements", look=0)
    with pytest.raises(RequestError, match="expected limit to be 1 or more"):
        agent.ask("elements", limit=0)
    with pytest.raises(PatternError):
        agent.ask("elements", xpath="note[")


def test_M22_names_with_exact_counts_the_most_frequent_first(agent: Agent, looked_at: list[int]) -> None:
    notes(agent, 50)
    agent.add_all(["<b/>", "<b/>", "<a/>", "<a/>", "<c/>"])
    agent.start("t.notes")
    agent.until_idle()  # a copy of a note is made
    looked_at.clear()
    rows = [row for row in agent.ask("facets") if row["name"] in ("note", "a", "b", "c", "plan")]
    assert [(row["name"], row["count"]) for row in rows] == [
        ("note", 51), ("a", 2), ("b", 2), ("c", 1), ("plan", 1),
    ]  # fmt: skip
    assert agent.ask("facets", limit=1) == [{"name": "note", "count": 51}]
    assert looked_at == []
    for row in agent.ask("facets"):
        assert agent.ask("count", xpath=row["name"]) == {"count": row["count"]}


WORK = "<work group='w' name='ask'><title>Is it so?</title><for people='ann'/><outcome name='yes'/></work>"


def test_a_moment_without_an_offset_is_in_the_zone_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text('timezone = "Pacific/Kiritimati"\n')  # 14 hours ahead of UTC
    with narval.open(tmp_path, clock=SimulatedClock("2026-03-01T12:00:00Z")) as agent:
        agent.load(WORK)
        note, item = agent.add("<note/>"), agent.start("w.ask")
        agent.until_idle()
        for since, there in (("2026-03-02T01:59", True), ("2026-03-02T02:01", False), ("2026-03-02", True)):
            assert [row["eid"] for row in agent.ask("memory", xpath="note", since=since)] == [note] * there
            assert [row["eid"] for row in agent.ask("runs", kind="work", since=since)] == [item] * there
            assert bool(agent.ask("work_log", since=since)) is there
        with pytest.raises(RequestError, match="expected a moment such as"):
            agent.ask("work_log", since="noon")
