"""The connection of one chat: it takes, handles and sends messages, and reconnects when it breaks.

What it sends is the outbox of the chat; the daemon records the result.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from narval.core.errors import DaemonGoneError, NarvalError
from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import CLOSED, Incoming, Taken
from narval.people.mail.writing import VALUE
from narval.surfaces.chat.contract import ChatError, Kind, Outgoing
from narval.surfaces.chat.dealing import Dealing
from narval.surfaces.control.async_client import AsyncClient

log = logging.getLogger("narval.chat")

LINES, MINUTE = 30, 60.0
"""The most lines of a person that are handled in a number of seconds; the rest waits."""

CALM = 30.0
"""Seconds after which a connection counts as stable: the next pause is then the first one again."""

FIRST, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a failed message is tried again: at first, doubling each time, and at most."""

NETWORK = (OSError, TimeoutError, EOFError)
"""The errors of a lost or refused connection."""


class PersonsLines:
    """The waiting messages of one person, and the moments when the last ones were handled."""

    def __init__(self) -> None:
        self.waiting: deque[Taken] = deque()
        self.dealt: deque[float] = deque()
        self.task: asyncio.Task[None] | None = None

    def pause(self, now: float) -> float:
        """The seconds until the next may be handled."""
        while self.dealt and now - self.dealt[0] >= MINUTE:
            self.dealt.popleft()
        return MINUTE - (now - self.dealt[0]) if len(self.dealt) >= LINES else 0.0


class ChatConnection:
    """One chat, which runs until it is cancelled."""

    def __init__(
        self, chat: ChatSettings, opened: Callable[[], Kind], asks: AsyncClient, home: Path, own: str
    ) -> None:
        """Open it by `opened`, and again after a final refusal, as its secret may have changed by then.

        Raises OperatorError.
        """
        self.chat, self.kind = chat, opened()
        self._opened, self._asks = opened, asks
        self._records = ChatRecords(chat, asks)
        self._dealing = Dealing(chat, self.kind, asks, home, own)
        self._people: dict[str, PersonsLines] = {}

    async def run(self) -> None:
        """Take, handle and send messages; it never returns."""
        try:
            while True:
                try:
                    await self._work()
                except* Exception as errors:
                    log.exception("%s starts again in %g s", self.chat, LONGEST_PAUSE)
                    why = f"{type(errors.exceptions[0]).__name__}: {errors.exceptions[0]}"
                    await self._records.broken(why)
                await asyncio.sleep(LONGEST_PAUSE)
        finally:
            await self.kind.close()

    async def _work(self) -> None:
        """Take, handle and send messages until an unexpected error is raised."""
        self._people.clear()
        async with asyncio.TaskGroup() as group:
            self._group = group
            for row in await self._records.ask("chat_inbox", chat=self.chat.name):
                self._wait_for_its_turn(msgspec.convert(row, Taken))
            group.create_task(self._listen())
            group.create_task(Sending(self._records, lambda: self.kind).run())

    # --- incoming messages ------------------------------------------------------------------------------

    async def _listen(self) -> None:
        pause = FIRST
        while True:
            began, is_final = time.monotonic(), False
            try:
                position = await self._position()
                await self.kind.listen(position, self._take, self._records.connected)
                why = "the connection was closed"
            except ChatError as error:
                why, is_final = error.message, error.final
                pause = LONGEST_PAUSE if is_final else pause
            except (NarvalError, *NETWORK) as error:  # a refusal by the daemon ends no chat
                why = str(error) or type(error).__name__
            await self._records.broken(why)
            pause = FIRST if time.monotonic() - began > CALM else pause
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 # so that not all come at once
            pause = min(2 * pause, LONGEST_PAUSE)
            if is_final:
                await self._open_anew()

    async def _open_anew(self) -> None:
        try:
            kind = self._opened()
        except NarvalError as error:
            await self._records.broken(str(error))
            return
        await self.kind.close()
        self.kind = self._dealing.kind = kind

    async def _position(self) -> str:
        rows = await self._records.ask("chats")
        return next((str(row["position"]) for row in rows if row["chat"] == self.chat.name), "")

    async def _take(self, messages: Sequence[Incoming], position: str) -> None:
        forms = [msgspec.to_builtins(message) for message in messages]
        name, was_away = self.chat.name, False
        while True:
            try:
                taken = await self._asks.ask("chat_take", chat=name, messages=forms, position=position)
                break
            except DaemonGoneError:
                was_away = True
                await self._asks.again()
        if was_away:  # they may be recorded although the answer was lost
            taken = await self._records.ask("chat_inbox", chat=name)
        queued = {one.number for person in self._people.values() for one in person.waiting}
        for row in taken:
            if row["number"] not in queued:
                self._wait_for_its_turn(msgspec.convert(row, Taken))

    def _wait_for_its_turn(self, taken: Taken) -> None:
        person = self._people.setdefault(taken.person, PersonsLines())
        person.waiting.append(taken)
        if person.task is None or person.task.done():
            person.task = self._group.create_task(self._deal(person))

    async def _deal(self, person: PersonsLines) -> None:
        """Handle the lines of one person, in order, within their rate limit."""
        while person.waiting:
            if (pause := person.pause(time.monotonic())) > 0:
                await asyncio.sleep(pause)
            taken = person.waiting[0]
            try:
                await self._dealing.deal(taken)
            except DaemonGoneError:
                if (again := await self._still(taken)) is None:
                    person.waiting.popleft()
                else:
                    person.waiting[0] = again
                continue
            person.waiting.popleft()
            person.dealt.append(time.monotonic())

    async def _still(self, taken: Taken) -> Taken | None:
        """A message as the daemon has it now; None if it was handled."""
        rows = await self._records.ask("chat_inbox", chat=self.chat.name)
        return next((msgspec.convert(row, Taken) for row in rows if row["number"] == taken.number), None)


# --- sending ------------------------------------------------------------------------------------------------


LONGEST = 4_000
"""The most characters of one message; a longer text is sent in several."""

STEP = 300.0
"""Seconds that one request waits for a message to send."""


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
