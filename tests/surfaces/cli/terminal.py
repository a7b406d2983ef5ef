"""A command on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

from tests.surfaces.cli.command_line import program


def on_a_terminal(home: Path, *arguments: object, **environment: str) -> str:
    """What a command writes to a terminal."""
    main_end, their_end = pty.openpty()
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    settings |= {"TERM": "xterm-256color", "COLUMNS": "120", **environment}
    running = subprocess.Popen(program(home, *arguments), stdout=their_end, stderr=their_end, env=settings)
    os.close(their_end)
    written = b""
    while True:
        try:
            received = os.read(main_end, 65536)
        except OSError:
            break
        if not received:
            break
        written += received
    os.close(main_end)
    assert running.wait() == 0
    return written.decode()
