"""Synapse, a homeserver of Matrix, with the same people as the stand-in; for `make soak`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.places import ROOT
from tests.ports import free_port
from tests.surfaces.chat.matrix_server import NARVAL, PASSWORDS, SERVER

PLACE = ROOT / "build" / "synapse"
"""The environment that has Synapse, made by the first who wants it."""
SETTINGS = """
server_name: {server}
pid_file: {folder}/pid
report_stats: false
signing_key_path: {folder}/signing.key
media_store_path: {folder}/media
listeners:
  - type: http
    port: {port}
    bind_addresses: ["127.0.0.1"]
    resources: [{{names: [client, media], compress: false}}]
database: {{name: sqlite3, args: {{database: "{folder}/synapse.sqlite"}}}}
registration_shared_secret: shared
trusted_key_servers: []
rc_message: &much {{per_second: 1000, burst_count: 1000}}
rc_login: {{address: *much, account: *much, failed_attempts: *much}}
rc_joins: {{local: *much, remote: *much}}
rc_joins_per_room: *much
rc_invites: {{per_room: *much, per_user: *much, per_issuer: *much}}
"""


class Synapse:
    """A homeserver of this test; people act by its client API."""

    def __init__(self, folder: Path) -> None:
        if not (PLACE / "bin" / "register_new_matrix_user").exists():
            subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
            subprocess.run([PLACE / "bin" / "pip", "install", "--quiet", "matrix-synapse>=1.120"], check=True)
        self.place = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self.place}"
        self._folder = folder
        text = SETTINGS.format(server=SERVER, folder=folder, port=self.place.partition(":")[2])
        (folder / "homeserver.yaml").write_text(text)
        self._run("--generate-keys")
        self.open()
        for user, password in PASSWORDS.items():
            name = user[1:].partition(":")[0]
            program = [PLACE / "bin" / "register_new_matrix_user", "-u", name, "-p", password, "--no-admin"]
            subprocess.run([*program, "-k", "shared", self.url], check=True, capture_output=True)
        self._tokens = {user: self.token(user) for user in PASSWORDS}
        self._number = 0

    def _run(self, *words: str) -> None:
        program = [PLACE / "bin" / "python", "-m", "synapse.app.homeserver"]
        subprocess.run(
            [*program, "-c", self._folder / "homeserver.yaml", *words], check=True, capture_output=True
        )

    def open(self) -> None:
        """Start it, and wait until it answers."""
        with open(self._folder / "output", "ab") as output:
            self._process = subprocess.Popen(
                [
                    PLACE / "bin" / "python",
                    "-m",
                    "synapse.app.homeserver",
                    "-c",
                    self._folder / "homeserver.yaml",
                ],
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": ""},
            )
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise AssertionError((self._folder / "output").read_text()[-2000:]) from None
                time.sleep(0.2)

    def close(self) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    # what people do, as with the stand-in

    def token(self, user: str) -> str:
        """An access token of a device of its own."""
        identifier = {"type": "m.id.user", "user": user}
        form = {"type": "m.login.password", "identifier": identifier, "password": PASSWORDS[user]}
        return str(self._ask("", "POST", "login", form)["access_token"])

    def room(self, *people: str, invited: tuple[str, ...] = (), alias: str = "") -> str:
        """Make a room where people are, and others are invited by the first of them."""
        form = {"preset": "public_chat" if alias else "trusted_private_chat"}
        if alias:
            form["room_alias_name"] = alias[1:].partition(":")[0]
        room = str(self._ask(people[0], "POST", "createRoom", form)["room_id"])
        for person in people[1:]:
            self.member(room, person, "join", by=people[0])
        for person in invited:
            self.member(room, person, "invite", by=people[0])
        return room

    def member(self, room: str, person: str, membership: str, by: str = "") -> None:
        """Let a person join or leave a room, or be invited to it."""
        place = f"rooms/{quote(room)}"
        if membership == "leave":
            self._ask(person, "POST", f"{place}/leave", {})
            return
        if self.membership(room, person) not in ("invite", "join"):
            inside = next(one for one in PASSWORDS if self.membership(room, one) == "join")
            self._ask(by or inside, "POST", f"{place}/invite", {"user_id": person})
        if membership == "join":
            self._ask(person, "POST", f"{place}/join", {})

    def write(self, person: str, room: str, body: str, **more: Any) -> str:
        """Let a person write in a room; `more` are further fields of the content."""
        return self.event(room, person, "m.room.message", {"msgtype": "m.text", "body": body, **more})

    def react(self, person: str, room: str, event: str, key: str) -> str:
        """Let a person react to an event."""
        relation = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return self.event(room, person, "m.reaction", {"m.relates_to": relation})

    def event(self, room: str, sender: str, kind: str, content: dict[str, Any], **more: str) -> str:
        """Add an event to a room."""
        self._number += 1
        if kind == "m.room.redaction":
            path = f"redact/{quote(content['redacts'])}/{self._number}"
        elif "state_key" in more:
            path = f"state/{kind}/{more['state_key']}"
        else:
            path = f"send/{kind}/{self._number}"
        return str(self._ask(sender, "PUT", f"rooms/{quote(room)}/{path}", content)["event_id"])

    def upload(self, content: bytes) -> str:
        """Add a file to the media; its address."""
        request = urllib.request.Request(f"{self.url}/_matrix/media/v3/upload", content, method="POST")
        request.add_header("Authorization", f"Bearer {next(iter(self._tokens.values()))}")
        with urllib.request.urlopen(request) as answer:
            return str(json.load(answer)["content_uri"])

    def membership(self, room: str, person: str) -> str:
        """What a person is in a room: join, invite, leave, or ""."""
        for one in PASSWORDS:
            try:
                path = f"rooms/{quote(room)}/state/m.room.member/{quote(person)}"
                return str(self._ask(one, "GET", path)["membership"])
            except urllib.error.HTTPError:
                continue
        return ""

    def joined(self, person: str) -> list[str]:
        """The rooms in which a person is."""
        return list(self._ask(person, "GET", "joined_rooms")["joined_rooms"])

    def sent(self, room: str, kind: str = "m.room.message") -> list[dict[str, Any]]:
        """The contents that narval sent to a room."""
        path = f"rooms/{quote(room)}/messages?dir=f&limit=1000"
        chunk = self._ask(NARVAL, "GET", path)["chunk"]
        return [event["content"] for event in chunk if (event["sender"], event["type"]) == (NARVAL, kind)]

    def _ask(self, person: str, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_matrix/client/v3/{path}", data, method=method)
        if person:
            request.add_header("Authorization", f"Bearer {self._tokens[person]}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            made: dict[str, Any] = json.load(answer)
        return made
