"""What altered since a turn: one question for whatever is shown, kept while somebody asks (M6)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.daemon.news import MOST_RUNS, TURNS
from narval.store.batch import Batch, RunRow
from narval.surfaces.control.client import Client
from narval.surfaces.python.agent import Agent
from narval.system.clock import SimulatedClock
from tests.acceptance.home import Narval, make
from tests.ask.work_home import PURCHASE, home_with

NOTHING = {"runs": [], "elements": False, "work": False, "faults": False, "jobs": False, "lost": False}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with narval.open(home_with(tmp_path, PURCHASE)) as opened:
        yield opened


def after(agent: Agent, turn: int, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = agent.ask("changed", after=turn, **more)
    return found


def test_M6_the_first_answer_says_that_all_may_have_changed_and_where_to_go_on(agent: Agent) -> None:
    first = after(agent, 0)
    assert first["lost"]
    assert (first["elements"], first["work"], first["faults"]) == (True, True, True)
    assert after(agent, first["turn"]) == {"turn": first["turn"], **NOTHING}
    assert after(agent, first["turn"] + 1)["lost"], "a turn that has not been"


def test_M6_runs_elements_and_work_that_changed_are_told_once(agent: Agent) -> None:
    turn = after(agent, 0)["turn"]
    agent.add("<letter/>")
    added = after(agent, turn)
    assert added == {"turn": added["turn"], **NOTHING, "elements": True}
    run = agent.start("purchase.buy", "<request what='a desk'/>")
    agent.until_idle()
    begun = after(agent, added["turn"])
    assert (run in begun["runs"], begun["work"], begun["lost"]) == (True, True, False)
    item = agent.ask("worklist", every=True)[0]["item"]
    agent.asker = agent.asker.acting_as("ann", owner=agent.asker.uid or 0, session="7")
    agent.ask("claim", item=item)
    claimed = after(agent, begun["turn"])
    assert claimed == {"turn": claimed["turn"], **NOTHING, "runs": [item], "work": True}
    both = after(agent, turn)
    assert (set(both["runs"]) >= {run, item}, both["elements"], both["turn"]) == (True, True, claimed["turn"])


def test_M6_plain_runs_are_no_work(agent: Agent) -> None:
    step = '<step id="s" type="action" target="m.buy"/>'
    agent.load(f'<recipe group="g" name="r" start_step="s" end_step="s">{step}</recipe>')
    turn = after(agent, 0)["turn"]
    run = agent.start("g.r")
    agent.until_idle()
    told = after(agent, turn)
    assert (run in told["runs"], told["work"]) == (True, False)


def test_M6_files_that_count_anew_are_told_with_and_without_faults(agent: Agent, tmp_path: Path) -> None:
    for path, text in (
        ("recipes/new.xml", "<recipe"),
        ("recipes/new.xml", PURCHASE.replace("purchase", "other")),
        ("etc/people.toml", "[people.ann]\n"),
        ("etc/narval.toml", 'stop_grace = "7s"\n'),
    ):
        turn = after(agent, after(agent, 0)["turn"])["turn"]
        (tmp_path / path).write_text(text)
        agent.ask("reload")
        assert after(agent, turn)["faults"], path
    turn = after(agent, 0)["turn"]
    agent.ask("reload")
    assert after(agent, turn) == {"turn": turn, **NOTHING}, "nothing was altered"


def test_M6_what_reaches_further_back_than_the_ring_is_lost(agent: Agent) -> None:
    turn = after(agent, 0)["turn"]
    for number in range(TURNS):
        agent.add(f"<letter n='{number}'/>")
    told = after(agent, turn)
    assert (told["lost"], told["turn"]) == (False, turn + TURNS)
    agent.add("<letter/>")
    assert after(agent, turn)["lost"]
    assert not after(agent, turn + 1)["lost"]


def test_M6_more_runs_than_one_would_look_at_are_lost(agent: Agent) -> None:
    turn = after(agent, 0)["turn"]
    batch = Batch(1)
    batch.runs += [RunRow(eid, "plan", "g.r", "", "done", "done", 0.0) for eid in range(1, MOST_RUNS + 2)]
    agent.daemon.host.waiters.news.note(batch, 0.0)
    assert after(agent, turn)["lost"]


def test_M6_nothing_is_kept_a_minute_after_the_last_question() -> None:
    clock = SimulatedClock()
    with narval.open(None, clock=clock) as agent:
        news = agent.daemon.host.waiters.news
        agent.add("<letter/>")
        assert not news.is_kept
        turn = after(agent, 0)["turn"]
        for seconds, is_kept in ((59, True), (1, True), (1, False)):
            agent.elapse(seconds=seconds)
            agent.add("<letter/>")
            assert news.is_kept == is_kept
        assert after(agent, turn)["lost"]


def test_M6_a_question_that_waits_is_answered_by_the_next_turn_or_when_its_time_is_over(
    tmp_path: Path,
) -> None:
    home = make(tmp_path, recipes=PURCHASE)
    with home.running(), Client(home.home / "var/control.sock") as client:
        turn = client.ask("changed")["turn"]
        while client.ask("changed", after=turn)["turn"] != turn:
            turn = client.ask("changed", after=turn)["turn"]
        assert client.ask("changed", after=turn, wait=0.01) == {"turn": turn, **NOTHING}
        added = answer_of(home, client, turn, "add", elements=[b"<letter/>"])
        assert added == {"turn": turn + 1, **NOTHING, "elements": True}
        home.write("recipes/faulty.xml", "<recipe")
        assert client.ask("changed", after=turn + 1, wait=60.0)["faults"]


def answer_of(home: Narval, client: Client, turn: int, method: str, **arguments: Any) -> dict[str, Any]:
    """The answer to a question that waits while another program asks something."""
    told: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: told.append(client.ask("changed", after=turn, wait=60.0)))
    waiting.start()
    with Client(home.home / "var/control.sock") as other:
        other.ask(method, **arguments)
    waiting.join(60)
    return told[0]


def test_M6_who_follows_one_run_is_not_told_of_others(tmp_path: Path) -> None:
    home = make(tmp_path, recipes='<work group="w" name="ask"><title>Ask</title></work>')
    with home.running(), Client(home.home / "var/control.sock") as client:
        item = client.ask("start", name="w.ask")["eid"]
        turn = client.ask("changed")["turn"]
        client.ask("add", elements=[b"<letter/>"])
        quiet = client.ask("changed", after=turn, run=item, wait=0.05)
        assert (item in quiet["runs"], quiet["lost"]) == (False, False)
        client.ask("cancel", run=item)
        assert item in client.ask("changed", after=turn, run=item, wait=60.0)["runs"]
