"""Settings in force: what `etc/narval.toml` says counts for a daemon at work, now and after each change."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from narval.calls.book import CallBook
from narval.daemon.rounds import Participant
from narval.daemon.stop import Stop
from narval.files.settings import FILE, Settings
from narval.files.toml import taken_at_start
from narval.system.log import Logbook

log = logging.getLogger("narval.daemon")


class SettingsInForce:
    """The settings that count now; `participants` are the agents at work."""

    def __init__(
        self,
        settings: Settings,
        participants: Iterable[Participant],
        calls: CallBook,
        stop: Stop,
        logbook: Logbook,
    ) -> None:
        self.now = settings
        self._participants, self._calls, self._stop = participants, calls, stop
        self._logbook = logbook

    def renew_workers(self) -> None:
        """Retire the workers: modules have changed."""
        executor = self._calls.executor
        for workers in (executor.workers, *executor.confined.values()):
            workers.renew()

    def use(self, settings: Settings) -> None:
        """Take over other settings, as far as that is possible before the next start."""
        kept = {name: getattr(self.now, name) for name in taken_at_start(Settings)}
        later = [name for name in kept if getattr(settings, name) != kept[name]]
        now, before = msgspec.structs.replace(settings, **kept), self.now
        changed = [name for name in now.__struct_fields__ if getattr(now, name) != getattr(before, name)]
        self.now = now
        for participant in self._participants:
            participant.loop.set_limit(now.turn_limit)
            participant.loop.agent.keep_history(now.history_entries)
            participant.loop.agent.runs.families.limit(now.run_depth, now.run_family)
            participant.loop.agent.pacing.limit(now.run_chain)
            participant.dispatcher.limit(now.call_timeout)
            participant.loop.agent.lookup.use_mail(now.mail)
            participant.loop.agent.lookup.trust_models(now.trusted_models)
            participant.loop.agent.lookup.approve_tools(now.approved_tools)
        self._calls.limit(now)
        self._stop.set_grace(now.stop_grace)
        self._logbook.set_level(now.log_level)
        if changed:
            log.info("%s: %s took effect", FILE, ", ".join(changed))
        if later:
            log.warning("%s: %s will take effect at the next start", FILE, ", ".join(later))
