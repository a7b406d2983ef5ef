"""Commands that a model proposes by chat: shown, done after a yes, and nothing besides (C7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.files.home import Home
from tests.daemon.at_work import in_a_loop
from tests.modules.chat_server import ChatServer, Said, chat_server, streamed, whole
from tests.surfaces.chat.at_work import chat_at_work
from tests.surfaces.chat.test_commands import asked, home_of, numbers

BEN = "ben@example.org"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as server:
        yield server


def home_with(folder: Path, server: ChatServer) -> Home:
    home = home_of(folder)
    file = folder / "etc/narval.toml"
    tables = file.read_text().replace('server = "here"', 'server = "here"\nmodel = "local"')
    file.write_text(f'{tables}\n[models.local]\nurl = "{server.url}"\nmodel = "tiny"\n')
    return home


def command(text: str) -> Said:
    return streamed(json.dumps({"command": text}))


@in_a_loop
async def test_a_proposal_is_shown_and_done_after_a_yes(tmp_path: Path, server: ChatServer) -> None:
    async with chat_at_work(home_with(tmp_path, server)) as chat:
        item = await asked(chat)
        server.will_say(command("work"), command(f"cancel {item - 1}"), command("start w.out"))
        assert await chat.says("what do I have to decide?") == "Do you mean: work (yes or no)"
        assert f"{item} A desk" in await chat.says("yes")
        assert await chat.says("end that desk thing") == f"Do you mean: cancel {item - 1} (yes or no)"
        assert (await chat.ask("show", run=item - 1))["state"] == "running"
        assert await chat.says("no") == "Nothing was done."
        await chat.says("make it go out")
        buttons = {label: data for data, label in chat.service.sent[-1].buttons}
        started = await chat.says("", button=buttons["yes"])
        assert "w.out has started" in started, "it is not asked back twice"
        assert numbers(started)
        system, line = (message["content"] for message in server.asked[0]["messages"])
        assert "cancel N: end a run" in system
        assert json.loads(line) == {"line": "what do I have to decide?"}
        assert "A desk" not in json.dumps(server.asked), "a model sees nothing of the home"


@in_a_loop
async def test_what_a_model_says_commands_nothing(tmp_path: Path, server: ChatServer) -> None:
    async with chat_at_work(home_with(tmp_path, server)) as chat:
        for answer in (
            command(""),
            command("add <secret/>"),
            command("rm -rf /"),
            command("cancel 1\nyes"),
            command("x" * 1000),
            streamed("yes"),
            whole({"error": "no"}, 500),
        ):
            server.answers = []
            server.will_say(answer)
            assert "nothing waits for it" in await chat.says("the kettle is on")
        server.will_say(command("start w.note"))
        assert "nothing waits for it" in await chat.says("start the note", BEN), "ben may not start anything"
        assert [row["name"] for row in await chat.ask("runs")] == []
        assert await chat.ask("count", xpath="secret") == {"count": 0}
        server.will_say(command("status"))
        asked_before = len(server.asked)
        assert "under way" in await chat.says("status")
        assert len(server.asked) == asked_before, "a command asks no model"


@in_a_loop
async def test_a_wish_is_drafted_once_and_not_accepted(tmp_path: Path, server: ChatServer) -> None:
    home = home_with(tmp_path, server)
    file = tmp_path / "etc/narval.toml"
    file.write_text(f'{file.read_text()}\n[propose]\nmodel = "local"\n')
    server.will_say(streamed("no files"))
    async with chat_at_work(home) as chat:
        text = await chat.says("propose tell me when the kettle is on")
        assert text.startswith("A model drafts tell-me-when")
        (proposal,) = await chat.ask("proposals")
        assert not proposal["accepted"]
        await chat.settled()
        (row,) = await chat.ask("chats")
        assert (row["inbox"], row["owed"]) == (0, 0)
        assert "that is for operators" in await chat.says("propose tea", BEN)
        assert "nothing waits for it" in await chat.says("accept tell-me-when")
