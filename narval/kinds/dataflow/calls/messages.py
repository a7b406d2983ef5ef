"""Messages that `notify` sends: to a file or to the web from here, by mail or into memory from `home_side`
(T60).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from narval.core.errors import ActionError
from narval.files.allowed_files import closed_part
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.web import Web

if TYPE_CHECKING:
    from narval.agent.turn import Turn


class FlowMessage(NamedTuple):
    """A value to send: the address, its text, its document, and a key that retries share."""

    dest: str
    text: str
    document: bytes
    key: str


InTurn = Callable[["Turn"], object]
"""An act in the turn that records a message as sent. It may run twice, and must not fail."""

Sender = Callable[[FlowMessage], Awaitable[InTurn | None]]
"""A function that sends a message, or returns the act that sends it in the turn that records it. Raises
ActionError.
"""


async def to_file(code: UserCode, folder: Path, message: FlowMessage) -> None:
    """Append the text of a value to a file below a folder, as a line."""
    await code.in_thread(partial(_append, folder, message))


def file_named(dest: str) -> str:
    """The path in an address of a file."""
    return unquote(dest.partition(":")[2].removeprefix("//"))


def _append(folder: Path, message: FlowMessage) -> None:
    name = file_named(message.dest)
    path, home = (folder / name).resolve(), folder.resolve()
    if path == home or not path.is_relative_to(home):
        raise ActionError(f"expected a file below {folder}, found {name!r:.80}", "bad-address", final=True)
    if closed := closed_part(str(path), home):
        text = f"expected a file that no part of narval reads, found {name!r:.80} in {closed} of {folder}"
        raise ActionError(text, "bad-address", final=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(message.text.replace("\n", " ") + "\n")


def outside(code: UserCode, folder: Path | None, web: Web) -> dict[str, Sender]:
    """The senders that need no memory: to files below a folder, if there is one, and to the web."""
    to_web: Sender = partial(_to_web, web)
    ways: dict[str, Sender] = {"http": to_web, "https": to_web}
    if folder is not None:
        ways["file"] = partial(to_file, code, folder)
    return ways


async def _to_web(web: Web, message: FlowMessage) -> None:
    """Post a value as JSON, with its key, by which a server recognises a duplicate."""
    status = await web.post(message.dest, message.text.encode(), message.key)
    if not 200 <= status < 300:
        raise ActionError(f"{message.dest} answered {status}", "bad-answer", final=400 <= status < 500)
