"""Matrix, by the client API of a homeserver: `sync` for incoming messages, transaction ids for outgoing ones.

The position is the token of `sync`. The id of a message is ROOM/EVENT. A room of two is private: an answer to
the person goes to a room without anyone else. Of other rooms only those of the settings are used. Buttons are
reactions: the assistant puts 1️⃣ 2️⃣ … below its message, and a person presses one by tapping it. End-to-end
encryption is not supported: an encrypted message is answered in an unencrypted room.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from narval.files.outside.chats import ChatSettings
from narval.files.people_file import PeopleNow
from narval.people.chat.messages import LONGEST_TEXT
from narval.surfaces.chat.contract import ChatError, Incoming, IncomingFile, Outgoing, Take, Tell
from narval.surfaces.chat.kinds.matrix_session import KEYS, Event, MatrixSession, entry, read

logger = logging.getLogger(__name__)

HELD_SECONDS = 30
"""The seconds for which the server holds a request while there is no news."""
MOST_EVENTS = 100
"""The most events of a room in one answer; those in between are requested page by page."""
MOST_PAGES = 100
MOST_TAKEN = 100
MOST_INVITATIONS = 1_000
"""The most invitations of unknown people that are remembered, the last ones: each is accepted when its sender
becomes known.
"""
MOST_ROOMS = 1_000
"""The number of rooms from which an account no longer accepts invitations of strangers."""
BUTTONS = "narval.buttons"
"""The field of our messages that has the data of their buttons."""
_NOTHING = {"not_types": ["*"]}
_TYPES = (
    "m.reaction", "m.room.encrypted", "m.room.encryption", "m.room.member", "m.room.message",
)  # fmt: skip


def _only(timeline: Mapping[str, object]) -> Mapping[str, object]:
    """The filter of a sync that returns only invitations and timelines."""
    room = {"timeline": timeline, "state": _NOTHING, "ephemeral": _NOTHING, "account_data": _NOTHING}
    return {"presence": _NOTHING, "account_data": _NOTHING, "room": room}


MESSAGES = _only({"limit": MOST_EVENTS, "types": list(_TYPES)})
_INVITATIONS = _only({"limit": 1, **_NOTHING})


def open_chat(settings: ChatSettings, home: Path, secret: str) -> Matrix:
    """Prepare Matrix for an account, whose password or access token is the secret."""
    return Matrix(MatrixSession(settings, home, secret), home)


class Matrix:
    """An account at a homeserver."""

    can = frozenset({"edit", "buttons", "ids", "rooms", "files"})

    def __init__(self, session: MatrixSession, home: Path) -> None:
        self._session = session
        self.rooms = Rooms(session, home)

    async def listen(self, position: str, take: Take, tell: Tell) -> None:
        """Deliver messages after a token of `sync`; see the contract."""
        await self.rooms.enter_those_of_the_settings()
        answer = await self._sync("", 0, _INVITATIONS)  # earlier events are not delivered again
        since = position or str(answer["next_batch"])
        if not position:
            await take((), since)
        await self.rooms.heed_invitations(answer)
        while True:
            await tell("; ".join(self.rooms.closed.values()))
            answer = await self._sync(since, HELD_SECONDS)
            messages = await self._messages(answer, since)
            before, since = since, str(answer["next_batch"])
            for first in range(0, len(messages), MOST_TAKEN):
                is_last = first + MOST_TAKEN >= len(messages)
                await take(messages[first : first + MOST_TAKEN], since if is_last else before)
            await self.rooms.heed_invitations(answer)

    async def send(self, message: Outgoing) -> str:
        """Send a message under its id, or replace the text of an earlier one; see the contract."""
        content: dict[str, Any] = {"msgtype": "m.text", "body": message.text, "m.mentions": {}}
        if message.edits:
            room, event = _room_and_event(message.edits)
            await self.rooms.check(room, message.place)
            relation = {"rel_type": "m.replace", "event_id": event}
            content = {**content, "body": f"* {message.text}", "m.new_content": content}
            await self._put(room, "m.room.message", message.id, {**content, "m.relates_to": relation})
            return message.edits
        room = await self.rooms.of(message.place)
        answered_room, _, answered = message.replies_to.partition("/$")
        if answered and answered_room == room:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": f"${answered}"}}
        buttons = message.buttons[: len(KEYS)]
        if buttons:
            content[BUTTONS] = [data for data, _ in buttons]
        event = await self._put(room, "m.room.message", message.id, content)
        for number, key in enumerate(KEYS[: len(buttons)]):
            relation = {"rel_type": "m.annotation", "event_id": event, "key": key}
            reaction = {"m.relates_to": relation}
            if not await self._put(room, "m.reaction", f"{message.id}.{number}", reaction, hurried=True):
                break  # the server is busy, and the text has the numbers too
        return f"{room}/{event}"

    async def fetch(self, file: IncomingFile, path: Path, most: int) -> None:
        """Fetch a file of the server's media."""
        if file.size is not None and file.size > most:
            raise ChatError(f"it has {file.size:,} bytes, and at most {most:,} are taken", final=True)
        await self._session.download(file.reference, path, most)

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    async def _sync(self, since: str, held: int, of: Mapping[str, object] = MESSAGES) -> dict[str, Any]:
        query = {"filter": json.dumps(of), "timeout": str(held * 1000)}
        if since:
            query["since"] = since
        answer = await self._session.ask("GET", f"sync?{urlencode(query)}", held=held)
        if not isinstance(answer.get("next_batch"), str):
            raise ConnectionError(f"{self._session.settings}: the server answered what is no sync")
        return answer

    async def _put(
        self,
        room: str,
        kind: str,
        transaction: str,
        content: Mapping[str, object],
        *,
        hurried: bool = False,
    ) -> str:
        path = f"rooms/{quote(room, safe='')}/send/{kind}/{quote(transaction, safe='')}"
        answer = await self._session.ask("PUT", path, content, hurried=hurried)
        return str(answer.get("event_id", ""))

    async def _messages(self, answer: Mapping[str, Any], since: str) -> list[Incoming]:
        messages: list[Incoming] = []
        for room, data in answer.get("rooms", {}).get("join", {}).items():
            events = await self._events(room, data["timeline"], since)
            if any(event.alters_the_room for event in events):
                self.rooms.forget(room)
            for event in events:
                if event.sender != self._session.user and event.is_message:
                    message = await self._message(event, room, str(answer["next_batch"]))
                    messages += [message] if message else []
        return messages

    async def _events(self, room: str, timeline: Mapping[str, Any], since: str) -> list[Event]:
        """The events of a room since a token, in order; for a newly joined room, since the invitation."""
        user, is_named = self._session.user, bool(self.rooms.name_of(room))
        events = read(timeline["events"])
        token = timeline.get("prev_batch") if timeline.get("limited") else None
        for _ in range(MOST_PAGES):
            entered, invited = entry(events, user)
            if not token or invited >= 0 or (entered >= 0 and is_named):
                break
            form = {"dir": "b", "from": token, "limit": str(MOST_EVENTS)}
            form |= {"to": since} if entered < 0 else {}
            query = urlencode({**form, "filter": json.dumps({"types": list(_TYPES)})})
            page = await self._session.ask("GET", f"rooms/{quote(room, safe='')}/messages?{query}")
            events = [*read(page.get("chunk", ()))[::-1], *events]
            token = page.get("end") if page.get("chunk") and page.get("end") != token else None
        entered, invited = entry(events, user)
        if entered >= 0:  # text from before the invitation was not addressed to it
            events = events[invited if invited >= 0 else entered :]
        return list({event.id: event for event in events}.values())

    async def _message(self, event: Event, room: str, position: str) -> Incoming | None:
        """The message of an event; None if others are in its room, or it has no content."""
        named = self.rooms.name_of(room)
        if not named and not await self.rooms.is_of_two(room, event.sender):
            return None
        button = ""
        if event.reacts_to:
            if not (button := await self._button(room, event)):
                return None
        elif not named:
            self.rooms.use(room, event.sender)
        answered = event.reacts_to or event.replies_to
        return Incoming(
            id=f"{room}/{event.id}",
            position=position,
            sender=event.sender,
            place=room if named else event.sender,
            room=named,
            text=event.text[:LONGEST_TEXT],
            name="" if named else self.rooms.display_name(room, event.sender),
            at=event.at,
            replies_to=f"{room}/{answered}" if answered else "",
            button=button,
            file=event.file,
            is_edit=event.is_edit,
            is_forwarded=event.is_forwarded,
            is_encrypted=event.is_encrypted,
        )

    async def _button(self, room: str, event: Event) -> str:
        """The data of the button that a reaction presses, from our own message; "" for any other reaction."""
        if event.key not in KEYS:
            return ""
        path = f"rooms/{quote(room, safe='')}/event/{quote(event.reacts_to, safe='')}"
        ours = await self._session.ask("GET", path, missing=True)
        content = ours.get("content")
        data = content.get(BUTTONS) if isinstance(content, dict) else None
        number = KEYS.index(event.key)
        if ours.get("sender") != self._session.user or not isinstance(data, list) or number >= len(data):
            return ""
        return str(data[number])


