"""Calls answered by MCP servers. Each server has a bridge, started by the first call and ended when idle.

A server dies with its bridge, and a bridge with its server. A call under way then fails, or is made again if
its tool or the settings say that it may be called twice. A call begins when it is sent. It waits while its
server starts; if the daemon stops before that, the next daemon makes it again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from narval.calls.conversion import elements, failure
from narval.calls.in_daemon import Coroutines
from narval.calls.kept_files import MCP_FILES, KeptFiles, Mentions
from narval.calls.mcp import frames
from narval.calls.mcp.connection import MOST_CALLS, Connection, told_last
from narval.calls.mcp.conversion import has_bytes, result_of
from narval.calls.mcp.session import CHANGED, LOGIN_WANTED
from narval.calls.mcp.transports import CANNOT_START, LOST
from narval.calls.output_capture import end_prints
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import CallRecord, Outcome
from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.tool import Tool
from narval.core.definitions.action.tool_arguments import arguments_of
from narval.core.definitions.library import Library
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element
from narval.core.errors import ActionError
from narval.files.outside.mcp_servers import MCP, McpServer, login_file
from narval.files.settings import CallLimits

TRIES = 3
"""The most attempts to call a tool that may be called twice, if its server dies each time."""

SOON = 2.0
"""Seconds to wait for a lost server, so that its last output can be reported."""

log = logging.getLogger("narval.mcp")


class McpServers(Coroutines):
    """The running servers, by name. Calls of their tools are tasks of the loop."""

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
        """The tools whose servers describe them differently than was accepted."""
        self._logins: dict[str, WantedLogin] = {}
        self._announced: dict[CallRecord, asyncio.Future[None]] = {}
        """The calls that are being announced, each with a future that is done when that is recorded."""

    def start(self, record: CallRecord) -> None:
        """Answer a call. It begins when its server has started; its time limit includes the start."""
        record.start_clock(self.expire)
        super().go(record)

    def go(self, record: CallRecord) -> None:
        """Send a call whose start is recorded."""
        if (recorded := self._announced.pop(record, None)) is not None and not recorded.done():
            recorded.set_result(None)

    @property
    def queued(self) -> int:
        """The number of calls that are not sent yet."""
        return sum(not record.has_room for record in self._tasks.values())

    def waits_for(self, record: CallRecord) -> str:
        """The reason why a call is not sent yet; "" if it is."""
        if record.has_room:
            return ""
        name = record.call.target.action.partition(".")[0]
        there = self._connections.get(name)
        if there is None or not there.has_begun:
            return f"the MCP server {name} is starting"
        return f"all {MOST_CALLS} calls at once of the MCP server {name} are taken"

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
        """The running servers, and the tools that differ from what was accepted, with the reason."""
        changed = [{"tool": f"{one.server}.{one.tool.name}", "why": one.why} for one in self.changed(library)]
        return {"running": sorted(self._connections), "changed": changed}

    def changed(self, library: Library) -> list[ChangedTool]:
        """The tools that differ from what was accepted, without those accepted again since."""
        return [one for one in self._changed.values() if one.is_that_of(library)]

    def wanted_logins(self) -> list[WantedLogin]:
        """The logins that servers want, without those made since."""
        self._logins = {name: login for name, login in self._logins.items() if not login.is_over()}
        return [*self._logins.values()]

    async def _answer(self, record: CallRecord) -> Outcome:
        """Await the outcome of a call; only a cancellation and Ctrl-C pass through."""
        try:
            return Outcome(elements(await self._called(record)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            return Outcome(problem=failure(error, "", record.call.home))
        finally:
            end_prints(record.call.id)

    async def _begin(self, record: CallRecord) -> None:
        """Begin a call, and return when it may be sent; for an announced call, when its start is recorded."""
        if record.has_room:  # an earlier try has begun it
            return
        recorded = self._announced[record] = self._loop.create_future()
        try:
            if not record.begin():
                await recorded
        finally:
            self._announced.pop(record, None)

    async def _called(self, record: CallRecord) -> bytes:
        """The element that a tool returns. Raises ActionError."""
        call = record.call
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
                    answer, was_sent = await connection.call(
                        call, tool, arguments, partial(self._begin, record)
                    )
            except TimeoutError:
                message = f"{call.target.action} did not come back within {server.timeout:g} s"
                raise ActionError(message, "timeout") from None
            if answer.kind == LOST:  # the next call starts it again
                self._drop(connection)
                connection.retire_when_idle()
                await connection.wait_for_its_end(SOON)
            if answer.kind != LOST or number == tries:
                break
        if answer.kind == CHANGED:
            self._note_change(server, tool, answer.message)
        if answer.kind:
            self._note_login(answer, server, call.home)
            may_be_done = was_sent and answer.kind == LOST and not self._is_repeatable(tool, server)
            message = self._shown(answer, server, tool, connection.last_prints, may_be_done=may_be_done)
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
        """True if a tool may be called again when it is unknown whether it was called."""
        return tool.is_repeatable or tool.name in server.idempotent

    def _server(self, name: str, tool: Tool) -> McpServer:
        """The server of a tool, with its current settings. Raises ActionError."""
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
        """The connection to a server; it is started if there is none."""
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
        """Record, once, that a person must log in at a server."""
        if answer.kind == LOGIN_WANTED and home is not None and server.name not in self._logins:
            file = login_file(home, server.name)
            self._logins[server.name] = WantedLogin(server.name, answer.message, time.time(), file)
            log.warning("%s: %s", server.name, answer.message)

    def _note_change(self, server: McpServer, tool: Tool, why: str) -> None:
        """Record why a tool differs from what was accepted; "" if it does not."""
        key = server.name, tool.name
        there = self._changed.get(key)
        if not why:
            self._changed.pop(key, None)
        elif there is None or (there.tool.digest, there.why) != (tool.digest, why):
            self._changed[key] = ChangedTool(server.name, tool, why, time.time())
            log.warning("%s.%s: %s", server.name, tool.action, " ".join(why.split()))

    @staticmethod
    def _shown(
        answer: frames.ToolAnswered, server: McpServer, tool: Tool, prints: str, *, may_be_done: bool
    ) -> str:
        if answer.kind == CHANGED:
            look = f"narval mcp tools {server.name}"
            return f"{answer.message}; see: {look} --refresh; accept it: {look} --accept {tool.name}"
        if answer.kind in (LOST, CANNOT_START):
            hint = (
                f"; {tool.name} may have done its work: look before it is called again" if may_be_done else ""
            )
            return f"the MCP server {server.name}: {answer.message}{hint}{told_last(prints, server)}"
        if answer.kind == LOGIN_WANTED:
            return f"the MCP server {server.name}: {answer.message}"
        return answer.message


class ChangedTool(NamedTuple):
    """An accepted tool that its server now describes differently: why, and since when."""

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
    """A login that a server wants: the server's name, why, since when, and the file for the login."""

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
