"""Messages and calls between agents of two daemons on one store: once and in order, whatever is killed (G25,
G30 to G37).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from narval.ask.asker import PROGRAM
from narval.ask.operations import invoke
from narval.core.errors import NarvalError
from narval.daemon import daemon as daemons
from narval.daemon.daemon import Daemon
from narval.daemon.fleet.fleet import FleetMail
from narval.daemon.traces import Traces
from narval.files.home import Home
from narval.store.batch import Batch
from narval.surfaces.cli.render.reasons import why
from narval.system.clock import SimulatedClock
from tests.daemon.at_work import Killed, in_a_loop
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedStore

RECIPES = """<cookbook>
<recipe group="m" name="tells" start_step="tell" end_step="tell">
  <step id="tell" type="send" to="shop">
    <input id="message" list="yes" use="yes"><match>order</match></input></step>
</recipe>
<recipe group="m" name="awaits" start_step="tell" end_step="tell">
  <step id="tell" type="send" to="shop" await="taken" timeout="1h">
    <input id="message" list="yes" use="yes"><match>order</match></input></step>
</recipe>
<recipe group="m" name="asks" start_step="a" end_step="a">
  <step id="a" type="recipe" target="m.invoice" agent="barn" timeout="1h">
    <input id="order"><match>order</match></input></step>
</recipe>
<recipe group="m" name="hangs" start_step="a" end_step="a">
  <step id="a" type="recipe" target="m.stays" agent="barn" timeout="1h"/>
</recipe>
<recipe group="m" name="stays" start_step="a" end_step="b">
  <step id="a" type="action" target="m.nothing"/><step id="b" type="action" target="m.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>
<recipe group="m" name="invoice" start_step="a" end_step="a">
  <step id="a" type="action" target="m.invoice"/>
</recipe>
</cookbook>"""
MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("invoice", "invoice")], runs="inline")
def invoice(order):
    return f"<invoice of='{order.attributes.get('n')}'/>"

@action(runs="inline")
def nothing():
    pass
"""


async def directly(call: Callable[[], Any]) -> Any:
    return call()


