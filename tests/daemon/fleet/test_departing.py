"""Busy agents leave a daemon at the end of a turn: for even shares, or as a person moves them (G54, G55)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import ElsewhereError, RequestError
from narval.daemon.daemon import Daemon
from narval.daemon.fleet.departing import SETTLED
from tests.daemon.fleet.machines import LIGHT, Machines, ask, fleet_of, on_machines

MODULE = """
import narval
from narval import Output, action

def note():
    call = narval.call()
    with open(call.home.parent / "made", "a") as file:
        print(call.agent, call.id, call.home.name, file=file)

@action(outputs=[Output("late", "late")])
async def wait():
    note()
    await narval.sleep(30)
    return "<late/>"

@action(outputs=[Output("late", "late")])
async def soon():
    note()
    await narval.sleep(1)
    return "<late/>"

@action(source=True)
async def watch():
    while True:
        await narval.sleep(100)
        yield "<mail/>"
"""

RECIPES = """<cookbook>
<recipe group="w" name="wait" start_step="a" end_step="a">
  <step id="a" type="action" target="w.wait" timeout="1h"/></recipe>
<recipe group="w" name="watch" start_step="a" end_step="b">
  <step id="a" type="action" target="w.watch"/>
  <step id="b" type="action" target="w.soon"/>
  <transition id="came"><in idref="a"/><out idref="b"/></transition></recipe>
<recipe group="w" name="once" start_step="a" end_step="a">
  <step id="a" type="action" target="w.wait" timeout="1h" on-restart="error"/></recipe>
<recipe group="w" name="chain" start_step="a" end_step="c">
  <step id="a" type="action" target="w.soon"/><step id="b" type="action" target="w.soon"/>
  <step id="c" type="action" target="w.soon"/>
  <transition id="one"><in idref="a"/><out idref="b"/></transition>
  <transition id="two"><in idref="b"/><out idref="c"/></transition></recipe>
