"""Who sends to whom, how much, what waits since when; and agents by a part of their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import data, make_home, well
from tests.surfaces.cli.command_line import narval as command

CLOCK = "2026-03-01T06:00:00Z"


@pytest.fixture(params=["disk", "memory"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """A home with two agents besides its own: `ada`, who is suspended and takes nothing, and `shop`."""
    home = make_home(tmp_path / "home") if request.param == "disk" else None
    with narval.open(home, clock=narval.SimulatedClock(CLOCK)) as opened:
        for name in ("ada", "shop"):
            opened.ask("add_agent", name=name)
        opened.ask("suspend", name="ada")
        yield opened


def pairs(agent: Agent, **arguments: Any) -> list[tuple[Any, ...]]:
    rows = agent.ask("message_counts", **arguments)["pairs"]
    return [(row["from"], row["to"], row["sent"], row["taken"], row["open"]) for row in rows]


def send(agent: Agent, to: str, many: int = 1) -> None:
    for _ in range(many):
        agent.ask("send", to=to, elements=[b"<order/>"])
    agent.until_idle()


def test_a_pair_tells_what_was_sent_taken_and_waits(agent: Agent) -> None:
    assert agent.ask("message_counts") == {"pairs": [], "more": False}
    send(agent, "shop", 3)
    send(agent, "ada")
    agent.elapse(minutes=5)
    send(agent, "ada")
    with agent.other("shop") as shop:
        shop.ask("send", to="narval", elements=[b"<bill/>"])
        shop.until_idle()
    agent.until_idle()
    assert pairs(agent) == [
        ("narval", "ada", 2, 0, 2), ("narval", "shop", 3, 3, 0), ("shop", "narval", 1, 1, 0),
    ]  # fmt: skip
    oldest = [row["oldest"] for row in agent.ask("message_counts")["pairs"]]
    assert oldest == ["2026-03-01T06:00:00.000+00:00", None, None]
    assert pairs(agent, name="shop") == [("narval", "shop", 3, 3, 0), ("shop", "narval", 1, 1, 0)]
    assert (pairs(agent, limit=1), agent.ask("message_counts", limit=1)["more"]) == (pairs(agent)[:1], True)
    agent.ask("resume", name="ada")
    agent.until_idle()
    assert pairs(agent, name="ada") == [("narval", "ada", 2, 2, 0)]


def test_an_agent_that_is_gone_has_no_name(agent: Agent) -> None:
    with agent.other("shop") as shop:
        shop.ask("send", to="narval", elements=[b"<bill/>"])
        shop.until_idle()
    agent.until_idle()
    agent.ask("remove_agent", name="shop")
    assert pairs(agent) == [(None, "narval", 1, 1, 0)]
    with pytest.raises(RequestError, match="there is no agent 'shop' here"):
        agent.ask("message_counts", name="shop")
    with pytest.raises(RequestError, match="expected limit to be from 1 to 1,000, got 0"):
        agent.ask("message_counts", limit=0)


def test_agents_are_sought_by_a_part_of_their_names(agent: Agent) -> None:
    def names(**arguments: Any) -> list[str]:
        return [row["name"] for row in agent.ask("agents", **arguments)]

    assert names(text="A") == ["narval", "ada"]
    assert names(text="sho") == ["shop"]
    assert names(text="a", limit=1) == ["narval"]
    assert names(text="a", limit=1, after="narval") == ["ada"]
    assert names(text="nobody") == []


def test_the_command_tells_who_sends_to_whom(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    assert command(home, "agents", "messages").stderr == "no agent has sent anything\n"
    well(home, "agents", "add", "ada")
    well(home, "send", "ada", "-", given="<order/>")
    heading, row = well(home, "agents", "messages").splitlines()
    assert heading.split()[:5] == ["from", "to", "sent", "taken", "waiting"]
    assert row.split()[:5] == ["narval", "ada", "1", "0", "1"]
    assert data(home, "agents", "messages", "ada")["pairs"][0]["open"] == 1
    assert command(home, "agents", "messages", "bob").exit_code == 1
    assert [row["name"] for row in data(home, "agents", "--text", "da")] == ["ada"]
