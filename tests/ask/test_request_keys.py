"""Requests with a key: what is asked again under the same key answers as the first time, and does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.agent.request_keys import KEYS, RequestKeys
from narval.agent.turn import Turn
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import make_home
from tests.surfaces.cli.command_line import narval as command

RECIPE = """<recipe group="s" name="brief" start_step="a" end_step="a" decay="10">
  <step id="a" type="action" target="talk.nothing"/></recipe>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "s.xml").write_text(RECIPE)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with narval.open(home, clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        yield agent


def test_a_key_answers_with_the_elements_of_then_however_many_are_given_again(agent: Agent) -> None:
    first = agent.ask("add", elements=[b"<a/>", b"<b/>", b"<c/>"], key="k")
    assert len(first["eids"]) == 3
    assert agent.ask("add", elements=[b"<a/>"], key="k")["eids"] == first["eids"]
    assert agent.ask("add", elements=[b"<a/>"] * 5, key="k")["eids"] == first["eids"]
    assert len(agent.memory("a")) == 1


def test_the_elements_of_a_key_need_not_follow_each_other(agent: Agent) -> None:
    submit, run = agent.daemon.host.submit, agent.runner.run

    def record(turn: Turn, key: str, *eids: int) -> None:
        turn.agent.request_keys.record(turn.transaction.batch.meta, "key/test", key, *eids)

    run(submit(lambda turn: record(turn, "a key", 3, 4, 5, 9, 11, 12)))
    run(submit(lambda turn: record(turn, "other", 7)))
    live = agent.daemon.agent
    for keys in (live.request_keys, RequestKeys(live.facts)):  # as they are, and as they are read at a start
        assert keys.eids("key/test", "a key") == [3, 4, 5, 9, 11, 12]
        assert (keys.eid("key/test", "a key"), keys.eids("key/test", "other")) == (3, [7])
        assert (keys.eids("key/test", "none"), keys.eid("key/test", "")) == ([], None)


def test_a_request_with_a_key_looks_at_no_fact_but_its_own_sender_s_once() -> None:
    class Counted(dict[str, str]):
        looks = 0

        def __getitem__(self, name: str) -> str:
            Counted.looks += 1
            return super().__getitem__(name)

        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all facts were looked at")

        items = keys = values = __iter__  # type: ignore[assignment]

    facts = Counted({f"key/{sender}/{slot}": f"{slot} 7 k{slot}" for sender in "ab" for slot in range(1, 9)})
    keys, meta = RequestKeys(facts), list[tuple[str, str]]()
    for number in range(9, 2 * KEYS):
        assert keys.eid("key/a", f"k{number}") is None
        keys.record(meta, "key/a", f"k{number}", 10 + number)
    assert (Counted.looks, keys.eid("key/a", "k1"), keys.eid("key/a", f"k{KEYS}")) == (8, None, 10 + KEYS)
    assert meta[-1] == (f"key/a/{KEYS - 1}", f"{2 * KEYS - 1} {9 + 2 * KEYS} k{2 * KEYS - 1}")
    assert RequestKeys(dict(meta)).eid("key/a", f"k{KEYS}") == 10 + KEYS


def test_a_key_of_a_run_that_is_forgotten_starts_nothing_and_says_so(home: Path) -> None:
    with narval.open(home, clock=narval.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        run = agent.ask("start", name="s.brief", key="k")["eid"]
        agent.elapse(seconds=60)
        assert agent.daemon.agent.runs.get(run) is None
        again = agent.ask("start", name="s.brief", key="k", wait=True)
        assert (again["eid"], again["name"], again["phase"]) == (run, "s.brief", "forgotten")
    again = command(home, "start", "s.brief", "--key", "k")
    assert (again.exit_code, again.stdout, "over and forgotten" in again.stderr) == (0, f"{run}\n", True)
    waited = command(home, "start", "s.brief", "--key", "k", "--wait")
    assert (waited.exit_code, waited.stdout, "over and forgotten" in waited.stderr) == (1, f"{run}\n", True)
