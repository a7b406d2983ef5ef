"""`CallContext`: one call, and `call()`, which gives an action the call that it answers (N33, N36, N37)."""

from __future__ import annotations

import contextvars
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import msgspec

from narval.core.definitions.action.needs import Needs, Resources
from narval.core.definitions.wall import zone_named
from narval.core.elements.element import Element
from narval.core.engines.commands import Program
from narval.core.errors import ActionError, RequestError
from narval.files.outside.services import (
    AnyService,
    Calendar,
    Command,
    LanguageModel,
    Mailbox,
    Service,
    WebService,
    service_at,
)
from narval.system.clock import RunClock, machine_zone

if TYPE_CHECKING:
    from narval.system.fetch import Fetched

Where = Literal[
    "thread", "worker", "inline", "async", "source", "transform", "program", "script", "cluster", "mcp"
]  # fmt: skip
Inputs = Mapping[str, Element | list[Element] | None]
Listener = Callable[["CallContext"], None]
Sleeper = Callable[["CallContext", float], Awaitable[None]]
SendsByChat = Callable[["CallContext", str, str, str | None], Awaitable[None]]
"""Queues a chat message, at most one for each call. Raises ActionError."""


class RunsCommands(Protocol):
    """Runs programs for actions, as `narval.calls.programs.process_group` does."""

    async def run(
        self,
        words: Sequence[str],
        hear: Callable[[bytes, bool], None],
        *,
        call: str,
        seconds: float,
        environment: Mapping[str, str],
        directory: str,
        text: bytes,
    ) -> int: ...


_current: contextvars.ContextVar[CallContext] = contextvars.ContextVar("narval-call")

enter = _current.set
"""Make `call()` return a call from now on, in the current context of variables."""


