"""python -m narval, and the program `narval`."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

from narval.system.startup_gc import suspended


def main() -> None:
    """Do what the command line says."""
    try:
        _have_streams()
        with suspended():
            from narval.surfaces.cli import main as command_line

        command_line(prog_name="narval")
    except KeyboardInterrupt:  # before there was a command that could take it
        sys.exit(130)
    except SystemExit as end:
        _leave(end.code)
        raise


def _leave(status: object) -> None:
    """End here if nothing is left to do but to take apart what was imported, which takes a twentieth of a
    short command's time: no thread is at work, nothing was registered for the end, and all can be written.
    """
    if isinstance(status, int) and "atexit" not in sys.modules and threading.active_count() == 1:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _have_streams() -> None:
    """Open what the caller has closed, lest the store become what something writes its errors to.

    Without input there is nothing to read; without output there is nobody to answer, so that is refused.
    """
    if sys.stdin is None:
        _open(0, os.O_RDONLY)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _open(2, os.O_WRONLY)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.exit("narval: expected standard output to be open, found it closed; send it to /dev/null instead")


def _open(number: int, how: int) -> None:
    nowhere = os.open(os.devnull, how)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)


if __name__ == "__main__":
    main()
