"""Texts of mails: made fit for XML and bounded; dates as texts (docs/reference/modules/mail.md)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from narval.calls.context import now as moment_now

MAX_VALUE = 1_000
MAX_ADDRESSES = 50
"""A mail to more recipients is not sent."""
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def fit(text: str, most: int = MAX_VALUE) -> str:
    """A text of one line that XML can hold and a person can read: bounded, blanks collapsed."""
    line = " ".join(UNFIT.sub("\ufffd", text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def now() -> str:
    """Now, by the clock that runs go by."""
    return iso(moment_now().astimezone(UTC))


def iso(moment: datetime) -> str:
    """A moment in ISO 8601, to the second."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def flowed(text: str) -> str:
    """A text as format=flowed has it: long lines are broken at blanks, and joined again by who reads it
    (RFC 3676). Blanks at the end of a line are not kept. A line of a value, which begins with `| `, is not
    broken: where that is not joined again, its rest would look like words of ours (P11).
    """
    lines = []
    for line in text.split("\n"):
        words = line.rstrip(" ")
        while len(words) > _LONGEST and not line.startswith("| ") and (at := _break(words)):
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
