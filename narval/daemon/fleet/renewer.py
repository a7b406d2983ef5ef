"""The renewer, a program beside a daemon that renews its lease while the daemon lives (G48).

    python -m narval.daemon.fleet.renewer DAEMON

The daemon writes the URL of its store to the standard input, and then, line by line, times of the monotonic
clock, which all programs of a machine share. At each of these times its event loop was running. For each
renewal that the store answered, a line of the standard output has the time at which it was sent. A daemon
that was stopped, or whose loop hangs, writes nothing, and is no longer renewed (`protocol.renews`). When the
daemon is gone, the input ends, and so does this program. No work of the daemon delays a renewal, because this
program has its own interpreter and connection.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

from psycopg import Connection, Error

from narval.core.errors import StoreError
from narval.daemon.fleet.protocol import renews
from narval.store.postgresql.leases import LEASE, RENEWAL
from narval.store.postgresql.server import Rows, Server

_PROLONG = "UPDATE daemons SET until = clock_timestamp() + make_interval(secs => %s) WHERE daemon = %s"


class Prolonging:
    """The lease of a daemon at a URL, prolonged by a program beside it over its own connection."""

    def __init__(self, url: str, daemon: int) -> None:
        self._server, self._daemon = Server(url), daemon
        self._connection: Connection[Rows] | None = None

    def prolong(self) -> bool:
        """Prolong the daemon's lease by `LEASE` seconds from now; False if the daemon has lost it.

        This is one statement, which commits by itself, so that a stopped program holds no lock. Raises
        StoreError.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._server.connect()
            return bool(self._connection.execute(_PROLONG.encode(), (LEASE, self._daemon)).rowcount)
        except Error as error:
            if self._connection is not None:
                self._connection.close()
            raise self._server.trouble(error) from error


def main(daemon: str) -> None:
    """Renew for a daemon until its end."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # it ends with the daemon, which may still give agents away
    os.set_blocking(1, False)  # a stopped daemon reads nothing
    with open(0, "rb", buffering=0, closefd=False) as stream:
        url = stream.readline().decode().strip()
    prolonging, rest = Prolonging(url, int(daemon)), b""
    alive = due = 0.0
    while True:
        if select.select([0], [], [], max(0.0, due - time.monotonic()))[0]:
            if not (data := os.read(0, 65536)):
                return
            *lines, rest = (rest + data).split(b"\n")
            alive = max(alive, *map(float, lines)) if lines else alive
        if (sent := time.monotonic()) < due:
            continue
        due = sent + RENEWAL
        if renews(alive, sent):
            with suppress(StoreError, BlockingIOError):
                if prolonging.prolong():
                    os.write(1, b"%f\n" % sent)


if __name__ == "__main__":
    main(*sys.argv[1:])
