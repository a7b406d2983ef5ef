"""Settings in force: activates `etc/narval.toml` for a running daemon, now and after each change."""

from __future__ import annotations

import logging

import msgspec

from narval.calls.book import CallBook
from narval.daemon.stop import Stop
from narval.files.settings import FILE, CurrentSettings, Settings
from narval.files.toml import taken_at_start
from narval.system.log import Logbook

log = logging.getLogger("narval.daemon")


class SettingsInForce:
    """The active settings; some take effect only at a start."""

    def __init__(self, current: CurrentSettings, calls: CallBook, stop: Stop, logbook: Logbook) -> None:
        self._current, self._calls, self._stop, self._logbook = current, calls, stop, logbook

    @property
    def now(self) -> Settings:
        """The active settings."""
        return self._current.now

    def replace_workers(self) -> None:
        """Retire the workers, because modules have changed."""
        executor = self._calls.executor
        for workers in (executor.workers, *executor.confined.values()):
            workers.replace()

    def use(self, settings: Settings) -> None:
        """Apply other settings, except those that take effect only at a start."""
        kept = {name: getattr(self.now, name) for name in taken_at_start(Settings)}
        later = [name for name in kept if getattr(settings, name) != kept[name]]
        now, before = msgspec.structs.replace(settings, **kept), self.now
        changed = [name for name in now.__struct_fields__ if getattr(now, name) != getattr(before, name)]
        self._current.use(now)
        self._calls.limit(now)
        self._stop.set_grace(now.stop_grace)
        self._logbook.set_level(now.log_level)
        if changed:
            log.info("%s: %s took effect", FILE, ", ".join(changed))
        if later:
            log.warning("%s: %s will take effect at the next start", FILE, ", ".join(later))
