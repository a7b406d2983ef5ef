"""A store of every version there was is brought up to date with all that was under way in it (N35)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from narval.ask.runs.acts import signal
from narval.kinds.process.operations import complete
from narval.store import migrate, tables
from tests.daemon.at_work import Scene, in_a_loop, portrait
from tests.store.older_stores import BEGUN, VERSIONS, put

STORED = sorted(VERSIONS.glob("*.sql"))
LABELS = 7
"""The first version that has labels."""

UNDER_WAY = {
    "w.waits": "running",
    "w.calls": "running",
    "w.later": "running",
    "w.ends": "done",
    "w.fails": "failed",
    "desk.order": "executing",
    "guard.door": "running",
}


def test_there_is_a_store_of_each_version() -> None:
    assert [int(path.stem) for path in STORED] == list(range(migrate.OLDEST, tables.HEAD + 1))


@pytest.mark.parametrize("version", STORED, ids=lambda path: path.stem)
@in_a_loop
async def test_N35_an_older_store_is_opened_with_all_that_was_under_way(
    version: Path, tmp_path: Path
) -> None:
    scene = put(tmp_path, version)
    daemon = await scene.open(record_only=True)
    agent = daemon.agent
    assert agent.store.identity() == (1, _id_in(version), "narval", "active", "", None)
    assert {run.name: run.status for run in agent.runs.values()} == UNDER_WAY
    assert {run.started for run in agent.runs.values()} == {BEGUN}
    assert {run.name: run.by for run in agent.runs.values() if run.by} == {"w.later": "ada"}
    by_name = {run.name: run.eid for run in agent.runs.values() if run.caller is None}
    child = next(run for run in agent.runs.values() if run.caller is not None)
    assert (child.name, child.caller.run if child.caller else 0) == ("w.waits", by_name["w.calls"])
    assert agent.memory.marks == {("w.waits", "a", "mail"): {14: by_name["w.waits"], 15: child.eid}}
    door = {by_name["guard.door"]: "mail"} if int(version.stem) >= LABELS else {}
    assert dict(agent.memory.labels.all()) == door
    assert agent.memory.unique_values == {("once", "@step", "a")}
    assert len(agent.memory.outdated) == 1
    assert [type(event).__name__ for _, _, event in agent.queue] == ["Offer"]
    assert len(list(agent.memory.contexts.of(by_name["w.waits"]))) == 2
    assert agent.store.snapshot(by_name["desk.order"]) is not None
    assert [list(agent.store.journal(run)) for run in agent.runs if not list(agent.store.journal(run))] == []
    await scene.end()


@pytest.mark.parametrize("version", STORED, ids=lambda path: path.stem)
@in_a_loop
async def test_N35_the_runs_of_an_older_store_go_on_to_their_end(version: Path, tmp_path: Path) -> None:
    scene = put(tmp_path, version)
    daemon = await scene.open()
    agent = daemon.agent
    await daemon.main_loop.until_idle()
    assert _states(scene)["w.waits"] == {"done", "active"}, "the offer that waited went to one of the two"
    runs = {run.name: run.eid for run in agent.runs.values()}
    await complete(daemon, runs["desk.order"], "ship")
    await signal(daemon, runs["guard.door"], "open")
    scene.clock.advance(10 * 86_400.0)
    await daemon.host.submit(lambda turn: turn.add(b"<go/>"))
    await daemon.main_loop.until_idle()
    assert {name: states for name, states in _states(scene).items() if states != {"done"}} == {
        "w.fails": {"failed"}
    }
    told = [element.xml for eid in agent.memory.named(["told"]) if (element := agent.memory.element(eid))]
    assert len(told) == 4
    assert all(f'by="{_id_in(version)}.'.encode() in xml for xml in told), "ids of calls are as before"
    await scene.end()


@in_a_loop
async def test_a_store_of_this_version_comes_through_a_migration_with_all_it_has(
    tmp_path: Path, next_version: Callable[..., None]
) -> None:
    seen = []
    for folder in ("now", "later"):
        if folder == "later":
            next_version()
        scene = put(tmp_path / folder, STORED[-1])
        daemon = await scene.open(record_only=True)
        seen.append(portrait(daemon.agent))
        await scene.end()
    assert seen[0] == seen[1]


def _id_in(version: Path) -> str:
    """The id of the agent, as the text of its store has it."""
    found = re.search(r'INSERT INTO "agents" VALUES\(1,\'([0-9a-f]{32})\'', version.read_text("utf-8"))
    assert found is not None
    return found.group(1)


def _states(scene: Scene) -> dict[str, set[str]]:
    assert scene.alive is not None
    found: dict[str, set[str]] = {}
    for run in scene.alive.agent.runs.values():
        found.setdefault(run.name, set()).add(run.phase)
    return found
