"""One turn: what an advance does stands whole or not at all, and everything in memory is in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.agent.run import Run
from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.engines.commands import Watch
from narval.core.engines.events import Returned, Started
from narval.core.engines.registry import engine_of
from narval.core.errors import ElementError
from narval.core.patterns.pattern import condition
from narval.core.source.text import Source
from narval.kinds.recipe.engine import engine
from tests.daemon.at_work import Scene, portrait, watched_commits

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True), Input("counter", "counter", outdates=True)],
        outputs=[Output("ack", "ack"), Output("counter", "counter")], runs="inline")
def take(mail, counter):
    return ["<ack/>", "<counter/>"]

@action(runs="inline")
def nothing():
    return None

@action(outputs=[Output("start", "start-plan")], runs="inline")
def spawn():
    return "<start-plan recipe='w.small'><gift/></start-plan>"

@action(outputs=[Output("invoice", "invoice")], runs="inline")
def invoice():
    return "<invoice/>"
"""
RECIPES = """<cookbook>
<recipe group="w" name="take" start_step="s" end_step="e">
  <step id="s" type="action" target="w.take"/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="e"/><condition><match>never</match></condition></transition>
</recipe>
<recipe group="w" name="small" start_step="s" end_step="s">
  <step id="s" type="action" target="w.nothing"/></recipe>
<recipe group="w" name="caller" start_step="s" end_step="e">
  <step id="s" type="recipe" target="w.take"/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s" on-error="yes"/><out idref="e"/></transition>
</recipe>
<recipe group="w" name="spawn" start_step="s" end_step="s">
  <step id="s" type="action" target="w.spawn"/></recipe>
<recipe group="w" name="bill" start_step="s" end_step="s">
  <step id="s" type="action" target="w.invoice"/></recipe>
</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return _scene(tmp_path / "home")


def _scene(folder: Path, **options: Any) -> Scene:
    scene = Scene(folder, **options)
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


def live(scene: Scene, story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    """Tell the story; a daemon that comes up afterwards knows exactly what the last one knew."""

    async def told() -> None:
        await story(scene)
        assert scene.alive is not None
        known = portrait(scene.alive.agent)
        scene.kill(scene.alive)
        await scene.end()
        again = await scene.open(record_only=True)
        assert portrait(again.agent) == known
        await scene.end()

    with watched_commits(scene):
        asyncio.run(told())


def breaks_on(monkeypatch: pytest.MonkeyPatch, recipe: str, event_type: type) -> None:
    """The plan engine does all it would do for an event, and then raises."""
    advance = engine.advance

    def breaks(decision: Any, event: Any) -> None:
        advance(decision, event)
        if decision.definition.full_name == recipe and isinstance(event, event_type):
            watch = Watch("of no use", (condition("mail").bind({}),), (None,))
            decision.view.apply(decision.state.eid, watch)
            raise ZeroDivisionError("a bug")

    monkeypatch.setattr(engine, "advance", breaks)


@pytest.mark.parametrize("event_type", [Started, Returned])
def test_an_advance_that_raises_ends_its_run_alone_and_leaves_no_other_trace(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, event_type: type
) -> None:
    breaks_on(monkeypatch, "w.take", event_type)

    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        memory = daemon.agent.memory
        mail, counter = [
            await daemon.host.submit(lambda turn, x=x: turn.add(x)) for x in (b"<mail/>", b"<counter/>")
        ]
        run = await daemon.host.submit(lambda turn: turn.start("w.caller"))
        other = await daemon.host.submit(lambda turn: turn.start("w.small"))
        await daemon.main_loop.until_idle()
        (child,) = daemon.agent.runs.children[run.eid]
        failed = daemon.agent.runs[child]
        assert (failed.status, failed.phase) == ("failed", "failed")
        assert run.status == "done"  # its caller was told, and handled it
        assert other.status == "done"
        assert memory.is_available(counter, None)
        assert counter not in memory.outdated
        assert (mail in memory.marks.get(("w.take", "s", "mail"), ())) == (event_type is Returned)
        assert not list(memory.named(["ack"]))
        assert not len(daemon.agent.watches.index)
        (error,) = [memory.element(eid) for eid in memory.named(["error"])]
        assert error is not None
        assert b"internal-error" in error.xml
        assert b"a bug" in error.xml

    live(scene, story)


@pytest.mark.parametrize("limit", [1, 1000])
def test_N4_a_start_plan_that_an_action_gives_is_obeyed_once_across_restarts(
    tmp_path: Path, limit: int
) -> None:
    scene = _scene(tmp_path / "home", limit=limit)

    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        await daemon.host.submit(lambda turn: turn.start("w.spawn"))
        await daemon.main_loop.until_idle()
        for _ in range(2):
            scene.kill(daemon)
            await scene.end()
            daemon = await scene.open()
            await daemon.main_loop.until_idle()
        assert sorted(run.name for run in daemon.agent.runs.values()) == ["w.small", "w.spawn"]
        assert len(list(daemon.agent.memory.named(["gift"]))) == 1

    live(scene, story)


def test_N4_a_start_plan_of_an_unknown_recipe_is_told_and_waits_for_it(scene: Scene) -> None:
    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        await daemon.host.submit(lambda turn: turn.add(b'<start-plan recipe="w.later"/>'))
        await daemon.main_loop.until_idle()
        (error,) = daemon.agent.memory.named(["error"])
        element = daemon.agent.memory.element(error)
        assert element is not None
        assert b"w.later" in element.xml
        scene.write("recipes/later.xml", LATER)
        scene.kill(daemon)
        await scene.end()
        daemon = await scene.open()
        await daemon.main_loop.until_idle()
        assert [run.status for run in daemon.agent.runs.values()] == ["done"]

    live(scene, story)


LATER = """<recipe group="w" name="later" start_step="s" end_step="s">
  <step id="s" type="action" target="w.nothing"/></recipe>"""
RNG = """<element name="invoice" xmlns="http://relaxng.org/ns/structure/1.0">
<attribute name="number"/></element>"""


def test_N7_an_element_that_its_schema_refuses_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    scene = _scene(tmp_path / "home")
    scene.write("etc/schemas/invoice.rng", RNG)
    scene.write("data/memory.xml", "<memory>\n <invoice/>\n</memory>")
    with pytest.warns(narval.FaultWarning, match="memory.xml:2"):
        opened = narval.open(scene.home.path)
    with opened as agent:
        (fault,) = agent.ask("status")["faults"]
        assert (fault["path"], fault["line"]) == ("data/memory.xml", 2)
        for work in (lambda: agent.add("<invoice/>"), lambda: agent.start("w.small", "<invoice/>")):
            with pytest.raises(ElementError, match="refused by its schema"):
                work()
        run = agent.start("w.bill")
        start = agent.add("<start-plan recipe='w.small'><invoice/></start-plan>")
        agent.until_idle()
        assert agent.run(run)["error"]["type"] == "bad-output"
        assert "invoice.rng" in agent.run(run)["error"]["message"]
        assert agent.memory(f"error[@start='{start}' and @type='invalid']")
        assert not agent.memory("invoice")
        assert [each["name"] for each in agent.runs()] == ["w.bill"]


WATCHER = """<recipe group="w" name="watcher" start_step="s" end_step="e">
  <step id="s" type="action" target="w.nothing"/><step id="e" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="e"/>
    <condition use="yes"><match>plan[@state='failed' and @name='take']</match></condition></transition>
</recipe>"""


def test_N2_a_run_in_memory_is_offered_again_with_each_change_of_its_state(scene: Scene) -> None:
    scene.write("recipes/watcher.xml", WATCHER)

    async def story(scene: Scene) -> None:
        daemon = await scene.open()
        watcher = await daemon.host.submit(lambda turn: turn.start("w.watcher"))
        await daemon.main_loop.until_idle()
        assert watcher.status == "running"
        await daemon.host.submit(lambda turn: turn.start("w.take"))  # without a mail it fails
        await daemon.main_loop.until_idle()
        assert watcher.status == "done"

    live(scene, story)


def test_a_run_that_has_not_begun_is_in_the_state_that_the_store_brings_back() -> None:
    text = '<process-definition name="p"><node name="a"/></process-definition>'
    (process,) = parse(Source("p.xml", text.encode())).definitions
    run = Run(1, engine_of("process"), "p.p", process.digest, 0.0)
    run.begin(process, Library([process]))
    assert run.status == run.state.status == "created"
