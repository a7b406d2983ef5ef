"""Other tries of a call at another agent: what has been done there is answered, and not done again (G34)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.daemon.daemon import Daemon
from narval.daemon.messages import remote_calls
from tests.daemon.at_work import Scene, in_a_loop

CALL = """<recipe group="c" name="{0}" start_step="a" end_step="a">
<step id="a" type="recipe" target="s.{0}" agent="shop" timeout="100" retries="1" backoff="5">
<input id="order"><match>order</match></input></step></recipe>"""
THERE = """<recipe group="s" name="{0}" start_step="a" end_step="a" {1}>
<step id="a" type="action" target="m.{2}"/></recipe>"""
NODE = """<process-definition group="c" name="proc"><node name="n" type="recipe" isStart="true">
<custom><target>s.nothing</target><agent>shop</agent><timeout>100</timeout><retries>1</retries>
<backoff>5</backoff></custom></node></process-definition>"""
RECIPES = f"""<cookbook>
{CALL.format("pays")}{CALL.format("brief")}
{THERE.format("pays", "", "pay")}
{THERE.format("brief", 'decay="1"', "pay")}{THERE.format("nothing", "", "nothing")}
</cookbook>"""
MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("bill", "bill")], runs="inline")
def pay(order):
    return f"<bill of='{order.attributes.get('n')}'/>"

@action(runs="inline")
def nothing():
    pass
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    scene.write("modules/m.py", MODULE)
    scene.write("recipes/m.xml", RECIPES)
    scene.write("recipes/proc.wf.xml", NODE)
    offers = "".join(f'"s.{name}" = ["*"]\n' for name in ("pays", "brief", "nothing"))
    scene.write("agents/shop/agent.toml", f"[offers]\n{offers}")
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    await daemon.main_loop.until_idle()
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def answer_lost(daemon: Daemon, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The state of a run whose call was answered, and that was told only that the time was over."""
    with monkeypatch.context() as lost:
        lost.setattr(remote_calls.RemoteCalls, "come_back", lambda *_: None)
        run = (await ask(daemon, "", "start", name=name, elements=[b"<order n='1'/>"]))["eid"]
        await daemon.main_loop.elapse(101)
    await daemon.main_loop.elapse(60)
    return str((await ask(daemon, "", "show", run=run))["state"])


async def runs_there(daemon: Daemon) -> list[tuple[str, str]]:
    return [(run["name"], run["state"]) for run in await ask(daemon, "shop", "runs")]


@in_a_loop
async def test_G34_another_try_of_a_call_whose_answer_was_lost_is_answered_and_nothing_is_done_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await scene.open()
    assert not daemon.files.faults
    assert await answer_lost(daemon, "c.pays", monkeypatch) == "done"
    assert await runs_there(daemon) == [("s.pays", "done")]
    [bill] = await ask(daemon, "", "memory", xpath="bill")
    assert 'of="1"' in bill["xml"]
    await scene.end()


@in_a_loop
async def test_G34_so_is_another_try_of_a_node(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = await scene.open()
    assert await answer_lost(daemon, "c.proc", monkeypatch) == "completed"
    assert await runs_there(daemon) == [("s.nothing", "done")]
    await scene.end()


@in_a_loop
async def test_G34_another_try_of_a_call_is_an_error_if_what_it_gave_is_forgotten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = await scene.open()
    assert await answer_lost(daemon, "c.brief", monkeypatch) == "failed"
    [error] = await ask(daemon, "", "memory", xpath="error")
    assert "of shop has done this, and what it gave is forgotten" in error["xml"]
    assert await runs_there(daemon) == []
    await scene.end()


def test_G34_a_receipt_is_that_of_all_tries_of_one_call_and_of_no_other() -> None:
    def digest(name: str, *elements: bytes, until: float = 1.0) -> str:
        return remote_calls.RunAsked("recipe", name, until, 1, elements).digest

    key, same = remote_calls.receipt_key, digest("s.pay", b"<a/>")
    assert key("a.1.2~3@office", same) == key("a.1.2@office", same) != key("a.1.2", same)
    assert digest("s.pay", b"<a/>", until=2.0) == same
    assert same not in (digest("s.pay", b"<b/>"), digest("s.pays", b"<a/>"))
