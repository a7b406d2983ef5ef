"""A stand-in for the Bot API of Telegram: its methods as they are published; wrong calls are refused.

A parameter that a method does not have is refused too, which Telegram itself would overlook.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.surfaces.chat.faulty_server import FaultyServer, RefusedError

TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
BOT = {"id": 110201543, "is_bot": True, "first_name": "narval", "username": "narval_bot"}
ANN, BEN, EVE = 1001, 1002, 1666
NAMES = {ANN: "Ann", BEN: "Ben", EVE: "Eve"}
GROUP = -1001234567890

PARAMETERS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "getMe": {},
    "getUpdates": {"offset": int, "limit": int, "timeout": int, "allowed_updates": list},
    "sendMessage": {
        "chat_id": (int, str),
        "text": str,
        "entities": list,
        "link_preview_options": dict,
        "reply_parameters": dict,
        "reply_markup": dict,
        "disable_notification": bool,
    },
    "editMessageText": {
        "chat_id": (int, str),
        "message_id": int,
        "text": str,
        "entities": list,
        "link_preview_options": dict,
        "reply_markup": dict,
    },
    "answerCallbackQuery": {"callback_query_id": str, "text": str, "show_alert": bool},
    "getFile": {"file_id": str},
}
REQUIRED = {
    "sendMessage": {"chat_id", "text"},
    "editMessageText": {"chat_id", "message_id", "text"},
    "answerCallbackQuery": {"callback_query_id"},
    "getFile": {"file_id"},
}


def refusal(status: int, description: str, **parameters: object) -> RefusedError:
    """A call that Telegram refuses."""
    answer = {"ok": False, "error_code": status, "description": description}
    return RefusedError(status, {**answer, "parameters": parameters} if parameters else answer)


class TelegramServer(FaultyServer):
    """One bot, and people who write to it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[tuple[int, int], dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.ended_presses: list[str] = []
        self.blocked: set[int] = set()
        self._updates: list[dict[str, Any]] = []
        self._next_update, self._next_message, self._next_press = 5000, 1, 1
        self._polls = 0
        super().__init__()

    # what people do

    def write(self, user: int, text: str = "", *, room: int = 0, **more: Any) -> dict[str, Any]:
        """Let a person write something; `more` are further fields of the message."""
        message = self._message(user, room or user, **({"text": text} if text else {}), **more)
        self._give("message", message)
        return message

    def edit(self, message: dict[str, Any], text: str) -> None:
        """Let a person alter a message."""
        self._give("edited_message", {**message, "text": text, "edit_date": int(time.time())})

    def press(self, user: int, message: dict[str, Any], data: str) -> None:
        """Let a person press a button below a message of the bot."""
        number, self._next_press = str(self._next_press), self._next_press + 1
        self._give(
            "callback_query",
            {
                "id": number,
                "from": _user(user),
                "message": message,
                "chat_instance": "1",
                "data": data,
            },
        )

    def answer_to(self, message: dict[str, Any]) -> dict[str, Any]:
        """The field of a message that replies to one of the bot."""
        return {"reply_to_message": message}

    def sent(self, chat: int) -> list[dict[str, Any]]:
        """The messages of the bot in a chat, as they are there now."""
        with self.news:
            return [message for (place, _), message in self.messages.items() if place == chat]

    def texts(self, chat: int) -> list[str]:
        """The texts of the bot in a chat, as they are there now."""
        return [message["text"] for message in self.sent(chat)]

    def called(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the calls of a method."""
        with self.news:
            return [body for called, body in self.calls if called == method]

    # the server

    def route(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[str, Callable[[], object]]:
        _, first, *rest = handler.path.split("/", 2)
        if first == "file" and rest and handler.command == "GET":
            return "file", lambda: self._file(rest[0])
        if first != f"bot{TOKEN}":
            raise refusal(401 if first.startswith("bot") and ":" in first else 404, "Unauthorized")
        method, arguments = "".join(rest), json.loads(body or b"{}")
        if method not in PARAMETERS:
            raise refusal(404, "Not Found: method not found")
        if handler.headers.get("Content-Type") != "application/json":
            raise refusal(400, "Bad Request: expected JSON")
        self._check(method, arguments)
        with self.news:
            self.calls.append((method, arguments))
        done: Callable[..., object] = getattr(self, f"_do_{method}")
        return method, lambda: {"ok": True, "result": done(**arguments)}

    @staticmethod
    def _check(method: str, arguments: dict[str, Any]) -> None:
        for name, value in arguments.items():
            if name not in PARAMETERS[method]:
                raise refusal(400, f"Bad Request: {method} has no parameter {name}")
            expected = PARAMETERS[method][name]
            if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
                raise refusal(400, f"Bad Request: {name} is of a wrong type")
        if lacking := REQUIRED.get(method, set()) - set(arguments):
            raise refusal(400, f"Bad Request: parameter {lacking.pop()!r} is required")

    def _do_getMe(self) -> object:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": True}

    def _do_getUpdates(
        self, offset: int = 0, limit: int = 100, timeout: int = 0, allowed_updates: list[str] | None = None
    ) -> object:
        if not 1 <= limit <= 100:
            raise refusal(400, "Bad Request: limit must be between 1 and 100")
        self._polls += 1
        poll = self._polls
        self.news.notify_all()
        if offset < 0:
            del self._updates[: max(len(self._updates) + offset, 0)]
        elif offset:
            self._updates = [update for update in self._updates if update["update_id"] >= offset]
        self.await_news(lambda: bool(self._updates) or poll != self._polls, timeout)
        if poll != self._polls:
            raise refusal(409, "Conflict: terminated by other getUpdates request")
        return self._updates[:limit]

    def _do_sendMessage(self, chat_id: int, text: str, **more: Any) -> object:
        self._check_text(text, more)
        chat = self._chat(chat_id)
        if (reply := more.get("reply_parameters")) and not (
            (chat["id"], reply["message_id"]) in self.messages or reply.get("allow_sending_without_reply")
        ):
            raise refusal(400, "Bad Request: message to be replied not found")
        return self._said(chat["id"], text, more)

    def _do_editMessageText(self, chat_id: int, message_id: int, text: str, **more: Any) -> object:
        self._check_text(text, more)
        message = self.messages.get((self._chat(chat_id)["id"], message_id))
        if message is None:
            raise refusal(400, "Bad Request: message to edit not found")
        if message["text"] == text and message.get("reply_markup") == more.get("reply_markup"):
            raise refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are "
                "exactly the same as a current content and reply markup of the message",
            )
        message.pop("reply_markup", None)
        message.update(text=text, edit_date=int(time.time()), **_shown(more))
        return message

    def _do_answerCallbackQuery(self, callback_query_id: str, **_: Any) -> object:
        if callback_query_id in self.ended_presses:
            raise refusal(
                400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        self.ended_presses.append(callback_query_id)
        return True

    def _do_getFile(self, file_id: str) -> object:
        if file_id not in self.files:
            raise refusal(400, "Bad Request: invalid file_id")
        size = len(self.files[file_id])
        return {
            "file_id": file_id,
            "file_unique_id": file_id,
            "file_size": size,
            "file_path": f"documents/{file_id}",
        }

    def _file(self, rest: str) -> bytes:
        token, _, path = rest.partition("/")
        if token != f"bot{TOKEN}" or path.removeprefix("documents/") not in self.files:
            raise refusal(404, "Not Found")
        return self.files[path.removeprefix("documents/")]

    def _chat(self, chat_id: int | str) -> dict[str, Any]:
        if chat_id == GROUP:
            return {"id": GROUP, "type": "supergroup", "title": "team"}
        if chat_id not in NAMES:
            raise refusal(400, "Bad Request: chat not found")
        if chat_id in self.blocked:
            raise refusal(403, "Forbidden: bot was blocked by the user")
        return {"id": chat_id, "type": "private", "first_name": NAMES[int(chat_id)]}

    @staticmethod
    def _check_text(text: str, more: dict[str, Any]) -> None:
        if not text.strip():
            raise refusal(400, "Bad Request: message text is empty")
        if len(text) > 4096:
            raise refusal(400, "Bad Request: message is too long")
        units = len(text.encode("utf-16-le")) // 2
        for entity in more.get("entities", ()):
            if not 0 <= entity["offset"] < entity["offset"] + entity["length"] <= units:
                raise refusal(400, "Bad Request: entity beyond the end of the text")
        if set(more.get("link_preview_options", {})) - {"is_disabled", "url"}:
            raise refusal(400, "Bad Request: wrong link preview options")
        keyboard = more.get("reply_markup", {"inline_keyboard": []})
        if set(keyboard) != {"inline_keyboard"}:
            raise refusal(400, "Bad Request: object expected as reply markup")
        for button in (button for row in keyboard["inline_keyboard"] for button in row):
            if set(button) != {"text", "callback_data"} or not button["text"]:
                raise refusal(400, "Bad Request: wrong button")
            if not 1 <= len(button["callback_data"].encode()) <= 64:
                raise refusal(400, "Bad Request: BUTTON_DATA_INVALID")

    def _said(self, chat: int, text: str, more: dict[str, Any]) -> dict[str, Any]:
        number, self._next_message = self._next_message, self._next_message + 1
        message = {
            "message_id": number,
            "from": BOT,
            "chat": self._chat(chat),
            "date": int(time.time()),
            "text": text,
            **_shown(more),
        }
        self.messages[chat, number] = message
        self.news.notify_all()
        return message

    def _message(self, user: int, chat: int, **more: Any) -> dict[str, Any]:
        with self.news:
            number, self._next_message = self._next_message, self._next_message + 1
        place = (
            {"id": chat, "type": "supergroup", "title": "team"}
            if chat < 0
            else {"id": chat, "type": "private", "first_name": NAMES[chat]}
        )
        return {"message_id": number, "from": _user(user), "chat": place, "date": int(time.time()), **more}

    def _give(self, kind: str, content: dict[str, Any]) -> None:
        with self.news:
            self._updates.append({"update_id": self._next_update, kind: content})
            self._next_update += 1
            self.news.notify_all()


def _user(number: int) -> dict[str, Any]:
    return {"id": number, "is_bot": False, "first_name": NAMES[number], "username": NAMES[number].lower()}


def _shown(more: dict[str, Any]) -> dict[str, Any]:
    return {key: more[key] for key in ("entities", "reply_markup") if key in more}
