"""The daemon is killed while people write over XMPP: each message is taken once, and answered once (C18)."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from narval.core.errors import DaemonGoneError
from narval.files.home import Home
from narval.surfaces.chat.dealing import NOT_UNDERSTOOD
from narval.surfaces.control.async_client import AsyncClient
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.prosody import DOMAIN, PASSWORD, Peer, Prosody, missing

PEOPLE, EACH, KILLS = 40, 25, 50
"""Many people, as more than thirty lines of one within a minute wait."""


@pytest.mark.soak
@in_a_loop
async def test_C18_a_thousand_messages_while_the_daemon_is_killed_fifty_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := missing():
        pytest.skip(why)
    monkeypatch.setenv("CHAT_SECRET", PASSWORD)
    names = [f"p{number}" for number in range(PEOPLE)]
    (tmp_path / "etc").mkdir()
    people = "".join(f'[people.{name}]\nchat = ["xmpp:{name}@{DOMAIN}"]\n' for name in names)
    (tmp_path / "etc/people.toml").write_text(people)
    with tempfile.TemporaryDirectory(prefix="narval-prosody-") as folder:
        server = Prosody(Path(folder), ("narval", *names))
        server.begin()
        (tmp_path / "etc/narval.toml").write_text(
            f'[chats.phone]\nkind = "xmpp"\nserver = "127.0.0.1:{server.port}"\nuser = "narval@{DOMAIN}"\n'
            f'secret = "CHAT_SECRET"\ntls_ca = "{server.ca}"\n'
        )
        peers = [Peer(server, name) for name in names]
        try:
            for peer in peers:
                await peer.__aenter__()
            daemon = begin(tmp_path)
            await connected(tmp_path)  # what was written before an account was ever connected is not taken
            writing = asyncio.gather(*(write(peer) for peer in peers))
            for _ in range(KILLS):
                await asyncio.sleep(random.uniform(1.0, 8.0))
                daemon.kill()
                daemon.wait()
                daemon = begin(tmp_path)
            await writing
            for peer in peers:
                await has_answers(peer)
            await asyncio.sleep(5)
            daemon.terminate()
            daemon.wait()
        finally:
            for peer in peers:
                await peer.__aexit__()
            server.end()
    assert [peer.texts for peer in peers] == [[NOT_UNDERSTOOD] * EACH] * PEOPLE
    words = [sys.executable, "-m", "narval", "--home", str(tmp_path), "memory", "chat-message", "--xml"]
    memory = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for name in names:
        for number in range(EACH):
            assert memory.count(f">{name} says {number}.<") == 1


async def write(peer: Peer) -> None:
    """Write all messages of a person, over the time of the kills."""
    for number in range(EACH):
        peer.write(f"{peer.boundjid.user} says {number}.")
        await asyncio.sleep(random.uniform(2, 16))


async def has_answers(peer: Peer) -> None:
    """Wait until a person has an answer to each message."""
    await peer.until(lambda: len(peer.texts) >= EACH, patience=600)


async def connected(home: Path) -> None:
    """Wait until the chat has a position."""
    client = AsyncClient(Home(home).known_socket)
    async with asyncio.timeout(60):
        while True:
            with suppress(DaemonGoneError):
                if (await client.ask("chats"))[0]["position"]:
                    break
            await asyncio.sleep(0.1)
    await client.close()


def begin(home: Path) -> subprocess.Popen[bytes]:
    with (home / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "narval", "--home", str(home), "run"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
