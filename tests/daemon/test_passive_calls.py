"""Calls and sources of passive agents go on, and what comes of them activates their agent (G7)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.agent.loop import Loop
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop
from tests.places import ROOT

MODULE = """
import asyncio
import threading
import narval
from narval import Output, action

made, gates, mails = [], {}, asyncio.Queue()

@action(outputs=[Output("late", "late")])
async def wait():
    made.append(narval.call().id)
    await narval.sleep(200)
    return "<late/>"

lingering = asyncio.Event()

@action(outputs=[Output("late", "late")])
async def lingers():
    made.append(narval.call().id)
    try:
        await narval.sleep(200)
    except asyncio.CancelledError:
        await lingering.wait()
        raise
    return "<late/>"

@action(outputs=[Output("done", "done")])
def blocks():
    made.append(narval.call().id)
    gates.setdefault(narval.call().id, threading.Event()).wait()
    return "<done/>"

@action(source=True, outputs=[Output("mail", "mail", list=True)])
async def watch():
    made.append(narval.call().id)
    while True:
        if mails.empty():
            narval.call().caught_up()
        yield f"<mail n='{await mails.get()}'/>"
"""


def _recipe(name: str, more: str = "") -> str:
    step = f'<step id="s" type="action" target="w.{name}" {more}/>'
    return f'<recipe group="w" name="{name}" start_step="s" end_step="s">{step}</recipe>'


NAMES = ("wait", "lingers", "watch")
RECIPES = f"""<cookbook>{"".join(map(_recipe, NAMES))}{_recipe("blocks", 'on-restart="error"')}</cookbook>"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\nthreads = 1\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def state(daemon: Daemon, name: str = "ada") -> str:
    return next(row["state"] for row in await ask(daemon, "", "agents") if row["name"] == name)


async def ada_runs(scene: Scene, name: str) -> tuple[Daemon, int]:
    daemon = await scene.open()
    await ask(daemon, "", "add_agent", name="ada")
    return daemon, (await ask(daemon, "ada", "start", name=name))["eid"]


async def works(daemon: Daemon, fact: Callable[[], Any]) -> None:
    """Let the daemon work until something is so, which may come about beside it."""

    async def look() -> None:
        while not fact():
            await asyncio.sleep(0.01)
        daemon.main_loop.wake()

    looking = asyncio.create_task(look())
    await daemon.main_loop.work_until(looking.done)
    await looking


def module(daemon: Daemon) -> Any:
    """The globals of the module."""
    return next(iter(daemon.files.loaded.functions.values())).__globals__


@in_a_loop
async def test_G7_a_call_under_way_does_not_keep_its_agent_active(scene: Scene) -> None:
    daemon, run = await ada_runs(scene, "w.wait")
    await daemon.main_loop.elapse(100.0)
    assert await state(daemon) == "passive"
    assert daemon.calls.counts.running == 1
    await daemon.main_loop.elapse(99.0)
    assert await state(daemon) == "passive"
    await daemon.main_loop.elapse(2.0)
    assert await state(daemon) == "active"
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "done"
    assert len(module(daemon)["made"]) == 1
    await daemon.main_loop.elapse(61.0)
    assert daemon.store.of(2).identity().state == "passive"
    await scene.end()


