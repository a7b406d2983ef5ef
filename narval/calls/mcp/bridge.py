"""The program of a bridge: it speaks with one MCP server, and answers the calls of its tools.

    python -m narval.calls.mcp.bridge PARENT

It is a separate program because the library takes seconds to import, and so that data from a server costs the
daemon nothing until it is a result. It leads a group that includes the server's program. When the pipe to the
daemon is closed, it ends, with all of its group.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
import time
from typing import Any

from narval.calls.mcp.frames import (
    LENGTH,
    MOST,
    CallTool,
    CancelTool,
    Connect,
    Connected,
    Ended,
    FromBridge,
    ToolAnswered,
    ToolProgressed,
    packed,
    read_request,
    why_changed,
)
from narval.calls.mcp.session import (
    CHANGED,
    McpSession,
    import_client_alone,
    session,
    session_error,
    shown_error,
)
from narval.calls.mcp.transports import LOST, TOO_LARGE, TOO_LONG, UNREADABLE, SessionError

MOST_RESULT = 4 * 1024 * 1024
"""The most bytes of a result, as JSON."""

_BETWEEN_PROGRESS = 0.05

_BETWEEN_LOOKS = 1.0

_SOON = 1.0
"""Seconds after which a program whose pipes are closed has certainly ended."""


class Bridge:
    """The calls under way, and the pipes to the daemon."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._buffer = bytearray()

    async def run(self) -> None:
        """Connect, and answer calls until the server or the daemon is gone."""
        loop = asyncio.get_running_loop()
        frames: asyncio.Queue[Any] = asyncio.Queue()
        os.set_blocking(self._requests, False)
        loop.add_reader(self._requests, self._read, frames)
        server = await frames.get()
        if not isinstance(server, Connect):
            return
        try:
            async with session(server, login=_login(server)) as opened:
                self._send(Connected(_digests(opened)))
                over = asyncio.ensure_future(opened.end.came.wait())
                looking = asyncio.create_task(self._look_again(opened))
                while not over.done():
                    request = asyncio.ensure_future(frames.get())
                    await asyncio.wait([request, over], return_when=asyncio.FIRST_COMPLETED)
                    if request.done():
                        self._take(request.result(), opened)
                looking.cancel()
                if self._tasks:  # they report it too
                    await asyncio.wait(self._tasks.values(), timeout=2 * _SOON)
                raise opened.end.cause() or SessionError(LOST, "it ended")
        except Exception as error:
            cause = session_error(error)
            self._send(Ended(cause.kind, str(cause), cause.final))

    async def _look_again(self, opened: McpSession) -> None:
        """List the tools again when the server says that they changed, at most once a second."""
        while True:
            await opened.announced.wait()
            opened.announced.clear()
            with contextlib.suppress(Exception):  # the next call reports what is wrong
                if opened.is_outdated:
                    await opened.list_tools()
                self._send(Connected(_digests(opened)))
            await asyncio.sleep(_BETWEEN_LOOKS)

    def _read(self, frames: asyncio.Queue[Any]) -> None:
        """Queue requests as they arrive; when the pipe is closed, end with all of the group."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._requests, 256 * 1024)
            if not data:
                _end_group()
            self._buffer += data
        while len(self._buffer) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer)
            if length > MOST:
                _end_group()
            if len(self._buffer) < LENGTH.size + length:
                return
            body = bytes(self._buffer[LENGTH.size : LENGTH.size + length])
            del self._buffer[: LENGTH.size + length]
            frames.put_nowait(read_request(body))

    def _send(self, message: FromBridge) -> None:
        try:
            frame = memoryview(packed(message))
        except ValueError as error:
            if not isinstance(message, ToolAnswered):
                raise
            frame = memoryview(
                packed(ToolAnswered(message.call, kind=TOO_LARGE, message=str(error), final=True))
            )
        while frame:
            frame = frame[os.write(self._answers, frame) :]

    def _take(self, message: Any, opened: McpSession) -> None:
        if isinstance(message, CallTool):
            task = asyncio.create_task(self._answer(message, opened))
            self._tasks[message.call] = task
            task.add_done_callback(lambda _: self._tasks.pop(message.call, None))
        elif isinstance(message, CancelTool) and (under_way := self._tasks.get(message.call)) is not None:
            under_way.cancel()

    async def _answer(self, request: CallTool, opened: McpSession) -> None:
        opened.end.begin_request()
        try:
            self._send(await _called(request, opened, self._reporter(request.call)))
        except SessionError as error:
            answer = ToolAnswered(request.call, kind=error.kind, message=str(error), final=error.final)
            self._send(answer)
        except Exception as error:
            kind, message, end = _kind(error), shown_error(error), opened.end
            if kind == LOST:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(end.came.wait(), _SOON)
            cause = end.cause() or SessionError(kind, message, final=kind == TOO_LARGE)
            self._send(ToolAnswered(request.call, kind=cause.kind, message=str(cause), final=cause.final))

    def _reporter(self, call: str) -> Any:
        """A progress callback, limited to the rate at which a person can read."""
        latest, is_over = 0.0, False

        async def report(done: float, total: float | None, message: str | None = None) -> None:
            nonlocal latest, is_over
            now = time.monotonic()
            if not math.isfinite(done) or not math.isfinite(total or 0.0):
                return
            if now >= latest + _BETWEEN_PROGRESS or (done == total and not is_over):
                latest, is_over = now, is_over or done == total
                self._send(ToolProgressed(call, done, total))

        return report


async def _called(request: CallTool, opened: McpSession, report: Any) -> ToolAnswered:
    """The answer to a call. Raises the error that keeps it from being made."""
    if opened.is_outdated:
        await opened.list_tools()
    tool = opened.tools.get(request.tool)
    if why := why_changed(request.tool, tool.digest if tool is not None else None, request.digest):
        raise SessionError(CHANGED, why, final=True)
    result = await opened.client.call_tool(
        request.tool, json.loads(request.arguments), progress_callback=report
    )
    content = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    if result.is_error:
        texts = "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
        return ToolAnswered(request.call, kind="tool-error", message=texts[:2_000] or "it failed")
    structured = b"" if result.structured_content is None else json.dumps(result.structured_content).encode()
    if structured:  # it says the same as the texts
        content = [part for part in content if part.get("type") not in ("text", "resource_link")]
    parts = json.dumps(content).encode()
    if (size := max(len(structured), len(parts))) > MOST_RESULT:
        raise SessionError(
            TOO_LARGE, f"expected a result of {MOST_RESULT:,} bytes at most, got {size:,}", final=True
        )
    return ToolAnswered(request.call, structured, parts)


def _login(server: Connect) -> Any:
    """The login at a server that has or may want one. Its code is not imported for other servers."""
    if not server.login:
        return None
    from narval.calls.mcp.kept_login import kept_login

    return kept_login(server)


def _digests(opened: McpSession) -> dict[str, str]:
    return {name: tool.digest for name, tool in opened.tools.items()}


def _kind(error: BaseException) -> str:
    """The error type: the server is lost, refuses, or returns a result that does not fit its schema."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    if isinstance(error, MCPError):
        kinds = {CONNECTION_CLOSED: LOST, TOO_LONG: TOO_LARGE, UNREADABLE: "bad-output"}
        return kinds.get(error.error.code, "tool-error")
    if isinstance(error, RuntimeError | ValueError):
        return "bad-output"
    return LOST


def _end_group() -> None:
    """End this program and all of its group."""
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Speak with the server of the first request."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    import_client_alone()

    async def speak() -> None:
        await Bridge(requests, answers).run()

    asyncio.run(speak())
    _end_group()


if __name__ == "__main__":
    main()
