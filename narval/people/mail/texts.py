"""Texts of mails, made valid for XML and bounded; dates as texts (docs/reference/modules/mail.md)."""

from __future__ import annotations

from datetime import UTC, datetime

from narval.calls.context import now
from narval.core.elements.error_element import xml_safe

MAX_VALUE = 1_000

VALUE = "| "
"""The prefix of each line of a text from elsewhere, so that none looks like narval's own words."""


def one_line(text: str, most: int = MAX_VALUE) -> str:
    """A text in one line of at most `most` characters that XML can hold. Runs of blanks and line breaks
    become one blank, a character that is invalid in XML becomes U+FFFD, and a text that is cut ends with an
    ellipsis.
    """
    line = " ".join(xml_safe(text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def timestamp(moment: datetime | None = None) -> str:
    """A moment in ISO 8601 and UTC, to the second, such as `2026-11-24T09:00:00Z`; by default now, by the
    clock of runs. A moment without a zone is taken in the machine's zone.
    """
    utc = (moment or now()).astimezone(UTC)
    return utc.isoformat(timespec="seconds").replace("+00:00", "Z")


def flowed(text: str) -> str:
    """A text in format=flowed (RFC 3676): long lines are broken at blanks, and readers join them again.
    Blanks at the end of a line are dropped. A line of a value, which begins with `| `, is not broken: a
    reader that does not join lines would show its rest like narval's own words (P11).
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
    """The position after the blank at which a line is best broken; 0 if it has none."""
    return line.rfind(" ", 1, _LONGEST) + 1 or line.find(" ", _LONGEST) + 1


def _stuffed(line: str) -> str:
    return f" {line}" if line.startswith((" ", ">", "From ")) else line


_LONGEST = 72
"""The most characters of a broken line."""
