"""Texts of mails: made fit for XML and bounded; dates as texts (docs/reference/modules/mail.md)."""

from __future__ import annotations

from datetime import UTC, datetime

from narval.calls.context import now
from narval.core.elements.error_element import xml_safe

MAX_VALUE = 1_000

VALUE = "| "
"""The start of each line of a text that comes from elsewhere, so that none looks like words of ours."""


def one_line(text: str, most: int = MAX_VALUE) -> str:
    """A text in one line of so many characters at most, which XML can hold: blanks and line breaks are one
    blank each, what XML cannot carry is U+FFFD, and a text that is cut ends with an ellipsis.
    """
    line = " ".join(xml_safe(text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def timestamp(moment: datetime | None = None) -> str:
    """A moment in ISO 8601 and UTC, to the second, such as `2026-11-24T09:00:00Z`; without one it is now, by
    the clock that runs go by. A moment without a zone is of the machine's.
    """
    utc = (moment or now()).astimezone(UTC)
    return utc.isoformat(timespec="seconds").replace("+00:00", "Z")


def flowed(text: str) -> str:
    """A text as format=flowed has it: long lines are broken at blanks, and joined again by who reads it
    (RFC 3676). Blanks at the end of a line are not kept. A line of a value, which begins with `| `, is not
    broken: where that is not joined again, its rest would look like words of ours (P11).
    """
    lines = []
    for line in text.split("\n"):
        words = line.rstrip(" ")
        while len(words) > _LONGEST and not line.startswith(VALUE) and (at := _break(words)):
            lines.append(_stuffed(words[:at]))
            words = words[at:]
        lines.append(_stuffed(words))
    return "\n".join(lines)


def _break(line: str) -> int:
    """The place behind the blank at which a line is best broken; 0 without any."""
    return line.rfind(" ", 1, _LONGEST) + 1 or line.find(" ", _LONGEST) + 1


def _stuffed(line: str) -> str:
    return f" {line}" if line.startswith((" ", ">", "From ")) else line


_LONGEST = 72
"""The most characters of a line that is broken."""
