"""Programs that tests look for: those that run, whoever has started them."""

from __future__ import annotations

import psutil


def is_at_work(program: int | psutil.Process) -> bool:
    """True if a program runs. One that has ended does not, though nobody has collected it, or another one has
    its number by now.
    """
    try:
        process = psutil.Process(program) if isinstance(program, int) else program
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
