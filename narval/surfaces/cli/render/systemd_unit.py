"""The units with which the user's systemd runs the daemon of a home and its pages: as shipped, with the paths
filled in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from narval.files.home import Home
from narval.files.shipped import shipped

SERVICE_UNITS = {"run": "narval.service", "web": "narval-web.service"}
"""The unit for each command that can be a service."""


def unit(home: Home, command: str = "run", *, options: Sequence[str] = ()) -> str:
    """The text of the unit of a command for a home, with options of that command."""
    text = (shipped() / "etc" / SERVICE_UNITS[command]).read_text(encoding="utf-8")
    words = (sys.executable, "-m", "narval", "--home", str(home.path), command, *options)
    started = "ExecStart=" + " ".join(map(_quoted, words))
    return "\n".join(started if line.startswith("ExecStart=") else line for line in text.splitlines()) + "\n"


def _quoted(word: str) -> str:
    """A word of a command, quoted for systemd: `%` and `$` are literal."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t'\"\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
