"""Renewals of a daemon that starts: in a thread, so that it loses nothing by its own slowness (G46)."""

from __future__ import annotations

import threading

from narval.core.errors import StoreError
from narval.store.postgresql.leases import RENEWAL, Leases


class Renewals:
    """Renew every half second from now on, whatever the event loop is kept with, until they are ended.

    What is wrong is not told: the renewals of the event loop meet it as well.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases, self._is_over = leases, threading.Event()
        self._thread = threading.Thread(target=self._run, name="narval-renewals", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Renew no more."""
        self._is_over.set()

    def close(self) -> None:
        """Renew no more, and wait for the renewal that is under way."""
        self.end()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(RENEWAL):
            try:
                self._leases.renew()
            except StoreError:
                continue
