"""A small stand-in for a homeserver of Matrix: the client API as far as an assistant uses it.

Synapse itself is asked in `make soak`; what both are asked stands in matrix_dialogue.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.surfaces.chat.faulty_server import FaultyServer, RefusedError

SERVER = "example.org"
PASSWORDS = {f"@{name}:{SERVER}": f"password of {name}" for name in ("narval", "ann", "ben", "carl", "eve")}
NARVAL, ANN, BEN, CARL, EVE = PASSWORDS


def refusal(status: int, code: str, error: str = "refused", **more: object) -> RefusedError:
    """A request that a homeserver refuses."""
    return RefusedError(status, {"errcode": code, "error": error, **more})


class MatrixServer(FaultyServer):
    """Rooms, and accounts that write in them. Faults are named by the last words of a path: sync, send, …"""

    def __init__(self) -> None:
        self.tokens: dict[str, tuple[str, str]] = {}  # access token: user, device
        self.events: list[dict[str, Any]] = []  # of all rooms, in order; the place is the position
        self.media: dict[str, bytes] = {}
        self.aliases: dict[str, str] = {}
        self.account_data: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.knows_authenticated_media = True
        self._transactions: dict[tuple[str, str], str] = {}
        self._number = 0
        super().__init__()

    # what people do

    def room(self, *people: str, invited: tuple[str, ...] = (), alias: str = "") -> str:
        """Make a room where people are, and others are invited by the first of them."""
        self._number += 1
        room = f"!room{self._number}:{SERVER}"
        if alias:
            self.aliases[alias] = room
        for person in people:
            self.member(room, person, "join")
        for person in invited:
            self.member(room, person, "invite", by=people[0])
        return room

    def member(self, room: str, person: str, membership: str, by: str = "") -> None:
        """Let a person join or leave a room, or be invited to it."""
        before = self.membership(room, person)
        content = {"membership": membership, "displayname": person[1:].partition(":")[0]}
        unsigned = {"prev_content": {"membership": before}} if before else {}
        self.event(room, by or person, "m.room.member", content, state_key=person, unsigned=unsigned)

    def write(self, person: str, room: str, body: str, **more: Any) -> str:
        """Let a person write in a room; `more` are further fields of the content."""
        return self.event(room, person, "m.room.message", {"msgtype": "m.text", "body": body, **more})

    def react(self, person: str, room: str, event: str, key: str) -> str:
        """Let a person react to an event."""
        relation = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return self.event(room, person, "m.reaction", {"m.relates_to": relation})

    def upload(self, content: bytes) -> str:
        """Add a file to the media; its address."""
        self._number += 1
        self.media[f"file{self._number}"] = content
        return f"mxc://{SERVER}/file{self._number}"

    def event(self, room: str, sender: str, kind: str, content: dict[str, Any], **more: Any) -> str:
        """Add an event to a room."""
        with self.news:
            self._number += 1
            made = {
                "room_id": room,
                "event_id": f"$event{self._number}",
                "sender": sender,
                "type": kind,
                "content": content,
                "origin_server_ts": int(time.time() * 1000),
                **more,
            }
            self.events.append(made)
            self.news.notify_all()
        return f"$event{self._number}"

    def membership(self, room: str, person: str) -> str:
        """What a person is in a room: join, invite, leave, or ""."""
        for event in reversed(self.events):
            if event["room_id"] == room and event.get("state_key") == person:
                return str(event["content"]["membership"])
        return ""

    def joined(self, person: str) -> list[str]:
        """The rooms in which a person is."""
        rooms = dict.fromkeys(event["room_id"] for event in self.events)
        return [room for room in rooms if self.membership(room, person) == "join"]

    def sent(self, room: str, kind: str = "m.room.message") -> list[dict[str, Any]]:
        """The contents that narval sent to a room."""
        with self.news:
            return [
                event["content"]
                for event in self.events
                if (event["room_id"], event["sender"], event["type"]) == (room, NARVAL, kind)
            ]

    # the server

    def route(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[str, Callable[[], object]]:
        parts = urlsplit(handler.path)
        path, query = unquote(parts.path), dict(parse_qsl(parts.query))
        self.asked.append(f"{handler.command} {path}")
        given = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        if path.startswith("/_matrix/media/v3/download/"):
            return "media", lambda: self._media(path)
        if path == "/_matrix/client/v3/login":
            return "login", lambda: self._login(json.loads(body))
        if given not in self.tokens:
            raise refusal(401, "M_UNKNOWN_TOKEN", "Unrecognised access token")
        if path.startswith("/_matrix/client/v1/media/download/"):
            if not self.knows_authenticated_media:
                raise refusal(404, "M_UNRECOGNIZED")
            return "media", lambda: self._media(path)
        name, words = self._route(handler.command, path)
        content = json.loads(body) if body else {}
        if name == "send":
            content = {"token": given, "path": path, "content": content}
        done: Callable[..., object] = getattr(self, f"_do_{name}")
        return name, partial(done, self.tokens[given][0], *words, **query, **content)

    @staticmethod
    def _route(command: str, path: str) -> tuple[str, tuple[str, ...]]:
        for method, pattern, name in _ROUTES:
            if command == method and (match := re.fullmatch(f"/_matrix/client/v3/{pattern}", path)):
                return name, match.groups()
        raise refusal(404, "M_UNRECOGNIZED", f"no such request: {command} {path}")

    def _login(self, form: dict[str, Any]) -> object:
        user = form["identifier"]["user"]
        user = user if user.startswith("@") else f"@{user}:{SERVER}"
        if form["type"] != "m.login.password" or PASSWORDS.get(user) != form["password"]:
            raise refusal(403, "M_FORBIDDEN", "Invalid username or password")
        return {
            "user_id": user,
            "access_token": self.token(user, form["device_id"]),
            "device_id": form["device_id"],
        }

    def token(self, user: str, device: str = "DEVICE") -> str:
        """A new access token; those before of the device end."""
        self.tokens = {token: of for token, of in self.tokens.items() if of != (user, device)}
        self._number += 1
        self.tokens[f"syt_{self._number}_secret"] = (user, device)
        return f"syt_{self._number}_secret"

    def _do_whoami(self, user: str) -> object:
        return {"user_id": user}

    def _do_joined_rooms(self, user: str) -> object:
        return {"joined_rooms": self.joined(user)}

    def _do_join(self, user: str, room: str) -> object:
        room = self.aliases.get(room, room)
        known = self.membership(room, user)
        if known not in ("invite", "join") and room not in self.aliases.values():
            raise refusal(403, "M_FORBIDDEN", "You are not invited to this room")
        if known != "join":
            self.member(room, user, "join")
        return {"room_id": room}

    def _do_members(self, user: str, room: str) -> object:
        self._must_be_in(room, user)
        people = {
            event["state_key"] for event in self.events if event["room_id"] == room and "state_key" in event
        }
        inside = [person for person in people if person and self.membership(room, person) == "join"]
        return {"joined": {person: {"display_name": person[1:].partition(":")[0]} for person in inside}}

    def _do_state(self, user: str, room: str, kind: str) -> object:
        self._must_be_in(room, user)
        for event in reversed(self.events):
            if (event["room_id"], event["type"]) == (room, kind):
                return event["content"]
        raise refusal(404, "M_NOT_FOUND")

    def _do_get_data(self, user: str, _: str, kind: str) -> object:
        if kind not in self.account_data:
            raise refusal(404, "M_NOT_FOUND")
        return self.account_data[kind]

    def _do_put_data(self, user: str, _: str, kind: str, **content: Any) -> object:
        self.account_data[kind] = content
        return {}

    def _do_create(self, user: str, preset: str, is_direct: bool, invite: list[str]) -> object:
        assert (preset, is_direct) == ("trusted_private_chat", True)
        return {"room_id": self.room(user, invited=tuple(invite))}

    def _do_send(
        self, user: str, room: str, kind: str, transaction: str, *, token: str, path: str, content: Any
    ) -> object:
        self._must_be_in(room, user)
        key = (self.tokens[token][1], path)
        if key not in self._transactions:
            self._transactions[key] = self.event(room, user, kind, content)
        return {"event_id": self._transactions[key]}

    def _do_event(self, user: str, room: str, identifier: str) -> object:
        self._must_be_in(room, user)
        for event in self.events:
            if (event["room_id"], event["event_id"]) == (room, identifier):
                return event
        raise refusal(404, "M_NOT_FOUND")

    def _do_messages(self, user: str, room: str, **query: str) -> object:
        self._must_be_in(room, user)
        assert query["dir"] == "b"
        first, last = int(query.get("to", "s0")[1:]), int(query["from"][1:])
        types = json.loads(query["filter"])["types"]
        chunk, number = [], last
        while number > first and len(chunk) < int(query["limit"]):
            number -= 1
            event = self.events[number]
            chunk += [event] if event["room_id"] == room and event["type"] in types else []
        return {"start": query["from"], "chunk": chunk, **({"end": f"s{number}"} if chunk else {})}

    def _do_sync(self, user: str, **query: str) -> object:
        room_filter = json.loads(query["filter"])["room"]["timeline"]
        since = int(query["since"][1:]) if "since" in query else 0
        rooms = lambda: self._news(user, since, room_filter)  # noqa: E731
        self.await_news(lambda: any(rooms().values()), int(query["timeout"]) / 1000)
        return {"next_batch": f"s{len(self.events)}", "rooms": rooms()}

    def _news(self, user: str, since: int, room_filter: dict[str, Any]) -> dict[str, dict[str, Any]]:
        joined, invited = {}, {}
        for room in dict.fromkeys(event["room_id"] for event in self.events):
            own = [
                n
                for n, event in enumerate(self.events)
                if (event["room_id"], event.get("state_key")) == (room, user)
            ]
            membership = self.membership(room, user)
            if membership == "invite" and own[-1] >= since:
                invited[room] = {"invite_state": {"events": [self.events[own[-1]]]}}
            elif membership == "join":
                begin = 0 if own[-1] >= since else since  # a room just entered is told from its beginning
                timeline = self._timeline(room, begin, room_filter)
                if timeline["events"]:
                    joined[room] = {"timeline": timeline}
        return {"join": joined, "invite": invited}

    def _timeline(self, room: str, since: int, room_filter: dict[str, Any]) -> dict[str, Any]:
        types = room_filter.get("types", ()) if "*" not in room_filter.get("not_types", ()) else ()
        there = [
            (number, event)
            for number, event in enumerate(self.events)
            if number >= since and event["room_id"] == room and event["type"] in types
        ]
        last = there[-room_filter["limit"] :]
        return {
            "events": [event for _, event in last],
            "limited": len(last) < len(there),
            "prev_batch": f"s{last[0][0]}" if last else f"s{since}",
        }

    def _media(self, path: str) -> bytes:
        server, media = path.split("/")[-2:]
        if server != SERVER or media not in self.media:
            raise refusal(404, "M_NOT_FOUND")
        return self.media[media]

    def _must_be_in(self, room: str, user: str) -> None:
        if self.membership(room, user) != "join":
            raise refusal(403, "M_FORBIDDEN", f"User {user} not in room {room}")


_ROUTES = (
    ("GET", "account/whoami", "whoami"),
    ("GET", "sync", "sync"),
    ("GET", "joined_rooms", "joined_rooms"),
    ("POST", "join/([^/]+)", "join"),
    ("POST", "rooms/([^/]+)/join", "join"),
    ("GET", "rooms/([^/]+)/joined_members", "members"),
    ("GET", "rooms/([^/]+)/state/([^/]+)", "state"),
    ("GET", "rooms/([^/]+)/messages", "messages"),
    ("GET", "rooms/([^/]+)/event/([^/]+)", "event"),
    ("PUT", "rooms/([^/]+)/send/([^/]+)/([^/]+)", "send"),
    ("GET", "user/([^/]+)/account_data/([^/]+)", "get_data"),
    ("PUT", "user/([^/]+)/account_data/([^/]+)", "put_data"),
    ("POST", "createRoom", "create"),
)
