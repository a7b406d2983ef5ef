"""Several homes on one store: each daemon has its own agent, and the agents that it holds (G46 to G49)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import ElsewhereError, RequestError
from narval.daemon import daemon as daemons
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from tests.daemon.at_work import in_a_loop
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedLeases, SharedStore
from tests.store.sharing import leases_of

MakeHome = Callable[[str], Home]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, which is the store of all homes."""
    with ExitStack() as ends:
        server = ends.enter_context(closing(Server(tmp_path / "server.db")))
        monkeypatch.setattr(daemons, "open_store", lambda *_, **__: SharedStore(server))
        yield server


@pytest.fixture
def make_home(tmp_path: Path) -> MakeHome:
    """Makes a home of a name."""

    def make(name: str) -> Home:
        folder = tmp_path / f"home-{name}"
        for part in ("etc", "recipes", "data"):
            (folder / part).mkdir(parents=True)
        (folder / "etc/narval.toml").write_text(f'name = "{name}"\n')
        return Home(folder)

    return make


async def ask(daemon: Daemon, operation: str, agent: str = "", /, **given: Any) -> Any:
    """What an operation answers."""
    return await invoke(daemon, PROGRAM.asking(agent) if agent else PROGRAM, operation, given)


async def elements(daemon: Daemon, agent: str = "") -> list[str]:
    found = await ask(daemon, "memory", agent)
    return sorted(element["name"] for element in found)


@in_a_loop
async def test_each_home_has_its_own_agent_and_memory(server: Server, make_home: MakeHome) -> None:
    attic, barn = make_home("attic"), make_home("barn")
    for home, element in ((attic, b"<attic/>"), (barn, b"<barn/>")):
        daemon = await Daemon.open(home)
        await ask(daemon, "add", elements=[element])
        await daemon.close()
    for home, element in ((barn, "barn"), (attic, "attic")):
        daemon = await Daemon.open(home)
        assert (daemon.name, element in await elements(daemon)) == (element, True)
        assert daemon.agent.store.is_own
        await daemon.close()
    assert not server.daemons


@in_a_loop
async def test_an_agent_of_another_daemon_answers_questions_and_is_not_told_anything(
    server: Server, make_home: MakeHome
) -> None:
    attic, barn = await Daemon.open(make_home("attic")), await Daemon.open(make_home("barn"))
    await ask(attic, "add_agent", name="ada")
    await ask(attic, "add", "ada", elements=[b"<email/>"])
    commits = len(server.leases), server.marks([2])
    assert "email" in await elements(barn, "ada")
    for operation, given in (
        ("add", {"elements": [b"<email/>"]}),
        ("start", {"name": "a.b"}),
    ):
        with pytest.raises(ElsewhereError, match=r"ada is active at home attic .*program.*narval send ada"):
            await ask(barn, operation, "ada", **given)
    for operation in ("suspend", "resume", "passivate", "remove_agent"):
        with pytest.raises(ElsewhereError, match="at home attic"):
            await ask(barn, operation, name="ada")
    with pytest.raises(RequestError, match="there is an agent ada already"):
        await ask(barn, "add_agent", name="ada")
    with pytest.raises(ElsewhereError, match="at home attic"):
        await ask(barn, "add", "attic", elements=[b"<email/>"])
    assert (len(server.leases), server.marks([2])) == commits
    shown = {row["name"]: (row["state"], row["owner"], row["epoch"]) for row in await ask(barn, "agents")}
    assert shown == {
        "barn": ("active", "barn", 1),
        "attic": ("elsewhere", "attic", 1),
        "ada": ("elsewhere", "attic", 1),
    }
    assert [row["name"] for row in await ask(barn, "agents", limit=1, after="ada")] == ["attic"]
    one = await ask(barn, "show_agent", name="ada")
    assert (one["state"], one["why"][:29]) == ("elsewhere", "ada is active at home attic (")
    state = await ask(barn, "status", "ada")
    assert (state["agent_state"], state["elements"]) == ("elsewhere", 1)
    await attic.close()
    [own] = [row for row in await ask(barn, "agents") if row["name"] == "attic"]
    assert (own["state"], own["owner"]) == ("waits", None)
    assert own["why"] == "no daemon is at work at its home attic"
    await ask(barn, "add", "ada", elements=[b"<late/>"])
    assert {"email", "late"} <= set(await elements(barn, "ada"))
    with pytest.raises(ElsewhereError, match="attic has its files in another home"):
        await ask(barn, "add", "attic", elements=[b"<email/>"])
    await barn.close()


