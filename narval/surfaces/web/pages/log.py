"""The page of the log: its newest lines, filtered by level and words (M51)."""

from __future__ import annotations

import re
from typing import Any

from narval.surfaces.http.page import Follows, Shown, Visit, page

LINES = 400
"""The most lines that are searched, the newest."""

LEVELS = ("debug", "info", "warning", "error", "critical")

LEVEL_TONES = {
    "debug": "idle", "info": "idle", "warning": "active", "error": "failed", "critical": "failed",
}  # fmt: skip
"""The tones of the levels of lines."""

_RUN = re.compile(r"\brun (\d{1,18})\b")


@page("/a/{agent}/log", command="narval log")
async def log_page(visit: Visit) -> Shown:
    """Show the newest lines of the log from a level on that contain some words."""
    level, words, logger = (visit.query.get(name, "") for name in ("level", "text", "logger"))
    lines = await visit.ask("log", lines=LINES)
    least = _rank(level) if level in LEVELS else 0
    shown = [
        line
        for line in lines
        if _rank(line["level"]) >= least
        and words.casefold() in line["message"].casefold()
        and logger in ("", line["logger"])
    ]
    values = {
        "lines": [{**line, "runs": _RUN.findall(line["message"])[:3]} for line in reversed(shown)],
        "left_out": len(lines) - len(shown),
        "level": level,
        "levels": LEVELS,
        "level_tones": LEVEL_TONES,
        "loggers": sorted({line["logger"] for line in lines}),
        "logger": logger,
        "text": words,
        "here": "/log",
    }
    answer: list[dict[str, Any]] = shown
    return Shown("log.html", values, answer, follows=Follows(log=True, runs=True, faults=True))


def _rank(level: str) -> int:
    """The gravity of a level; lines of an unknown level are always shown."""
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)