@in_a_loop
async def test_G7_an_activation_makes_no_call_again_that_is_under_way(scene: Scene) -> None:
    daemon, run = await ada_runs(scene, "w.wait")
    await daemon.main_loop.elapse(100.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "running"
    assert await state(daemon) == "active"
    await daemon.main_loop.elapse(101.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "done"
    assert len(module(daemon)["made"]) == 1
    await scene.end()


@in_a_loop
async def test_G7_a_passive_agent_whose_call_ends_with_the_daemon_makes_it_again(scene: Scene) -> None:
    daemon, run = await ada_runs(scene, "w.wait")
    await daemon.main_loop.elapse(100.0)
    made = module(daemon)["made"]
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.elapse(201.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "done"
    assert module(daemon)["made"] == made
    await scene.end()


@in_a_loop
async def test_G7_a_passive_agent_is_cancelled_with_its_call(scene: Scene) -> None:
    daemon, run = await ada_runs(scene, "w.wait")
    await daemon.main_loop.elapse(100.0)
    await ask(daemon, "ada", "cancel", run=run)
    await works(daemon, lambda: daemon.calls.counts.running == 0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "cancelled"
    assert daemon.calls.counts.running == 0
    await scene.end()


@in_a_loop
async def test_G7_a_call_that_must_not_be_made_twice_waits_for_room_and_begins_once(scene: Scene) -> None:
    daemon, first = await ada_runs(scene, "w.blocks")
    second = (await ask(daemon, "ada", "start", name="w.blocks"))["eid"]
    made, gates = module(daemon)["made"], module(daemon)["gates"]
    await works(daemon, lambda: len(made) == 1)
    assert (await ask(daemon, "", "passivate", name="ada"))["state"] == "passive"
    gates[made[0]].set()
    await works(daemon, lambda: len(made) == 2)
    assert await state(daemon) == "active"
    assert (await ask(daemon, "ada", "show", run=first))["state"] == "done"
    await ask(daemon, "", "passivate", name="ada")
    assert (await ask(daemon, "ada", "show", run=second))["state"] == "running"
    gates[made[1]].set()
    await works(daemon, lambda: daemon.calls.counts.running == 0)
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "ada", "show", run=second))["state"] == "done"
    assert len(set(made)) == len(made) == 2
    await scene.end()


@in_a_loop
async def test_G7_a_source_goes_on_and_what_it_yields_activates_its_agent(scene: Scene) -> None:
    daemon, run = await ada_runs(scene, "w.watch")
    for number in range(3):
        await daemon.main_loop.elapse(100.0)
        assert await state(daemon) == "passive"
        module(daemon)["mails"].put_nowait(number)
        await works(daemon, lambda: daemon.agents.supervisor.host("ada") is not None)
        await daemon.main_loop.until_idle()
    mails = await ask(daemon, "ada", "memory", xpath="mail")
    assert [mail["xml"][:11] for mail in mails] == ['<mail n="0"', '<mail n="1"', '<mail n="2"']
    assert len(module(daemon)["made"]) == 1
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "running"
    await scene.end()


@in_a_loop
async def test_G7_suspending_gives_calls_up_and_they_are_made_again(scene: Scene) -> None:
    daemon, run = await ada_runs(scene, "w.wait")
    await daemon.main_loop.elapse(100.0)
    await ask(daemon, "", "suspend", name="ada")
    assert daemon.calls.counts.running == 0
    await daemon.main_loop.elapse(300.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "running"
    await ask(daemon, "", "resume", name="ada")
    await daemon.main_loop.elapse(201.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "done"
    assert len(module(daemon)["made"]) == 2
    await scene.end()


@in_a_loop
async def test_G7_an_agent_that_is_taken_back_while_its_calls_still_end_is_told_of_those_it_makes(
    scene: Scene,
) -> None:
    daemon, run = await ada_runs(scene, "w.lingers")
    await daemon.main_loop.elapse(10.0)
    row, made = daemon.agents.rows["ada"], module(daemon)["made"]
    daemon.agents.supervisor.lose({row.agent})
    daemon.agents.rows.note(row)
    daemon.agents.supervisor.begin(row)
    await asyncio.sleep(0)
    assert len(made) == 1  # the call that was given up is not over
    module(daemon)["lingering"].set()
    await works(daemon, lambda: len(made) == 2)
    await daemon.main_loop.elapse(201.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "done"
    assert len(made) == 2
    await scene.end()


@in_a_loop
async def test_G18_what_comes_of_a_call_is_told_the_activation_after_one_that_broke_down(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, run = await ada_runs(scene, "w.wait")
    await daemon.main_loop.elapse(199.0)
    decide = Loop.decide

    def broken(loop: Loop, now: float) -> Any:
        if loop.agent.store.agent == 2:
            raise ValueError("poisoned")
        return decide(loop, now)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "decide", broken)
        with pytest.raises(NarvalError, match="agent ada broke down"):
            await ask(daemon, "ada", "count")
        await daemon.main_loop.elapse(1.5)  # the outcome comes, and the second activation breaks down
    await daemon.main_loop.elapse(2.0)
    assert (await ask(daemon, "ada", "show", run=run))["state"] == "done"
    assert len(module(daemon)["made"]) == 1
    await scene.end()


@in_a_loop
async def test_G7_a_mail_to_a_watched_maildir_of_a_passive_agent_is_answered_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    for name in ("mail.xml", "digest.page.xsl"):
        shutil.copy(ROOT / "recipes" / name, tmp_path / "recipes")
    box, sent = tmp_path / "data/ada", tmp_path / "var/outbox/new"
    for part in ("cur", "new", "tmp"):
        (box / part).mkdir(parents=True)
    daemon = await scene.open()
    await ask(daemon, "", "add_agent", name="ada")
    known = (
        b"<identity name='Ada' address='ada@example.org'/>",
        b"<mailbox name='ada' kind='maildir' path='data/ada'/>",
        b"<outbox kind='maildir' path='var/outbox'/>",
        b"<rule name='people' order='90' when='email' verdict='acknowledge' why='a person wrote it'/>",
        b"<ack-template>It has arrived.</ack-template>",
        b"<counter name='news' value='0'/>",
    )
    await ask(daemon, "ada", "add", elements=list(known))
    for name in ("mail.watch", "mail.triage"):
        await ask(daemon, "ada", "start", name=name)
    for number in (1, 2):
        await daemon.main_loop.elapse(3600.0)
        assert (await ask(daemon, "", "passivate", name="ada"))["state"] == "passive"
        sender, ident = f"bob{number}@example.org", f"<{number}@example.org>"
        text = f"From: {sender}\nSubject: mail {number}\nMessage-ID: {ident}\n\nhello\n"
        (box / "tmp" / "x").write_text(text)
        (box / "tmp" / "x").rename(box / "new" / f"179360010{number}.{number}.host")
        await works(daemon, lambda number=number: sent.is_dir() and len(list(sent.iterdir())) == number)
    await daemon.main_loop.elapse(3600.0)
    assert sorted("mail 1" in file.read_text() for file in sent.iterdir()) == [False, True]
    assert len(await ask(daemon, "ada", "memory", xpath="email[not(@kind)]")) == 2
    await scene.end()
