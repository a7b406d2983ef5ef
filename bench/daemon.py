"""W7: a daemon with a new home, from its start to its first answer, and idle.

    python -m bench.daemon [SECONDS IDLE]

The home is what `narval init --bare` makes: default settings, an empty store, nothing to run. It is ready
when it has recorded an element that was added over its socket. Memory and processor time are summed over the
daemon and all it began; `wakes` is how often any of their threads woke up while nothing was due.
"""

from __future__ import annotations

import subprocess
import time

from bench import programs
from bench.measure import argument, emit, memory_of, now, scratch

SETTLE = 5.0
"""Seconds from being ready until it counts as idle."""


def main() -> None:
    idle = argument(1, 15.0)
    with scratch() as folder:
        home = folder / "home"
        subprocess.run(programs.command(home, "init", "--bare", str(home)), check=True, capture_output=True)
        began = now()
        daemon = programs.begin(home)
        try:
            with programs.reached(home, daemon) as client:
                client.ask("add", elements=[b"<ready/>"])
            seconds = now() - began
            time.sleep(SETTLE)
            family = programs.family(daemon.pid)
            worked, woken = programs.processor_time(family), programs.wake_ups(family)
            time.sleep(idle)
            worked = programs.processor_time(family) - worked
            woken = programs.wake_ups(family) - woken
            resident = sum(memory_of(each, "VmRSS") for each in family)
        finally:
            programs.end(daemon)
    emit(
        "W7",
        1,
        seconds,
        rss_mb=round(resident, 1),
        processes=len(family),
        idle_cpu_percent=round(worked / idle * 100, 2),
        wakes=woken,
    )


if __name__ == "__main__":
    main()
