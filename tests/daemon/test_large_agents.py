"""Large agents: one is brought back in slices, and keeps nobody waiting meanwhile (G10)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent.recovery import FILES, PIECE, RUNS, blank, restoring, restoring_memory
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.store.batch import Batch, ResultRow
from tests.daemon.at_work import Scene

RECIPE = """<recipe group="w" name="takes" start_step="a" end_step="b">
  <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>order</match></condition></transition>
</recipe>"""
PIECES = 3


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def opened(scene: Scene) -> Daemon:
    """A daemon with a large agent, `ada`, which is passive."""
    daemon = await scene.open()
    await ask(daemon, "", "add_agent", name="ada")
    await ask(daemon, "ada", "add", elements=[b"<note n='%d'/>" % n for n in range(PIECES * PIECE)])
    await ask(daemon, "ada", "start", name="w.takes")
    await daemon.main_loop.until_idle()
    await ask(daemon, "", "passivate", name="ada")
    return daemon


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "home")
    scene.write("recipes/w.xml", RECIPE)
    return scene


async def at_work(daemon: Daemon, asked: list[asyncio.Task[Any]]) -> None:
    for task in asked:
        task.add_done_callback(lambda _: daemon.main_loop.wake())
    await daemon.main_loop.work_until(lambda: all(task.done() for task in asked))


def test_G10_no_piece_of_an_activation_is_more_than_so_many_rows(scene: Scene) -> None:
    async def story() -> list[int]:
        daemon = await opened(scene)
        for _ in range(RUNS):
            await ask(daemon, "ada", "start", name="w.takes")
        await daemon.main_loop.until_idle()
        await ask(daemon, "", "passivate", name="ada")
        agent = blank(daemon.agent.library, daemon.store.of(2))
        work, sizes = restoring(agent), []
        read = next(work)
        try:
            while True:
                rows = read()
                sizes.append(len(rows))
                read = work.send(rows)
        except StopIteration:
            pass
        assert len(agent.memory.elements) == sum(sizes[: PIECES + 1])
        assert len(agent.runs.active) == RUNS + 1
        await scene.end()
        return sizes

    sizes = asyncio.run(story())
    elements, (held, used, withdrawn, labelled, files, runs, *histories, moments) = (
        sizes[: PIECES + 1],
        sizes[PIECES + 1 :],
    )
    assert held == used == labelled == withdrawn == files == 0
    assert elements[:PIECES] == [PIECE] * PIECES
    assert 0 < elements[PIECES] < PIECE
    assert (runs, moments) == (RUNS + 1, 0)
    assert [size for size in histories if size] == [RUNS, 1]


def test_G10_the_labels_of_many_files_are_brought_back_in_pieces(scene: Scene) -> None:
    async def story() -> tuple[list[int], int]:
        daemon = await opened(scene)
        rows = [ResultRow(FILES, f"{n}.txt", 1.0, b'["mail"]') for n in range(PIECES * PIECE + 1)]
        daemon.store.commit(Batch(2, results={(row.scope, row.key): row for row in rows}))
        agent = blank(daemon.agent.library, daemon.store.of(2))
        work, done = restoring_memory(agent), list[int]()
        read = next(work)
        with suppress(StopIteration):
            while True:
                done.append(len(agent.memory.labels.files))
                read = work.send(read())
        await scene.end()
        return done, len(agent.memory.labels.files)

    done, count = asyncio.run(story())
    assert count == PIECES * PIECE + 1
    assert sorted({*done}) == [n * PIECE for n in range(PIECES + 1)]


def test_G10_others_are_answered_while_a_large_agent_is_brought_back(scene: Scene) -> None:
    async def story() -> list[str]:
        daemon, told = await opened(scene), list[str]()

        async def asking(agent: str, **more: Any) -> None:
            await ask(daemon, agent, "count", **more)
            told.append(agent or "home")

        asked = [asyncio.create_task(asking(agent)) for agent in ("ada", "ada", "")]
        await at_work(daemon, asked)
        assert (await ask(daemon, "ada", "count", xpath="note"))["count"] == PIECES * PIECE
        await scene.end()
        return told

    assert asyncio.run(story()) == ["home", "ada", "ada"]


def test_G10_a_removal_waits_for_an_activation_and_a_stop_drops_it(scene: Scene) -> None:
    async def story() -> None:
        daemon = await opened(scene)
        counted = asyncio.create_task(ask(daemon, "ada", "count"))
        await asyncio.sleep(0)
        await daemon.close()
        with pytest.raises(RequestError, match="no longer active"):
            await counted
        daemon = await scene.open()
        asked = [
            asyncio.create_task(ask(daemon, "ada", "count")),
            asyncio.create_task(ask(daemon, "", "remove_agent", name="ada", now=True)),
        ]
        await at_work(daemon, asked)
        await asyncio.gather(*asked, return_exceptions=True)
        assert [row["name"] for row in await ask(daemon, "", "agents")] == ["narval"]
        assert daemon.store.held() == [] or all(agent == 1 for agent, *_ in daemon.store.held())
        await scene.end()

    asyncio.run(story())