@in_a_loop
async def test_an_agent_with_a_folder_belongs_to_its_home(server: Server, make_home: MakeHome) -> None:
    first, second = make_home("attic"), make_home("barn")
    (first.path / "agents/ada").mkdir(parents=True)
    attic = await Daemon.open(first)
    await ask(attic, "add_agent", name="bob")
    await ask(attic, "add", "ada", elements=[b"<email/>"])
    await attic.close()
    (second.path / "agents/cleo").mkdir(parents=True)
    barn = await Daemon.open(second)
    with pytest.raises(ElsewhereError, match="ada has its files in another home"):
        await ask(barn, "add", "ada", elements=[b"<email/>"])
    await ask(barn, "add", "bob", elements=[b"<email/>"])
    assert sorted(barn.agents.rows.names()) == ["bob", "cleo"]
    attic = await Daemon.open(first)
    assert list(attic.agents.rows.names()) == ["ada"]
    assert attic.agents.rows["ada"].state == "active"
    (first.path / "agents/ada").rmdir()
    await attic.close()
    attic = await Daemon.open(first)
    assert attic.agents.rows["ada"].why == "agents/ada is gone"
    await attic.close()
    await barn.close()


@in_a_loop
async def test_a_program_without_a_daemon_joins_for_what_it_does(server: Server, make_home: MakeHome) -> None:
    home = make_home("attic")
    (home.path / "agents/ada").mkdir(parents=True)
    for agent in ("", "ada"):
        command = await Daemon.open(home, record_only=True)
        await ask(command, "add", agent, elements=[b"<email/>"])
        await command.close()
        assert not server.daemons
    daemon = await Daemon.open(home)
    assert "email" in await elements(daemon)
    assert "email" in await elements(daemon, "ada")
    await daemon.close()


@asynccontextmanager
async def renewing(daemon: Daemon) -> AsyncIterator[None]:
    """While a daemon renews, as its heartbeat does."""

    async def renew() -> None:
        while True:
            leases_of(daemon.store).renew()
            await asyncio.sleep(0.05)

    task = asyncio.create_task(renew())
    yield
    task.cancel()


@in_a_loop
async def test_a_home_is_at_work_once(server: Server, make_home: MakeHome, tmp_path: Path) -> None:
    home = make_home("attic")
    copied = Home(shutil.copytree(home.path, tmp_path / "copied"))
    daemon = await Daemon.open(home)
    async with renewing(daemon):
        for record_only in (False, True):
            with pytest.raises(ElsewhereError, match=r"home attic.*program.*another `name`.*--standby"):
                await Daemon.open(copied, record_only=record_only)
        standby = asyncio.create_task(Daemon.open(copied, standby=True))
        await ask(daemon, "add", elements=[b"<email/>"])
        await asyncio.wait([standby], timeout=1.5)
        assert not standby.done()
    await daemon.close()
    other = await standby
    assert "email" in await elements(other)
    await other.close()


@in_a_loop
async def test_a_home_whose_daemon_was_killed_waits_for_the_end_of_its_time(
    server: Server, make_home: MakeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home("attic")
    (home.path / "agents/ada").mkdir(parents=True)
    with monkeypatch.context() as killed:
        killed.setattr(SharedLeases, "leave", lambda leases: None)
        daemon = await Daemon.open(home)
        await ask(daemon, "add", "ada", elements=[b"<email/>"])
        await daemon.close()
    assert server.daemons
    daemon = await Daemon.open(home)
    assert "email" in await elements(daemon, "ada")
    await daemon.close()


@in_a_loop
async def test_homes_whose_settings_differ_are_told_of(server: Server, make_home: MakeHome) -> None:
    homes = make_home("attic"), make_home("barn"), make_home("cellar")
    with (homes[2].path / "etc/narval.toml").open("a") as settings:
        settings.write('idle_after = "5m"\nworkers = 7\n')
    with (homes[1].path / "etc/narval.toml").open("a") as settings:
        settings.write("workers = 5\n")
    open_ones = [await Daemon.open(home) for home in homes]
    for daemon in open_ones:
        leases_of(daemon.store).renew()
    attic, barn, cellar = [
        [item["text"] for item in (await ask(daemon, "status"))["attention"] if item["what"] == "fleet"]
        for daemon in open_ones
    ]
    expected = "etc/people.toml or etc/narval.toml says something else at home cellar"
    assert [text.partition(";")[0] for text in (*attic, *barn)] == [expected] * 2
    assert "at home attic, barn" in cellar[0]
    for daemon in open_ones:
        await daemon.close()