class Rooms:
    """The rooms of an account: their members, which ones the settings name, and how to enter one."""

    def __init__(self, session: MatrixSession, home: Path) -> None:
        self._session, self._people = session, PeopleNow(home)
        self._named: dict[str, str] = {}  # by its id, the name that the settings have
        self._members: dict[str, dict[str, str]] = {}  # those in a room, with the names that they use
        self._is_encrypted: dict[str, bool] = {}
        self._used: dict[str, str] = {}  # by a person, the room of two where they wrote last
        self._invitations: dict[str, str] = {}  # by a room, who invited us
        self.closed: dict[str, str] = {}  # by the name of the settings, why a room cannot be joined

    async def enter_those_of_the_settings(self) -> None:
        """Join the rooms that the settings name; `closed` has those that cannot be joined."""
        for name in self._session.settings.rooms:
            if name in self._named.values():
                continue
            try:
                answer = await self._session.ask("POST", f"join/{quote(name, safe='')}", {})
                self._named[str(answer["room_id"])] = name
                self.closed.pop(name, None)
            except (ChatError, OSError, KeyError) as error:
                self.closed[name] = f"the room {name} cannot be joined: {error}"

    async def heed_invitations(self, answer: Mapping[str, Any]) -> None:
        """Enter the rooms to which known people invite the account; ignore other invitations."""
        for room, data in answer.get("rooms", {}).get("invite", {}).items():
            events = [
                event for event in data["invite_state"]["events"] if _invites(event, self._session.user)
            ]
            if events:
                self._invitations[room] = str(events[-1]["sender"])
        if answer.get("rooms", {}).get("invite"):
            await self.enter_those_of_the_settings()
        for room, person in list(self._invitations.items()):
            is_known = self._people.by_chat(f"matrix:{person}") is not None
            if is_known or self._session.settings.strangers:
                del self._invitations[room]
                try:
                    if not is_known and await self._is_in_many():
                        logger.info("%s", f"an invitation of {person} is left: too many rooms already")
                        continue
                    await self._session.ask("POST", f"rooms/{quote(room, safe='')}/join", {})
                except (ChatError, OSError) as error:
                    logger.info("%s", f"an invitation of {person} cannot be followed: {error}")
        for room in list(self._invitations)[:-MOST_INVITATIONS]:
            del self._invitations[room]

    async def _is_in_many(self) -> bool:
        """True if the account is in too many rooms to accept invitations of strangers."""
        joined = await self._session.ask("GET", "joined_rooms")
        return len(joined.get("joined_rooms", ())) >= MOST_ROOMS

    def name_of(self, room: str) -> str:
        """The name of a room in the settings; "" if it is not one of them."""
        return self._named.get(room, "")

    def use(self, room: str, person: str) -> None:
        """Record that a person writes in a room of two, so that answers go there."""
        self._used[person] = room

    def forget(self, room: str) -> None:
        """Forget what is known of a room that changed."""
        self._members.pop(room, None)
        self._is_encrypted.pop(room, None)

    def display_name(self, room: str, person: str) -> str:
        """The name that a person uses in a room."""
        return self._members.get(room, {}).get(person, "")

    async def is_of_two(self, room: str, person: str) -> bool:
        """True if only a person and this account are in a room."""
        return set(await self._in(room)) == {person, self._session.user}

    async def check(self, room: str, place: str) -> None:
        """Raise ChatError (final) if a message for a place must not be sent to a room."""
        if room not in self._named and not await self.is_of_two(room, place):
            raise ChatError(f"{place} is no longer alone in {room}", final=True)

    async def of(self, place: str) -> str:
        """The id of the room for a place: a room of the settings, or one with a person, made if needed."""
        if not place.startswith("@"):
            for room, name in self._named.items():
                if place in (room, name):
                    return room
            raise ChatError(f"{place!r:.80} is no room of {self._session.settings}", final=True)
        used = self._used.get(place, "")
        if used and await self._is_for(used, place, is_own=False):
            return used
        # the rooms for talk with one person each, as recorded at the server
        own: dict[str, list[str]] = await self._session.ask("GET", self._direct_path(), missing=True)
        for room in own.get(place, ()):
            if await self._is_for(room, place, is_own=True):
                return room
        joined = await self._session.ask("GET", "joined_rooms")
        for room in joined.get("joined_rooms", ()):
            if room not in self._named and await self._is_for(room, place, is_own=False):
                self._used[place] = room
                return str(room)
        return await self._make(place, own)

    async def _is_for(self, room: str, person: str, *, is_own: bool) -> bool:
        """True if a room is for unencrypted talk with one person, who may still have to join one that we
        made.
        """
        people = set(await self._in(room))
        alone = {self._session.user}
        return people in ({person} | alone, alone if is_own else {person} | alone) and not (
            await self._encrypts(room)
        )

    async def _make(self, person: str, own: Mapping[str, Sequence[str]]) -> str:
        form = {"preset": "trusted_private_chat", "is_direct": True, "invite": [person]}
        room = str((await self._session.ask("POST", "createRoom", form))["room_id"])
        self._used[person] = room
        direct = {**own, person: [room, *own.get(person, ())]}
        await self._session.ask("PUT", self._direct_path(), direct)
        return room

    def _direct_path(self) -> str:
        return f"user/{quote(self._session.user, safe='')}/account_data/m.direct"

    async def _in(self, room: str) -> dict[str, str]:
        if room not in self._members:
            path = f"rooms/{quote(room, safe='')}/joined_members"
            try:
                joined = (await self._session.ask("GET", path)).get("joined", {})
            except ChatError:  # we are no longer in it
                return {}
            names = {person: str((what or {}).get("display_name") or "") for person, what in joined.items()}
            self._members[room] = names
        return self._members[room]

    async def _encrypts(self, room: str) -> bool:
        if room not in self._is_encrypted:
            path = f"rooms/{quote(room, safe='')}/state/m.room.encryption"
            self._is_encrypted[room] = bool(await self._session.ask("GET", path, missing=True))
        return self._is_encrypted[room]


def _invites(event: Mapping[str, Any], user: str) -> bool:
    return (
        event.get("type") == "m.room.member"
        and event.get("state_key") == user
        and event.get("content", {}).get("membership") == "invite"
    )


def _room_and_event(identifier: str) -> tuple[str, str]:
    room, _, event = identifier.partition("/$")
    if not room or not event:
        raise ChatError(f"expected ROOM/EVENT, found {identifier!r:.80}", final=True)
    return room, f"${event}"
