"""Renewal: a daemon takes over what the files of its home say now (N31)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from narval.errors import DefinitionError
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.watcher import Seen, differences, look
from narval.runtime.home.settings import AT_START, FILE, Settings

if TYPE_CHECKING:
    from narval.runtime.daemon.daemon import Daemon

log = logging.getLogger("narval.daemon")


class Reload:
    """Reads the files of a home anew, and swaps in what has changed, within a turn."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._reading = daemon, asyncio.Lock()

    async def renew(self, counts: Callable[[], bool]) -> bool:
        """Read, and take over; whether anything had changed. `counts` is asked once all is read."""
        daemon = self._daemon
        if daemon.home is None:
            return False
        async with self._reading:
            seen = await asyncio.to_thread(look, daemon.home, daemon.loader, daemon.schemas)
            if seen.same(daemon.seen) or not counts():
                return False
            await daemon.submit(partial(self._adopt, seen))
            return True

    def _adopt(self, seen: Seen, turn: Turn) -> None:
        """From now on what was read counts."""
        daemon = self._daemon
        before, daemon.seen = daemon.seen, seen
        known, loaded = daemon.loaded, seen.loaded
        for what in daemon.given:
            with suppress(DefinitionError):
                loaded = loaded.with_definitions(what)
        daemon.use(loaded)
        if seen.loaded.sources != before.loaded.sources:
            daemon.executor.renew()
        daemon.schemas = daemon.loop.schemas = turn.schemas = seen.schemas
        if seen.settings is not None and seen.settings != before.settings:
            self._set(seen.settings)
        for line in differences(known, loaded):
            log.info("%s", line)
        for fault in sorted({*seen.faults} - {*before.faults}):
            log.warning("did not load: %s", fault)
        for path in sorted({fault.path for fault in before.faults} - {fault.path for fault in seen.faults}):
            log.info("%s has no faults any more", path)
        daemon.sync_declared(turn, None, at_start=False)

    def _set(self, settings: Settings) -> None:
        """Take over other settings, as far as that is possible now."""
        daemon = self._daemon
        kept = {name: getattr(daemon.settings, name) for name in AT_START}
        later = [name for name in AT_START if getattr(settings, name) != kept[name]]
        now = msgspec.structs.replace(settings, **kept)
        changed = [
            name for name in now.__struct_fields__ if getattr(now, name) != getattr(daemon.settings, name)
        ]
        daemon.settings = now
        daemon.dispatcher.limit(now.call_timeout)
        daemon.loop.limit = now.turn_limit
        daemon.agent.history_entries = now.history_entries
        daemon.executor.limit(now.limits)
        daemon.logbook.set_level(now.log_level)
        if changed:
            log.info("%s: %s took effect", FILE, ", ".join(changed))
        if later:
            log.warning("%s: %s will take effect at the next start", FILE, ", ".join(later))
