"""A stand-in of an IMAP server, which can be away, hang up and misbehave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from tests.ports import free_port

Talk = Callable[[asyncio.StreamReader, Any], Awaitable[None]]
"""A talk with whoever connects, by the book or not."""


class ImapServer:
    """As much of RFC 3501 and RFC 2177 as a reader needs; what it was asked is kept in `asked`, and how it
    `misbehaves`, if it does, is a talk of another kind with whoever connects.
    """

    def __init__(self, *mails: bytes, idle: bool = True) -> None:
        self.mails = dict(enumerate(mails, 1))
        self.validity = 7
        self.flags: dict[int, str] = {}
        self.dates: dict[int, str] = {}
        """When mails came, where that is not long ago, as INTERNALDATE writes it."""
        self.capabilities = "IMAP4rev1 IDLE" if idle else "IMAP4rev1"
        self.asked: list[str] = []
        self.port = free_port()
        self.connections = 0
        self.misbehaves: Talk | None = None
        self.idling = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: list[asyncio.Task[None] | None] = []

    async def __aenter__(self) -> ImapServer:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await asyncio.gather(*filter(None, self._serving))

    async def open(self) -> None:
        """Listen, at the same port each time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def close(self) -> None:
        """Listen no more, and hang up."""
        self._server.close()
        self.hang_up()

    def deliver(self, raw: bytes) -> None:
        """A mail arrives; whoever idles is told."""
        self.mails[max(self.mails, default=0) + 1] = raw
        for writer in self._writers:
            writer.write(f"* {len(self.mails)} EXISTS\r\n".encode())

    def hang_up(self) -> None:
        """All connections are lost."""
        self.idling.clear()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._serving.append(asyncio.current_task())
        self.connections += 1
        try:
            await (self.misbehaves or self.talk)(reader, writer)
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def talk(self, reader: asyncio.StreamReader, writer: Any) -> None:
        """Talk by the book."""
        writer.write(b"* OK ready\r\n")
        while line := (await reader.readline()).decode().rstrip("\r\n"):
            tag, command, rest = (*line.split(" ", 2), "")[:3]
            self.asked.append(f"{command} {rest}".strip())
            if command == "IDLE":
                writer.write(b"+ idling\r\n")
                self.idling.set()
                if await reader.readline() != b"DONE\r\n":
                    break
                self.idling.clear()
            writer.write(self.respond(command, rest) + f"{tag} {self._verdict(command, rest)}\r\n".encode())
            if command == "LOGOUT":
                break

    def _verdict(self, command: str, rest: str) -> str:
        if command == "LOGIN" and rest != '"you" "pass word"':
            return "NO [AUTHENTICATIONFAILED] who are you?"
        return "OK [READ-ONLY] done" if command == "EXAMINE" else "OK done"

    def respond(self, command: str, rest: str) -> bytes:
        if command == "CAPABILITY":
            return f"* CAPABILITY {self.capabilities}\r\n".encode()
        if command == "EXAMINE":
            return f"* {len(self.mails)} EXISTS\r\n* OK [UIDVALIDITY {self.validity}] ids\r\n".encode()
        if command == "LOGOUT":
            return b"* BYE\r\n"
        if found := re.fullmatch(r"SEARCH UID (\d+):\*", rest):
            last = max(self.mails, default=0)
            uids = [uid for uid in self.mails if uid >= int(found[1]) or uid == last]
            return f"* SEARCH {' '.join(map(str, uids))}\r\n".encode()
        if found := re.fullmatch(r"FETCH (\d+) \(FLAGS BODY\.PEEK\[\]<0\.(\d+)>\)", rest, re.IGNORECASE):
            uid = int(found[1])
            raw = self.mails[uid][: int(found[2])].replace(b"\n", b"\r\n")
            told = f"UID {uid} FLAGS ({self.flags.get(uid, '')}) BODY[]<0>"
            return f"* 1 FETCH ({told} {{{len(raw)}}}\r\n".encode() + raw + b")\r\n"
        if found := re.fullmatch(r"FETCH (\d+):\* \(INTERNALDATE\)", rest, re.IGNORECASE):
            dates = ((uid, self.dates.get(uid, "01-Jan-2001 00:00:00 +0000")) for uid in self.mails)
            lines = (f'* {uid} FETCH (UID {uid} INTERNALDATE "{date}")\r\n' for uid, date in dates)
            return "".join(lines).encode()
        return b""

    def element(self, **more: str) -> str:
        given = {"name": "imap", "kind": "imap", "host": "127.0.0.1", "port": str(self.port), "tls": "none"}
        given |= {"user": "you", "secret": "imap-secret"} | more
        return "<mailbox " + " ".join(f'{name}="{value}"' for name, value in given.items()) + "/>"
