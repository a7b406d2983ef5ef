"""Calls answered by MCP servers: each server has a bridge, started with its first call and ended when it is
idle.

A server dies with its bridge, and a bridge with its server. A call under way then fails, or is made again if
its tool or the settings say that it may be called twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from narval.calls.context import CallContext
from narval.calls.conversion import elements, failure
from narval.calls.coroutines import Coroutines
from narval.calls.kept_files import MCP_FILES, KeptFiles, Mentions
from narval.calls.mcp import frames
from narval.calls.mcp.connecting import connect_to, last_lines, told_last
from narval.calls.mcp.conversion import has_bytes, result_of
from narval.calls.mcp.session import CHANGED, LOGIN_WANTED
from narval.calls.mcp.transports import CANNOT_START, LOST
from narval.calls.output_capture import end_prints
from narval.calls.programs import reaper
from narval.calls.programs.commands import small_environment
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import CallRecord, Outcome
from narval.calls.workers.child import Child
from narval.calls.workers.frames import FrameError
from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.tool import Tool
from narval.core.definitions.action.tool_arguments import arguments_of
from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element
from narval.core.errors import ActionError
from narval.files.outside.mcp_logins import login_file
from narval.files.outside.mcp_servers import MCP, McpServer
from narval.files.settings import CallLimits

TRIES = 3
"""The number of times that a call of a tool that may be called twice is made while its server dies."""

REST = 300.0
"""Seconds for which a server is kept after its last call."""

SOON = 2.0
"""Seconds to wait for a lost server, so that its last prints can be reported."""

MOST_CALLS = 32
"""The most calls at once of one server; others wait."""

log = logging.getLogger("narval.mcp")


class McpServers(Coroutines):
    """The servers that are at work, by name; calls of their tools are tasks of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: CallLimits,
        client: ReaperClient,
        mentions: Mentions | None = None,
    ) -> None:
        super().__init__(loop, limits.patience)
        self._limits, self._reaper, self._files = limits, client, KeptFiles(MCP_FILES, mentions)
        self._connections: dict[str, Connection] = {}
        self._changed: dict[tuple[str, str], ChangedTool] = {}
        """The tools that their servers describe otherwise than was accepted."""
        self._logins: dict[str, WantedLogin] = {}

    def limit(self, limits: CallLimits) -> None:
        """Apply other settings from the next call on; a server whose table has changed is restarted."""
        self._limits = limits
        for connection in tuple(self._connections.values()):
            if connection.server not in limits.mcp:
                self._drop(connection)
                connection.retire_when_idle()

    async def close(self) -> None:
        """Cancel all calls under way, and end all servers."""
        await super().close()
        for connection in tuple(self._connections.values()):
            connection.end()
        self._connections.clear()

    def shown(self, library: Library) -> dict[str, Any]:
        """The servers at work, and the tools that are not as they were accepted, with the reason."""
        changed = [{"tool": f"{one.server}.{one.tool.name}", "why": one.why} for one in self.changed(library)]
        return {"running": sorted(self._connections), "changed": changed}

    def changed(self, library: Library) -> list[ChangedTool]:
        """The tools that are not as they were accepted, without those accepted again since."""
        return [one for one in self._changed.values() if one.is_that_of(library)]

    def wanted_logins(self) -> list[WantedLogin]:
        """The logins that servers want, without those that have been made since."""
        self._logins = {name: login for name, login in self._logins.items() if not login.is_over()}
        return [*self._logins.values()]

    async def _answer(self, record: CallRecord) -> Outcome:
        """Await the outcome of a call; only a cancellation and Ctrl-C pass through."""
        try:
            return Outcome(elements(await self._called(record.call)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            return Outcome(problem=failure(error, "", record.call.home))
        finally:
            end_prints(record.call.id)

    async def _called(self, call: CallContext) -> bytes:
        """The element that a tool gives. Raises ActionError."""
        tool: Tool = call.target.function
        server = self._server(call.target.action.partition(".")[0], tool)
        element = next(iter(call.inputs.values()), None)
        made = arguments_of(tool, element if isinstance(element, Element) else None)
        arguments = json.dumps(made).encode()
        tries = TRIES if self._is_repeatable(tool, server) else 1
        for number in range(1, tries + 1):
            try:
                async with asyncio.timeout(server.timeout):
                    connection = self._connection(server, call.home)
                    answer = await connection.call(call, tool, arguments)
            except TimeoutError:
                message = f"{call.target.action} did not come back within {server.timeout:g} s"
                raise ActionError(message, "timeout") from None
            if answer.kind == LOST:  # the next call has it started again
                self._drop(connection)
                connection.retire_when_idle()
                await connection.wait_for_its_end(SOON)
            if answer.kind != LOST or number == tries:
                break
        if answer.kind == CHANGED:
            self._note_change(server, tool, answer.message)
        if answer.kind:
            self._note_login(answer, server, call.home)
            message = self._shown(answer, server, tool, connection.last_prints)
            raise ActionError(message, answer.kind, final=answer.final)
        self._note_change(server, tool, connection.why_changed(tool))
        self._logins.pop(server.name, None)
        structured = json.loads(answer.structured) if answer.structured else None
        content = json.loads(answer.content)
        if any(map(has_bytes, content)):
            if call.home is not None:
                self._files.sweep_beside(call.home)
            return await asyncio.to_thread(result_of, tool.result, structured, content, call.home)
        return result_of(tool.result, structured, content)

    @staticmethod
    def _is_repeatable(tool: Tool, server: McpServer) -> bool:
        """True if a tool may be called again where it is not known whether it was called."""
        return tool.is_repeatable or tool.name in server.idempotent

    def _server(self, name: str, tool: Tool) -> McpServer:
        """The server of a tool, as the settings have it now. Raises ActionError."""
        server = next((one for one in self._limits.mcp if one.name == name), None)
        if server is None:
            there = closest(name, [one.name for one in self._limits.mcp])
            needed = f"expected a table [{MCP}.{name}] in etc/narval.toml{there}"
            raise ActionError(f"{needed}; write one: narval mcp add", "no-such-server", final=True)
        if server.tools is not None and tool.name not in server.tools:
            why = f"{server} in etc/narval.toml does not name the tool {tool.name} among its tools"
            raise ActionError(why, "tool-not-allowed", final=True)
        return server

    def _connection(self, server: McpServer, home: Path | None) -> Connection:
        """The connection to a server, which is begun if there is none."""
        there = self._connections.get(server.name)
        if there is None or there.is_over:
            start = self._limits.worker_start
            there = Connection(self._loop, server, home, self._reaper, start, self._drop, self._note_change)
            self._connections[server.name] = there
        return there

    def _drop(self, connection: Connection) -> None:
        if self._connections.get(connection.server.name) is connection:
            del self._connections[connection.server.name]

    def _note_login(self, answer: frames.ToolAnswered, server: McpServer, home: Path | None) -> None:
        """Record, once, that a person has to log in at a server."""
        if answer.kind == LOGIN_WANTED and home is not None and server.name not in self._logins:
            file = login_file(home, server.name)
            self._logins[server.name] = WantedLogin(server.name, answer.message, time.time(), file)
            log.warning("%s: %s", server.name, answer.message)

    def _note_change(self, server: McpServer, tool: Tool, why: str) -> None:
        """Record why a tool is not as it was accepted; "" if it is."""
        key = server.name, tool.name
        there = self._changed.get(key)
        if not why:
            self._changed.pop(key, None)
        elif there is None or (there.tool.digest, there.why) != (tool.digest, why):
            self._changed[key] = ChangedTool(server.name, tool, why, time.time())
            log.warning("%s.%s: %s", server.name, tool.action, " ".join(why.split()))

    def _shown(self, answer: frames.ToolAnswered, server: McpServer, tool: Tool, prints: str) -> str:
        if answer.kind == CHANGED:
            look = f"narval mcp tools {server.name}"
            return f"{answer.message}; look: {look} --refresh, and accept it: {look} --accept {tool.name}"
        if answer.kind in (LOST, CANNOT_START):
            is_done_once = answer.kind == LOST and not self._is_repeatable(tool, server)
            hint = (
                f"; {tool.name} may have done its work: look before it is called again"
                if is_done_once
                else ""
            )
            return f"the MCP server {server.name}: {answer.message}{hint}{told_last(prints, server)}"
        if answer.kind == LOGIN_WANTED:
            return f"the MCP server {server.name}: {answer.message}"
        return answer.message


class ChangedTool(NamedTuple):
    """An accepted tool that its server now describes otherwise: why, and since when."""

    server: str
    tool: Tool
    why: str
    since: float

    def is_that_of(self, library: Library) -> bool:
        """True if a library still has this accepted version of the tool."""
        action = library.get(Action.kind, f"{self.server}.{self.tool.action}")
        return (
            isinstance(action, Action) and action.tool is not None and action.tool.digest == self.tool.digest
        )


class WantedLogin(NamedTuple):
    """A login that a server wants: its name, why, since when, and the file where it will be."""

    server: str
    why: str
    since: float
    file: Path

    def is_over(self) -> bool:
        """True if the login has been made since."""
        try:
            return self.file.stat().st_mtime > self.since
        except OSError:
            return False


class Connection:
    """One server at work: its bridge, and the calls under way."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        server: McpServer,
        home: Path | None,
        client: ReaperClient,
        start_limit: float,
        over: Callable[[Connection], None],
        compared: Callable[[McpServer, Tool, str], None],
    ) -> None:
        self._loop, self.server, self._reaper, self._over = loop, server, client, over
        self._compared = compared
        self._called: dict[str, Tool] = {}
        """The tools that were called, as they were accepted, by name."""
        self._digests: dict[str, str] = {}
        self.is_over = False
        self._is_retired = False
        self._waiting: dict[str, tuple[CallContext, asyncio.Future[frames.ToolAnswered]]] = {}
        self._room = asyncio.Semaphore(MOST_CALLS)
        self._begun: asyncio.Future[None] = loop.create_future()
        self._end: frames.Ended | None = None
        self._ended = asyncio.Event()
        first = frames.packed(connect_to(server, home, {reaper.OWNER: client.owner}))
        client.prepare()
        try:
            self._child = Child(
                loop, self, ("narval.calls.mcp.bridge", str(os.getpid())), small_environment(), _read
            )
        except OSError as error:
            raise ActionError(f"the bridge to {server.name} cannot be started: {error}", LOST) from None
        client.began(self._child.pid)
        self._child.send(first)
        self._child.after(
            start_limit, partial(self._child.kill, f"took more than {start_limit:g} s to connect")
        )

    async def call(self, call: CallContext, tool: Tool, arguments: bytes) -> frames.ToolAnswered:
        """The answer to a call; an error of the server is one too."""
        answered: asyncio.Future[frames.ToolAnswered] = self._loop.create_future()
        self._waiting[call.id] = call, answered
        self._called[tool.name] = tool
        sent = False
        try:
            async with self._room:
                both: list[asyncio.Future[Any]] = [self._begun, answered]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not answered.done():
                    self._child.stop_timer()
                    self._child.send(
                        frames.packed(frames.CallTool(call.id, tool.name, tool.digest, arguments))
                    )
                    sent = True
                return await answered
        finally:
            if sent and (answered.cancelled() or not answered.done()) and not self.is_over:
                self._child.send(frames.packed(frames.CancelTool(call.id)))
            self._waiting.pop(call.id, None)
            self._rest()

    def why_changed(self, tool: Tool) -> str:
        """The reason why a tool is not as it was accepted, by the server's latest list; "" if it is."""
        return frames.why_changed(tool.name, self._digests.get(tool.name), tool.digest)

    @property
    def last_prints(self) -> str:
        """The last lines that the server wrote to its standard error."""
        return last_lines(self._child.prints.last)

    async def wait_for_its_end(self, seconds: float) -> None:
        """Wait, at most `seconds`, until its bridge has ended and everything that the server printed has
        arrived.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    def retire_when_idle(self) -> None:
        """End it when it has no calls."""
        self._is_retired = True
        self._rest()

    def end(self) -> None:
        """End it now."""
        if not self.is_over:
            self.is_over = True
            self._child.end()
            self._reaper.ended(self._child.pid)

    def _rest(self) -> None:
        if not self._waiting and not self.is_over and self._begun.done():
            if self._is_retired:
                self._child.retire()
            else:
                self._child.after(REST, self._child.retire)

    # --- what the bridge says -------------------------------------------------------------------------

    def child_said(self, child: Child, message: frames.FromBridge) -> None:
        """Take a message of the bridge."""
        if isinstance(message, frames.Connected):
            child.stop_timer()
            if not self._begun.done():
                self._begun.set_result(None)
            self._digests = message.tools
            for tool in self._called.values():
                self._compared(self.server, tool, self.why_changed(tool))
            self._rest()
        elif isinstance(message, frames.Ended):
            self._end = message
        elif (waiting := self._waiting.get(message.call)) is not None:
            call, answered = waiting
            if isinstance(message, frames.ToolProgressed):
                call.progress(message.done, message.total)
            elif not answered.done():
                answered.set_result(message)

    def child_printed(self, child: Child, line: str) -> None:
        """Log a line that the server wrote to its standard error."""
        log.debug("%s: %s", self.server.name, line)

    def child_ended(self, child: Child, how: str) -> None:
        """Answer the calls under way: the server is lost."""
        self.is_over = True
        self._reaper.ended(child.pid)
        end = self._end or frames.Ended(LOST, f"its bridge {how}")
        self._ended.set()
        for call, answered in tuple(self._waiting.values()):
            if not answered.done():
                answered.set_result(
                    frames.ToolAnswered(call.id, kind=end.kind, message=end.message, final=end.final)
                )
        self._over(self)


def _read(body: bytes) -> frames.FromBridge:
    try:
        return frames.read_answer(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameError(f"a bridge sent what is no message: {error}") from None
