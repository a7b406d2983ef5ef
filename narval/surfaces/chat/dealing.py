"""Handling messages: what a line of a person means, its effect, and the files that come with it.

The handlers try a line in order; the first that recognises it answers. Any other line becomes an element. A
handler asks operations in the person's name, and those that alter something by `once`, so that each is done
once however often this program is stopped. Files are fetched into `var/chat/`, named by their digest, within
the quota.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from narval.calls.kept_files import CHAT_FILES
from narval.core.definitions.people.directory import chat_key
from narval.core.errors import DaemonGoneError, NarvalError
from narval.files.outside.chats import ChatSettings
from narval.people.chat.messages import Answering, AskedBack, Incoming, Reply, Taken, without_name
from narval.surfaces.chat import answers, commands, model
from narval.surfaces.chat.contract import ChatError, Kind
from narval.surfaces.chat.line import Dealt, Handler, Line
from narval.surfaces.control.async_client import AsyncClient

log = logging.getLogger("narval.chat")


_COMMANDS: Sequence[Handler] = (answers.handle, commands.handle, commands.remind)

HANDLERS: Sequence[Handler] = (
    commands.doing(_COMMANDS), *_COMMANDS, answers.handle_rest, model.handle,
)  # fmt: skip
"""The handlers in order: a confirmation, an answer to a question, a command, a reminder, an unintelligible
reply about an item, the proposal of a model.
"""

NOT_UNDERSTOOD = "I do not understand that, and nothing waits for it. `help` says what you can write."
"""The reply to a line that becomes an element for which no condition waits."""

EDITED = "What was done stays as it is: write it as a new message."

UNREADABLE = (
    "This message is encrypted from end to end, which cannot be read here. Switch the encryption off for "
    "this conversation in your program (in Conversations and Gajim: OMEMO; in Element: a room without it, "
    "such as this one if I have just made it), and write it again."
)


class Dealing:
    """Handles the messages of one chat, those of each person one after the other."""

    def __init__(self, chat: ChatSettings, kind: Kind, asks: AsyncClient, home: Path, own: str) -> None:
        self._chat, self.kind, self._asks, self._home = chat, kind, asks, home
        self._called = chat.called or own
        self._told_unreadable: set[str] = set()
        """The places that already got the reply that encrypted messages cannot be read."""

    async def deal(self, taken: Taken) -> None:
        """Handle a message: it leaves the inbox in the turn of its effect. Raises DaemonGoneError."""
        try:
            await self._deal(taken)
        except DaemonGoneError:
            raise
        except NarvalError as error:
            await self._failed(taken, str(error))
        except Exception as error:
            log.exception("the message %d of %s could not be dealt with", taken.number, self._chat.name)
            await self._failed(taken, f"That did not work: {type(error).__name__}; see the log.")

    async def _deal(self, taken: Taken) -> None:
        message, person = taken.message, await self._person(taken)
        if person is None:
            await self._reply(taken)
        elif taken.operation:
            await self._reply(taken, _done(taken.operation))
        elif message.is_encrypted:
            is_news = message.place not in self._told_unreadable
            self._told_unreadable.add(message.place)
            await self._reply(taken, *([UNREADABLE] if is_news else []))
        elif message.is_edit:
            await self._reply(taken, *([EDITED] if message.text else []))
        elif message.file is not None:
            await self._file(taken)
        elif message.is_forwarded:
            await self._element(taken)
        else:
            await self._line(taken, person)

    async def _line(self, taken: Taken, person: Mapping[str, Any]) -> None:
        text = taken.message.text
        if taken.message.room:
            text = without_name(text, self._called) or ""
        line = Line(self._chat, taken, person, text.strip(), self._asks, self._home)
        for handle in HANDLERS:
            try:
                dealt = await handle(line)
            except DaemonGoneError:
                raise
            except NarvalError as error:
                if line.asked_once and (owed := await self._owed(taken)) is not None:
                    dealt = Dealt.saying(_done(owed))
                else:
                    dealt = Dealt.saying(str(error), private_to=line.name if line.is_in_room else "")
            if dealt is not None:
                await self._reply(taken, *dealt.replies, answering=dealt.answering, question=dealt.question)
                return
        await self._element(taken)

    async def _owed(self, taken: Taken) -> str | None:
        """The operation that an earlier run of this program did for a message without answering it; "" if it
        was answered too, None if nothing was done.
        """
        waiting = await self._asks.ask("chat_inbox", chat=self._chat.name)
        return next((one["operation"] or None for one in waiting if one["number"] == taken.number), "")

    async def _person(self, taken: Taken) -> Mapping[str, Any] | None:
        """The person who wrote a message, if the address still belongs to them."""
        address = chat_key(f"{self._chat.kind}:{taken.message.sender}")
        rows = await self._asks.ask("people")
        of_person = (row for row in rows if row["person"] == taken.person)
        return next((row for row in of_person if address in map(chat_key, row["chat"])), None)

    async def _file(self, taken: Taken) -> None:
        try:
            path = await fetched(self.kind, taken.message, self._home)
        except (ChatError, OSError) as error:
            await self._reply(taken, f"The file was not taken: {error}; send it again")
            return
        await self._element(taken, path)

    async def _element(self, taken: Taken, path: str = "") -> None:
        otherwise = [msgspec.to_builtins(Reply(text=NOT_UNDERSTOOD))]
        await self._asks.ask(
            "chat_element", chat=self._chat.name, message=taken.number, path=path, otherwise=otherwise
        )

    async def _failed(self, taken: Taken, text: str) -> None:
        try:
            await self._reply(taken, Reply(text=text, to=taken.person if taken.message.room else ""))
        except DaemonGoneError:
            raise
        except NarvalError as error:
            log.error("the message %d of %s is not answered: %s", taken.number, self._chat.name, error)

    async def _reply(
        self,
        taken: Taken,
        *replies: Reply | str,
        answering: Answering | None = None,
        question: AskedBack | None = None,
    ) -> None:
        forms = [msgspec.to_builtins(Reply(text=one) if isinstance(one, str) else one) for one in replies]
        await self._asks.ask(
            "chat_reply",
            chat=self._chat.name,
            message=taken.number,
            replies=forms,
            answering=msgspec.to_builtins(answering),
            question=msgspec.to_builtins(question),
        )


def _done(operation: str) -> str:
    return (
        f"This was done ({operation}), but I was stopped before I could tell the result. "
        "`work`, `runs` and `status` show the present state."
    )


# --- files --------------------------------------------------------------------------------------------------


MOST_BYTES = 10 * 1024 * 1024
"""The most bytes of one file."""

QUOTA = 500 * 1024 * 1024
"""The most bytes of all files."""

LONGEST_NAME = 100
"""The most characters of a file's name."""