class Fleet:
    """Daemons on one store, which take turns, and renew when they are told to."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder, self.server = folder, server
        self.daemons: dict[str, tuple[Daemon, FleetMail]] = {}

    async def open(self, name: str) -> Daemon:
        folder = self._folder / name
        if not folder.exists():
            for part in ("etc", "recipes", "modules", "data"):
                (folder / part).mkdir(parents=True)
            offers = 'offers = {"m.invoice" = ["*"], "m.stays" = ["*"]}\n'
            (folder / "etc/narval.toml").write_text(f'name = "{name}"\n[agent]\n{offers}')
            (folder / "recipes/m.xml").write_text(RECIPES)
            (folder / "modules/m.py").write_text(MODULE)
        daemon = await Daemon.open(Home(folder), clock=SimulatedClock(time.time()))
        self.daemons[name] = daemon, FleetMail(daemon.store, daemon.agents, directly, daemon.main_loop.wake)
        return daemon

    async def quiet(self) -> None:
        """Have all daemons renew and work until nothing comes of it."""
        before = None
        while before != (before := self._portrait()):
            for daemon, mail in self.daemons.values():
                assert daemon.store.leases is not None
                mail.beat(daemon.store.leases.renew())
                while mail.is_busy() or not daemon.main_loop.is_idle():
                    await (asyncio.sleep(0) if mail.is_busy() else daemon.main_loop.until_idle())

    def _portrait(self) -> Any:
        return [lease.mark for lease in self.server.leases.values()]

    async def lost(self, name: str) -> None:
        """A daemon was killed, and its time is over."""
        daemon, mail = self.daemons.pop(name)
        number = daemon.store.leases.daemon if daemon.store.leases is not None else 0
        daemon.store.refuse("killed")  # type: ignore[attr-defined]
        await mail.close()
        with suppress(NarvalError):
            await daemon.close()
        self.server.drop(number)

    async def take_over(self, name: str) -> None:
        """A daemon takes what nobody holds."""
        daemon, _ = self.daemons[name]
        assert daemon.store.leases is not None
        for taken in daemon.store.leases.take():
            daemon.agents.rows.note(taken.row)
            daemon.agents.supervisor.begin(taken.row)

    def holder(self, agent: str) -> Daemon:
        """The daemon that has an agent."""
        return next(daemon for daemon, _ in self.daemons.values() if agent in daemon.agents.rows)

    async def moved(self, agent: str, there: str, to: str) -> None:
        """An agent changes hands."""
        daemon, _ = self.daemons[there]
        assert daemon.store.leases is not None
        number = daemon.agents.rows[agent].agent
        daemon.agents.supervisor.lose({number})
        daemon.store.leases.give({number})
        await self.take_over(to)

    async def close(self) -> None:
        for daemon, mail in self.daemons.values():
            await mail.close()
            await daemon.close()
        self.daemons.clear()


async def ask(daemon: Daemon, operation: str, agent: str = "", /, **given: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent) if agent else PROGRAM, operation, given)


async def orders(daemon: Daemon, agent: str = "", xpath: str = "order") -> list[str]:
    found = await ask(daemon, "memory", agent, xpath=xpath)
    return [re.search(' (?:n|of)="([^"]*)"', row["xml"])[1] for row in found]  # type: ignore[index]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with closing(Server(tmp_path / "server.db")) as server:
        monkeypatch.setattr(daemons, "open_store", lambda *_: SharedStore(server))
        yield server


@pytest.fixture
def fleet(tmp_path: Path, server: Server) -> Fleet:
    return Fleet(tmp_path, server)


@in_a_loop
async def test_G30_a_message_reaches_an_agent_wherever_it_is(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(attic, "add_agent", name="ada")
    await ask(barn, "add_agent", name="shop")
    for daemon, sender, receiver in ((attic, "ada", "shop"), (barn, "shop", "attic"), (barn, "", "ada")):
        texts = [f"<order n='{sender}{n}'/>".encode() for n in range(3)]
        await ask(daemon, "send", sender, to=receiver, elements=texts)
    await fleet.quiet()
    assert await orders(barn, "shop") == ["ada0", "ada1", "ada2"]
    assert await orders(attic) == ["shop0", "shop1", "shop2"]
    assert await orders(attic, "ada") == ["0", "1", "2"]
    assert attic.store.letters.waiting() == []
    await fleet.close()


@in_a_loop
async def test_G27_G33_what_waits_for_an_agent_elsewhere_is_answered(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(barn, "add_agent", name="shop")
    await ask(attic, "add", elements=[b"<order n='1'/>"])
    asks = (await ask(attic, "start", name="m.asks"))["eid"]
    awaits = (await ask(attic, "start", name="m.awaits"))["eid"]
    await attic.main_loop.until_idle()
    assert (await ask(attic, "show", run=awaits))["state"] == "running"
    await fleet.quiet()
    for run in (asks, awaits):
        assert (await ask(attic, "show", run=run))["state"] == "done", await ask(attic, "why", run=run)
    assert await orders(attic, xpath="invoice") == ["1"]
    await fleet.close()


@in_a_loop
async def test_G34_a_caller_whose_home_has_another_name_since_its_start_is_answered(
    fleet: Fleet, tmp_path: Path
) -> None:
    attic, _ = await fleet.open("attic"), await fleet.open("barn")
    (tmp_path / "attic/etc/narval.toml").write_text('name = "loft"\n')
    await ask(attic, "reload")
    await ask(attic, "add", elements=[b"<order n='1'/>"])
    run = (await ask(attic, "start", name="m.asks"))["eid"]
    await fleet.quiet()
    assert (await ask(attic, "show", run=run))["state"] == "done"
    await fleet.close()


@in_a_loop
async def test_a_call_at_an_agent_of_another_daemon_is_of_the_same_trace(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    exporters = [InMemorySpanExporter(), InMemorySpanExporter()]
    for daemon, exporter in zip((attic, barn), exporters, strict=True):
        traces = Traces(exporter)
        daemon.rounds.trace(traces)
        daemon.end_with(traces.close)
    await ask(attic, "add", "attic", elements=[b"<order n='1'/>"])
    await ask(attic, "start", "attic", name="m.asks")
    await fleet.quiet()
    await fleet.close()
    here, there = ({span.name: span for span in exporter.get_finished_spans()} for exporter in exporters)
    call, run = here["recipe m.invoice"], there["m.invoice"]
    assert call.context is not None
    assert run.parent is not None
    assert (run.parent.trace_id, run.parent.span_id) == (call.context.trace_id, call.context.span_id)
    assert {span.context.trace_id for span in there.values() if span.context} == {call.context.trace_id}
    assert (call.kind.name, run.kind.name, run.parent.is_remote) == ("CLIENT", "SERVER", True)


@in_a_loop
async def test_G25_a_receiver_that_changes_hands_has_each_message_once_and_in_order(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(barn, "add_agent", name="shop")
    at = {"attic": attic, "barn": barn}
    for n in range(0, 60, 3):
        there, other = ("barn", "attic") if n % 2 == 0 else ("attic", "barn")
        texts = [f"<order n='{i}'/>".encode() for i in range(n, n + 3)]
        await ask(attic, "send", "", to="shop", elements=texts)
        if n % 4 == 0:
            await fleet.quiet()
        await fleet.moved("shop", there, other)
    await fleet.quiet()
    assert await orders(at["barn"], "shop") == list(map(str, range(60)))
    await fleet.close()


@in_a_loop
async def test_G25_a_sender_that_changes_hands_numbers_on(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(attic, "add_agent", name="ada")
    await ask(barn, "add_agent", name="shop")
    at, there, other = {"attic": attic, "barn": barn}, "attic", "barn"
    for n in range(30):
        await ask(at[there], "send", "ada", to="shop", elements=[f"<order n='{n}'/>".encode()])
        if n % 3 == 0:
            await fleet.quiet()
        await fleet.moved("ada", there, other)
        there, other = other, there
    await fleet.quiet()
    assert await orders(barn, "shop") == list(map(str, range(30)))
    await fleet.close()


@in_a_loop
async def test_G31_a_send_waits_for_room_elsewhere_and_goes_on_when_some_are_taken(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(barn, "add_agent", name="shop")
    await ask(barn, "suspend", name="shop")
    texts = [f"<old n='{n}'/>".encode() for n in range(1000)]
    await ask(attic, "send", to="shop", elements=texts)
    await ask(attic, "add", elements=[b"<order n='1'/>"])
    run = (await ask(attic, "start", name="m.tells"))["eid"]
    await fleet.quiet()
    [wait] = (await ask(attic, "why", run=run))["waiting"]
    assert wait["calls"][0]["place"] == "room in the mailbox of shop (1,000 not taken)"
    assert barn.host.mail.office.room.of(barn.agents.rows["shop"].agent) == 1000
    await ask(barn, "resume", name="shop")
    await fleet.quiet()
    assert (await ask(attic, "show", run=run))["state"] == "done"
    assert await orders(barn, "shop") == ["1"]
    assert len(await ask(barn, "memory", "shop", xpath="old", limit=None)) == 1000
    await fleet.close()


@in_a_loop
async def test_G32_what_was_sent_to_an_agent_that_is_gone_is_a_dead_letter_of_its_sender(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narval.ask.daemon.agents.back_up", lambda *_: None)  # the stand-in is in no file
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(attic, "add_agent", name="ada")
    await ask(barn, "add_agent", name="shop")
    await fleet.quiet()
    assert attic.host.mail.office.addresses.find("shop") is not None
    shop = barn.agents.rows["shop"]
    await ask(attic, "add", "ada", elements=[b"<order n='1'/>"])
    await ask(barn, "remove_agent", name="shop")
    run = (await ask(attic, "start", "ada", name="m.awaits"))["eid"]
    await attic.main_loop.until_idle()
    assert [row.agent for row in attic.store.letters.strays()] == [shop.agent], "it was still known there"
    await fleet.quiet()
    assert (await ask(attic, "show", "ada", run=run))["error"]["type"] == "undelivered"
    [letter] = await ask(attic, "letters", "ada", dead=True)
    assert (letter["to"], letter["reason"]) == ("shop", "removed: it was removed")
    assert len(await ask(attic, "memory", "ada", xpath="error[@receiver='shop']")) == 1
    assert attic.store.letters.strays() == attic.store.letters.waiting() == []
    await ask(attic, "add", "ada", elements=[b"<order n='2'/>"])
    await ask(attic, "start", "ada", name="m.tells")
    await fleet.quiet()
    reasons = [letter["reason"] for letter in await ask(attic, "letters", "ada", dead=True)]
    assert reasons[1].startswith("unknown-agent")
    await fleet.close()


@in_a_loop
async def test_G37_why_says_who_has_a_call_elsewhere_and_follows_it(fleet: Fleet) -> None:
    attic, barn = await fleet.open("attic"), await fleet.open("barn")
    await ask(barn, "add_agent", name="shop")
    await ask(attic, "add", elements=[b"<order n='1'/>"])
    run = (await ask(attic, "start", name="m.hangs"))["eid"]
    await attic.main_loop.until_idle()
    where = (await ask(attic, "why", run=run))["waiting"][0]["calls"][0]["at"]
    assert (where["state"], where["agent_state"], where["home"]) == ("untaken", "elsewhere", "barn")
    await fleet.quiet()
    answer = await ask(attic, "why", run=run)
    where = answer["waiting"][0]["calls"][0]["at"]
    assert (where["state"], where["name"], where["home"]) == ("running", "m.stays", "barn")
    assert where["waiting"][0]["conditions"][0]["pattern"] == "go"
    assert "barn, at home barn has it since" in "\n".join(why(answer))
    assert await ask(attic, "letters") == []
    await fleet.close()


# --- killed at any commit ---------------------------------------------------------------------------------


async def story(fleet: Fleet) -> None:
    """Three orders of `ada`, of whom anybody may have hold, go to `shop`, then she asks the barn for an
    invoice; what was done before a kill is not done again.
    """
    for name in ("attic", "barn"):
        if name not in fleet.daemons:
            await fleet.open(name)
    daemon = fleet.holder("ada")
    for n in range(len(await orders(daemon, "ada")), 3):
        await ask(daemon, "add", "ada", elements=[f"<order n='{n}'/>".encode()])
    known = {run["name"] for run in await ask(daemon, "runs", "ada")}
    for name in ("m.awaits", "m.asks"):
        if name not in known:
            await ask(daemon, "start", "ada", name=name)
        await fleet.quiet()


class Kill:
    """Counts the commits of daemons, and kills one at a commit, before or after that is made."""

    def __init__(self, at: tuple[int, bool] | None) -> None:
        self.at, self.commits = at, 0
        self.killed: SharedStore | None = None

    def commit(self, write: Callable[..., None], store: SharedStore, batches: tuple[Batch, ...]) -> None:
        if store is self.killed:
            raise Killed
        self.commits += 1
        if self.at is None or self.commits != self.at[0]:
            write(store, *batches)
            return
        if self.at[1]:
            write(store, *batches)
        self.killed = store
        store.refuse("killed")
        raise Killed


async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> int:
    """The commits that it took; what came of it is as it must be."""
    write, kill = SharedStore.commit, Kill(None)
    with closing(Server(folder / "server.db")) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "open_store", lambda *_: SharedStore(server))
        patch.setattr(SharedStore, "commit", lambda store, *batches: kill.commit(write, store, batches))
        fleet = Fleet(folder, server)
        attic, barn = await fleet.open("attic"), await fleet.open("barn")
        await ask(attic, "add_agent", name="ada")
        await ask(barn, "add_agent", name="shop")
        await fleet.quiet()
        kill = Kill(kill_at)
        try:
            await story(fleet)
        except (Killed, NarvalError):
            [name] = [name for name, (daemon, _) in fleet.daemons.items() if daemon.store is kill.killed]
            await fleet.lost(name)
            other = "barn" if name == "attic" else "attic"
            await fleet.take_over(other)
            await fleet.quiet()
            await story(fleet)
        commits, kill = kill.commits, Kill(None)
        assert await orders(fleet.holder("shop"), "shop") == ["0", "1", "2"], kill_at
        holder = fleet.holder("ada")
        states = {run["name"]: run["state"] for run in await ask(holder, "runs", "ada")}
        assert states == {"m.awaits": "done", "m.asks": "done"}, kill_at
        assert len(await orders(holder, "ada", "invoice")) == 1, kill_at
        assert holder.store.letters.waiting() == []
        await fleet.close()
    return commits


def test_G25_G34_killed_at_any_commit_of_either_daemon_all_comes_once(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    commits = asyncio.run(lived(tmp_path / "whole", None))
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            (folder := tmp_path / f"{commit}{is_written}").mkdir()
            asyncio.run(lived(folder, (commit, is_written)))
