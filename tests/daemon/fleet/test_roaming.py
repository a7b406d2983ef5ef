"""Roaming agents: they follow what is published, never anything else, at whichever daemon they are (G58)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.elements.element import parse
from narval.core.errors import DefinitionError, NotFetchedError, RequestError, StoreAwayError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.daemon import Daemon
from narval.daemon.fleet.roaming import RoamingAgents, publishing
from tests.acceptance.home import make
from tests.daemon.at_work import Scene, in_a_loop
from tests.daemon.published import PublishedInMemory, share

RECIPE = (
    '<recipe group="{0}" name="{1}" start_step="a" end_step="a">'
    '<step id="a" type="action" target="{0}.say"/></recipe>'
)
MODULE = """\
from narval import Output, action

@action(outputs=[Output("said", "said")])
def say():
    return "<said>{}</said>"
"""


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> PublishedInMemory:
    return share(monkeypatch)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("modules/w.py", MODULE.format("own"))
    scene.write("recipes/w.xml", RECIPE.format("w", "own"))
    return scene


def put(folder: Path, group: str, name: str = "r", word: str = "1") -> Path:
    for path, text in {
        f"modules/{group}.py": MODULE.format(word),
        f"recipes/{group}.xml": RECIPE.format(group, name),
        "data/memory.xml": f"<memory><{group} name='{word}'/></memory>",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def roaming(daemon: Daemon) -> RoamingAgents:
    found = daemon.agents.supervisor.roaming
    assert found is not None
    return found


def recipes(host: AgentHost) -> set[str]:
    return {found.full_name for found in host.agent.library if found.kind == "recipe"}


def declared(host: AgentHost) -> set[str]:
    """The name and the attribute `name` of what `data/memory.xml` declares, of those that are current."""
    memory = host.agent.memory
    found = (memory.element(eid) for eid, key in memory.declared.items() if key.startswith("memory.xml"))
    return {f"{element.name} {parse(element.xml).get('name')}" for element in found if element is not None}


async def ask(daemon: Daemon, method: str, agent: str = "", **given: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), method, given)


def cut() -> None:
    raise StoreAwayError("the connection was cut")


async def hear(daemon: Daemon, published: PublishedInMemory) -> None:
    roaming(daemon).hear(published.digests)
    await roaming(daemon).fetch()


@in_a_loop
async def test_G58_an_agent_follows_the_home_until_a_collection_of_that_name_is_published(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    daemon = await scene.open()
    await daemon.agents.add("ada")
    async with daemon.agents.asked("ada") as ada:
        assert recipes(ada) == {"w.own"}
        published.publish(put(tmp_path / "first", "w"), "home")
        await hear(daemon, published)
        await ada.submit(lambda turn: None)
        assert recipes(ada) == {"w.r"}
        assert declared(ada) == {"w 1"}
        assert recipes(daemon.host) == {"w.own"}  # the home's own agent follows its files
        published.publish(put(tmp_path / "second", "w", "s", "2"), "home")
        await hear(daemon, published)
        await ada.submit(lambda turn: None)
        assert (recipes(ada), declared(ada)) == ({"w.s"}, {"w 2"})
        published.withdraw("home")
        await hear(daemon, published)
        await ada.submit(lambda turn: None)
        assert recipes(ada) == {"w.own"}
        assert not (scene.home.path / "collections/home").exists()
    await scene.end()


@in_a_loop
async def test_G58_an_agent_is_not_activated_before_what_it_follows_is_here_as_published(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.publish(put(tmp_path / "first", "office"), "office")
    daemon = await scene.open()
    await ask(daemon, "add_agent", name="bob", collections=["office"])
    async with daemon.agents.asked("bob") as bob:
        assert (recipes(bob), declared(bob)) == ({"office.r"}, {"office 1"})
        run = (await ask(daemon, "start", agent="bob", name="office.r"))["eid"]
    await scene.end()
    # another version is published while this home is without a daemon, and one while the store is away
    published.publish(put(tmp_path / "second", "office", "s", "2"), "office")
    daemon = await scene.open()
    assert "bob" in daemon.agents.rows
    async with daemon.agents.asked("bob") as bob:
        assert recipes(bob) == {"office.s"}
        published.publish(put(tmp_path / "third", "office", "t", "3"), "office")
        published.is_away = True
        await hear(daemon, published)
        await bob.submit(lambda turn: None)
        assert recipes(bob) == {"office.s"}  # at work it goes on with the version it has
        assert bob.agent.runs[run].name == "office.r"
    row = daemon.agents.rows["bob"]
    daemon.agents.supervisor.lose({row.agent})
    daemon.agents.rows.note(row)  # it is taken again
    with pytest.raises(NotFetchedError, match="does not have the published version yet: office"):
        async with daemon.agents.asked("bob"):
            pass
    assert (await ask(daemon, "agents"))[1]["state"] == "passive"
    published.is_away = False
    roaming(daemon).hear(published.digests)  # as with the next beat
    await roaming(daemon).fetch()
    found = daemon.agents.supervisor.host("bob")
    assert found is not None  # it waited, and went on by itself
    await found.submit(lambda turn: None)
    assert recipes(found) == {"office.t"}
    await scene.end()


@in_a_loop
async def test_G58_a_collection_of_nobody_keeps_an_agent_waiting_and_not_others(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.publish(put(tmp_path / "first", "office"), "office")
    daemon = await scene.open()
    await ask(daemon, "add_agent", name="bob", collections=["office"])
    await daemon.agents.add("eve")
    await scene.end()
    published.withdraw("office")
    daemon = await scene.open()
    assert not (scene.home.path / "collections/office").exists()
    with pytest.raises(NotFetchedError, match="one of which is not published, and not in collections/ here"):
        await ask(daemon, "start", agent="bob", name="office.r")
    assert await ask(daemon, "start", agent="eve", name="w.own")
    scene.write("collections/office/recipes/office.xml", RECIPE.format("office", "mine"))
    scene.write("collections/office/modules/office.py", MODULE.format("own"))
    await daemon.reloader.reload()
    assert await ask(daemon, "start", agent="bob", name="office.mine")
    await scene.end()


@in_a_loop
async def test_G58_a_folder_of_the_users_own_is_a_fault_and_not_followed_where_it_differs(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    own = put(scene.home.path / "collections/office", "office", "own")
    published.publish(own, "office")
    daemon = await scene.open()
    await ask(daemon, "add_agent", name="bob", collections=["office"])
    async with daemon.agents.asked("bob") as bob:
        assert recipes(bob) == {"office.own"}  # the same files are as good
        assert [fault.path for fault in daemon.files.faults] == []
        put(own, "office", "edited")
        await daemon.reloader.reload()
        await bob.submit(lambda turn: None)
        assert recipes(bob) == {"office.own"}
        (fault,) = daemon.files.faults
        assert "collections/office is a folder of this home's own" in fault.message
        with pytest.raises(
            NotFetchedError, match="eve follows collections of which this daemon does not have"
        ):
            await ask(daemon, "add_agent", name="eve", collections=["office"])
        assert "eve" not in daemon.agents.rows, "it would follow the home's own files"
        shop = put(scene.home.path / "collections/shop", "shop", "own")
        published.publish(put(tmp_path / "shop", "shop"), "shop")
        await hear(daemon, published)
        with pytest.raises(NotFetchedError):
            await ask(daemon, "add_agent", name="eve", collections=["shop"])
        published.publish(shop, "shop")
        await hear(daemon, published)
        assert daemon.files.snapshot.followed.keys() == {("office", "own")}, "none follows what was refused"
        published.publish(own, "office")
        await hear(daemon, published)
        await bob.submit(lambda turn: None)
        assert (recipes(bob), daemon.files.faults) == ({"office.edited"}, [])
    await scene.end()


@in_a_loop
async def test_G58_what_is_changed_in_a_published_folder_is_written_over(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.publish(put(tmp_path / "first", "office"), "office")
    daemon = await scene.open()
    await ask(daemon, "add_agent", name="bob", collections=["office"])
    async with daemon.agents.asked("bob") as bob:
        scene.write("collections/office/recipes/office.xml", RECIPE.format("office", "edited"))
        assert await daemon.reloader.reload()  # as when the watcher has seen it
        await bob.submit(lambda turn: None)
        assert recipes(bob) == {"office.r"}
        await roaming(daemon).fetch()
        assert 'name="r"' in (scene.home.path / "collections/office/recipes/office.xml").read_text()
    await scene.end()


@in_a_loop
async def test_an_agent_is_added_once_by_two_requests_at_once(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.publish(put(tmp_path / "first", "office"), "office")
    daemon = await scene.open()
    requests = [ask(daemon, "add_agent", name="bob", collections=["office"]) for _ in range(2)]
    answers = await asyncio.gather(*requests, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["RequestError", "dict"]
    assert "the settings of bob are just being recorded; ask again" in map(str, answers)
    await scene.end()


@in_a_loop
async def test_G58_what_the_store_has_is_looked_at_before_it_is_written(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.put("office", "0" * 64, b"rubbish", "eve")
    daemon = await scene.open()
    told = (scene.home.path / "var/narval.log").read_text()
    assert "office, as it is published, is not taken over: expected a collection with the SHA-256" in told
    assert not (scene.home.path / "collections").exists()
    assert await ask(daemon, "start", name="w.own")
    await scene.end()


@in_a_loop
async def test_G58_settings_of_an_agent_are_in_the_store(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.publish(put(tmp_path / "first", "office"), "office")
    published.publish(put(tmp_path / "second", "shop"), "shop")
    daemon = await scene.open()
    await ask(daemon, "add_agent", name="bob", collections=["office"])
    assert not (scene.home.path / "agents").exists()
    shown = await ask(daemon, "show_agent", name="bob")
    assert shown["text"] == 'collections = ["office", "own"]\n'
    assert list(shown["settings"]["collections"]) == ["office", "own"]
    async with daemon.agents.asked("bob") as bob:
        text = 'collections = ["home", "shop"]\nweight = 20\nmessages = 5\n'
        shown = await ask(daemon, "set_agent_settings", name="bob", text=text)
        assert (shown["text"], shown["settings"]["weight"]) == (text, 20)
        assert (recipes(bob), declared(bob)) == ({"w.own", "shop.r"}, {"shop 1"})
        assert daemon.files.settings_of("bob").messages == 5
        for wrong, error, words in [
            ("weight = 0", DefinitionError, "agent.toml:1:10: weight: expected a whole number"),
            (
                "collections = ['off']",
                RequestError,
                "no published collection off; those there are: office, shop",
            ),
        ]:
            with pytest.raises(error, match=words):
                await ask(daemon, "set_agent_settings", name="bob", text=wrong)
        assert (await ask(daemon, "show_agent", name="bob"))["text"] == text
    with pytest.raises(RequestError, match="no published collection shpo"):
        await ask(daemon, "add_agent", name="eve", collections=["shpo"])
    assert "eve" not in daemon.agents.rows
    with pytest.raises(RequestError, match=r"\[agent\] of etc/narval.toml"):
        await ask(daemon, "set_agent_settings", name="narval", text="")
    await scene.end()
    daemon = await scene.open()
    async with daemon.agents.asked("bob") as bob:
        assert (bob.settings.weight, recipes(bob)) == (20, {"w.own", "shop.r"})
    await scene.end()


@in_a_loop
async def test_G58_a_store_that_is_away_while_settings_are_given_leaves_those_before(
    scene: Scene, published: PublishedInMemory, tmp_path: Path
) -> None:
    published.publish(put(tmp_path / "first", "office"), "office")
    daemon = await scene.open()
    await daemon.agents.add("bob")
    published.publish(put(tmp_path / "second", "shop"), "shop")
    roaming(daemon).hear(published.digests)
    published.before_get = cut
    with pytest.raises(NotFetchedError):
        await ask(daemon, "set_agent_settings", name="bob", text='collections = ["shop"]')
    async with daemon.agents.asked("bob") as bob:
        assert (recipes(bob), bob.settings.collections) == ({"w.own"}, ("home", "own"))
    await scene.end()


@in_a_loop
async def test_G58_what_is_saved_is_published_and_what_has_faults_is_not(
    scene: Scene, published: PublishedInMemory
) -> None:
    daemon = await scene.open()
    at_work = asyncio.create_task(publishing(scene.home.path, daemon.store, daemon.files, "ann")())
    first = await there(published, "")
    scene.write("recipes/w.xml", RECIPE.format("w", "changed"))
    assert await daemon.reloader.reload()
    second = await there(published, first)
    scene.write("recipes/w.xml", RECIPE.format("w", "broken").replace("w.say", "w.sya"))
    assert await daemon.reloader.reload()
    scene.write("recipes/w.xml", RECIPE.format("w", "right"))
    published.is_away = True
    assert await daemon.reloader.reload()
    await asyncio.sleep(0.01)
    published.is_away = False
    third = await there(published, second)
    assert len({first, second, third}) == 3
    (row,) = published.all()
    assert (row.name, row.by) == ("home", "ann")
    at_work.cancel()
    await scene.end()


async def there(published: PublishedInMemory, before: str) -> str:
    """The digest of what is published next."""
    while True:
        if not published.is_away and (rows := published.all()) and rows[0].digest != before:
            return rows[0].digest
        await asyncio.sleep(0.01)


def test_G58_a_home_of_its_own_has_nobody_to_publish_for(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE)
    done = narval("run", "--follow")
    assert done.returncode == 1
    assert b"--follow publishes what is saved in this home: expected a store that homes share" in done.stderr
