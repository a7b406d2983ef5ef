"""W26: how soon `status` is answered by chat, and what a flood of lines costs who adds an element meanwhile.

    python -m bench.chat [ROUNDS]

Prosody is at work on this machine, and a home on a disk with `narval run`, which keeps `narval chat` at
work. Somebody writes `status` and waits for the answer, and writes to an account that gives each line back
(`echo`), in turn. Then elements are added over the control socket one after another, without and beside a
known person who writes 100 lines a second. Both in turn, so many rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import programs
from bench.measure import argument, emit, home, now, percentile, scratch
from narval.surfaces.control.client import Client
from tests.surfaces.chat.prosody import DOMAIN, PASSWORD, Peer, Prosody, missing

ASKED, ADDED, A_SECOND = 25, 300, 100
"""The lines that are answered and the elements that are added in a round, and the lines of a flood."""

PEOPLE = f'[people.ann]\nchat = ["xmpp:ann@{DOMAIN}"]\nweb = "operator"\n'
SETTINGS = """
[chats.phone]
kind = "xmpp"
server = "127.0.0.1:{port}"
user = "narval@{domain}"
secret = "chat-phone"
tls_ca = "{ca}"
"""


def make_home(folder: Path, prosody: Prosody) -> None:
    """The home, with a chat and somebody who may ask."""
    settings = SETTINGS.format(port=prosody.port, domain=DOMAIN, ca=prosody.ca)
    home(folder, recipes="<cookbook/>", settings=settings)
    (folder / "etc/people.toml").write_text(PEOPLE)
    secret = folder / "etc/chat-phone"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)


async def answered(ann: Peer, text: str, to: str) -> float:
    """The seconds until a line is answered."""
    before, began = len(ann.texts), now()
    ann.write(text, to)
    await ann.until(lambda: len(ann.texts) > before)
    return now() - began


async def echo(ben: Peer) -> None:
    """Give each line back to who wrote it."""
    while True:
        await ben.until(lambda: ben.texts)
        texts = ben.texts
        ben.messages.clear()
        for text in texts:
            ben.write(text, f"ann@{DOMAIN}")


async def added(client: Client, count: int) -> list[float]:
    """The seconds that each of so many elements took."""
    took = []
    for number in range(count):
        began = now()
        await asyncio.to_thread(client.ask, "add", elements=[f"<mail n='{number}'/>".encode()])
        took.append(now() - began)
    return took


async def flood(ann: Peer) -> None:
    """Write so many lines a second."""
    while True:
        ann.write("status")
        await asyncio.sleep(1 / A_SECOND)


async def beside(work: Callable[[], Awaitable[None]], measured: Awaitable[list[float]]) -> list[float]:
    """What is measured while other work goes on."""
    task = asyncio.ensure_future(work())
    try:
        return await measured
    finally:
        task.cancel()


async def measure(client: Client, prosody: Prosody, rounds: int) -> None:
    """Measure all in turn."""
    times: dict[str, list[float]] = {"status": [], "echo": [], "quiet": [], "flood": []}
    async with Peer(prosody, "ann") as ann, Peer(prosody, "ben") as ben:
        while client.ask("chats")[0]["state"] != "connected":
            await asyncio.sleep(0.1)
        echoing = asyncio.ensure_future(echo(ben))
        for _ in range(rounds):
            for name, to in (("status", "narval"), ("echo", "ben")):
                times[name] += [await answered(ann, "status", f"{to}@{DOMAIN}") for _ in range(ASKED)]
            await asyncio.sleep(61)  # the lines of a minute are answered
        for _ in range(rounds):
            times["quiet"] += await added(client, ADDED)
            times["flood"] += await beside(lambda: flood(ann), added(client, ADDED))
        echoing.cancel()
    figures = {
        f"{name}_p{percent}_ms": round(percentile(values, percent) * 1000, 2)
        for name, values in times.items()
        for percent in (50, 99)
    }
    for percent in (50, 99):
        more = figures[f"status_p{percent}_ms"] - figures[f"echo_p{percent}_ms"]
        figures[f"more_p{percent}_ms"] = round(more, 2)
    emit("W26", len(times["status"]), sum(times["status"]), **figures)


def main() -> None:
    """Measure on a Prosody of this machine."""
    if why := missing():
        raise SystemExit(why)
    with scratch() as folder, scratch() as other:
        prosody = Prosody(other)
        make_home(folder, prosody)
        prosody.begin()
        try:
            with programs.running(folder) as (_, client):
                asyncio.run(measure(client, prosody, argument(1, 3)))
        finally:
            prosody.end()


if __name__ == "__main__":
    main()
