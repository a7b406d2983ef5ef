"""One line an agent: what it does, what failed, what people are asked; a page of a thousand (M58)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.ask.work_home import PURCHASE, home_with

FAILS = """<recipe group="g" name="fails" start_step="s" end_step="s"><step id="s" type="action"
target="m.fails"/></recipe>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with narval.open(home_with(tmp_path, PURCHASE)) as opened:
        yield opened


def test_M58_a_line_tells_what_is_under_way_failed_and_asked(agent: Agent) -> None:
    agent.load(FAILS)
    agent.start("g.fails")
    agent.start("purchase.buy", "<request what='a desk'/>")
    agent.until_idle()
    (own,) = agent.ask("agents")
    assert (own["failed"], own["asked"], own["faults"]) == (1, 1, 0)
    assert own["runs"] == 2


def test_M58_an_agent_besides_the_homes_own_tells_the_same_while_it_is_in_memory(agent: Agent) -> None:
    agent.ask("add_agent", name="ada")
    with agent.other("ada") as ada:
        ada.start("purchase.approve", "<request what='a desk'/>")
        row = agent.ask("agents")[1]
        assert (row["name"], row["state"], row["asked"], row["failed"]) == ("ada", "active", 1, 0)
        ada.until_idle()
    agent.ask("passivate", name="ada")
    row = agent.ask("agents")[1]
    assert (row["state"], row["asked"], row["failed"], row["runs"]) == ("passive", None, None, 1)


def test_agents_stand_in_the_order_of_the_numbers_in_their_names(agent: Agent) -> None:
    for name in ("desk-10", "desk-2", "desk-1"):
        agent.ask("add_agent", name=name)
    assert [row["name"] for row in agent.ask("agents")[1:]] == ["desk-1", "desk-2", "desk-10"]
    assert [row["name"] for row in agent.ask("agents", limit=2)[1:]] == ["desk-1"]
    assert [row["name"] for row in agent.ask("agents", limit=2, after="desk-1")] == ["desk-2", "desk-10"]


def test_M58_what_passive_agents_hold_is_counted_anew_once_one_was_in_memory(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, held = list[int](), agent.daemon.store.held
    monkeypatch.setattr(agent.daemon.store, "held", lambda: (counts.append(1), held())[1])
    for name in ("ada", "bob"):
        agent.ask("add_agent", name=name)
    there = 0
    for number in (1, 2):
        for _ in range(3):  # as an open page asks again with each turn
            agent.add("<note/>")
            assert [row["elements"] for row in agent.ask("agents")[1:]] == [there, 0]
        assert len(counts) == number
        with agent.other("ada") as ada:
            ada.add("<note/>")
            there = ada.ask("status")["elements"]
        agent.ask("passivate", name="ada")


def test_M58_many_agents_are_paged_by_name_and_passive_ones_cost_their_rows(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a{number:02}" for number in range(30)]
    for name in reversed(names):
        agent.ask("add_agent", name=name)
    assert [row["name"] for row in agent.ask("agents")] == ["narval", *names]
    monkeypatch.setattr(agent.daemon.store, "held", lambda: pytest.fail("what all hold was counted"))
    page = agent.ask("agents", limit=10)
    assert [row["name"] for row in page] == ["narval", *names[:9]]
    assert (page[1]["elements"], page[1]["state"]) == (None, "passive")
    more = agent.ask("agents", limit=10, after=page[-1]["name"])
    assert [row["name"] for row in more] == names[9:19]
    agent.ask("remove_agent", name="a18")
    assert agent.ask("agents", limit=10, after="a18")[0]["name"] == "a19"
    assert agent.ask("agents", limit=10, after="narval")[0]["name"] == "a00"
    assert agent.ask("agents", limit=1)[0]["name"] == "narval"
    with pytest.raises(RequestError, match="limit to be 1 or more"):
        agent.ask("agents", limit=0)
