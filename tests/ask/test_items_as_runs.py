"""Work items as runs: called by recipes, listed apart, there after a restart (P2, P6, P70)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import narval
from narval.core.engines.events import PersonsAct, Signalled
from narval.core.errors import RequestError
from tests.ask.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import data

REQUEST = "<request what='laptop'/>"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return home_with(tmp_path / "home", PURCHASE)


@pytest.fixture
def agent(home: Path) -> Iterator[Any]:
    with narval.open(home) as opened:
        yield opened


def item_of(agent: Any, **also: Any) -> int:
    """The newest item."""
    agent.until_idle()
    return int(agent.ask("runs", kind="work", limit=1, **also)[0]["eid"])


def acts(agent: Any, item: int, person: str, name: str, **given: Any) -> Any:
    """A person acts on an item, as the operations on work have it; the answer."""
    act = PersonsAct("terminal", "7")
    told = Signalled(0, 0.0, "", name, arguments=given, by=person, act=act)
    (answer,) = agent.runner.run(agent.daemon.host.submit(lambda turn: turn.signal(item, replace(told))))
    agent.until_idle()
    return answer


def steps(agent: Any, run: int) -> dict[str, str]:
    """The states of the steps of a plan."""
    return {step["id"]: step["state"] for step in agent.ask("show", run=run)["steps"]}


def test_P70_a_step_asks_and_goes_on_by_the_answer(agent: Any) -> None:
    run = agent.start("purchase.buy", REQUEST)
    item = item_of(agent)
    assert agent.why(run)["waiting"][0]["text"] == "work purchase.approve"
    assert agent.why(item)["waiting"][0]["for"] == "person"
    assert acts(agent, item, "ann", "answer", outcome="approve").problem is None
    assert agent.run(run)["state"] == "done"
    (decision,) = agent.memory("decision")
    assert decision.origin.run == item
    assert agent.memory(f"work[@state='done' and @eid='{item}']")[0].attributes["outcome"] == "approve"


def test_P70_error_links_take_what_no_answer_gives(agent: Any) -> None:
    run = agent.start("purchase.buy", REQUEST)
    item = item_of(agent)
    assert acts(agent, item, "ann", "refuse", reason="not mine").problem is None
    assert agent.run(item)["state"] == "refused"
    assert steps(agent, run)["late"] == "history"
    assert [error.attributes["type"] for error in agent.memory("error")] == ["refused"]


def test_P70_the_time_limit_of_a_step_withdraws_the_item_and_nothing_is_tried_again(tmp_path: Path) -> None:
    text = PURCHASE.replace('target="purchase.approve"', 'target="purchase.approve" timeout="60" retries="5"')
    with narval.open(home_with(tmp_path / "home", text), clock=narval.SimulatedClock(0)) as agent:
        agent.start("purchase.buy", REQUEST)
        agent.until_idle()
        agent.elapse(seconds=61)
        assert [found["state"] for found in agent.ask("runs", kind="work")] == ["withdrawn"]
        assert "timeout" in [error.attributes["type"] for error in agent.memory("error")]


def test_P70_a_foreach_asks_once_for_each(tmp_path: Path) -> None:
    text = PURCHASE.replace('target="purchase.approve"', 'target="purchase.approve" foreach="request"')
    with narval.open(home_with(tmp_path / "home", text)) as agent:
        agent.add(REQUEST)
        agent.add("<request what='chair'/>")
        agent.start("purchase.buy")
        agent.until_idle()
        assert sorted(found.attributes["title"] for found in agent.memory("work[@state]")) == [
            "Approve chair",
            "Approve laptop",
        ]


def test_P70_a_step_may_tighten_what_is_answered(tmp_path: Path) -> None:
    narrowed = (
        "<step id='ask' type='work' target='purchase.approve'>"
        "<output id='decision'><match>decision[@by='ben']</match></output></step>"
    )
    text = PURCHASE.replace('<step id="ask" type="work" target="purchase.approve"/>', narrowed).replace(
        '<input id="request">', '<output id="decision"><match>decision</match></output><input id="request">'
    )
    with narval.open(home_with(tmp_path / "home", text)) as agent:
        run = agent.start("purchase.buy", REQUEST)
        acts(agent, item_of(agent), "ann", "answer", outcome="approve")
        assert agent.run(run)["state"] == "failed"
        assert agent.memory("error")[-1].attributes["type"] == "bad-output"


def test_P8_work_within_a_step_is_asked(tmp_path: Path) -> None:
    inline = '<step id="ask" type="work"><work><title>Well?</title></work></step>'
    text = PURCHASE.replace('<step id="ask" type="work" target="purchase.approve"/>', inline)
    home = home_with(tmp_path / "home", text)
    with narval.open(home) as agent:
        run = agent.start("purchase.buy")
        item = item_of(agent)
        assert agent.run(item)["name"] == "purchase.buy:ask"
    with narval.open(home) as agent:
        acts(agent, item, "ann", "answer")
        assert agent.run(run)["state"] == "running"


def test_P6_items_are_listed_apart(home: Path) -> None:
    with narval.open(home) as agent:
        run = agent.start("purchase.buy", REQUEST)
        item = item_of(agent)
        assert [found["eid"] for found in agent.ask("runs")] == [run]
        assert [found["eid"] for found in agent.ask("runs", limit=5)] == [run]
    assert [found["eid"] for found in data(home, "runs")] == [run]
    assert [found["eid"] for found in data(home, "runs", "--kind", "work")] == [item]


def test_P2_an_item_is_there_after_a_restart_with_its_text_in_the_journal(home: Path) -> None:
    with narval.open(home) as agent:
        agent.start("purchase.buy", REQUEST)
        item = item_of(agent)
        acts(agent, item, "ann", "claim")
        shown = agent.run(item)
    with narval.open(home) as agent:
        assert agent.run(item) == shown
        (offered,) = (line for line in agent.history(item) if line["what"] == "Offered")
        assert '| <request what="laptop"/>' in offered["text"]
        assert acts(agent, item, "ann", "answer", outcome="reject").problem is None
        past = agent.ask("show", run=item, at=offered["seq"])
        assert past["state"] == "offered"


def test_P78_a_retry_from_a_later_step_keeps_the_answer(tmp_path: Path) -> None:
    failing = PURCHASE.replace('target="m.buy"/><step id="late"', 'target="m.fails"/><step id="late"')
    with narval.open(home_with(tmp_path / "home", failing)) as agent:
        run = agent.start("purchase.buy", REQUEST)
        acts(agent, item_of(agent), "ann", "answer", outcome="approve")
        assert agent.run(run)["state"] == "failed"
        again = agent.retry(run, "z")
        agent.until_idle()
        assert steps(agent, again)["ask"] == "history"
        assert len(agent.ask("runs", kind="work")) == 1
        agent.retry(run, "ask")
        assert item_of(agent)
        assert [found["state"] for found in agent.ask("runs", kind="work")] == ["done", "offered"]


def test_P4_a_signal_to_an_item_is_refused_and_an_item_is_not_retried(agent: Any) -> None:
    agent.start("purchase.buy", REQUEST)
    item = item_of(agent)
    with pytest.raises(RequestError, match="people answer work by `narval work`"):
        agent.signal(item, "answer")
    agent.cancel(item)
    with pytest.raises(RequestError, match="retry the run that asked"):
        agent.retry(item)