class ModuleCode(msgspec.Struct, frozen=True, array_like=True):
    """The code of a module for a worker: the name of the file with the code, and the name, path and text of
    each file that it may import, including itself. `digest` identifies this version of all of it.
    """

    name: str
    parts: tuple[tuple[str, str, bytes], ...]
    digest: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a called name: what all calls of that name have in common.

    `action` is the name shown to people. In this program, `function` is called; for an MCP server, it is the
    server's `Tool`. In a worker, function `function_name` of the module at `module_path` is called, or the
    stylesheet at `module_path` is applied. `code` is the text of the module, `source` that of the stylesheet,
    as they were when the definition was loaded; without them the worker reads the file. `runner` is the
    module of narval that answers the call in a worker, "" for a plain function. `inputs` are the ids of the
    inputs, in declaration order; `lists` are those that take a list. A `pure` target touches nothing outside.
    `resources` are those that a worker of the cluster must have. `needs` are the places that the author
    declares. If `limits`, a worker may reach no others, and gets only the services whose secrets are
    declared.
    """

    action: str = ""
    where: Where = "thread"
    function: Any = None
    module_path: str = ""
    function_name: str = ""
    source: bytes | None = None
    code: ModuleCode | None = None
    runner: str = ""
    inputs: tuple[str, ...] = ()
    lists: frozenset[str] = frozenset()
    pure: bool = False
    resources: Resources = ()
    needs: Needs | None = None
    limits: bool = False


_NO_TARGET = Target()


class Message(msgspec.Struct, frozen=True):
    """An element for another agent, which an action returns among its outputs (G28)."""

    to: str
    element: object


class CallContext(msgspec.Struct, eq=False):
    """One call: its caller, its target, its inputs, and what the action reports.

    For the action: `id` stays the same when the call is tried again, so that an effect outside can be made
    once (N37); `attempt` is the number of the try, 1 for the first (N29). `agent`, `run` and `step` name the
    caller. `deadline` is the moment (seconds since 1970, by the clock of `now`) at which the call is given
    up, or None. `home` is the folder against which relative paths are resolved, or None for a home in memory.

    For the runtime: `target` is called with `inputs`, by input id; `clock` is the clock of `now`, if not the
    machine's. `timeout` is in seconds, None for none. `family` is the top-level run behind the caller.
    `program` is the program to run, if any; `reaches` are the places that it may reach, None for any.
    `payload` is plain data for the `runner` of the target. `fetch_allow` are the places inside from which it
    may fetch; `services` are the services outside that it may ask. `granted` are the needs granted to the
    definition behind it, None if the home asks for no grants. If `has_begun`, the call must not be made
    twice, and had begun before the daemon's last start. `trace` returns its `traceparent`, if there are
    traces; `sends_by_chat` is the outbox of the daemon's chats. The fields from `deadline` on are set only
    for calls that are not answered at once.
    """

    id: str
    run: int
    step: str
    home: Path | None = None
    attempt: int = 1
    target: Target = _NO_TARGET
    inputs: Inputs = {}
    clock: RunClock | None = None
    payload: Mapping[str, Any] | None = None
    agent: str = ""
    sends_by_chat: SendsByChat | None = None
    deadline: float | None = None
    timeout: float | None = None
    family: int = 0
    program: Program | None = None
    reaches: Needs | None = None
    listener: Listener | None = None
    sleeper: Sleeper | None = None
    commands: RunsCommands | None = None
    fetch_allow: tuple[str, ...] = ()
    services: tuple[AnyService, ...] = ()
    granted: tuple[str, ...] | None = None
    progressed: tuple[float, float | None] | None = None
    has_caught_up: bool = False
    on_recovered: Listener | None = None
    has_begun: bool = False
    trace: Callable[[], str] | None = None

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress. Surfaces show the last report."""
        for number in (done, total):
            if number is not None and not (isinstance(number, int | float) and math.isfinite(number)):
                raise RequestError(f"expected progress(done, total) in numbers, got {number!r}")
        self.progressed = (done, total)
        self._notify()

    def caught_up(self) -> None:
        """Report that everything that existed when the source began has been yielded, so that nothing need
        wait for the source (N36). A source that waits for anything but `narval.sleep` must call it before
        waiting.
        """
        if not self.is_source:
            raise RequestError(f"caught_up() is for sources; step {self.step!r} calls no source")
        self.has_caught_up = True
        self._notify()

    def recovered(self) -> None:
        """Report that the trouble which a source reported by `error` elements has ended, though it has
        nothing to yield.
        """
        if not self.is_source:
            raise RequestError(f"recovered() is for sources; step {self.step!r} calls no source")
        if self.on_recovered is not None:
            self.on_recovered(self)

    def hear_of_recovery(self, listener: Listener) -> None:
        """Make `recovered` call `listener`."""
        self.on_recovered = listener

    @property
    def traceparent(self) -> str:
        """The header that tells a service its trace (W3C Trace Context); "" without one."""
        return self.trace() if self.trace is not None else ""

    @property
    def is_source(self) -> bool:
        """True if a source is called, which keeps yielding elements."""
        return self.target.where == "source"

    def attach(
        self, listener: Listener | None, sleeper: Sleeper | None = None, commands: RunsCommands | None = None
    ) -> None:
        """Send reports to `listener`; let `sleeper` sleep, not the loop, and `commands` run programs."""
        self.listener, self.sleeper, self.commands = listener, sleeper, commands

    def allow(self, places: tuple[str, ...], services: tuple[AnyService, ...]) -> None:
        """Allow fetching only from these places inside, and asking only these services, from now on."""
        self.fetch_allow, self.services = places, services

    def start_clock(self) -> None:
        """Start the time limit: set the deadline."""
        if self.timeout is not None:
            self.deadline = (time.time() if self.clock is None else self.clock.now()) + self.timeout

    async def sleep(self, seconds: float) -> None:
        """Let time pass, as `narval.sleep` does within this call."""
        if self.sleeper is None:
            await _sleep(seconds)
            return
        self.has_caught_up = False  # a source that wakes is busy until it waits again
        await self.sleeper(self, seconds)

    async def run_program(
        self,
        words: Sequence[str],
        hear: Callable[[bytes, bool], None],
        *,
        seconds: float,
        environment: Mapping[str, str] = {},
        folder: str = "",
        text: bytes = b"",
    ) -> int:
        """Run a program to its end, in a folder relative to the home; return its status, negative for a
        signal.

        `hear` is given its output, with True for standard error. The program sees few variables of the
        daemon. It ends with this call or the daemon, and so does everything that it has started. For
        coroutines only. Raises CannotStartError, and TimeoutError after `seconds` seconds.
        """
        if self.commands is None:
            raise RequestError(f"expected a coroutine of the daemon to run {words[0]}, found another caller")
        directory = os.path.normpath((self.home or Path.cwd()) / Path(folder).expanduser())
        named = {"NARVAL_RUN": str(self.run), "NARVAL_STEP": self.step}
        variables = {**self.zone_variable(), **named, **environment}
        if self.home is not None:
            variables["NARVAL_HOME"] = str(self.home)
        return await self.commands.run(
            words,
            hear,
            call=self.id,
            seconds=seconds,
            environment=variables,
            directory=directory,
            text=text,
        )

    async def send_by_chat(self, to: str, text: str, reminder: str | None = None) -> None:
        """Send a text by chat to a person, or to a room of the settings, at most once for this call, even if
        it is tried again.

        A `reminder` names the chat where a person wished to be reminded, "" for any of theirs. For coroutines
        only. Raises ActionError.
        """
        if self.sends_by_chat is None:
            raise ActionError("only actions of a daemon can send by chat", "no-chat", final=True)
        await self.sends_by_chat(self, to, text, reminder)

    def zone_variable(self) -> dict[str, str]:
        """The environment variable with the home's time zone, for programs; none if it is unknown."""
        return {"TZ": self.clock.zone} if self.clock is not None else {}

    def context(self) -> contextvars.Context:
        """Make a context of variables in which `call()` returns this call."""
        context = contextvars.copy_context()
        context.run(enter, self)
        return context

    def _notify(self) -> None:
        if self.listener is not None:
            self.listener(self)

    def __repr__(self) -> str:
        return f"<call {self.id} of step {self.step!r} of run {self.run}>"


