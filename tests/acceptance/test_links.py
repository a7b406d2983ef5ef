"""Two homes with real daemons, linked over TLS: paired by commands, and with a wire that is cut."""

from __future__ import annotations

import asyncio
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from narval.files.home import Home
from narval.files.outside.peers import NewPeer, PeersFile, accept_link, add_link, load_peers
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.http.server import PageServer, listening_at
from narval.surfaces.link import asking
from narval.surfaces.link.asking import PeerAsking
from narval.surfaces.link.door import LinkDoor
from tests.acceptance.home import PATIENCE, Narval, make, until
from tests.certificates import make_certificate
from tests.forked_commands import Command
from tests.ports import free_port


def settings_of(name: str, sender: str, more: str = "") -> str:
    return f'name = "{name}"\n{more}[agent]\nreceives = [{{from = "{sender}", elements = ["order"]}}]\n'


def orders_at(home: Narval) -> list[str]:
    """The numbers of the orders of a home, in the order in which they came."""
    rows = home.ask("memory", "order", "--limit", "all")
    return re.findall(r'n="(\d+)"', " ".join(row["xml"] for row in sorted(rows, key=lambda row: row["eid"])))


def send(home: Narval, to: str, *numbers: int) -> None:
    given = "".join(f'<order n="{number}"/>' for number in numbers)
    done = home("send", to, "-", given=f"<memory>{given}</memory>".encode())
    assert done.returncode == 0, done.stderr.decode()


@contextmanager
def served(home: Narval, *lines: bytes) -> Iterator[None]:
    """A home whose pages and links are served."""
    web = Command(home.line("web", "--port", "0")[3:])
    try:
        assert b"narval web answers at" in web.stdout.readline()
        for line in lines:
            assert web.stdout.readline() == line
        yield
    finally:
        web.send_signal(signal.SIGTERM)
        web.communicate(timeout=PATIENCE)


def test_two_homes_are_paired_write_to_one_another_and_part(tmp_path: Path) -> None:
    """G39, G40: as users do it, with the laptop's door shut."""
    certificate, key = make_certificate(tmp_path)
    port = free_port()
    listener = f'[link]\nlisten = "127.0.0.1:{port}"\ncert = "{certificate}"\nkey = "{key}"\n'
    office = make(tmp_path / "office", settings=f"{settings_of('shop', 'ada@laptop')}{listener}")
    laptop = make(tmp_path / "laptop", settings=settings_of("ada", "*@office"))
    url = f"https://127.0.0.1:{port}"
    serves = f"peers ask it at {url}\n".encode()
    with office.running(), laptop.running(), served(laptop), served(office, serves):
        added = laptop("link", "add", "office", url, "--ca", certificate, "--agent", "ada")
        assert added.returncode == 0, added.stderr
        code = added.stdout.decode().strip()
        assert (laptop.home / "etc/link-office").read_text().strip() not in code
        assert office("link", "accept", code, "laptop", "--agent", "*").returncode == 0
        again = office("link", "accept", code, "other")
        assert b"this code was accepted already" in again.stderr
        until(lambda: laptop.ask("link")[0]["state"] == "connected", "the link is connected")
        send(laptop, "shop@office", 1, 2)
        send(office, "ada@laptop", 3)
        until(lambda: orders_at(office) == ["1", "2"], "what the laptop sent is at the office")
        until(lambda: orders_at(laptop) == ["3"], "what the office sent is at the laptop")
        until(lambda: office.ask("link")[0]["messages"] == 0, "the office knows what the laptop has taken")
        [row] = office.ask("link")
        assert (row["peer"], row["url"], row["messages"], row["why"]) == ("laptop", None, 0, None)
        assert office("link", "remove", "laptop").returncode == 0
        assert load_peers(office.home) == {}
        refused = laptop("--peer", "office", "status")
        assert b"the link was removed on that side" in refused.stderr
        removed = "the link was removed on that side"
        until(lambda: removed in (laptop.ask("link")[0]["why"] or ""), "links says why nothing comes")
    assert b"narval web, which keeps the connections, does not run here" in laptop("link").stderr


MOST_WAITING = 100
"""The messages that may wait while the wire is cut: a mailbox has room for a thousand."""


class Wire:
    """A wire to a port that is cut after so many bytes, either way, of each connection."""

    def __init__(self, to: int, cuts: Callable[[], int | None]) -> None:
        self._to, self._cuts = to, cuts
        self.cut = 0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._cuts()
        there = await asyncio.open_connection("127.0.0.1", self._to)

        async def one_way(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal left
            while data := await source.read(4096):
                if left is not None:
                    data, left = data[:left], left - len(data)
                sink.write(data)
                if left is not None and left <= 0:
                    self.cut += 1
                    return
                await sink.drain()

        ways = [
            asyncio.ensure_future(one_way(reader, there[1])),
            asyncio.ensure_future(one_way(there[0], writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for sink in (writer, there[1]):
            sink.transport.abort() if self.cut % 2 else sink.close()


@pytest.mark.parametrize("many", [16, pytest.param(1_000, marks=pytest.mark.soak)])
def test_G41_a_wire_that_is_cut_at_any_byte_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(asking, "LONGEST_PAUSE", 0.02)
    certificate, key = make_certificate(tmp_path)
    office = make(tmp_path / "office", settings=settings_of("shop", "*@laptop"))
    laptop = make(tmp_path / "laptop", settings=settings_of("ada", "*@office"))
    wire_port, chance = free_port(), random.Random(41)
    url = f"https://127.0.0.1:{wire_port}"
    code = add_link(laptop.home, NewPeer("office", url, certificate, ["*"]), "laptop", 0.0)
    accept_link(office.home, code, None, ["*"], 1.0)
    numbers: list[int] = []

    async def exchange() -> None:
        listener = listening_at("127.0.0.1", 0)
        door = LinkDoor(AsyncClient(Home(office.home).known_socket), PeersFile(office.home))
        server = PageServer(door, tls=(certificate, key))
        serving = asyncio.create_task(server.serve([listener]))

        def next_cut() -> int | None:
            return chance.randrange(1, 6_000) if wire.cut < many else None

        wire = Wire(listener.getsockname()[1], next_cut)
        carried = await asyncio.start_server(wire.carry, "127.0.0.1", wire_port)
        asks = AsyncClient(Home(laptop.home).known_socket)
        link = asyncio.create_task(PeerAsking(asks, load_peers(laptop.home)["office"], laptop.home).run())
        clients = {home: AsyncClient(Home(home.home).known_socket) for home in (laptop, office)}
        while wire.cut < many:
            await asyncio.sleep(0.01)
            waiting = [(await client.ask("links"))[0]["messages"] for client in clients.values()]
            if max(waiting) > MOST_WAITING:
                continue
            for home, to in ((laptop, "shop@office"), (office, "ada@laptop")):
                order = f'<order n="{len(numbers)}"/>'.encode()
                await clients[home].ask("send", to=to, elements=[order])
            numbers.append(len(numbers))
        async with asyncio.timeout(PATIENCE):
            for client in clients.values():
                while (await client.ask("links"))[0]["messages"]:
                    await asyncio.sleep(0.02)
                await client.close()
        link.cancel()
        carried.close()
        server.end()
        await serving

    with office.running(), laptop.running():
        asyncio.run(exchange())
        assert orders_at(office) == [str(number) for number in numbers]
        assert orders_at(laptop) == [str(number) for number in numbers]
