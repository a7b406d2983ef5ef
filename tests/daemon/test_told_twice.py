"""What brought an agent's turn down twice is not told a third time, and the agent lives on (G18)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narval.agent import turn as turns
from narval.agent.run import Run
from narval.agent.transaction import Transaction
from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.core.index.index import Index
from narval.daemon.daemon import Daemon
from tests.daemon.at_work import Scene, in_a_loop

MODULE = """
import narval
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")], runs="inline")
def take(mail):
    return f"<ack of='{mail.attributes['n']}'/>"

@action(runs="inline")
def begin():
    pass

@action()
async def wait():
    await narval.sleep(20)
"""


def recipe(name: str, attributes: str, last: str, until: str) -> str:
    return f"""<recipe group="w" name="{name}" start_step="a" end_step="b" {attributes}>
  <step id="a" type="action" target="w.begin"/><step id="b" type="action" target="w.{last}"/>
  <transition id="t"><in idref="a"/><out idref="b"/>{until}</transition></recipe>"""


MAIL = "<condition><match>mail</match></condition>"
RECIPES = "\n".join(
    (
        "<cookbook>",
        recipe("takes", "", "take", MAIL),
        recipe("poisoned", "", "begin", MAIL),
        recipe("calls", "", "wait", ""),
        recipe("dated", "", "begin", "<time after='10s'/>"),
        recipe("decays", "decay='10'", "begin", ""),
        "</cookbook>",
    )
)

Poison = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


def noting(name: str, event: str) -> Poison:
    """Have a turn break down when a run of that definition has decided on such an event."""

    def poison(patch: pytest.MonkeyPatch) -> None:
        note = Run.note

        def noted(run: Run, told: Any) -> None:
            if run.name == name and type(told).__name__ == event:
                raise RecursionError("too deep")
            note(run, told)

        patch.setattr(Run, "note", noted)

    return poison


def offering(patch: pytest.MonkeyPatch) -> None:
    """Have a turn break down when a mail is offered to those who wait for one."""
    wakes = Index.wakes

    def woken(index: Any, tree: Any) -> Any:
        if tree.root.get("n") == "1":
            raise RecursionError("too deep")
        return wakes(index, tree)

    patch.setattr(Index, "wakes", woken)


def forgetting(patch: pytest.MonkeyPatch) -> None:
    """Have a turn break down when a run is forgotten."""

    def forget(*_: Any) -> None:
        raise RecursionError("too deep")

    patch.setattr(turns, "forget_run", forget)


@pytest.mark.parametrize(
    ("begun", "poison", "limit"),
    [
        ("calls", noting("w.calls", "Returned"), 1000),
        ("dated", noting("w.dated", "TimerFired"), 1000),
        ("poisoned", noting("w.poisoned", "Matched"), 1),
        ("poisoned", noting("w.poisoned", "Matched"), 1000),
        ("poisoned", offering, 1),
        ("decays", forgetting, 1000),
    ],
    ids=["a delivery", "a timer", "a queued event", "a request", "an offer", "a job"],
)
@in_a_loop
async def test_G18_what_brought_an_agent_down_twice_is_not_told_again(
    scene: Scene, begun: str, poison: Poison, limit: int
) -> None:
    scene.write("etc/narval.toml", f"timezone = 'UTC'\nturn_limit = {limit}\n")
    daemon = await scene.open()
    await ask(daemon, "", "add_agent", name="ada")
    poisoned = (await ask(daemon, "ada", "start", name=f"w.{begun}"))["eid"]
    await ask(daemon, "ada", "start", name="w.takes")
    with pytest.MonkeyPatch.context() as patch:
        poison(patch)
        if begun == "poisoned":
            for _ in range(1 if limit == 1 else 3):
                with suppress(NarvalError):  # where it comes into the turn that breaks down
                    await ask(daemon, "ada", "add", elements=[b"<mail n='1'/>"])
                await daemon.main_loop.elapse(5.0)
        await daemon.main_loop.elapse(100.0)
        if begun == "poisoned":
            errors = await ask(daemon, "ada", "memory", xpath="error[@type='internal-error']")
            assert len(errors) == 1
            assert "brok" in errors[0]["xml"]
        mails = await ask(daemon, "ada", "memory", xpath="mail")
        await ask(daemon, "ada", "add", elements=[b"<mail n='2'/>"])
        await daemon.main_loop.until_idle()
        (row,) = (row for row in await ask(daemon, "", "agents") if row["name"] == "ada")
        assert row["state"] == "active"
    shown = await ask(daemon, "ada", "show", run=poisoned)
    assert shown["state"] == ("done" if poison in (offering, forgetting) else "failed")
    assert mails or begun != "poisoned"
    await scene.end()


@in_a_loop
async def test_G18_G25_a_message_that_brings_its_receiver_down_is_taken_once_or_a_dead_letter(
    scene: Scene,
) -> None:
    daemon = await scene.open()
    await ask(daemon, "", "add_agent", name="ada")
    add, breaks = Transaction.add, {b'n="1"': 1, b'n="2"': 9}

    def added(transaction: Transaction, xml: bytes, *given: Any, **named: Any) -> int:
        eid = add(transaction, xml, *given, **named)
        for which, left in breaks.items():
            if left and which in xml and transaction.agent.store.agent != daemon.agent.store.agent:
                breaks[which] -= 1
                raise RecursionError("too deep")
        return eid

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "add", added)
        for n in (1, 2, 3):
            await ask(daemon, "", "send", to="ada", elements=[f"<mail n='{n}'/>".encode()])
            await daemon.main_loop.elapse(20.0)
    mails = [row["xml"] for row in await ask(daemon, "ada", "memory", xpath="mail")]
    assert ['n="1"' in mails[0], 'n="3"' in mails[-1], len(mails)] == [True, True, 2]
    [error] = await ask(daemon, "", "memory", xpath="error[@type='undelivered']")
    assert 'reason="internal-error"' in error["xml"]
    assert [row["state"] for row in await ask(daemon, "", "agents")] == ["active", "active"]
    await scene.end()