def call() -> CallContext:
    """The call that is being answered, in any thread, task or worker in which the action runs."""
    current = _current.get(None)
    if current is None:
        raise RequestError(
            "call() is for actions while they run; a thread that an action starts gets it as an argument"
        )
    return current


def now() -> datetime:
    """The present time, by the clock of the runs, in the time zone of the home (N46).

    A test or a simulation moves its own clock. Outside of a call it is the machine's.
    """
    current = _current.get(None)
    if current is None or current.clock is None:
        return datetime.now(zone_named(machine_zone()))
    return current.clock.date()


async def sleep(seconds: float) -> None:
    """Let time pass within an `async` action or a source, on the daemon's clock.

    That is the machine's clock, also outside of a call. A test or a simulation moves its own clock, and then
    nothing really waits.
    """
    if not (isinstance(seconds, int | float) and 0 <= seconds < math.inf):
        raise RequestError(f"expected to sleep for a number of seconds, got {seconds!r}")
    current = _current.get(None)
    await (_sleep(seconds) if current is None else current.sleep(seconds))


async def _sleep(seconds: float) -> None:
    import asyncio  # seldom needed, and a worker starts sooner without it

    await asyncio.sleep(seconds)


@overload
def service(table: Literal["services"], name: str) -> WebService: ...
@overload
def service(table: Literal["calendars"], name: str) -> Calendar: ...
@overload
def service(table: Literal["models"], name: str) -> LanguageModel: ...
@overload
def service(table: Literal["mailboxes"], name: str) -> Mailbox: ...
@overload
def service(table: Literal["commands"], name: str) -> Command: ...
def service(table: str, name: str) -> Service:
    """The service that `[TABLE.NAME]` of the settings names, with its current settings.

    Raises ActionError (`no-such-service`, final), whose message has the lines to write.
    """
    return service_at(call().services, table, name)


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    service: WebService | None = None,
    most: int = 10 * 1024 * 1024,
    seconds: float = 60.0,
    silent: float = 20.0,
    received: Callable[[bytes], None] | None = None,
) -> Fetched:
    """Fetch a URL; an answer of any status is returned. Redirects of GET and HEAD are followed.

    The answer has at most `most` bytes, unpacked; `received` is called with each piece as it arrives. The
    fetch takes at most `seconds` seconds, `silent` of them without a byte. A `service` is asked with its
    credentials, which go to its scheme, host and port alone; a `url` without a scheme is relative to the
    service's URL. Raises FetchError, an ActionError, also for an address of this machine or its networks,
    unless `fetch_allow` in the settings, or the service, grants it. In a home that asks for grants, redirects
    lead only to granted hosts.
    """
    from narval.system.fetch import KnownPlace, fetched, within  # here: few actions fetch

    current = _current.get(None)
    home, allow = (None, ()) if current is None else (current.home, current.fetch_allow)
    traceparent = current.traceparent if current is not None else ""
    if traceparent and "traceparent" not in map(str.lower, headers or ()):  # an author's own header wins
        headers = {"traceparent": traceparent, **(headers or {})}
    place = None
    if service is not None:
        url, place = within(service.url, url), KnownPlace(service.url, service.credentials(home))
    return await fetched(
        url,
        method=method,
        headers=headers,
        body=body,
        known=place,
        allow=allow,
        granted=None if current is None else current.granted,
        most=most,
        seconds=seconds,
        silent=silent,
        received=received,
    )


def current_call() -> CallContext | None:
    """The call that is being answered here, or None."""
    return _current.get(None)
