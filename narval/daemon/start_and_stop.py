"""The start and the stop of a daemon: what it waits for before it begins, the notes that it leaves while it
waits, and its orderly stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from narval.agent.agent import AgentState
from narval.calls.book import CallBook
from narval.core.elements.element import Element, Origin
from narval.core.errors import StoreAwayError
from narval.files.home import Home
from narval.files.proposals.altering import finish_altering
from narval.files.settings import Settings
from narval.system.extras import install_command

if TYPE_CHECKING:
    from narval.daemon.traces import Traces

log = logging.getLogger("narval.daemon")

T = TypeVar("T")

Note = Callable[..., None]
"""A function that notes the present state of the holder of a home, by fields of a `Holder`."""


def note_nothing(**now: Any) -> None:
    """Note nothing: a home in memory has no holder."""


def hold(home: Home | None, holding: ExitStack, *, as_daemon: bool) -> tuple[Note, Settings]:
    """Hold a home, finish alterations that a killed program had begun, and read the settings.

    Raises NoHomeError, HomeHeldError, SettingsError.
    """
    if home is None:
        return note_nothing, Settings()
    note = holding.enter_context(home.lock(as_daemon=as_daemon))
    finish_altering(home.path)
    return note, Settings.load(home.path)


async def once_it_answers(start: Callable[[], Awaitable[T]], patience: float | None, note: Note) -> T:
    """Wait until the server of the store answers (G52), and return the result of `start`.

    Raises StoreAwayError after `patience` seconds.
    """
    from narval.store.postgresql.server import Outage

    outage = Outage(patience)
    while True:
        try:
            started = await start()
        except StoreAwayError as error:
            is_known, seconds = outage.away is not None, outage.delay(error)
            note(away=str(error))
            if not is_known:
                log.warning("waiting for the server of the store: %s", error)
            await asyncio.sleep(seconds)
        else:
            if outage.away is not None:
                note(away="")
                log.warning("the store is back after %.1f s", time.time() - outage.away[0])
            return started


def begin_traces(
    settings: Settings,
    trace: Callable[[Traces], None],
    end_with: Callable[[Callable[[], Awaitable[None]]], None],
) -> None:
    """Export traces of a daemon until it ends, if the settings say so; if that is impossible, log why."""
    if not settings.traces:
        return
    from narval.daemon.traces import SdkMissingError, Traces

    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        log.info("no traces: OTEL_SDK_DISABLED is true")
        return
    try:
        traces = Traces()
    except SdkMissingError as error:
        log.error("no traces: %s; install it with: %s", error, install_command("otel"))
    except ValueError as error:
        log.error("no traces: %s", error)
    else:
        trace(traces)
        end_with(traces.close)


LAST_TURNS = 1.0
"""Seconds for recording the outcomes of the calls that a stop has waited for."""


class Stop:
    """The stop of a daemon: calls under way have `grace` seconds, then they are left to recovery (N34).

    Sources are released at once, and no further call begins. `begin` is called when the stop begins, `ring`
    when the calls have ended, and `give_up` when the time to record their outcomes has passed, regardless of
    pending work.
    """

    __slots__ = ("_calls", "_give_up", "_latest", "_listeners", "_ring", "_task", "by", "grace")

    def __init__(
        self,
        calls: CallBook,
        grace: float,
        begin: Callable[[], None],
        ring: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._calls, self._ring, self._give_up = calls, ring, give_up
        self.grace = grace
        """Seconds that calls have when a stop is requested."""
        self.by = ""
        """A description of the element that asked for the stop; "" if a person, a signal or a program did."""
        self._listeners = [begin]
        self._task: asyncio.Task[None] | None = None
        self._latest = 0.0

    def set_grace(self, seconds: float) -> None:
        """Give calls `seconds` seconds when a stop is requested from now on."""
        self.grace = seconds

    def announce_to(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the stop begins."""
        self._listeners.append(listener)

    def request(self, *, by: str = "") -> None:
        """Begin to stop, unless that has begun; `by` describes the element that asks for it."""
        if self._task is None:
            self.by = by
            for listener in self._listeners:
                listener()
            self._latest = time.monotonic() + self.grace + LAST_TURNS
            self._task = asyncio.get_running_loop().create_task(self._calls.close(self.grace))
            self._task.add_done_callback(lambda _: self._ring())
            asyncio.get_running_loop().call_later(self.grace + LAST_TURNS, self._give_up)

    def cancel(self) -> None:
        """Stop waiting for calls under way."""
        if self._task is not None:
            self._task.cancel()

    @property
    def requested(self) -> bool:
        """True once a stop is requested."""
        return self._task is not None

    @property
    def calls_are_over(self) -> bool:
        """True once no call is under way."""
        return self._task is not None and self._task.done()

    @property
    def is_overdue(self) -> bool:
        """True once outcomes of the calls have had time to be recorded."""
        return time.monotonic() >= self._latest


def in_words(element: Element, agent: AgentState) -> str:
    """A description of an element that asks for the stop, with its origin: `element 12 of q.xml (root)`."""
    origin = element.origin or Origin()
    file = agent.memory.declared.get(element.eid, "").partition(":")[0]
    made = f"run {origin.run} at {origin.step}" if origin.run else origin.step
    place = file or made or (f"agent {origin.agent}" if origin.agent else "")
    words = f"element {element.eid}" + (f" of {place}" if place else "")
    whose = "" if agent.store.is_own else f", at the agent {agent.store.identity().name}"
    return words + (f" ({origin.by})" if origin.by else "") + whose
