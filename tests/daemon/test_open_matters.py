"""What needs attention in other agents, as the home tells it: it activates none (M13)."""

from __future__ import annotations

import pytest

import narval
from narval.core.errors import NarvalError, StoreError
from narval.daemon.agents import agent_rows, supervisor
from narval.daemon.agents.agent_rows import NOTHING_OPEN, Matters, OpenMatters
from tests.daemon.at_work import Scene, in_a_loop
from tests.daemon.test_agents import ask, opened, scene, states

__all__ = ["scene"]


@in_a_loop
async def test_M13_the_home_tells_of_other_agents_that_have_something_open(scene: Scene) -> None:
    fails = '<step id="a" type="action" target="basic.error"/>'
    scene.write("recipes/f.xml", f'<recipe group="w" name="f" start_step="a" end_step="a">{fails}</recipe>')
    daemon = await opened(scene, "ada", "bob")
    run = (await ask(daemon, "ada", "start", name="w.f"))["eid"]
    await ask(daemon, "bob", "start", name="w.takes")
    await daemon.main_loop.until_idle()
    told = [("agent", "agent ada has 1 failed run: narval attention --agent ada", {"agent": "ada"})]

    async def others() -> list[tuple[str, str, dict[str, str]]]:
        rows = await ask(daemon, "", "attention")
        return [(row["what"], row["text"], row["link"]) for row in rows if row["what"] == "agent"]

    assert await others() == told
    await daemon.main_loop.elapse(121.0)
    assert (await states(daemon))["ada"] == "passive"
    assert await others() == told
    assert (await states(daemon))["ada"] == "passive"
    assert [row["what"] for row in await ask(daemon, "ada", "attention")] == ["incident"]
    (incident,) = await ask(daemon, "ada", "incidents")
    assert incident["newest"] == [run]
    await ask(daemon, "ada", "acknowledge", incident=incident["incident"], reason="seen")
    assert await others() == []
    await scene.end()


@in_a_loop
async def test_M13_failed_nodes_and_errors_of_agents_are_counted_and_outlast_the_daemon(scene: Scene) -> None:
    node = '<custom><execute type="python">missing()</execute></custom>'
    starts = f'<node name="a" type="script" isStart="true">{node}</node>'
    scene.write("recipes/p.wf.xml", f'<process-definition name="p">{starts}</process-definition>')
    daemon = await opened(scene, "ada", "bob")
    run = (await ask(daemon, "ada", "start", name="p.p"))["eid"]
    await daemon.main_loop.until_idle()

    async def others() -> list[str]:
        rows = await ask(daemon, "", "attention")
        return [row["text"] for row in rows if row["what"] == "agent"]

    sentence = "agent ada has 1 other error: narval attention --agent ada"
    await ask(daemon, "bob", "start", name="p.p")
    await daemon.main_loop.until_idle()
    assert len(await others()) == 2
    await ask(daemon, "", "remove_agent", name="bob", now=True)
    await ask(daemon, "", "add_agent", name="bob")
    assert await others() == [sentence]
    await daemon.main_loop.elapse(121.0)
    assert (await states(daemon))["ada"] == "passive"
    await scene.end()
    daemon = await scene.open()
    assert await others() == [sentence]
    assert (await states(daemon))["ada"] == "passive"
    await ask(daemon, "ada", "complete", run=run, token=1)
    await daemon.main_loop.until_idle()
    assert await others() == []
    await daemon.main_loop.elapse(121.0)
    await scene.end()
    daemon = await scene.open()
    assert await others() == []
    await scene.end()


@in_a_loop
async def test_M13_it_is_said_that_older_failures_were_not_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_rows, "MOST", 1)
    fails = '<step id="a" type="action" target="basic.error"/>'
    scene.write("recipes/f.xml", f'<recipe group="w" name="f" start_step="a" end_step="a">{fails}</recipe>')
    daemon = await opened(scene, "ada")
    for _ in range(2):
        await ask(daemon, "ada", "start", name="w.f")
    await daemon.main_loop.elapse(121.0)
    assert (await states(daemon))["ada"] == "passive"
    for _ in range(2):
        rows = await ask(daemon, "", "attention")
        assert [row["text"] for row in rows if row["what"] == "agent"] == [
            "agent ada has at least 1 failed run: narval attention --agent ada"
        ]
        await scene.end()
        daemon = await scene.open()
    await scene.end()


@in_a_loop
async def test_M13_what_an_agent_left_open_is_told_while_it_cannot_be_restored(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = '<step id="a" type="action" target="basic.error"/>'
    scene.write("recipes/f.xml", f'<recipe group="w" name="f" start_step="a" end_step="a">{fails}</recipe>')
    daemon = await opened(scene, "ada")
    await ask(daemon, "ada", "start", name="w.f")
    await daemon.main_loop.elapse(121.0)
    assert (await states(daemon))["ada"] == "passive"

    def broken(agent: object) -> None:
        raise StoreError("it cannot be read")

    monkeypatch.setattr(supervisor, "restoring", broken)
    with pytest.raises(NarvalError, match="cannot be read"):
        await ask(daemon, "ada", "count")
    rows = await ask(daemon, "", "attention")
    assert [row["text"] for row in rows if row["what"] == "agent"] == [
        "agent ada has 1 failed run: narval attention --agent ada"
    ]
    await scene.end()


def test_M13_a_hundred_failed_runs_of_an_agent_are_counted_by_one_look() -> None:
    fails = '<step id="a" type="action" target="basic.error"/>'
    with narval.open() as agent:
        agent.load(f'<recipe group="w" name="f" start_step="a" end_step="a">{fails}</recipe>')
        for _ in range(100):
            agent.start("w.f")
        agent.until_idle()
        assert OpenMatters().of("ada", agent.daemon.agent) == Matters(100, 0, 0)
        agent.start("w.f")
        agent.until_idle()
        matters = OpenMatters()
        assert matters.of("ada", agent.daemon.agent) == Matters(100, 0, 0, is_cut=True)
        (row,) = agent.ask("incidents")
        agent.ask("acknowledge", incident=row["incident"], reason="mended")
        for looked in (matters, OpenMatters()):
            assert looked.of("ada", agent.daemon.agent) == NOTHING_OPEN, "those left out are dealt with too"
