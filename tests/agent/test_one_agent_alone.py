"""A home of one agent pays nothing for others it might have: statements, rows, turns, counted (G22)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import narval
from narval.store.letters import DatabaseLetters
from tests.agent.test_work_counted import RUNS, STEPS, line_of_steps

OF_AGENTS = ("messages", "taken", "dead_letters", "letters_settled", "agents", "removed_agents")
"""The rows that there are for the sake of several agents."""

QUERIES = ("waiting", "messages", "sent", "taken", "ids", "last_sent", "last_correspondent", "dead")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The queries that were made of messages, counted."""
    count: Counter[str] = Counter()

    def counting(name: str) -> None:
        query = getattr(DatabaseLetters, name)

        def counted(letters: DatabaseLetters, *given: int) -> object:
            count[name] += 1
            return query(letters, *given)

        monkeypatch.setattr(DatabaseLetters, name, counted)

    for name in QUERIES:
        counting(name)
    return count


def test_G22_the_steps_of_one_agent_write_and_ask_nothing_of_agents(
    tmp_path: Path, asked: Counter[str]
) -> None:
    work = line_of_steps(tmp_path, RUNS, STEPS, home=True)
    assert {slot: work.rows[slot] for slot in OF_AGENTS if work.rows[slot]} == {}
    assert work.rows["journal"] == RUNS * (STEPS + 1)
    assert work.commits <= work.turns <= STEPS + 4
    assert sum(asked.values()) <= 1


def test_G22_a_start_of_one_agent_asks_once_if_messages_wait(tmp_path: Path, asked: Counter[str]) -> None:
    line_of_steps(tmp_path, 1, 1, home=True)
    asked.clear()
    with narval.open(tmp_path) as agent:
        agent.until_idle()
    assert asked == {"waiting": 1}
