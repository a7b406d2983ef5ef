"""The unit with which the user's systemd runs the daemon of a home: what ships, with the paths filled in."""

from __future__ import annotations

import sys

from narval.runtime.home.home import Home
from narval.runtime.home.shipped import shipped


def unit(home: Home, program: str = sys.executable) -> str:
    """The text of the unit for a home."""
    text = (shipped() / "etc" / "narval.service").read_text(encoding="utf-8")
    words = (program, "-m", "narval", "--home", str(home.path), "run")
    command = "ExecStart=" + " ".join(map(_quoted, words))
    return "\n".join(command if line.startswith("ExecStart=") else line for line in text.splitlines()) + "\n"


def _quoted(word: str) -> str:
    """A word of a command as systemd reads it: `%` and `$` stand for themselves."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t'\"\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
