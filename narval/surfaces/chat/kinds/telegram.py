"""Telegram, by its Bot API: long polling for incoming messages, inline keyboards for buttons.

The position is the `offset` of getUpdates. The id of a message is CHAT:MESSAGE, as Telegram numbers messages
in each chat separately. A group is named by its number, such as "-1001234567890". Telegram accepts no ids of
ours, so a message whose answer was lost may arrive twice: the second is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat.contract import ChatError, Incoming, IncomingFile, Outgoing, Take, Tell
from narval.surfaces.chat.web_api import ApiAnswer, WebApi, wait_as_asked

SERVER = "https://api.telegram.org"
HELD_SECONDS = 50
"""The seconds for which Telegram holds a request for updates while there are none."""
MOST_UPDATES = 100
UPDATES = ("message", "edited_message", "callback_query")
REPEATED = "(sent again, as it is not sure that you got it)\n"
MOST_WAITS = 3
"""The most times that a request is repeated because Telegram asked to wait."""
SHORT_LABEL = 12
"""The most characters of labels placed side by side."""
MOST_IN_A_ROW = 3
MOST_DATA = 64
"""The most bytes of the data of a button."""
MOST_ENTITIES = 100

_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_ACTIVE = re.compile(r"(?<![\w/@])[@/](?=\w)\w+(?:@\w+)?")
"""The pattern of words that Telegram turns into a mention or a command, anywhere in a text."""
_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:@(\w+))?(?=\s|\Z)")
_FILES = ("animation", "audio", "document", "sticker", "video", "video_note", "voice")
_ENDINGS = {"audio/ogg": "ogg", "audio/mpeg": "mp3", "video/mp4": "mp4", "image/webp": "webp"}


def open_chat(settings: ChatSettings, home: Path, secret: str) -> Telegram:
    """Prepare Telegram for a bot, whose token is the secret."""
    return Telegram(settings, home, secret)


class Telegram:
    """A bot at Telegram."""

    can = frozenset({"edit", "buttons", "rooms", "files"})

    def __init__(self, settings: ChatSettings, home: Path, token: str) -> None:
        self._settings, self._token = settings, token
        self._api = WebApi(settings, home, token, SERVER)
        self._bot = ""

    async def listen(self, position: str, take: Take, tell: Tell) -> None:
        """Deliver the messages to the bot after an update; see the contract."""
        if not _TOKEN.fullmatch(self._token):
            raise ChatError(
                f"{self._settings}: expected as secret the token that @BotFather gave, such as 12345:AbC…",
                final=True,
            )
        me = await self._result("getMe")
        self._bot = str(me.get("username", "")) if isinstance(me, dict) else ""
        offset = int(position) if position.isdecimal() else await self._end()
        if not position:
            await take((), str(offset))
        held = 0  # the first request returns at once, to check that Telegram delivers updates
        while True:
            updates, held = await self._updates(offset, held), HELD_SECONDS
            await tell("")
            messages = [message for update in updates for message in self._read(update)]
            if not updates:
                continue
            offset = updates[-1]["update_id"] + 1
            await take(messages, str(offset))
            for update in updates:
                if press := update.get("callback_query"):
                    await self._end_press(press)

    async def send(self, message: Outgoing) -> str:
        """Send a message, or replace the text of an earlier one; see the contract."""
        if message.edits:
            return await self._edit(message)
        body = self._body(message, message.place)
        if message.replies_to:
            number = _place_and_number(message.replies_to)[1]
            body["reply_parameters"] = {"message_id": number, "allow_sending_without_reply": True}
        sent = await self._result("sendMessage", body, once=True)
        return _id_of(sent) if isinstance(sent, dict) else ""

    async def fetch(self, file: IncomingFile, path: Path, most: int) -> None:
        """Fetch a file; Telegram limits bots to files of 20 MB."""
        if file.size is not None and file.size > most:
            raise ChatError(f"it has {file.size:,} bytes, and at most {most:,} are taken", final=True)
        about = await self._result("getFile", {"file_id": file.reference})
        place = about.get("file_path") if isinstance(about, dict) else None
        if not isinstance(place, str) or ".." in place:
            raise ChatError("Telegram no longer has the file", final=True)
        status = await self._api.download(f"file/bot{self._token}/{place}", path, most)
        if status != 200:
            raise ConnectionError(f"{self._settings}: the file was answered by {status}")

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    async def _end(self) -> int:
        """The offset after all updates so far."""
        updates = await self._updates(-1, 0)
        return updates[-1]["update_id"] + 1 if updates else 0

    async def _updates(self, offset: int, held: int) -> list[dict[str, Any]]:
        body = {"offset": offset, "limit": MOST_UPDATES, "timeout": held, "allowed_updates": list(UPDATES)}
        updates = await self._result("getUpdates", body, held=held)
        if not isinstance(updates, list) or not all(
            isinstance(update, dict) and isinstance(update.get("update_id"), int) for update in updates
        ):
            raise ConnectionError(f"{self._settings}: Telegram answered what are no updates")
        return updates

    def _read(self, update: Mapping[str, Any]) -> Iterator[Incoming]:
        """The message of an update; nothing if it is unusable."""
        position = str(update["update_id"] + 1)
        try:
            if press := update.get("callback_query"):
                yield _press(press, position)
            elif message := update.get("edited_message"):
                yield self._message(message, position, edit=f":edit:{update['update_id']}")
            elif (message := update.get("message")) and _says_something(message):
                yield self._message(message, position)
        except (LookupError, TypeError, AttributeError):
            return  # a message of an undocumented form

    def _message(self, message: Mapping[str, Any], position: str, edit: str = "") -> Incoming:
        chat, sender = message["chat"], message["from"]
        answered = message.get("reply_to_message")
        is_room = chat["type"] != "private"
        return Incoming(
            id=_id_of(message) + edit,
            position=position,
            sender=str(sender["id"]),
            place=str(chat["id"]),
            room=str(chat["id"]) if is_room else "",
            text=self._text(message.get("text") or message.get("caption") or "", is_room=is_room),
            name=" ".join(filter(None, (sender.get("first_name"), sender.get("last_name")))),
            at=float(message["date"]),
            replies_to=_id_of(answered) if answered else "",
            file=_file(message),
            is_edit=bool(edit),
            is_forwarded="via_bot" in message or any(key.startswith("forward_") for key in message),
        )

    def _text(self, text: str, *, is_room: bool) -> str:
        """The text without the slash of a command: `/status` is `status`, and `/start CODE` is CODE."""
        command = _COMMAND.match(text)
        if command is None:
            return text
        word, bot, rest = command[1], command[2], text[command.end() :].strip()
        if bot and bot.lower() != self._bot.lower():
            return text
        if word.lower() == "start":  # sent by Telegram when a person opens the bot, or a link to it
            word, rest = rest or "help", ""
        line = f"{word} {rest}".strip()
        return f"{self._settings.called}: {line}" if is_room and bot else line

    async def _end_press(self, press: Mapping[str, Any]) -> None:
        """Acknowledge the press of a button, so that it stops showing progress."""
        with suppress(ChatError, KeyError):  # a late one has no effect
            await self._result("answerCallbackQuery", {"callback_query_id": str(press["id"])})

    async def _edit(self, message: Outgoing) -> str:
        place, number = _place_and_number(message.edits)
        body = {**self._body(message, place), "message_id": number}
        try:
            await self._result("editMessageText", body)
        except ChatError as error:
            if "message is not modified" not in error.message:
                raise
        return message.edits

    def _body(self, message: Outgoing, place: str) -> dict[str, Any]:
        text = REPEATED + message.text if message.is_repeated and not message.edits else message.text
        body: dict[str, Any] = {
            "chat_id": _number(place),
            "text": text,
            "link_preview_options": {"is_disabled": True},
        }
        if entities := _plain(text):
            body["entities"] = entities
        if message.buttons:
            body["reply_markup"] = {"inline_keyboard": _keyboard(message.buttons)}
        return body

    async def _result(
        self,
        method: str,
        body: Mapping[str, object] | None = None,
        *,
        held: float = 0.0,
        once: bool = False,
    ) -> object:
        """The result of a method. Raises the errors of the contract."""
        for _ in range(MOST_WAITS):
            answer = await self._api.ask(f"bot{self._token}/{method}", body or {}, held=held, once=once)
            if answer.status == 200 and answer.data.get("ok") is True:
                return answer.data.get("result")
            if answer.status != 429:
                break
            await wait_as_asked(_wait(answer), self._settings)
        raise self._refused(method, answer)

    def _refused(self, method: str, answer: ApiAnswer) -> Exception:
        why = self._api.without_secrets(str(answer.data.get("description") or "no reason given"))
        what = f"{self._settings}: Telegram answered {answer.status} to {method}: {why}"
        parameters = answer.data.get("parameters")
        moved = parameters.get("migrate_to_chat_id") if isinstance(parameters, dict) else None
        if moved is not None:
            return ChatError(f'{what}; write the new number in rooms = ["{moved}"]', final=True)
        if answer.status in (401, 404) and method in ("getMe", "getUpdates"):
            return ChatError(f"{what}; its secret is no token of a bot: see @BotFather", final=True)
        if answer.status == 409 and "webhook" in why:
            return ChatError(f"{what}; take its webhook away, or make a bot of its own", final=True)
        if answer.status in (400, 403):
            return ChatError(what, final=True)
        return ConnectionError(what)


def _says_something(message: Mapping[str, Any]) -> bool:
    """True for a message with a text or a file of a user; others report that a person joined, for example."""
    return bool(message.get("from")) and any(key in message for key in ("text", "photo", *_FILES))


def _press(press: Mapping[str, Any], position: str) -> Incoming:
    message = press["message"]
    chat = message["chat"]
    return Incoming(
        id=f"press:{press['id']}",
        position=position,
        sender=str(press["from"]["id"]),
        place=str(chat["id"]),
        room="" if chat["type"] == "private" else str(chat["id"]),
        name=str(press["from"].get("first_name", "")),
        replies_to=_id_of(message),
        button=str(press.get("data", "")),
    )


def _file(message: Mapping[str, Any]) -> IncomingFile | None:
    """The file of a message; for a photo, its largest size."""
    if photos := message.get("photo"):
        photo = max(photos, key=lambda size: size["width"] * size["height"])
        return IncomingFile(
            name="photo.jpg",
            media_type="image/jpeg",
            size=photo.get("file_size"),
            reference=photo["file_id"],
        )
    for kind in _FILES:
        if file := message.get(kind):
            media_type = str(file.get("mime_type") or "application/octet-stream")
            ending = _ENDINGS.get(media_type, "bin")
            return IncomingFile(
                name=str(file.get("file_name") or f"{kind}.{ending}"),
                media_type=media_type,
                size=file.get("file_size"),
                reference=file["file_id"],
            )
    return None


def _plain(text: str) -> list[dict[str, object]]:
    """The places of a text that Telegram would turn into mentions or commands, each marked as code instead.

    Offsets count units of UTF-16. A text with more of them than Telegram accepts is code as a whole.
    """
    places = [match.span() for match in _ACTIVE.finditer(text)]
    if len(places) > MOST_ENTITIES:
        places = [(0, len(text))]
    return [
        {"type": "code", "offset": _units(text[:start]), "length": _units(text[start:end])}
        for start, end in places
    ]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _keyboard(buttons: Sequence[tuple[str, str]]) -> list[list[dict[str, str]]]:
    for data, label in buttons:
        if not 0 < len(data.encode()) <= MOST_DATA:
            raise ChatError(f"the button {label!r:.80} has data of more than {MOST_DATA} bytes", final=True)
    keys = [{"text": label, "callback_data": data} for data, label in buttons]
    in_a_row = MOST_IN_A_ROW if all(len(label) <= SHORT_LABEL for _, label in buttons) else 1
    return [keys[first : first + in_a_row] for first in range(0, len(keys), in_a_row)]


def _wait(answer: ApiAnswer) -> float:
    parameters = answer.data.get("parameters")
    seconds = parameters.get("retry_after") if isinstance(parameters, dict) else None
    return float(seconds) if isinstance(seconds, int | float) else 1.0


def _id_of(message: Mapping[str, Any]) -> str:
    """The id of a message: its chat and its number."""
    return f"{message['chat']['id']}:{message['message_id']}"


def _place_and_number(identifier: str) -> tuple[str, int]:
    place, _, number = identifier.partition(":")
    try:
        return place, int(number)
    except ValueError:
        raise ChatError(f"expected CHAT:MESSAGE, found {identifier!r:.80}", final=True) from None


def _number(place: str) -> int:
    """The number of a chat. Raises ChatError for a name, which may later belong to another person."""
    try:
        return int(place)
    except ValueError:
        raise ChatError(f"expected the number of a chat, found {place!r:.80}", final=True) from None
