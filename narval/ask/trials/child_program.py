"""Child programs of a daemon: narval's own commands, on its home, bounded in time and memory (M57)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from narval.agent.agent import AgentState
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

SECONDS, MEGABYTES = 30.0, 512

LONGEST = 4_000_000
"""The largest answer in bytes: reading more would block the daemon."""

GRACE = 10.0
"""Seconds that a child has to write its results so far after it is asked to end."""

_PIECE = 65_536

_SAYS = "narval: "
"""The prefix of a command's error, which has one line or more."""

_OF_OPTION = re.compile(r"^Invalid value for '--[a-z]+': ")
"""The words of a command before its reason, which name an option that nobody typed here."""

_BEGIN = """
import ctypes, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
from narval.system.memory_limit import bound_memory
bound_memory(int(sys.argv[2]))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[3]):
    os._exit(1)
del sys.argv[1:4]
from narval.__main__ import main
main()
"""
"""The program of a child: it sets its limits, ends with the daemon in any case, and runs the command."""


async def begin(arguments: Sequence[str], seconds: float, *, longest: int = _PIECE) -> Process:
    """Start a child program that runs a command, limited to `seconds` of processor time and `longest` bytes
    for a line of output. The caller waits for its end, and kills it.
    """
    processor = math.ceil(seconds) + 1  # the time limit ends it first, with a reason
    bounds = [str(processor), str(MEGABYTES * 2**20), str(os.getpid())]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BEGIN, *bounds, *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=longest,
    )  # fmt: skip


async def end(child: Process) -> None:
    """Kill a child, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    await child.wait()


class Followed:
    """A child that is observed while it runs, and the task that follows it until it has ended."""

    def __init__(self, child: Process) -> None:
        self.child = child
        self.task: asyncio.Task[None] | None = None
        self.ending = ""
        """The reason to end it early, after such a request."""

    def follow(self, following: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the task that follows it."""
        self.task = asyncio.create_task(following)
        return self.task

    async def end(self, by: str) -> None:
        """Ask it to end with its results so far, on behalf of a person or a program."""
        if self.task is None:
            return
        if not self.task.done() and not self.ending:
            self.ending = f"{by or 'a program'} ended it"
            with contextlib.suppress(ProcessLookupError):
                self.child.send_signal(signal.SIGINT)
            await asyncio.wait([self.task], timeout=GRACE)
            self.kill(self.ending)
        await asyncio.wait([self.task])

    def kill(self, why: str) -> None:
        """Kill it at once."""
        self.ending = self.ending or why
        with contextlib.suppress(ProcessLookupError):
            self.child.kill()


Child = TypeVar("Child", bound=Followed)


class FollowedChildren(Generic[Child]):
    """The children of one sort of a daemon, by name."""

    def __init__(self, agent: AgentState) -> None:
        self.by_name: dict[str, Child] = {}
        self.ends_with_daemon = False

    async def close(self) -> None:
        """End all that still run, as the daemon ends."""
        going_on = [one for one in self.by_name.values() if one.task is not None and not one.task.done()]
        for one in going_on:
            one.kill("the daemon was stopped")
        await asyncio.gather(*(one.task for one in going_on if one.task), return_exceptions=True)


Children = TypeVar("Children", bound=FollowedChildren[Any])


def children_of(daemon: Daemon, make: Callable[[AgentState], Children]) -> Children:
    """The children of one sort, which end with the daemon."""
    children = daemon.agents.own.listings.once(make)
    if not children.ends_with_daemon:
        children.ends_with_daemon = True
        daemon.end_with(children.close)
    return children


async def json_of(arguments: Sequence[str]) -> Any:
    """The answer of a command as `--json` gives it. Raises RequestError, also if it exceeded its limits."""
    child = await begin([*arguments, "--json"], SECONDS)
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await asyncio.gather(_all(child.stdout), last_of(child.stderr))
            await child.wait()
    except TimeoutError:
        raise RequestError(
            f"it was ended after {SECONDS:.0f} s: have less time pass, or less happen"
        ) from None
    finally:
        await end(child)
    try:
        return msgspec.json.decode(out)
    except msgspec.DecodeError:  # it ended in the middle of its output
        raise RequestError(why_ended(err, child.returncode, SECONDS)) from None


async def _all(stream: asyncio.StreamReader) -> bytes:
    """The whole output of a child. Raises RequestError if it is too long."""
    output = bytearray()
    while piece := await stream.read(_PIECE):
        output += piece
        if len(output) > LONGEST:
            raise RequestError(
                f"its answer is longer than {LONGEST // 1_000_000} MB: have less time pass, or less happen"
            )
    return bytes(output)


async def last_of(stream: asyncio.StreamReader) -> str:
    """The end of the error output of a child."""
    tail = b""
    while piece := await stream.read(_PIECE):
        tail = (tail + piece)[-_PIECE:]
    return tail.decode("utf-8", "replace")


def why_ended(complaint: str, status: int | None, seconds: float) -> str:
    """The reason why a child with a limit of `seconds` gave no answer."""
    if "MemoryError" in complaint:
        return f"it was ended, for it took more than {MEGABYTES} MB"
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"it was ended by the system, for {seconds:.0f} s of the processor's time or too much memory"
    lines = complaint.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith(_SAYS)), len(lines) - 1)
    said = "\n".join(lines[first:]).removeprefix(_SAYS)
    return (
        _OF_OPTION.sub("", said.removeprefix("Error: ")) or f"it ended with status {status} and said nothing"
    )
