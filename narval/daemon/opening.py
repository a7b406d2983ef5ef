"""Opening: what a daemon waits for before it begins, and the notes that it leaves while it waits."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from narval.core.errors import StoreAwayError
from narval.files.home import Home
from narval.files.proposals.altering import finish_altering
from narval.files.settings import Settings
from narval.system.extras import install_command

if TYPE_CHECKING:  # a store of one daemon has none
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
    from narval.store.postgresql.troubles import Outage

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
