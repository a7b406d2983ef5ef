"""The program `narval chat`: runs all chats of a home according to its current settings."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from narval.core.errors import NarvalError, OperatorError
from narval.files.outside.chats import ChatSettings
from narval.files.settings import read_settings
from narval.surfaces.chat.connection import ChatConnection
from narval.surfaces.chat.contract import open_chat
from narval.surfaces.chat.dealing import remove_parts
from narval.surfaces.control.async_client import AsyncClient

log = logging.getLogger("narval.chat")

LOCK = "var/chat.lock"
"""The file that the program locks, so that only one runs."""

STEP = 600.0
"""Seconds that one request waits for changed files."""

SOON = 30.0
"""Seconds until a chat that ended or failed to open is tried again."""


@contextmanager
def alone(home: Path, *, waits: bool = False) -> Iterator[None]:
    """Hold the lock of a home's chats inside the context. If another program has it, wait for its end, or
    raise OperatorError.
    """
    path = home / LOCK
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except OSError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "another"
            why = f"narval chat is already running on this home, as program {holder}"
            raise OperatorError(f"{why}: `narval run` keeps one, so none need be started") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


async def serve(home: Path, asks: AsyncClient, ready: Callable[[list[str]], object] = lambda _: None) -> None:
    """Run the chats of a home until this is cancelled or the settings name none, each with its current
    settings.

    `ready` is called with their names. Raises OperatorError if the settings name none at the start.
    """
    working: dict[str, tuple[ChatSettings, asyncio.Task[None]]] = {}
    settings, faults = read_settings(home)
    if settings is None:
        raise OperatorError("\n".join(map(str, faults)))
    if not settings.chats:
        raise OperatorError("there is no chat in etc/narval.toml: write a table [chats.NAME]")
    remove_parts(home)
    ready([chat.name for chat in settings.chats])
    turn = 0
    try:
        while True:
            if settings is not None:
                await _follow(working, settings.chats, asks, home, settings.name)
                if not settings.chats:
                    return
            is_whole = settings is not None and len(working) == len(settings.chats)
            turn = await _other_files(asks, turn, STEP if is_whole else SOON)
            settings, _ = read_settings(home)
    finally:
        for _, task in working.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in working.values()), return_exceptions=True)


async def _follow(
    working: dict[str, tuple[ChatSettings, asyncio.Task[None]]],
    chats: tuple[ChatSettings, ...],
    asks: AsyncClient,
    home: Path,
    own: str,
) -> None:
    """End the chats whose settings changed, and start new ones."""
    now = {chat.name: chat for chat in chats}
    for name, (chat, task) in list(working.items()):
        if now.get(name) != chat or task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del working[name]
    for name in now.keys() - working.keys():
        try:
            working[name] = now[name], _begin(now[name], asks, home, own)
        except Exception as error:
            log.error("%s: %s", now[name], error, exc_info=not isinstance(error, OperatorError))
            try:
                await asks.ask("chat_state", chat=name, fault=str(error))
            except NarvalError as gone:
                log.warning("%s", gone)


def _begin(chat: ChatSettings, asks: AsyncClient, home: Path, own: str) -> asyncio.Task[None]:
    """Start a chat. Raises OperatorError."""
    opened = partial(open_chat, msgspec.structs.replace(chat, called=chat.called or own), home)
    connection = ChatConnection(chat, opened, asks, home, own)
    task = asyncio.get_running_loop().create_task(connection.run(), name=f"chat {chat.name}")
    task.add_done_callback(lambda done: _ended(chat, done))
    return task


def _ended(chat: ChatSettings, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended", chat, exc_info=error)


async def _other_files(asks: AsyncClient, turn: int, wait: float) -> int:
    """Wait until files have changed, at most `wait` seconds; return that turn."""
    try:
        changes: dict[str, Any] = await asks.ask("changed", after=turn, wait=wait, files=True)
    except NarvalError:
        await asks.again()
        return 0
    return int(changes["turn"])
