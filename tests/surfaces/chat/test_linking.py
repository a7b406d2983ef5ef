"""An account is linked with a person by a code, once; what is unlinked speaks for nobody (C2, C3, C14a)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from narval.ask.chat import chats
from narval.core.errors import RequestError
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat.at_work import ChatAtWork, chat_at_work, make_chat_home
from tests.surfaces.cli.command_line import narval

PHONE = "xmpp:ann.phone@example.org"


async def written(chat: ChatAtWork, *words: str) -> str:
    """The output of a command that is given beside the daemon."""
    result = await asyncio.to_thread(narval, chat.home.path, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> str:
    """The code that every link has."""
    monkeypatch.setattr(chats.secrets, "choice", lambda letters: "k")
    return "kkkkkkkkkk"


@in_a_loop
async def test_C2_the_code_of_link_links_who_sends_it_once(tmp_path: Path, code: str) -> None:
    home = make_chat_home(tmp_path, people='[people.ann]\nweb = "operator"\n[people.ben]\n')
    async with chat_at_work(home) as chat:
        command = asyncio.create_task(written(chat, "chat", "link", "ann", "--write"))
        links = chat.daemon.host.chats.links
        while "ann" not in links or not links["ann"].waiting:
            await asyncio.sleep(0.01)
        await chat.service.write("abcdefghjk", "eve@example.org")
        said = await chat.says(f" {code.upper()} ", "ann.phone@example.org")
        assert said == "The code is right: you are linked once etc/people.toml has this address of ann."
        assert PHONE in await command
        text = (tmp_path / "etc/people.toml").read_text()
        assert text == f'[people.ann]\nchat = ["{PHONE}"]\nweb = "operator"\n[people.ben]\n'
        assert "status" in await chat.says("help", "ann.phone@example.org")
        assert await chat.says("help", "ann.phone@example.org")
        await chat.service.write(code, "eve@example.org")
        await chat.settled()
        assert len(chat.service.sent) == 3, "a code holds once, and strangers are told nothing"

        await written(chat, "chat", "unlink", "ann")
        assert (tmp_path / "etc/people.toml").read_text().startswith("[people.ann]\nchat = []\n")
        await chat.service.write("status", "ann.phone@example.org")
        await chat.settled()
        assert len(chat.service.sent) == 3, "what was linked speaks for nobody"


@in_a_loop
async def test_C2_a_right_code_that_nobody_waits_for_says_what_to_do(tmp_path: Path, code: str) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        await chat.ask("chat_link", person="ann")
        said = await chat.says(code, "ann.phone@example.org")
        assert said.startswith("The code is right, but `narval chat link ann`, which made it, has ended")
        assert said.endswith(f'add "{PHONE}" to chat of [people.ann] in etc/people.toml')


@in_a_loop
async def test_C14a_what_waits_of_an_account_that_was_unlinked_is_not_done(tmp_path: Path) -> None:
    home = make_chat_home(tmp_path)
    async with chat_at_work(home, begin=False) as chat:
        message = {"id": "m1", "position": "1", "sender": "ann@example.org", "place": "ann@example.org"}
        (taken,) = await chat.ask(
            "chat_take", chat="phone", messages=[message | {"text": "status"}], position="1"
        )
        assert (taken["number"], taken["person"]) == (1, "ann")
        (tmp_path / "etc/people.toml").write_text("[people.ann]\n")
        await chat.ask("reload")
        chat.begin()
        while await chat.ask("chat_inbox", chat="phone"):
            await asyncio.sleep(0.01)
        assert chat.service.sent == []


@in_a_loop
async def test_C2_a_code_holds_for_ten_minutes_and_twenty_guesses(tmp_path: Path, code: str) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        with pytest.raises(RequestError, match=r"there is no person 'bob' in etc/people.toml"):
            await chat.ask("chat_link", person="bob")
        await chat.ask("chat_link", person="ann")
        for _ in range(chats.MOST_TRIES):
            await chat.service.write("abcdefghjk", "eve@example.org")
        await chat.service.write(code, "eve@example.org")
        await chat.settled()
        answer = await chat.ask("chat_linked", person="ann")
        assert answer == {"person": "ann", "address": "", "valid": False}
        assert chat.service.sent == []


@in_a_loop
async def test_C3_of_strangers_nothing_is_taken_and_the_log_says_so_once(tmp_path: Path) -> None:
    async with chat_at_work(make_chat_home(tmp_path)) as chat:
        for _ in range(3):
            await chat.service.write("status", "eve@example.org")
        await chat.settled()
        assert chat.service.sent == []
        assert (await chat.ask("count", xpath="chat-message"))["count"] == 0
        said = [line["message"] for line in await chat.ask("log") if "eve@example.org" in line["message"]]
    nobody = "belongs to no person in etc/people.toml: their messages are ignored"
    assert said == [f"[chats.phone] 'xmpp:eve@example.org' {nobody}"]


@in_a_loop
async def test_C3_strangers_become_elements_with_a_label_and_never_command(tmp_path: Path) -> None:
    home = make_chat_home(tmp_path, settings='strangers = "element"\n')
    async with chat_at_work(home) as chat:
        await chat.service.write("status", "eve@example.org", name="Ann <owner>\x01")
        await chat.settled()
        (row,) = (await chat.ask("elements", xpath="chat-message"))["elements"]
        assert row["xml"].startswith(
            '<chat-message from="xmpp:eve@example.org" name="Ann &lt;owner&gt;\ufffd"'
        )
        assert row["xml"].endswith(">status</chat-message>")
        assert row["labels"] == ["chat"]
        assert chat.service.sent == []
        for _ in range(40):
            await chat.service.write("again", "eve@example.org")
        await chat.settled()
        assert (await chat.ask("count", xpath="chat-message"))["count"] == 30, "within a minute"
