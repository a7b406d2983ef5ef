"""The outbox of a home's chats: records messages of actions and work to people and rooms.

The home's own agent records the messages of all agents, under ids derived from the calls: a message put twice
is sent once. During a person's quiet hours, messages that can wait are held until they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.calls.context import CallContext, call
from narval.calls.kept_files import CHAT_FILES, KeptFiles, Mentions
from narval.core.definitions.people.directory import Person
from narval.core.definitions.suggestions import closest
from narval.core.definitions.wall import moment_of, zone_named
from narval.core.errors import ActionError
from narval.files.outside.chats import ChatSettings
from narval.files.settings import CurrentSettings
from narval.people.chat.answering import end_of_item, is_put
from narval.people.chat.boxes import ChatBoxes
from narval.people.chat.messages import ENDED, REMINDER, SENT, Reply

MOST_BY_CHAT = 4_000
"""The most characters of a text that an action may send by chat."""


class _Own(NamedTuple):
    """The home's own agent: its boxes, its turns, and the present settings of the home."""

    agent: AgentState
    boxes: ChatBoxes
    post: Callable[[Request], None]
    settings: CurrentSettings

    def chats(self) -> tuple[ChatSettings, ...]:
        """The present chats."""
        return self.settings.now.chats


class ChatOutbox:
    """The outbox of a home: its own agent records messages to send in its `boxes`. `mentions` tells which
    names are files of messages.
    """

    def __init__(
        self,
        agent: AgentState,
        boxes: ChatBoxes,
        post: Callable[[Request], None],
        settings: CurrentSettings,
        mentions: Mentions,
    ) -> None:
        self._own = _Own(agent, boxes, post, settings)
        self.files = KeptFiles(CHAT_FILES, mentions)
        """The files of messages."""

    @property
    def _home(self) -> _Own:
        """The home's own agent. Raises ActionError if the home has no chat."""
        if not self._own.chats():
            raise ActionError("there is no chat; add [chats.NAME] to etc/narval.toml", "no-chat", final=True)
        return self._own

    def check(self) -> None:
        """Raise ActionError unless the home has a chat."""
        assert self._home

    def is_of(self, agent: AgentState) -> bool:
        """True for the home's own agent. Raises ActionError if the home has no chat."""
        return self._home.agent is agent

    async def send(self, context: CallContext, to: str, text: str, reminder: str | None = None) -> None:
        """Send the text of an action to a person, or to a room of the settings.

        A text that is not a `reminder` waits for the end of quiet hours. Raises ActionError.
        """
        from narval.kinds.work.engine.texts import shown_as  # loaded only if it sends

        home, plain = self._home, shown_as(text)
        chat = next((chat.name for chat in home.chats() if to in chat.rooms), None)
        if chat is not None:
            in_room = Reply(text=plain, place=to, purpose=SENT)
            await _done(home, lambda turn: _put_once(home, turn, chat, context.id, in_room))
            return
        people = home.agent.lookup.people
        person = people.person(to)
        if person is None:
            there = [each.name for each in people.people if each.chat]
            there += [room for chat in home.chats() for room in chat.rooms]
            why = f"there is no person {to!r:.80}, and no room of [chats.NAME]{closest(to[:80], there)}"
            raise ActionError(why, "no-address", final=True)
        at, zone, is_reminder = home.boxes.clock.now(), home.agent.clockwork.zone, reminder is not None
        later = waits_until(person, zone, at, is_urgent=is_reminder)
        purpose = REMINDER if is_reminder else SENT
        reply = Reply(text=plain, purpose=purpose, not_before=later or 0.0)
        await self.tell(person, context.id, reply, reminder or "")

    async def tell(self, person: Person, id: str, reply: Reply, at: str = "") -> None:
        """Send a message to a person: in the chat named `at` if the person has an address there, else in the
        chat where the person wrote last, else to the person's first address.

        News of an item goes where the person was asked about it. Raises ActionError.
        """
        home, message = self._home, replace(reply, to=person.name)
        chat = _chat_of(home, person, at)

        def work(turn: Turn) -> None:
            if reply.purpose != ENDED:
                _put_once(home, turn, chat, id, message)
                return
            for each in home.chats():
                end_of_item(turn, home.boxes.box(each.name), id, message)

        await _done(home, work)


