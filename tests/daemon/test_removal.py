"""The removal of an agent: its backup, and what is asked of it meanwhile (G20)."""

from __future__ import annotations

import errno
from pathlib import Path
from unittest.mock import Mock

import pytest

from narval.core.errors import RequestError, StoreError
from narval.store.backups.restore import opened as backup_opened
from narval.store.backups.restore import restore_agent
from tests.daemon.at_work import Scene, in_a_loop
from tests.daemon.test_agents import acks, ask, at_once, opened, scene, states

__all__ = ["scene"]


@in_a_loop
async def test_G20_an_agent_with_runs_under_way_is_removed_only_at_once(scene: Scene) -> None:
    daemon = await opened(scene, "ada")
    await ask(daemon, "ada", "start", name="w.calls")
    await daemon.main_loop.elapse(1.0)
    with pytest.raises(RequestError, match="ada has 1 run under way"):
        await ask(daemon, "", "remove_agent", name="ada")
    await ask(daemon, "", "remove_agent", name="ada", now=True)
    assert await states(daemon) == {"narval": "active"}
    assert [row.name for row in daemon.store.agents()] == ["narval"]
    with pytest.raises(RequestError, match="always active"):
        await ask(daemon, "", "remove_agent", name="narval")
    await scene.end()


@in_a_loop
async def test_G20_a_backup_is_written_before_an_agent_is_removed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await opened(scene, "ada")
    await ask(daemon, "ada", "start", name="w.takes")
    with monkeypatch.context() as patch:
        full = OSError(errno.ENOSPC, "it is full")
        patch.setattr("narval.store.backups.backup.write_store", Mock(side_effect=full))
        with pytest.raises(StoreError, match=r"ada-.*it is full"):
            await ask(daemon, "", "remove_agent", name="ada", now=True)
    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
    await daemon.main_loop.until_idle()
    assert len(await acks(daemon, "ada")) == 1, "it stays, and goes on"
    answer = await ask(daemon, "", "remove_agent", name="ada")
    await scene.end()
    with backup_opened(Path(answer["backup"])) as backup:
        restore_agent(scene.home.store, backup, "ada", "eve", lambda rows: None)
    daemon = await scene.open()
    await ask(daemon, "", "resume", name="eve")
    assert len(await acks(daemon, "eve")) == 1
    await scene.end()


@in_a_loop
async def test_G20_an_agent_that_is_being_removed_is_asked_nothing_more(scene: Scene) -> None:
    daemon = await opened(scene, "ada")
    done = await at_once(
        daemon,
        ask(daemon, "", "remove_agent", name="ada"),
        ask(daemon, "", "remove_agent", name="ada"),
        ask(daemon, "", "resume", name="ada"),
        ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"]),
    )
    assert [str(error) for error in done[1:]] == ["ada is being removed"] * 3
    assert await states(daemon) == {"narval": "active"}
    await scene.end()