_PARTS = ".*"
"""The folder of partly fetched files, beside the folders of complete ones."""

_NOT_PLAIN = re.compile(r"[^\w.-]+")


async def fetched(kind: Kind, message: Incoming, home: Path) -> str:
    """Fetch the file of a message; its path within the home. Raises ChatError with a reason, and OSError."""
    file = message.file
    if file is None:
        raise ChatError("there is no file", final=True)
    if "files" not in kind.can:
        raise ChatError("files cannot be fetched from this chat", final=True)
    if file.size is not None and file.size > MOST_BYTES:
        raise ChatError(f"expected at most {MOST_BYTES:,} bytes, got {file.size:,}", final=True)
    folder = home / CHAT_FILES
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    used = sum(one.stat().st_size for one in (*folder.glob("*/*"), *folder.glob(_PARTS)) if one.is_file())
    if used + (file.size or 0) > QUOTA:
        raise ChatError(
            f"{CHAT_FILES} has no room: it may have {QUOTA:,} bytes; remove files there", final=True
        )
    coming = folder / f".{secrets.token_hex(8)}"
    try:
        await kind.fetch(file, coming, MOST_BYTES)
        size = coming.stat().st_size
        if size > MOST_BYTES or used + size > QUOTA:
            raise ChatError(f"expected at most {MOST_BYTES:,} bytes, got {size:,}", final=True)
        digest = hashlib.sha256(coming.read_bytes()).hexdigest()
        place = folder / digest[:32] / plain_name(file.name)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        coming.chmod(0o600)
        os.replace(coming, place)
    finally:
        with suppress(OSError):
            coming.unlink()
    return str(place.relative_to(home))


def remove_parts(home: Path) -> None:
    """Remove partial files that a killed program left."""
    for part in (home / CHAT_FILES).glob(_PARTS):
        with suppress(OSError):
            part.unlink()


def plain_name(name: str) -> str:
    """The name of a file without characters that are special in a path."""
    plain = _NOT_PLAIN.sub("_", name.rpartition("/")[2].rpartition("\\")[2]).strip("._")
    return plain[-LONGEST_NAME:].lstrip("._-") or "file"
