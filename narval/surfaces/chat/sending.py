"""Sending the outbox of a chat; the daemon records the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from narval.core.errors import DaemonGoneError, NarvalError
from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import CLOSED
from narval.people.mail.writing import VALUE
from narval.surfaces.chat.contract import ChatError, Kind, Outgoing
from narval.surfaces.control.async_client import AsyncClient

log = logging.getLogger("narval.chat")

LONGEST = 4_000
"""The most characters of one message; a longer text is sent in several."""

FIRST, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a failed message is tried again: at first, doubling each time, and at most."""

STEP = 300.0
"""Seconds that one request waits for a message to send."""

NETWORK = (OSError, TimeoutError, EOFError)
"""The errors of a lost or refused connection."""


class ChatRecords:
    """The records of one chat at the daemon; a request waits until the daemon is running."""

    def __init__(self, chat: ChatSettings, asks: AsyncClient) -> None:
        self.chat, self._asks = chat, asks
        self._fault: str | None = None
        """The fault that prevents the connection, "" for none; None while unknown."""
        self._warning = self._unsent = ""
        """The warning of the kind, and the reason why the last message was not sent."""
        self._told: tuple[str, str] | None = None
        """The fault and the warning last reported to the daemon; None if nothing was reported."""

    async def broken(self, why: str) -> None:
        """Record that the chat is not connected."""
        if why != self._fault:
            log.warning("%s: %s", self.chat, why)
        self._fault = why
        await self.tell()

    async def connected(self, warning: str = "") -> None:
        """Record that the service has accepted the session, and a remaining problem."""
        if self._fault:
            log.info("%s is connected again", self.chat)
        if self._fault != "":
            self._unsent = ""  # the cause may have been the missing connection
        if warning and warning != self._warning:
            log.warning("%s: %s", self.chat, warning)
        self._fault, self._warning = "", warning
        await self.tell()

    async def sent(self, why_not: str = "") -> None:
        """Record that a message was sent, or why not; it is then tried again."""
        if why_not and why_not != self._unsent:
            log.warning("%s: a message could not be sent: %s", self.chat, why_not)
        self._unsent = why_not
        await self.tell()

    async def tell(self) -> None:
        """Report the state of the chat to the daemon, if it changed."""
        unsent = f"a message could not be sent: {self._unsent}" if self._unsent else ""
        state = self._fault or "", "; ".join(filter(None, (self._warning, unsent)))
        if self._fault is not None and state != self._told:
            self._told = state
            try:
                await self.ask("chat_state", chat=self.chat.name, fault=state[0], warning=state[1])
            except BaseException:
                self._told = None  # the report may be lost
                raise

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation, tried until a daemon answers. Raises NarvalError."""
        while True:
            try:
                return await self._asks.ask(method, **params)
            except DaemonGoneError:
                self._told = None  # the next daemon has no report
                await self._asks.again()
            except NarvalError as error:
                if method not in ("chat_sent", "chat_unsent", "chat_begun"):
                    raise
                log.info("%s: %s", method, error)  # it was recorded before the answer was lost
                return None


class Sending:
    """Sends the messages of one chat by its kind, which may be reopened in between."""

    def __init__(self, records: ChatRecords, kind: Callable[[], Kind]) -> None:
        self._records, self._name, self._kind = records, records.chat.name, kind

    async def run(self) -> None:
        """Send waiting messages, and new ones; it never returns."""
        pause = FIRST
        while True:
            rows = await self._records.ask("chat_outgoing", chat=self._name, wait=STEP)
            await self._records.tell()
            for row in rows:
                try:
                    await self._send_one(row)
                    pause = FIRST
                except NETWORK as error:
                    await self._records.sent(str(error) or type(error).__name__)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    break

    async def _send_one(self, row: Mapping[str, Any]) -> None:
        """Send a message and record the outcome. Raises OSError if a later try may help."""
        takes_buttons_away = row.get("edits") and self._kind().can >= {"edit", "buttons"}
        if row.get("purpose") == CLOSED and not takes_buttons_away:
            await self._records.ask("chat_sent", chat=self._name, id=row["id"], message_ids=[])
            return
        knows_ids, begun = "ids" in self._kind().can, int(row.get("begun", 0))
        is_repeated = bool(row["handed"]) if knows_ids else begun > 0
        if not knows_ids:
            if begun > 1:
                await self._unsent(row, "it was sent twice, and no answer came", final=True)
                return
            await self._records.ask("chat_begun", chat=self._name, id=row["id"])
        ids = []
        try:
            for message in self._messages(row, is_repeated=is_repeated):
                ids.append(await self._kind().send(message))
        except ChatError as error:
            await self._unsent(row, error.message, final=error.final)
            if error.final:  # it is not tried again
                await self._records.sent()
        except NETWORK:
            if not (knows_ids or ids):  # nothing was sent
                await self._records.ask("chat_begun", chat=self._name, id=row["id"], back=True)
            raise
        except Exception as error:  # one message must not stop the others
            log.exception("%s: a message could not be sent", self._records.chat)
            await self._unsent(row, f"{type(error).__name__}: {error}", final=False)
        else:
            await self._records.ask("chat_sent", chat=self._name, id=row["id"], message_ids=ids)
            await self._records.sent()

    def _messages(self, row: Mapping[str, Any], *, is_repeated: bool) -> list[Outgoing]:
        """The messages of the kind for one of ours: the last has the buttons."""
        texts = pieces(str(row["text"]))
        buttons = tuple((data, label) for data, label in row.get("buttons", ()))
        return [
            Outgoing(
                id=row["id"] if len(texts) == 1 else f"{row['id']}-{number}",
                place=row["place"],
                text=text,
                buttons=buttons if number == len(texts) and "buttons" in self._kind().can else (),
                replies_to=row.get("replies_to", "") if number == 1 else "",
                edits=row.get("edits", "") if number == 1 and "edit" in self._kind().can else "",
                is_repeated=is_repeated,
            )
            for number, text in enumerate(texts, 1)
        ]

    async def _unsent(self, row: Mapping[str, Any], why: str, *, final: bool) -> None:
        await self._records.ask("chat_unsent", chat=self._name, id=row["id"], why=why, final=final)


def pieces(text: str, most: int = LONGEST) -> list[str]:
    """A text in pieces of at most `most` characters, split at ends of lines or words if possible."""
    rest, parts = text, list[str]()
    while len(rest) > most:
        at = max(rest.rfind("\n", most // 2, most), rest.rfind(" ", most // 2, most))
        at = at if at > 0 else most
        line = rest[rest.rfind("\n", 0, at) + 1 : at]
        is_in_value = line.startswith(VALUE) and rest[at] != "\n"
        parts.append(rest[:at].rstrip())
        rest = (VALUE if is_in_value else "") + rest[at:].lstrip("\n ")
    return [*parts, rest] if rest or not parts else parts
