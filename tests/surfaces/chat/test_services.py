"""Telegram and Matrix through the program and the daemon, as people see them on their telephones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from narval.files.home import Home
from narval.surfaces.chat.kinds import telegram
from narval.surfaces.chat.kinds.matrix_session import KEYS
from tests.daemon.at_work import in_a_loop
from tests.surfaces.chat import matrix_server, telegram_server
from tests.surfaces.chat.at_work import ChatAtWork, chat_at_work, make_chat_home
from tests.surfaces.chat.matrix_server import MatrixServer
from tests.surfaces.chat.telegram_server import TelegramServer
from tests.surfaces.chat.test_asked import WORK, start

METER = """<recipe group="w" name="meter" start_step="take" end_step="take">
  <step id="take" type="action" target="basic.copy">
    <arguments><copy-as name="read"/></arguments>
  </step>
  <start><element><match>chat-message[@file]</match></element></start>
</recipe>"""
JPEG = b"\xff\xd8\xff" + b"j" * 900


class Service(Protocol):
    """A service, and the telephones of Ann and Ben, who are known, and of Eve, who is not."""

    kind: str

    @property
    def settings(self) -> str:
        """The table of the settings."""

    @property
    def secret(self) -> str:
        """The secret with which the assistant logs in."""

    def address(self, name: str) -> str:
        """The address of somebody, as the service has it."""

    def write(self, name: str, text: str) -> None:
        """Let somebody write to the assistant."""

    def send_picture(self, name: str) -> None:
        """Let somebody send a picture."""

    def press(self, name: str, number: int) -> None:
        """Let somebody press a button of the last message that has some."""

    def texts(self, name: str) -> list[str]:
        """The texts that somebody sees of the assistant, as they are now."""

    def lose_answers(self, number: int) -> None:
        """Lose the answers to the next messages of the assistant."""

    def close(self) -> None:
        """End."""


class OfTelegram:
    kind = "telegram"
    secret = telegram_server.TOKEN

    def __init__(self) -> None:
        users = (telegram_server.ANN, telegram_server.BEN, telegram_server.EVE)
        self.numbers = dict(zip(("ann", "ben", "eve"), users, strict=True))
        self.server = TelegramServer()
        self.server.files["meter"] = JPEG
        self.close = self.server.close

    @property
    def settings(self) -> str:
        return f'server = "{self.server.url}"\nallow = ["{self.server.place}"]\n'

    def address(self, name: str) -> str:
        return str(self.numbers[name])

    def write(self, name: str, text: str) -> None:
        self.server.write(self.numbers[name], text)

    def send_picture(self, name: str) -> None:
        photo = {"file_id": "meter", "width": 900, "height": 600, "file_size": len(JPEG)}
        self.server.write(self.numbers[name], photo=[photo], caption="the meter")

    def press(self, name: str, number: int) -> None:
        message = [one for one in self.server.sent(self.numbers[name]) if "reply_markup" in one][-1]
        keys = [key for row in message["reply_markup"]["inline_keyboard"] for key in row]
        self.server.press(self.numbers[name], message, keys[number]["callback_data"])

    def texts(self, name: str) -> list[str]:
        return self.server.texts(self.numbers[name])

    def lose_answers(self, number: int) -> None:
        self.server.faults["sendMessage"] = ["lost"] * number


class OfMatrix:
    kind = "matrix"
    secret = matrix_server.PASSWORDS[matrix_server.NARVAL]

    def __init__(self) -> None:
        self.server = MatrixServer()
        self.rooms = {
            name: self.server.room(self.address(name), matrix_server.NARVAL) for name in ("ann", "ben", "eve")
        }
        self.close = self.server.close

    @property
    def settings(self) -> str:
        user = f'user = "{matrix_server.NARVAL}"\n'
        return f'server = "{self.server.url}"\nallow = ["{self.server.place}"]\n{user}'

    def address(self, name: str) -> str:
        return f"@{name}:{matrix_server.SERVER}"

    def write(self, name: str, text: str) -> None:
        self.server.write(self.address(name), self.rooms[name], text)

    def send_picture(self, name: str) -> None:
        about = {"msgtype": "m.image", "url": self.server.upload(JPEG), "info": {"mimetype": "image/jpeg"}}
        self.server.write(self.address(name), self.rooms[name], "the meter", filename="meter.jpg", **about)

    def press(self, name: str, number: int) -> None:
        reactions = self.server.sent(self.rooms[name], "m.reaction")
        event = reactions[-1]["m.relates_to"]["event_id"]
        self.server.react(self.address(name), self.rooms[name], event, KEYS[number])

    def texts(self, name: str) -> list[str]:
        texts: dict[str, str] = {}
        for event in list(self.server.events):
            by = (event["room_id"], event["sender"], event["type"])
            if by == (self.rooms[name], matrix_server.NARVAL, "m.room.message"):
                content = event["content"]
                edited = content.get("m.relates_to", {}).get("event_id", event["event_id"])
                texts[edited] = content.get("m.new_content", content)["body"]
        return list(texts.values())

    def lose_answers(self, number: int) -> None:
        self.server.faults["send"] = ["lost"] * number


@pytest.fixture(params=[OfTelegram, OfMatrix], ids=["telegram", "matrix"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    made: Service = request.param()
    yield made
    made.close()


def home_of(service: Service, folder: Path) -> Home:
    """A home whose people write at a service."""
    people = "".join(
        f'[people.{name}]\nweb = "operator"\nchat = ["{service.kind}:{service.address(name)}"]\n'
        for name in ("ann", "ben")
    )
    made = make_chat_home(folder, people=people + '[people.rob]\nweb = "operator"\n[people.eve]\n')
    table = f'[chats.phone]\nkind = "{service.kind}"\nsecret = "chat-phone"\n{service.settings}'
    (folder / "etc/narval.toml").write_text(table)
    (folder / "etc/chat-phone").write_text(service.secret)
    (folder / "etc/chat-phone").chmod(0o600)
    (folder / "recipes/w.xml").write_text(WORK)
    (folder / "recipes/meter.xml").write_text(METER)
    return made


@asynccontextmanager
async def at_work(service: Service, home: Home) -> AsyncIterator[ChatAtWork]:
    """The home at work, and connected."""
    async with chat_at_work(home) as chat:
        async with asyncio.timeout(60):
            while not (await chat.ask("chats"))[0]["position"]:
                await asyncio.sleep(0.01)
        yield chat


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


@in_a_loop
async def test_people_write_are_answered_and_linked(service: Service, tmp_path: Path) -> None:
    async with at_work(service, home_of(service, tmp_path)) as chat:
        service.write("ann", "status")
        await until(lambda: service.texts("ann"))
        assert "runs" in service.texts("ann")[0]
        made = await chat.ask("chat_link", person="eve")
        service.write("eve", "status")
        service.write("eve", made["code"])
        answer = await chat.ask("chat_linked", person="eve", wait=60)
        assert answer["address"] == f"{service.kind}:{service.address('eve')}"
        await until(lambda: service.texts("eve"))
        assert len(service.texts("eve")) == 1, "a stranger is answered nothing but the code"


@in_a_loop
async def test_a_picture_is_an_element(service: Service, tmp_path: Path) -> None:
    async with at_work(service, home_of(service, tmp_path)) as chat:
        service.send_picture("ann")
        async with asyncio.timeout(60):
            while not (rows := await chat.ask("memory", xpath="chat-message")):
                await asyncio.sleep(0.01)
        (file,) = tmp_path.glob("var/chat/*/*.jpg")
        assert file.read_bytes() == JPEG
        assert str(file.relative_to(tmp_path)) in rows[0]["xml"]
        assert ">the meter<file " in rows[0]["xml"]


@in_a_loop
async def test_a_button_answers_and_the_other_is_told(service: Service, tmp_path: Path) -> None:
    async with at_work(service, home_of(service, tmp_path)) as chat:
        item = await start(chat, "w.approve", b'<request what="a desk"/>')
        await until(lambda: service.texts("ann") and service.texts("ben"))
        assert service.texts("ann")[0].startswith("w.approve asks\n| Approve a desk")
        await chat_is_quiet(chat)
        service.press("ann", 0)
        await until(lambda: len(service.texts("ann")) == 2 and "done by ann" in service.texts("ben")[0])
        assert service.texts("ann")[1] == f"{item} is done: approve"
        service.write("ben", "status")
        await until(lambda: len(service.texts("ben")) == 2)


@in_a_loop
async def test_an_answer_that_is_lost_is_repaired(service: Service, tmp_path: Path) -> None:
    """Once where the service knows ids; else twice, the second marked."""
    async with at_work(service, home_of(service, tmp_path)) as chat:
        service.lose_answers(1)
        service.write("ann", "help")
        number = 1 if service.kind == "matrix" else 2
        await until(lambda: len(service.texts("ann")) == number)
        await chat_is_quiet(chat)
        assert len(service.texts("ann")) == number
        if number == 2:
            assert service.texts("ann")[1] == telegram.REPEATED + service.texts("ann")[0]
        service.write("ann", "status")
        await until(lambda: len(service.texts("ann")) == number + 1)


@in_a_loop
async def test_a_command_that_names_the_bot_speaks_to_the_assistant_of_a_group(tmp_path: Path) -> None:
    """Of others nothing is heeded, whatever they name, and a group that the settings lack is none."""
    service = OfTelegram()
    group = telegram_server.GROUP
    home = home_of(service, tmp_path)
    file = tmp_path / "etc/narval.toml"
    file.write_text(f'{file.read_text()}rooms = ["{group}"]\n')
    async with at_work(service, home) as chat:
        service.server.write(telegram_server.EVE, "/help@narval_bot", room=group)
        service.server.write(telegram_server.ANN, "/help", room=group)
        service.server.write(telegram_server.ANN, "/help@narval_bot", room=group)
        service.server.write(telegram_server.ANN, "/help@narval_bot", room=group - 1)
        service.write("ann", "help")
        await until(lambda: service.texts("ann") and service.server.texts(group))
        await chat_is_quiet(chat)
        assert [len(service.server.texts(one)) for one in (group, group - 1)] == [1, 0]
    service.close()


async def chat_is_quiet(chat: ChatAtWork) -> None:
    """Wait until nothing is to be dealt with or sent."""
    async with asyncio.timeout(60):
        while True:
            (row,) = await chat.ask("chats")
            if not (row["inbox"] or row["owed"] or row["outbox"]):
                return
            await asyncio.sleep(0.01)
