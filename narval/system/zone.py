"""The time zone of the machine, by name, for a home whose settings name none (N25)."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo

OTHERWISE = "UTC"
"""The zone of a machine that names none."""

_LINK = Path("/etc/localtime")
_TEXT = Path("/etc/timezone")


def machine_zone() -> str:
    """The name of the machine's zone: from TZ, else the target of /etc/localtime, else /etc/timezone."""
    linked = os.path.realpath(_LINK).partition("/zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked, _written()):
        if _is_known(name):
            return name
    return OTHERWISE


def _written() -> str:
    try:
        return _TEXT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _is_known(name: str) -> bool:
    try:
        return bool(name) and bool(ZoneInfo(name).key)
    except (OSError, ValueError, LookupError):
        return False
