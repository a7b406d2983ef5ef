"""What a session has done and seen is in the home's store, and counts with the turn that takes its end."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import pytest

from narval.agent.replay import state_of
from narval.core.elements.element import parse
from narval.kinds.dataflow.operations import forget_remembered, remembered
from tests.daemon.at_work import Scene, told

PLAN = """PLAN News { OUTPUT: TupleStream new; BODY {
  makestream2("[{\\"id\\": \\"a\\"}, {\\"id\\": \\"b\\"}, {\\"id\\": \\"c\\"}]" : homes)
  remember("homes", "id", homes : new)
  notify("file:news.txt", new)
} }"""

NEWS = ['{"id":"a"}', '{"id":"b"}', '{"id":"c"}']


def home(folder: Path) -> Scene:
    scene = Scene(folder)
    scene.write("recipes/flats.plan", PLAN)
    return scene


async def session(scene: Scene) -> str:
    """Run a session to its end, unless one has begun; how its run has ended."""
    daemon = await scene.open()
    if not [run for run in daemon.agent.runs.values() if run.name == "flats.News"]:
        await daemon.host.submit(lambda turn: turn.start("flats.News"))
    await daemon.main_loop.until_idle()
    return next(run.phase for run in daemon.agent.runs.values() if run.name == "flats.News")


def rows(scene: Scene) -> list[str]:
    """The scopes of the results that are kept."""
    with closing(sqlite3.connect(scene.home.store)) as store:
        return [scope for (scope,) in store.execute("SELECT scope FROM results ORDER BY scope")]


def sent(scene: Scene) -> list[str]:
    return (scene.home.path / "news.txt").read_text().splitlines()


@pytest.mark.parametrize("is_written", [False, True])
def test_T23_killed_at_any_commit_it_sends_once_and_remembers_with_its_end(
    tmp_path: Path, is_written: bool
) -> None:
    kill_at, was_killed = 0, True
    while was_killed:
        kill_at += 1
        scene = home(tmp_path / f"{kill_at}")
        assert asyncio.run(told(session, scene, (kill_at, is_written))) == "done"
        was_killed = scene.kill_at is None
        assert rows(scene) == ["remembered homes"] * 3
        assert sorted(set(sent(scene))) == NEWS, kill_at
        # The one whose record was lost may come again; no other does.
        assert len(sent(scene)) - 3 <= (was_killed and not is_written), kill_at
    assert kill_at > 5


TO_MEMORY = """PLAN Told { OUTPUT: TupleStream new; BODY {
  makestream2("[{\\"id\\": \\"a\\"}, {\\"id\\": \\"b\\"}]" : new)
  notify("element:home", new)
} }"""


def test_an_element_is_given_to_memory_once_wherever_it_was_killed(tmp_path: Path) -> None:
    kill_at, was_killed = 0, True
    while was_killed:
        kill_at += 1
        scene = Scene(tmp_path / f"{kill_at}")
        scene.write("recipes/flats.plan", TO_MEMORY)

        async def story(scene: Scene) -> list[str]:
            daemon = await scene.open()
            if not [run for run in daemon.agent.runs.values() if run.name == "flats.Told"]:
                await daemon.host.submit(lambda turn: turn.start("flats.Told"))
            await daemon.main_loop.until_idle()
            memory = daemon.agent.memory
            given = [memory.element(eid) for eid in memory.index.newest_named(("home",))]
            return sorted(parse(one.xml).findtext("id") or "" for one in given if one is not None)

        assert asyncio.run(told(story, scene, (kill_at, True))) == ["a", "b"], kill_at
        was_killed = scene.kill_at is None
    assert kill_at > 3


AMOUNTS = """PLAN Amounts { OUTPUT: TupleStream paid; BODY {
  retrieve("paid", "" : paid)
  notify("file:news.txt", paid)
} }"""


def test_texts_that_are_no_numbers_are_told_once_wherever_it_was_killed(tmp_path: Path) -> None:
    kill_at, was_killed = 0, True
    while was_killed:
        kill_at += 1
        source = '[sources.paid]\nkind = "csv"\npath = "data/paid.csv"\nnumbers = ["amount"]\n'
        scene = Scene(tmp_path / f"{kill_at}", settings=source)
        scene.write("data/paid.csv", "amount\n1\nabc\n2\n")
        scene.write("recipes/flats.plan", AMOUNTS)

        async def story(scene: Scene) -> list[tuple[int, tuple[str, ...]]]:
            daemon = await scene.open()
            if not [run for run in daemon.agent.runs.values() if run.name == "flats.Amounts"]:
                await daemon.host.submit(lambda turn: turn.start("flats.Amounts"))
            await daemon.main_loop.until_idle()
            run = next(run for run in daemon.agent.runs.values() if run.name == "flats.Amounts")
            (session,) = state_of(daemon.agent, run).sessions
            return [(one.count, one.texts) for one in session.unread]

        assert asyncio.run(told(story, scene, (kill_at, True))) == [(1, ("abc",))], kill_at
        was_killed = scene.kill_at is None
    assert kill_at > 3


def test_a_run_that_failed_has_remembered_nothing_though_its_session_ended_well(tmp_path: Path) -> None:
    scene = home(tmp_path)
    scene.write("agents/ada/agent.toml", "element_bytes = 80\n")

    async def story() -> tuple[str, object]:
        daemon = await scene.open()
        async with daemon.of("ada") as ada:
            run = await ada.host.submit(lambda turn: turn.start("flats.News"))
            await daemon.main_loop.until_idle()
            found = run.phase, await remembered(ada)
        await scene.end()
        return found

    assert asyncio.run(story()) == ("failed", [])
    assert sorted(sent(scene)) == NEWS


def test_an_earlier_file_is_taken_over_once(tmp_path: Path) -> None:
    scene = home(tmp_path)
    scene.home.prepare()
    with closing(sqlite3.connect(scene.home.var / "dataflows.sqlite")) as database, database:
        database.executescript("""
            CREATE TABLE results (session TEXT, key TEXT, data BLOB);
            CREATE TABLE seen (name TEXT, key TEXT, first REAL, last REAL, data BLOB);
            CREATE TABLE sights
                (session TEXT, frame TEXT, name TEXT, key TEXT, first REAL, last REAL, data BLOB);
            CREATE TABLE told (dataflow TEXT, message TEXT, session TEXT);""")
        database.execute("""INSERT INTO seen VALUES ('homes', '["a"]', 1.0, 2.0, '{"id": "a"}')""")
        message = blake2b(b'file:news.txt\n{"id":"c"}', digest_size=16).hexdigest()
        database.execute("INSERT INTO told VALUES ('flats.News {}', ?, '')", (message,))

    async def story() -> None:
        assert await session(scene) == "done"
        assert scene.alive is not None
        assert await remembered(scene.alive) == [{"name": "homes", "items": 3, "by": ["flats.News"]}]
        (item,) = await remembered(scene.alive, "homes", ["a"])
        assert item["first"].startswith("1970-01-01")
        assert (await forget_remembered(scene.alive, "homes"))["forgotten"] == 3
        assert await remembered(scene.alive) == []
        await scene.end()

    asyncio.run(story())
    assert sent(scene) == NEWS[1:2]
    assert rows(scene) == ["dataflows"]