def _put_once(home: _Own, turn: Turn, chat: str, id: str, message: Reply) -> None:
    """Record a message in the outbox of a chat, unless one with its id is in any outbox or was sent: a
    repeated call may choose another chat.
    """
    if not any(is_put(turn, box, id) for box in home.boxes.all()):
        home.boxes.box(chat).send(turn, message, id=id)


async def _done(home: _Own, work: Callable[[Turn], None]) -> None:
    """Do some work in a turn of the home's own agent, and wait until it is recorded.

    The work is posted, because the agent of a home opened by a program is not always running.
    """
    done = asyncio.get_running_loop().create_future()

    def settle(_: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    home.post(Request(work, settle))
    await done


async def send_by_chat(to: str, text: str, *, reminder: str | None = None) -> None:
    """Send a text to a person, or to a room of the settings, by chat: once per call, however often tried.

    It has at most 4,000 characters, and is shown as plain text. In the person's quiet hours it waits for
    their end, unless it is the person's own reminder: `reminder` is the chat chosen for it, "" for any.
    Raises ActionError (`bad-message`, `no-address`, `no-chat`, final).
    """
    if not text.strip():
        raise ActionError("expected a text, got none", "bad-message", final=True)
    if len(text) > MOST_BY_CHAT:
        why = f"expected a text of at most {MOST_BY_CHAT:,} characters, got {len(text):,}"
        raise ActionError(why, "bad-message", final=True)
    await call().send_by_chat(to, text, reminder)


def _chat_of(home: _Own, person: Person, name: str = "") -> str:
    """The chat in which to write to a person, the one with a given name if possible. Raises ActionError if
    there is none.
    """
    kinds = dict.fromkeys(address.partition(":")[0] for address in person.chat)
    chats = [chat for kind in kinds for chat in home.chats() if chat.kind == kind]
    if not chats:
        why = f"{person.name} has no address at a chat of this home"
        hint = (
            f"add [chats.NAME] of kind {', '.join(kinds)}" if kinds else f"`narval chat link {person.name}`"
        )
        raise ActionError(f"{why}: {hint}", "no-address", final=True)

    def wrote_at(chat: ChatSettings) -> float:
        wrote = home.boxes.box(chat.name).wrote.get(person.name)
        return wrote.at if wrote is not None else 0.0

    return max(chats, key=lambda chat: (chat.name == name, wrote_at(chat))).name


def quiet_until(person: Person, zone: str, at: float) -> float | None:
    """The end of a person's quiet hours, if a moment is within them; else None.

    `zone` is that of the home, used for people without a zone of their own.
    """
    if not person.quiet:
        return None
    first, last = map(time.fromisoformat, person.quiet.split("-"))
    there = zone_named(person.zone or zone)
    wall = datetime.fromtimestamp(at, there)
    is_over_midnight = first >= last
    if not (wall.time() >= first or wall.time() < last if is_over_midnight else first <= wall.time() < last):
        return None
    day = wall.date()
    if is_over_midnight and wall.time() >= first:
        day += timedelta(days=1)
    return moment_of(datetime.combine(day, last), there)


def waits_until(
    person: Person, zone: str, at: float, *, is_urgent: bool = False, deadline: float | None = None
) -> float | None:
    """The moment until which a message waits for the end of quiet hours; None if it goes at once.

    It goes at once if it is urgent, or about work whose deadline is within the quiet hours.
    """
    end = None if is_urgent else quiet_until(person, zone, at)
    return None if end is None or (deadline is not None and deadline <= end) else end