</cookbook>"""


async def start(machines: Machines, name: str, settings: str = "") -> Daemon:
    """A daemon of a home with recipes that call."""
    for folder, file, text in (("modules", "w.py", MODULE), ("recipes", "w.xml", RECIPES)):
        (machines.folder / name / folder).mkdir(parents=True, exist_ok=True)
        (machines.folder / name / folder / file).write_text(text)
    return await machines.start(name, settings)


async def with_active(machines: Machines, count: int) -> Daemon:
    """A daemon with agents that are at work."""
    attic = await start(machines, "attic")
    for n in range(count):
        await ask(attic, "add_agent", name=f"a{n}")
        await ask(attic, "add", f"a{n}", elements=[f"<tick n='{n}'/>".encode()])
    return attic


def calls_made(machines: Machines) -> Counter[tuple[str, str]]:
    """How often each call was made, by agent and id."""
    path = machines.folder / "made"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter((line.split()[0], line.split()[1]) for line in lines)


def shares(machines: Machines) -> dict[str, int]:
    """The number of agents that each daemon has, its own not counted."""
    return {name: len(daemon.agents.rows) for name, daemon in machines.up.items()}


def epochs(machines: Machines) -> dict[int, int]:
    return {of.agent: of.epoch for of in machines.server.owners()}


async def moves(machines: Machines, daemon: Daemon, seconds: float, name: str, to: str, **how: Any) -> Any:
    """The answer to a move, while so many seconds pass at most."""
    answer = asyncio.create_task(ask(daemon, "move_agent", name=name, to=to, **how))
    for _ in range(round(seconds / 0.5)):
        if answer.done():
            break
        await asyncio.sleep(0.001)
        await machines.pass_time(0.5, *machines.up)
    assert answer.done(), "it was not moved in time"
    return answer.result()


@on_machines
async def test_G54_shares_are_even_within_a_minute_of_a_restart_however_busy_agents_are(
    machines: Machines,
) -> None:
    attic = await with_active(machines, 30)
    barn = await start(machines, "barn")
    await machines.pass_time(30.0, "attic", "barn")
    assert all(14 <= count <= 16 for count in shares(machines).values()), shares(machines)
    assert any(barn.agents.supervisor.host(name) for name in barn.agents.rows.names()), "they go on there"
    await machines.kill("barn")
    await machines.pass_time(10.0, "attic")
    assert shares(machines) == {"attic": 30}
    barn = await start(machines, "barn")
    await machines.pass_time(60.0, "attic", "barn")
    assert all(14 <= count <= 16 for count in shares(machines).values()), shares(machines)
    for n in range(30):
        [home] = machines.holders(f"a{n}")
        assert len(await ask(machines.up[home], "memory", f"a{n}", xpath="tick")) == 1
    assert attic.agents.own.loop.turns


@on_machines
async def test_G54_shares_are_by_weight_and_no_agent_moves_twice_within_a_minute(machines: Machines) -> None:
    await with_active(machines, 20)
    await start(machines, "barn", "fleet_weight = 30\n")
    before = epochs(machines)
    await machines.pass_time(40.0, "attic", "barn")
    assert 15 <= shares(machines)["barn"] <= 17, shares(machines)
    await start(machines, "cellar", "fleet_weight = 100\n")
    moved = {agent for agent, epoch in epochs(machines).items() if epoch > before.get(agent, 99)}
    at_barn = epochs(machines)
    await machines.pass_time(15.0, "attic", "barn", "cellar")
    assert all(epochs(machines)[agent] == at_barn[agent] for agent in moved), "these came less than 60 s ago"
    await machines.pass_time(SETTLED, "attic", "barn", "cellar")
    assert shares(machines)["cellar"] > 10, shares(machines)


@on_machines
async def test_G54_an_agent_whose_call_goes_on_stays_and_nothing_is_made_again(machines: Machines) -> None:
    attic = await with_active(machines, 8)
    runs = {n: await ask(attic, "start", f"a{n}", name="w.wait") for n in range(4)}
    await start(machines, "barn", LIGHT)
    machines.server.daemons.update(
        {number: row._replace(weight=10) for number, row in machines.server.daemons.items()}
    )
    await machines.pass_time(20.0, "attic", "barn")
    assert all(machines.holders(f"a{n}") == ["attic"] for n in runs), "their calls take longer than 2 s"
    assert shares(machines)["barn"] == 4
    await machines.pass_time(20.0, "attic", "barn")
    for n in runs:
        [home] = machines.holders(f"a{n}")
        assert len(await ask(machines.up[home], "memory", f"a{n}", xpath="late")) == 1
    assert set(calls_made(machines).values()) == {1}


@on_machines
async def test_G55_an_agent_that_is_moved_goes_on_there_once_its_calls_have_ended(machines: Machines) -> None:
    attic, barn = await start(machines, "attic"), await start(machines, "barn", LIGHT)
    await ask(attic, "add_agent", name="ada")
    run = await ask(attic, "start", "ada", name="w.chain")
    answer = await moves(machines, attic, 8.0, "ada", "barn")
    assert answer == {"name": "ada", "from": "attic", "to": "barn"}
    await machines.pass_time(1.0, "attic", "barn")
    assert machines.holders("ada") == ["barn"]
    await machines.pass_time(5.0, "attic", "barn")
    assert (await ask(barn, "show", "ada", run=run["eid"]))["state"] == "done"
    assert sorted(calls_made(machines).values()) == [1, 1, 1]
    made_at = [line.split()[-1] for line in (machines.folder / "made").read_text().splitlines()]
    assert made_at == ["attic", "barn", "barn"], "a call that had not begun is left to the other daemon"


@on_machines
async def test_G55_calls_that_go_on_beyond_the_grace_are_made_again_or_interrupted(
    machines: Machines,
) -> None:
    attic, barn = await start(machines, "attic"), await start(machines, "barn", LIGHT)
    for name, recipe in (("ada", "w.wait"), ("bob", "w.once"), ("cleo", "w.watch")):
        await ask(attic, "add_agent", name=name)
        await ask(attic, "start", name, name=recipe)
    began = machines.clock.now()
    await moves(machines, attic, 9.0, "cleo", "barn")
    assert machines.clock.now() - began <= 1.0, "a source is begun anew anywhere"
    for name in ("ada", "bob"):
        began = machines.clock.now()
        await moves(machines, attic, 9.0, name, "barn", grace=3.0)
        assert 3.0 <= machines.clock.now() - began <= 4.0
    await machines.pass_time(32.0, "attic", "barn")
    assert {machines.holders(name)[0] for name in ("ada", "bob", "cleo")} == {"barn"}
    made = calls_made(machines)
    assert {agent: count for (agent, _), count in made.items()} == {"ada": 2, "bob": 1}
    assert len(await ask(barn, "memory", "ada", xpath="late")) == 1
    [error] = await ask(barn, "memory", "bob", xpath="error")
    assert "interrupted" in error["xml"]


@on_machines
async def test_G55_agents_that_are_passive_or_suspended_are_moved_at_once(machines: Machines) -> None:
    attic, barn = await start(machines, "attic"), await start(machines, "barn", LIGHT)
    for name in ("ada", "bob"):
        await ask(attic, "add_agent", name=name)
        await ask(attic, "add", name, elements=[b"<tick/>"])
    await ask(attic, "passivate", name="ada")
    await ask(attic, "suspend", name="bob", reason="on leave")
    for name in ("ada", "bob"):
        await moves(machines, attic, 2.0, name, "barn")
    await machines.pass_time(1.0, "attic", "barn")
    states = {row["name"]: (row["state"], row["owner"]) for row in await ask(barn, "agents")}
    assert (states["ada"], states["bob"]) == (("passive", "barn"), ("suspended", "barn"))
    await ask(barn, "resume", name="bob")
    assert len(await ask(barn, "memory", "bob", xpath="tick")) == 1


@on_machines
async def test_G55_what_cannot_be_moved_is_refused_with_the_reason(machines: Machines) -> None:
    (machines.folder / "attic" / "agents" / "files").mkdir(parents=True)
    (machines.folder / "attic" / "agents" / "files" / "agent.toml").touch()
    attic, barn = await start(machines, "attic"), await start(machines, "barn", LIGHT)
    await ask(attic, "add_agent", name="ada")
    await machines.beat()
    refused = {
        ("attic", "barn"): "attic is the home's own agent, which stays with its home",
        ("files", "barn"): "files stays with this home as long as its folder agents/files is here",
        (
            "ada",
            "bran",
        ): "no daemon of a home 'bran' is at work (did you mean 'barn'?); there are attic, barn",
        ("adda", "barn"): "there is no agent 'adda' here",
    }
    for (name, to), why in refused.items():
        with pytest.raises(RequestError) as error:
            await ask(attic, "move_agent", name=name, to=to)
        assert why in str(error.value)
    with pytest.raises(RequestError, match="grace to be seconds"):
        await ask(attic, "move_agent", name="ada", to="barn", grace=-1.0)
    with pytest.raises(ElsewhereError, match="ask there"):
        await ask(barn, "move_agent", name="ada", to="barn")
    assert (await ask(attic, "move_agent", name="ada", to="attic"))["to"] == "attic"
    fleet_of(barn).members.drain()
    await machines.beat("barn", "attic")
    with pytest.raises(RequestError, match="takes no agents: it gives all away"):
        await ask(attic, "move_agent", name="ada", to="barn")
    assert machines.holders("ada") == ["attic"]


@on_machines
async def test_G55_an_agent_stays_where_it_is_if_the_other_daemon_is_gone(machines: Machines) -> None:
    attic = await start(machines, "attic")
    await start(machines, "barn", LIGHT)
    await ask(attic, "add_agent", name="ada")
    await ask(attic, "add", "ada", elements=[b"<tick/>"])
    await machines.beat()
    machines.server.daemons.pop(machines.up["barn"].store.leases.daemon)  # type: ignore[union-attr]
    del machines.up["barn"]
    with pytest.raises(RequestError, match="ada was not moved: the daemon of barn is gone"):
        await moves(machines, attic, 3.0, "ada", "barn")
    await machines.pass_time(1.0, "attic")
    assert machines.holders("ada") == ["attic"]
    assert len(await ask(attic, "memory", "ada", xpath="tick")) == 1


@pytest.mark.parametrize("when", ["before it is given", "after it is given"])
def test_G55_an_agent_that_is_moved_when_either_daemon_is_killed_goes_on(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_machines
    async def body(machines: Machines) -> None:
        attic, barn = await start(machines, "attic"), await start(machines, "barn", LIGHT)
        await ask(attic, "add_agent", name="ada")
        run = await ask(attic, "start", "ada", name="w.chain")
        await machines.pass_time(1.5, "attic", "barn")
        departures = fleet_of(attic).members.departures
        moving = asyncio.create_task(departures.move("ada", barn.store.leases.daemon, 5.0))  # type: ignore[union-attr]
        lost, left = ("attic", "barn") if when.startswith("before") else ("barn", "attic")
        while not departures.gone():
            await asyncio.sleep(0.001)
            machines.clock.advance(0.1)
            departures.look()
            await attic.main_loop.until_idle()
        if lost == "barn":
            await machines.beat("attic")
            assert await moving
        await machines.kill(lost)
        await machines.pass_time(12.0, left)
        assert machines.holders("ada") == [left]
        assert (await ask(machines.up[left], "show", "ada", run=run["eid"]))["state"] == "done"
        assert sorted(calls_made(machines).values()) == [1, 1, 1]
        moving.cancel()

    body(tmp_path, monkeypatch)


@on_machines
async def test_G56_a_daemon_that_drains_gives_busy_agents_at_the_end_of_a_turn(machines: Machines) -> None:
    attic = await start(machines, "attic")
    barn = await start(machines, "barn", LIGHT)
    for n in range(3):
        await ask(attic, "add_agent", name=f"a{n}")
        await ask(attic, "start", f"a{n}", name="w.chain")
    await ask(attic, "stop", drain=True)
    await machines.pass_time(8.0, "attic", "barn")
    assert len(barn.agents.rows) == 3
    await machines.pass_time(5.0, "attic", "barn")
    assert sorted(calls_made(machines).values()) == [1] * 9


@on_machines
async def test_G2_a_folder_counts_as_soon_as_its_agent_can_be_had(machines: Machines) -> None:
    attic = await machines.start("attic")
    await ask(attic, "add_agent", name="ada")
    (machines.folder / "barn/agents/ada").mkdir(parents=True)
    (machines.folder / "barn/agents/ada/agent.toml").write_text("weight = 30\n")
    barn = await machines.start("barn", LIGHT)
    await machines.beat()
    [item] = await ask(barn, "attention")
    assert item["text"].startswith("agents/ada has no effect: ada is active at home attic")
    moving = asyncio.create_task(ask(attic, "move_agent", name="ada", to="barn"))
    while not moving.done():
        await machines.beat("attic")
    while await ask(barn, "attention"):
        await machines.beat("barn")
        await asyncio.sleep(0)
    ada = barn.agents.rows["ada"].agent
    assert ada in barn.store.leases.pinned()  # type: ignore[union-attr]


@on_machines
async def test_G56_a_daemon_that_drains_has_no_more_agents_for_their_folders(machines: Machines) -> None:
    attic = await machines.start("attic")
    await ask(attic, "add_agent", name="ada")
    (machines.folder / "barn/agents/ada").mkdir(parents=True)
    (machines.folder / "barn/agents/ada/agent.toml").write_text("weight = 30\n")
    barn = await machines.start("barn", LIGHT)
    fleet_of(barn).members.drain()
    await machines.kill("attic")
    await machines.pass_time(5.0, "barn")
    assert "ada" not in barn.agents.rows
