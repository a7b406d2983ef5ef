"""The connection of one chat: it takes, handles and sends messages, and reconnects when it breaks."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from narval.core.errors import DaemonGoneError, NarvalError
from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import Incoming, Taken
from narval.surfaces.chat.contract import ChatError, Kind
from narval.surfaces.chat.dealing import Dealing
from narval.surfaces.chat.sending import FIRST, LONGEST_PAUSE, NETWORK, ChatRecords, Sending
from narval.surfaces.control.async_client import AsyncClient

log = logging.getLogger("narval.chat")

LINES, MINUTE = 30, 60.0
"""The most lines of a person that are handled in a number of seconds; the rest waits."""

CALM = 30.0
"""Seconds after which a connection counts as stable: the next pause is then the first one again."""


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
