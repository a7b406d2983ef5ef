"""A session at a homeserver of Matrix: its login, its requests of the client API, and its events.

Events are reduced to what matters in a chat.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from narval.files.outside.chats import ChatSettings
from narval.surfaces.chat.contract import ChatError, IncomingFile
from narval.surfaces.chat.web_api import ApiAnswer, WebApi, wait_as_asked

CLIENT = "_matrix/client/v3"
MOST_WAITS = 3
"""The most times that a request is repeated because the server asked to wait."""


class MatrixSession:
    """The account of the settings at its server; it logs in at the first request.

    The secret is an access token, or else the password. With a password the device is always the same, so
    that the server recognises a message that is sent again after a restart.
    """

    def __init__(self, settings: ChatSettings, home: Path, secret: str) -> None:
        self.settings, self.user = settings, settings.user
        self._api = WebApi(settings, home, secret)
        self._secret, self._token = secret, ""
        self._is_password = False
        place = f"{home.resolve()} {settings.name}"
        self._device = f"NARVAL{hashlib.sha256(place.encode()).hexdigest()[:10].upper()}"
        self._login = asyncio.Lock()

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        held: float = 0.0,
        missing: bool = False,
        hurried: bool = False,
    ) -> dict[str, Any]:
        """The answer of the server to a request of the client API, below `v3`.

        With `missing`, the answer for a missing resource is {}; with `hurried`, also that of a busy server.
        Raises ConnectionError if another try may help, ChatError (final) if the server refuses.
        """
        waits = 0 if hurried else MOST_WAITS
        answer = await self._answered(method, path, body, held, waits)
        if answer.status == 401 and self._is_password:  # the token has expired, the password has not
            self._token = ""
            answer = await self._answered(method, path, body, held, waits)
        if answer.status == 200:
            return answer.data
        if (missing and answer.status == 404) or (hurried and answer.status == 429):
            return {}
        raise self._refused(answer, path)

    async def download(self, reference: str, target: Path, most: int) -> None:
        """Fetch a file of the server's media into a path."""
        server, _, media = reference.removeprefix("mxc://").partition("/")
        place = f"download/{quote(server, safe='')}/{quote(media, safe='')}"
        headers = {"Authorization": f"Bearer {await self._logged_in()}"}
        status = await self._api.download(f"_matrix/client/v1/media/{place}", target, most, headers)
        if status in (404, 405):  # a server older than Matrix 1.11
            status = await self._api.download(f"_matrix/media/v3/{place}", target, most)
        if status != 200:
            final = status in (400, 403, 404)
            raise ChatError(f"{self.settings}: the file was answered by {status}", final=final)

    async def _answered(
        self, method: str, path: str, body: Mapping[str, object] | None, held: float, waits: int
    ) -> ApiAnswer:
        for left in range(waits, -1, -1):
            headers = {"Authorization": f"Bearer {await self._logged_in()}"}
            answer = await self._api.ask(f"{CLIENT}/{path}", body, method=method, headers=headers, held=held)
            if answer.status != 429 or not left:
                break
            await wait_as_asked(_wait(answer), self.settings)
        return answer

    async def _logged_in(self) -> str:
        """The access token of the session; logs in if there is none."""
        async with self._login:
            if not self._token:
                self._token = await self._log_in()
                self._api.conceal(self._token)
        return self._token

    async def _log_in(self) -> str:
        if not self._secret or not self._api.url.startswith("http") or not self.settings.server:
            message = f"{self.settings}: expected server, user, and the secret with which it logs in"
            raise ChatError(message, final=True)
        if not self._is_password and self._secret.isascii():  # a header allows no other characters
            headers = {"Authorization": f"Bearer {self._secret}"}
            answer = await self._patiently("GET", "account/whoami", None, headers)
            if answer.status == 200:
                self._check_user(str(answer.data.get("user_id", "")))
                return self._secret
            if answer.status not in (401, 403):
                raise self._refused(answer, "account/whoami")
        if not self.settings.user:
            message = f'{self.settings}: expected user = "@NAME:SERVER" beside a password'
            raise ChatError(message, final=True)
        form = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.settings.user},
            "password": self._secret,
            "device_id": self._device,
            "initial_device_display_name": "narval",
        }
        answer = await self._patiently("POST", "login", form, {})
        if answer.status in (400, 401, 403):
            raise ChatError(
                f"{self.settings}: its secret is neither an access token nor the password of "
                f"{self.settings.user}: {self._words(answer)}",
                final=True,
            )
        if answer.status != 200:
            raise self._refused(answer, "login")
        self._is_password = True
        self._check_user(str(answer.data.get("user_id", "")))
        return str(answer.data["access_token"])

    async def _patiently(
        self, method: str, path: str, body: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> ApiAnswer:
        answer = await self._api.ask(f"{CLIENT}/{path}", body, method=method, headers=headers)
        if answer.status == 429:
            await wait_as_asked(_wait(answer), self.settings)
            answer = await self._api.ask(f"{CLIENT}/{path}", body, method=method, headers=headers)
        return answer

    def _check_user(self, user: str) -> None:
        if not user.startswith("@") or (self.settings.user.startswith("@") and user != self.settings.user):
            message = (
                f"{self.settings}: the secret is that of {user!r:.80}, not of {self.settings.user!r:.80}"
            )
            raise ChatError(message, final=True)
        self.user = user

    def _words(self, answer: ApiAnswer) -> str:
        return self._api.without_secrets(str(answer.data.get("error") or "no reason given"))

    def _refused(self, answer: ApiAnswer, path: str) -> Exception:
        what = f"{self.settings}: the server answered {answer.status} to {path.partition('?')[0]:.80}"
        what = f"{what}: {self._words(answer)}"
        if answer.status == 429 or answer.status >= 500:
            return ConnectionError(what)
        return ChatError(what, final=True)


def _wait(answer: ApiAnswer) -> float:
    """The seconds that the server asks to wait."""
    milliseconds = answer.data.get("retry_after_ms")
    if isinstance(milliseconds, int | float):
        return milliseconds / 1000
    after = answer.headers.get("retry-after", "")
    return float(after) if after.isdecimal() else 1.0


# --- events ---------------------------------------------------------------------------------------------

KEYS = tuple(f"{number}\ufe0f\u20e3" for number in range(1, 10))
"""The reactions that are buttons: the digits from 1 on, as keys."""
_FILES = ("m.audio", "m.file", "m.image", "m.video")
_TEXTS = ("m.text", "m.emote")
_MEDIA = re.compile(r"mxc://[A-Za-z0-9.:\[\]-]+/[A-Za-z0-9_-]+")
_EVENT = re.compile(r"\$[^\s/][^\s]*")
_FORWARDED = ("m.forwarded", "org.matrix.msc2723.forwarded")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a room."""

    id: str
    """Its id at the server."""
    sender: str
    """The account that sent it, which the servers have proved."""
    at: float | None
    """The moment that its server gave it."""
    text: str = ""
    """The text that was written."""
    file: IncomingFile | None = None
    """The file that came with it."""
    replies_to: str = ""
    """The event that it answers."""
    reacts_to: str = ""
    """The event to which it is a reaction."""
    key: str = ""
    """The reaction itself."""
    member: str = ""
    """The account whose membership it changes."""
    membership: str = ""
    """The new state of that account: join, invite, leave, ban."""
    was: str = ""
    """The state before, if the server says it."""
    is_edit: bool = False
    """True if it replaces the text of another event."""
    is_forwarded: bool = False
    """True if another person wrote its text."""
    is_encrypted: bool = False
    """True if it cannot be decrypted."""
    turns_encryption_on: bool = False
    """True if the room is encrypted from then on."""

    @property
    def is_message(self) -> bool:
        """True if it is a message to those in the room."""
        return bool(self.text or self.file or self.reacts_to or self.is_encrypted)

    @property
    def alters_the_room(self) -> bool:
        """True if it may change who is in the room, or who can read there."""
        return bool(self.member) or self.turns_encryption_on


def read(events: Iterable[object]) -> list[Event]:
    """The relevant events of a server; events of an invalid form are left out."""
    return [made for event in events if isinstance(event, dict) and (made := _readable(event)) is not None]


def entry(events: Sequence[Event], user: str) -> tuple[int, int]:
    """The indices of the events by which an account entered the room and was invited; -1 if there is none."""
    own = [number for number, event in enumerate(events) if event.member == user]
    for index in range(len(own) - 1, -1, -1):
        event = events[own[index]]
        if event.membership == "join" and event.was != "join":
            is_invited = index > 0 and events[own[index - 1]].membership == "invite"
            return own[index], own[index - 1] if is_invited else -1
    return -1, -1


def _readable(event: Mapping[str, Any]) -> Event | None:
    """An event, if its form is valid: anyone in a room may send an invalid one."""
    try:
        return _read(event)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        return None


def _read(event: Mapping[str, Any]) -> Event | None:
    content, identifier, sender = event.get("content"), event.get("event_id"), event.get("sender")
    if not isinstance(content, dict) or not isinstance(identifier, str) or not isinstance(sender, str):
        return None
    moment = event.get("origin_server_ts")
    at = moment / 1000 if isinstance(moment, int) else None
    match event.get("type"):
        case "m.room.message":
            return _message(content, Event(id=identifier, sender=sender, at=at))
        case "m.reaction":
            relation = _relation(content)
            pressed = str(relation.get("key", "")).replace("\ufe0f", "")  # some clients leave that out
            key = next((one for one in KEYS if one.replace("\ufe0f", "") == pressed), "")
            target = _event_id(relation.get("event_id"))
            return Event(id=identifier, sender=sender, at=at, reacts_to=target, key=key) if key else None
        case "m.room.encrypted":
            return Event(id=identifier, sender=sender, at=at, is_encrypted=True)
        case "m.room.encryption":
            return Event(id=identifier, sender=sender, at=at, turns_encryption_on=True)
        case "m.room.member":
            before = (event.get("unsigned") or {}).get("prev_content") or event.get("prev_content") or {}
            return Event(
                id=identifier,
                sender=sender,
                at=at,
                member=str(event.get("state_key", "")),
                membership=str(content.get("membership", "")),
                was=str(before.get("membership", "")),
            )
    return None


def _message(content: Mapping[str, Any], event: Event) -> Event | None:
    relation = _relation(content)
    is_edit = relation.get("rel_type") == "m.replace"
    if is_edit and isinstance(content.get("m.new_content"), dict):
        content = content["m.new_content"]
    kind, body = content.get("msgtype"), content.get("body")
    if not isinstance(body, str) or kind not in (*_TEXTS, *_FILES):
        return None  # no m.notice: programs send it, and must not answer one another
    answered = _event_id((relation.get("m.in_reply_to") or {}).get("event_id"))
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back"):
        answered = _event_id(relation.get("event_id"))
    text, file = (_without_quote(body) if answered else body), None
    if kind in _FILES:
        file = _file(content)
        text = text if content.get("filename", body) != body else ""
    return msgspec.structs.replace(
        event,
        text=text,
        file=file,
        replies_to=answered,
        is_edit=is_edit,
        is_forwarded=any(mark in content for mark in _FORWARDED),
    )


def _file(content: Mapping[str, Any]) -> IncomingFile | None:
    url, about = content.get("url"), content.get("info") or {}
    if not isinstance(url, str) or not _MEDIA.fullmatch(url):
        return None
    size = about.get("size")
    return IncomingFile(
        name=str(content.get("filename") or content["body"]),
        media_type=str(about.get("mimetype") or "application/octet-stream"),
        size=size if type(size) is int and 0 <= size < 2**53 else None,
        reference=url,
    )


def _without_quote(body: str) -> str:
    """The text of an answer without the quoted lines that older clients put before it."""
    lines = body.split("\n")
    while lines and lines[0].startswith("> "):
        del lines[0]
    return "\n".join(lines).strip("\n")


def _relation(content: Mapping[str, Any]) -> dict[str, Any]:
    relation = content.get("m.relates_to")
    return relation if isinstance(relation, dict) else {}


def _event_id(value: object) -> str:
    return value if isinstance(value, str) and _EVENT.fullmatch(value) else ""
