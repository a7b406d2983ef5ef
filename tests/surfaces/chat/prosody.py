"""A real server of XMPP on this machine: Prosody, with its own certificate, on ports of loopback."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from slixmpp import ClientXMPP
from slixmpp.exceptions import IqError

from tests.certificates import make_certificate
from tests.ports import free_port

DOMAIN, ROOMS = "example.org", "rooms.example.org"
PASSWORD = "secret"
PEOPLE = ("narval", "ann", "ben", "eve")

CONFIGURATION = """
run_as_root = true
daemonize = false
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
log = {{ info = "{folder}/prosody.log" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{ {direct_port} }}
c2s_require_encryption = true
modules_enabled = {{
  "roster", "saslauth", "tls", "disco", "carbons", "mam", "offline", "ping", "presence", "message", "iq"
}}
modules_disabled = {{ "s2s" }}
authentication = "internal_plain"
disable_sasl_mechanisms = {{ "SCRAM-SHA-1", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS" }}
max_history_messages = 20
archive_expires_after = "never"
ssl = {{ certificate = "{certificate}", key = "{key}" }}
VirtualHost "{domain}"
Component "{rooms}" "muc"
modules_enabled = {{ "muc_mam" }}
muc_room_default_public_jids = true
restrict_room_creation = false
muc_room_locking = false
"""


def missing() -> str:
    """The reason why there is no Prosody here; it is installed where that can be done."""
    with open(Path(tempfile.gettempdir(), "narval-prosody.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of these tests may be about to install it
        if shutil.which("prosody") is not None:
            return ""
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            return "Prosody is not installed: apt-get install prosody"
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        waits = ("-o", "DPkg::Lock::Timeout=120")
        install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *waits, "prosody")
        for command in (("apt-get", "update", "-qq"), install):
            try:
                subprocess.run(command, env=environment, capture_output=True, timeout=240, check=True)
            except (subprocess.SubprocessError, OSError) as error:
                return f"Prosody cannot be installed: {error}"
    return "" if shutil.which("prosody") else "it was installed somewhere else"


class Place(NamedTuple):
    """A server: its port, and the file with the certificate of its authority."""

    port: int
    ca: Path


class Prosody:
    """A server with the accounts of people; `ca` is the file with the certificate of its authority."""

    def __init__(self, folder: Path, people: Iterable[str] = PEOPLE) -> None:
        self.folder = folder
        self.certificate = certificate, key = make_certificate(folder, DOMAIN, ROOMS)
        self.ca = Path(certificate)
        self.port, self.direct_port = free_port(), free_port()
        self._program: subprocess.Popen[bytes] | None = None
        accounts = folder / "data" / DOMAIN.replace(".", "%2e") / "accounts"
        accounts.mkdir(parents=True)
        for name in people:
            (accounts / f"{name}.dat").write_text(f'return {{ ["password"] = "{PASSWORD}"; }};\n')
        (folder / "prosody.cfg.lua").write_text(
            CONFIGURATION.format(
                folder=folder,
                certificate=certificate,
                key=key,
                port=self.port,
                direct_port=self.direct_port,
                domain=DOMAIN,
                rooms=ROOMS,
            )
        )

    def begin(self) -> None:
        """Listen."""
        line = ["prosody", "--config", str(self.folder / "prosody.cfg.lua"), "-F"]
        self._program = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise AssertionError(f"Prosody does not listen: {(self.folder / 'prosody.log').read_text()[-2000:]}")

    def end(self) -> None:
        """Stop it at once, as a machine that loses its current."""
        if self._program is not None:
            self._program.kill()
            self._program.wait(30)
            self._program = None


class Peer(ClientXMPP):
    """A person's client: what it hears, as plain elements, and how it writes."""

    def __init__(self, server: Prosody | Place, name: str, resource: str = "phone") -> None:
        context = ssl.create_default_context(cafile=str(server.ca))
        super().__init__(f"{name}@{DOMAIN}/{resource}", PASSWORD, ssl_context=context)
        self._port = server.port
        self.enable_direct_tls = False
        self.messages: list[Element] = []
        self.presences: list[Element] = []
        self._changed = asyncio.Event()
        self._begun = asyncio.Event()
        self.add_event_handler("session_start", lambda _: self._begun.set())

    def _spawn_event(self, xml: Element) -> None:
        if xml.tag == "{jabber:client}message":
            self.messages.append(xml)
        elif xml.tag == "{jabber:client}presence":
            self.presences.append(xml)
        else:
            super()._spawn_event(xml)
        self._changed.set()

    async def __aenter__(self) -> Peer:
        self.connect("127.0.0.1", self._port)
        await asyncio.wait_for(self._begun.wait(), 20)
        self.send_presence()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect(wait=1.0)

    def write(
        self, text: str, to: str = f"narval@{DOMAIN}", kind: str = "chat", more: str = "", id: str = ""
    ) -> None:
        """Send a message, with elements in it as they stand."""
        body = f"<body>{text}</body>" if text else ""
        self.send_raw(f"<message to='{to}' type='{kind}' id='{id or self.new_id()}'>{body}{more}</message>")

    async def until(self, holds: Callable[[], Any], patience: float = 60) -> Any:
        """Wait until something holds; what it gives."""
        async with asyncio.timeout(patience):
            while not (result := holds()):
                self._changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.1)
        return result

    async def done(self) -> None:
        """Wait until the server has all that was said."""
        iq = self.make_iq_get("urn:xmpp:ping")
        iq["to"] = DOMAIN
        with suppress(IqError):
            await iq.send(timeout=60)

    async def enter(self, room: str, nick: str) -> None:
        """Enter a room, or take another nick there."""
        seen = len(self.presences)
        self.send_raw(f"<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await self.until(
            lambda: [
                xml
                for xml in self.presences[seen:]
                if xml.get("from") == f"{room}/{nick}" and xml.get("type") is None
            ]
        )

    async def configure(self, room: str, field: str, value: str) -> None:
        """Alter a room that one owns."""
        self.send_raw(
            f"<iq to='{room}' type='set' id='{self.new_id()}'><query xmlns='http://jabber.org/protocol/muc#owner'>"
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>"
            "<value>http://jabber.org/protocol/muc#roomconfig</value></field>"
            f"<field var='{field}'><value>{value}</value></field></x></query></iq>"
        )
        await self.done()

    @property
    def texts(self) -> list[str]:
        """The texts of the messages that came."""
        return [body for xml in self.messages if (body := xml.findtext("{jabber:client}body"))]
