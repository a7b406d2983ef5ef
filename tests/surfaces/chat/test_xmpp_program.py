"""XMPP through the program and the daemon, on a real server that is cut off: each message once (C12, C15)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from narval.files.outside.chats import CHAT_KINDS
from narval.surfaces.chat import connection
from narval.surfaces.chat.kinds import xmpp
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import chat_at_work, make_chat_home
from tests.surfaces.chat.prosody import DOMAIN, PASSWORD, Peer, Prosody

PEOPLE = f"""
[people.ann]
chat = ["xmpp:ann@{DOMAIN}"]
web = "operator"
[people.ben]
"""
ENCRYPTED = (
    "<encrypted xmlns='eu.siacs.conversations.axolotl'><payload>x</payload></encrypted>"
    "<store xmlns='urn:xmpp:hints'/>"
)


@in_a_loop
async def test_C15_what_is_written_is_answered_once_whoever_was_away_meanwhile(
    prosody: Prosody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHAT_KINDS, "xmpp", xmpp.__name__)
    monkeypatch.setattr(connection, "FIRST", 0.1)
    monkeypatch.setenv("CHAT_SECRET", PASSWORD)
    home = make_chat_home(tmp_path, people=PEOPLE)
    (tmp_path / "etc/narval.toml").write_text(
        f'[chats.phone]\nkind = "xmpp"\nserver = "127.0.0.1:{prosody.port}"\nuser = "narval@{DOMAIN}"\n'
        f'secret = "CHAT_SECRET"\ntls_ca = "{prosody.ca}"\n'
    )

    async def until(state: str) -> None:
        async with asyncio.timeout(60):
            while (await chat.ask("chats"))[0]["state"] != state:
                await asyncio.sleep(0.02)

    async with chat_at_work(home) as chat:
        await until("connected")
        async with Peer(prosody, "ann") as ann, Peer(prosody, "eve") as eve:
            ann.write("status")
            await ann.until(lambda: len(ann.texts) == 1)
            assert "runs under way" in ann.texts[0]

            # stopped in the middle
            await chat.kill()
            ann.write("help")
            eve.write("status")
            await eve.done()
            await ann.done()
            chat.begin()
            await ann.until(lambda: len(ann.texts) == 2)
            assert "status" in ann.texts[1]

            # an encrypted message is answered once in clear
            ann.write("cannot be read", more=ENCRYPTED)
            await ann.until(lambda: len(ann.texts) == 3)
            assert "cannot be read here" in ann.texts[2]
            ann.write("again", more=ENCRYPTED)

            # linked from the account itself
            made = await chat.ask("chat_link", person="ben")
            async with Peer(prosody, "ben") as ben:
                ben.write(made["code"])
                linked = await chat.ask("chat_linked", person="ben", wait=60)
                assert linked["address"] == f"xmpp:ben@{DOMAIN}"
            assert eve.texts == []
            assert len(ann.texts) == 3

        # the server dies, and comes back
        prosody.end()
        await until("broken")
        prosody.begin()
        async with Peer(prosody, "ann") as ann:
            ann.write("status")
            await ann.until(lambda: ann.texts)
            assert "runs under way" in ann.texts[0]
            await ann.done()
            assert len(ann.texts) == 1
        await chat.kill()
