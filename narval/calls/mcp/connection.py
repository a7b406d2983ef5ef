"""The connection to an MCP server: its bridge and the calls under way, and the tools that it offers when a
command asks for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from narval.calls.context import CallContext
from narval.calls.mcp import frames
from narval.calls.mcp.frames import Connect
from narval.calls.mcp.session import import_client_alone, session, session_error
from narval.calls.mcp.transports import LOST
from narval.calls.programs import reaper
from narval.calls.programs.process_group import small_environment
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.workers.child import Child
from narval.calls.workers.frames import FrameError
from narval.core.definitions.action.tool import Tool
from narval.core.errors import ActionError
from narval.files.outside.mcp_servers import McpServer, login_file

log = logging.getLogger("narval.mcp")

REST = 300.0
"""Seconds for which a server is kept after its last call."""

MOST_CALLS = 32
"""The most concurrent calls of one server; others wait."""


class Connection:
    """One running server: its bridge, and the calls under way."""

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
        """The called tools by name, as they were accepted."""
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
        self._child.requests.send(first)
        self._child.after(
            start_limit, partial(self._child.kill, f"took more than {start_limit:g} s to connect")
        )

    @property
    def has_begun(self) -> bool:
        """True once the server has started."""
        return self._begun.done()

    async def call(
        self, call: CallContext, tool: Tool, arguments: bytes, begin: Callable[[], Awaitable[None]]
    ) -> tuple[frames.ToolAnswered, bool]:
        """Return the answer to a call, or the error of the server, and whether the call was sent. `begin` is
        awaited before it is sent.
        """
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
                    await begin()
                if not answered.done():
                    self._child.requests.send(
                        frames.packed(frames.CallTool(call.id, tool.name, tool.digest, arguments))
                    )
                    sent = True
                return await answered, sent
        finally:
            if sent and (answered.cancelled() or not answered.done()) and not self.is_over:
                self._child.requests.send(frames.packed(frames.CancelTool(call.id)))
            self._waiting.pop(call.id, None)
            self._rest()

    def why_changed(self, tool: Tool) -> str:
        """The reason why a tool differs, in the server's latest list, from what was accepted; "" if not."""
        return frames.why_changed(tool.name, self._digests.get(tool.name), tool.digest)

    @property
    def last_prints(self) -> str:
        """The last lines that the server wrote to its standard error."""
        return last_lines(self._child.prints.last)

    async def wait_for_its_end(self, seconds: float) -> None:
        """Wait, at most `seconds` seconds, until the bridge has ended and all output of the server has
        arrived.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    def retire_when_idle(self) -> None:
        """End the server when it has no calls."""
        self._is_retired = True
        self._rest()

    def end(self) -> None:
        """End the server now."""
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

    # --- messages of the bridge -----------------------------------------------------------------------

    def child_said(self, child: Child, message: frames.FromBridge) -> None:
        """Handle a message of the bridge."""
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


# --- the tools that a server offers ---------------------------------------------------------------------

LONGEST_START = 60.0
"""Seconds that a server has to start and list its tools."""

LAST_LINES, LONGEST_LAST = 3, 300
"""The number of last lines of a server's standard error that are reported when it is lost, and the most
characters of each.
"""


_MOST_PRINTS = 8192

_UNTRUSTED = re.compile(
    "invalid peer certificate|UnknownIssuer|unable to get local issuer|UNABLE_TO_GET_ISSUER|"
    "unable to verify the first certificate|self.signed.cert",
    re.IGNORECASE,
)
"""Phrases by which programs report that they do not trust a certificate."""

_OF_CERTIFICATES = {
    **dict.fromkeys(("uv", "uvx"), 'UV_SYSTEM_CERTS = "true"'),
    **dict.fromkeys(("npm", "npx", "node"), 'NODE_EXTRA_CA_CERTS = "/etc/ssl/certs/ca-certificates.crt"'),
}
"""The variables that make programs trust the certificates of the system."""


class Offered(NamedTuple):
    """The tools that a server offers, by name, and the tools that cannot be actions, with the reason."""

    tools: Mapping[str, Tool]
    left_out: Mapping[str, str]


def connect_to(server: McpServer, home: Path | None, marks: Mapping[str, str]) -> Connect:
    """The request that makes a bridge connect to a server, whose program gets the `marks` as environment
    variables.

    Raises ActionError (`no-secret`, final).
    """
    folder = os.path.normpath((home or Path.cwd()) / Path(server.folder or ".").expanduser())
    variables = {**small_environment(), **marks, **server.variables(home)} if server.command else {}
    token = server.secret_named(server.secret, home) if server.secret else ""
    login = ""
    has_word = server.secret or any(name.lower() == "authorization" for name, _ in server.headers)
    if server.url and not has_word and home is not None:
        login = str(login_file(home, server.name))
    ca = os.path.normpath((home or Path.cwd()) / Path(server.ca).expanduser()) if server.ca else ""
    headers = {name: server.secret_named(secret, home) for name, secret in server.headers}
    return Connect(server.name, server.command, folder, variables, server.url, token, login, headers, ca)


def quiet_library() -> None:
    """Keep the library's logs about a server out of a command's output."""
    for name in ("client", "mcp"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def offered_by(server: McpServer, home: Path) -> Offered:
    """Ask a server for its tools, and end it. Raises ActionError."""
    import_client_alone()
    quiet_library()
    request = connect_to(server, home, {})

    login = None
    if request.login:
        from narval.calls.mcp.kept_login import kept_login

        login = kept_login(request)

    with tempfile.TemporaryFile() as prints:

        async def ask() -> Offered:
            async with asyncio.timeout(LONGEST_START), session(request, prints, login) as opened:
                return Offered(opened.tools, opened.left_out)

        try:
            return asyncio.run(ask())
        except TimeoutError:
            why = f"{server} in etc/narval.toml: it listed no tools within {LONGEST_START:g} s"
            raise ActionError(f"{why}{_printed(prints, server)}", LOST) from None
        except Exception as error:
            cause = session_error(error)
            message = f"{server} in etc/narval.toml: {cause}{_printed(prints, server)}"
            raise ActionError(message, cause.kind, final=True) from None


def last_lines(prints: Iterable[str]) -> str:
    """The last non-empty lines that a server printed, each cut to a readable length."""
    lines = [line.rstrip()[:LONGEST_LAST] for line in prints if line.strip()]
    return "\n".join(lines[-LAST_LINES:])


def told_last(prints: str, server: McpServer) -> str:
    """The end of a message about a lost server: its last output, and what to do if it does not trust a
    certificate; "" if it printed nothing.
    """
    if not prints:
        return ""
    program = Path(server.command[0]).name if server.command else ""
    variable = _OF_CERTIFICATES.get(program, "") if _UNTRUSTED.search(prints) else ""
    why = "if a proxy stands before the net, with certificates of its own, let"
    step = f"\n{why} {program} trust them: environment = {{ {variable} }} in {server}" if variable else ""
    return f"; it printed:\n{prints}{step}"


def _printed(prints: IO[bytes], server: McpServer) -> str:
    """The last lines that a server has printed to a file, as the end of a message."""
    prints.seek(max(0, prints.seek(0, os.SEEK_END) - _MOST_PRINTS))
    return told_last(last_lines(prints.read().decode("utf-8", "replace").splitlines()), server)
