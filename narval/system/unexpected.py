"""Unexpected errors while a file is read: each is a fault of that file alone, and of narval."""

from __future__ import annotations

from narval.core.errors import Fault

WORDS = "this could not be read by narval itself"
"""The beginning of the message of such a fault."""


def unexpected(label: str, error: Exception) -> Fault:
    """The fault of a file that narval fails to read, with the place in narval."""
    import traceback  # here because a command that asks a daemon reads files, and meets none

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    what = traceback.format_exception_only(error)[-1].strip()
    message = f"{WORDS} ({what:.200}{place}); that is an error in narval: report it, with this file"
    return Fault(label, 1, 1, message)
