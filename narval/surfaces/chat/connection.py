"""The connection of one chat: messages are taken, dealt with and sent, and it is made anew when it breaks."""

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
from narval.surfaces.chat.contract import AmbiguousError, ChatError, Kind, Outgoing
from narval.surfaces.chat.dealing import Dealing
from narval.surfaces.chat.line import Asks

log = logging.getLogger("narval.chat")

LINES, MINUTE = 30, 60.0
"""The lines of a person that are dealt with within so many seconds; the rest waits."""

LONGEST = 4_000
"""The most characters of one message that is sent; a longer text goes in several."""

FIRST, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a connection is made again: twice as many each time, and at most so many."""

CALM = 30.0
"""Seconds after which a connection that breaks is made again as if it had never broken."""

CONNECTED = 1.0
"""Seconds after which a connection that has not broken is taken for made."""

STEP = 300.0
"""Seconds that the daemon is asked to wait for something to be sent at a time."""

_NETWORK = (OSError, TimeoutError, EOFError)


class PersonsLines:
    """The messages of one person that wait here, and the moments at which the last ones were dealt with."""

    def __init__(self) -> None:
        self.waiting: deque[Taken] = deque()
        self.dealt: deque[float] = deque()
        self.task: asyncio.Task[None] | None = None

    def pause(self, now: float) -> float:
        """The seconds until the next may be dealt with."""
        while self.dealt and now - self.dealt[0] >= MINUTE:
            self.dealt.popleft()
        return MINUTE - (now - self.dealt[0]) if len(self.dealt) >= LINES else 0.0


class ChatConnection:
    """One chat at work, until it is cancelled."""

    def __init__(
        self, chat: ChatSettings, opened: Callable[[], Kind], asks: Asks, home: Path, own: str
    ) -> None:
        """Open it by `opened`, and again where it is refused for good: its secret may be another by then.

        Raises OperatorError.
        """
        self.chat, self.kind = chat, opened()
        self._opened, self._asks = opened, asks
        self._dealing = Dealing(chat, self.kind, asks, home, own)
        self._people: dict[str, PersonsLines] = {}
        self._fault: str | None = None
        """The fault told last; None before anything was."""

    async def run(self) -> None:
        """Take, deal with and send messages; it never returns."""
        try:
            while True:
                try:
                    await self._work()
                except* Exception as errors:
                    log.exception("%s begins again in %g s", self.chat, LONGEST_PAUSE)
                    await self._tell(f"{type(errors.exceptions[0]).__name__}: {errors.exceptions[0]}")
                await asyncio.sleep(LONGEST_PAUSE)
        finally:
            await self.kind.close()

    async def _work(self) -> None:
        """Take, deal with and send messages until something unexpected is raised."""
        self._people.clear()
        async with asyncio.TaskGroup() as group:
            self._group = group
            for row in await self._insist("chat_inbox", chat=self.chat.name):
                self._wait_for_its_turn(msgspec.convert(row, Taken))
            group.create_task(self._listen())
            group.create_task(self._send())

    # --- what comes -------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        pause = FIRST
        while True:
            began, telling = time.monotonic(), asyncio.create_task(self._tell_connected())
            is_final = False
            try:
                position = await self._position()
                await self.kind.listen(position, self._take)
                why = "the connection was closed"
            except ChatError as error:
                why, is_final = error.message, error.final
                pause = LONGEST_PAUSE if is_final else pause
            except (NarvalError, *_NETWORK) as error:  # what the daemon refuses ends no chat
                why = str(error) or type(error).__name__
            finally:
                telling.cancel()
            await self._tell(why)
            pause = FIRST if time.monotonic() - began > CALM else pause
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 # so that not all come at once
            pause = min(2 * pause, LONGEST_PAUSE)
            if is_final:
                await self._open_anew()

    async def _open_anew(self) -> None:
        try:
            kind = self._opened()
        except NarvalError as error:
            await self._tell(str(error))
            return
        await self.kind.close()
        self.kind = self._dealing.kind = kind

    async def _position(self) -> str:
        rows = await self._insist("chats")
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
                await asyncio.sleep(FIRST)
        if was_away:  # it may have taken them before its answer was lost
            taken = await self._insist("chat_inbox", chat=name)
        known = {one.number for person in self._people.values() for one in person.waiting}
        for row in taken:
            if row["number"] not in known:
                self._wait_for_its_turn(msgspec.convert(row, Taken))

    def _wait_for_its_turn(self, taken: Taken) -> None:
        person = self._people.setdefault(taken.person, PersonsLines())
        person.waiting.append(taken)
        if person.task is None or person.task.done():
            person.task = self._group.create_task(self._deal(person))

    async def _deal(self, person: PersonsLines) -> None:
        """Deal with what one person wrote, in order, as fast as one may write."""
        while person.waiting:
            if (pause := person.pause(time.monotonic())) > 0:
                await asyncio.sleep(pause)
            taken = person.waiting[0]
            try:
                await self._dealing.deal(taken)
            except DaemonGoneError:
                await asyncio.sleep(FIRST)
                if (again := await self._still(taken)) is None:
                    person.waiting.popleft()
                else:
                    person.waiting[0] = again
                continue
            person.waiting.popleft()
            person.dealt.append(time.monotonic())

    async def _still(self, taken: Taken) -> Taken | None:
        """A message as the daemon has it now; None where it is dealt with."""
        rows = await self._insist("chat_inbox", chat=self.chat.name)
        return next((msgspec.convert(row, Taken) for row in rows if row["number"] == taken.number), None)

    # --- what goes --------------------------------------------------------------------------------------

    async def _send(self) -> None:
        pause = FIRST
        while True:
            for row in await self._insist("chat_outgoing", chat=self.chat.name, wait=STEP):
                try:
                    await self._send_one(row)
                    pause = FIRST
                except _NETWORK as error:
                    await self._tell(str(error) or type(error).__name__)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    break

    async def _send_one(self, row: Mapping[str, Any]) -> None:
        """Send a message; its outcome is recorded. Raises OSError where it helps to try again."""
        if row.get("purpose") == CLOSED and not (row.get("edits") and "edit" in self.kind.can):
            await self._insist("chat_sent", chat=self.chat.name, id=row["id"], message_ids=[])
            return
        knows_ids, begun = "ids" in self.kind.can, int(row.get("begun", 0))
        is_repeated = bool(row["handed"]) if knows_ids else begun > 0
        if not knows_ids:
            if begun > 1:
                await self._unsent(row, "it was sent twice, and no answer came", final=True)
                return
            await self._insist("chat_begun", chat=self.chat.name, id=row["id"])
        ids = []
        try:
            for message in self._messages(row, is_repeated=is_repeated):
                ids.append(await self.kind.send(message))
        except AmbiguousError as error:
            await self._unsent(row, error.message, final=error.final)
        except ChatError as error:
            await self._unsent(row, error.message, final=error.final)
        except _NETWORK:
            if not (knows_ids or ids):  # nothing has gone out
                await self._insist("chat_begun", chat=self.chat.name, id=row["id"], back=True)
            raise
        except Exception as error:  # no message keeps others from being sent
            log.exception("%s: a message could not be sent", self.chat)
            await self._unsent(row, f"{type(error).__name__}: {error}", final=False)
        else:
            await self._insist("chat_sent", chat=self.chat.name, id=row["id"], message_ids=ids)
            await self._tell("")

    def _messages(self, row: Mapping[str, Any], *, is_repeated: bool) -> list[Outgoing]:
        """The messages of the kind that one of ours is: the buttons are below the last."""
        texts = pieces(str(row["text"]))
        buttons = tuple((data, label) for data, label in row.get("buttons", ()))
        return [
            Outgoing(
                id=row["id"] if len(texts) == 1 else f"{row['id']}-{number}",
                place=row["place"],
                text=text,
                buttons=buttons if number == len(texts) and "buttons" in self.kind.can else (),
                replies_to=row.get("replies_to", "") if number == 1 else "",
                edits=row.get("edits", "") if number == 1 and "edit" in self.kind.can else "",
                is_repeated=is_repeated,
            )
            for number, text in enumerate(texts, 1)
        ]

    async def _unsent(self, row: Mapping[str, Any], why: str, *, final: bool) -> None:
        await self._insist("chat_unsent", chat=self.chat.name, id=row["id"], why=why, final=final)

    # --- how it goes ------------------------------------------------------------------------------------

    async def _tell_connected(self) -> None:
        await asyncio.sleep(CONNECTED)
        await self._tell("")

    async def _tell(self, fault: str) -> None:
        if fault != self._fault:
            if fault:
                log.warning("%s: %s", self.chat, fault)
            elif self._fault:
                log.info("%s is connected again", self.chat)
            self._fault = fault
            await self._insist("chat_state", chat=self.chat.name, fault=fault)

    async def _insist(self, method: str, /, **params: Any) -> Any:
        """The answer to an operation, however long no daemon answers. Raises NarvalError."""
        while True:
            try:
                return await self._asks.ask(method, **params)
            except DaemonGoneError:
                await asyncio.sleep(FIRST)
            except NarvalError as error:
                if method not in ("chat_sent", "chat_unsent", "chat_begun"):
                    raise
                log.info("%s: %s", method, error)  # it was recorded before the answer was lost
                return None


VALUE = "| "
"""The start of each line of a text that comes from elsewhere, so that none looks like words of ours."""


def pieces(text: str, most: int = LONGEST) -> list[str]:
    """A text in pieces of at most so many characters, divided at ends of lines or of words if it can."""
    rest, parts = text, list[str]()
    while len(rest) > most:
        at = max(rest.rfind("\n", most // 2, most), rest.rfind(" ", most // 2, most))
        at = at if at > 0 else most
        line = rest[rest.rfind("\n", 0, at) + 1 : at]
        is_in_value = line.startswith(VALUE) and rest[at] != "\n"
        parts.append(rest[:at].rstrip())
        rest = (VALUE if is_in_value else "") + rest[at:].lstrip("\n ")
    return [*parts, rest] if rest or not parts else parts
