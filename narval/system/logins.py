"""The login names of the system's users."""

from __future__ import annotations

import pwd
from functools import lru_cache


@lru_cache(maxsize=256)
def login(uid: int) -> str:
    """The login name of a user; the number as text if the system has no name that can be shown."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
    return name if name.strip() and name.isprintable() else str(uid)
