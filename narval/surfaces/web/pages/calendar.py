"""The calendar: for each day, what is set, what is expected, and what came late or not at all."""

from __future__ import annotations

from datetime import date, timedelta

from narval.core.errors import RequestError
from narval.surfaces.http.page import Follows, Shown, Visit, page

ENTRY_TONES = {"late": "failed", "dropped": "cancelled", "expected": "idle", "set": "waiting"}
"""The tones of entries."""


@page("/a/{agent}/calendar", command="narval calendar", options={"start": "--from", "end": "--to"})
async def calendar_page(visit: Visit) -> Shown:
    """Show the moments of some days, by default two weeks from today."""
    start, end = visit.query.get("start") or None, visit.query.get("end") or None
    answer = await visit.ask("calendar", start=start, end=end)
    try:
        first = date.fromisoformat(answer["start"][:10])
        span = max(date.fromisoformat(answer["end"][:10]) - first, timedelta(days=1))
        before, after = (first - span, first), (first + span, first + 2 * span)
    except (ValueError, OverflowError):
        raise RequestError(f"expected dates such as 2026-11-23, got {start!r:.40} and {end!r:.40}") from None
    values = {
        "calendar": answer,
        "start": answer["start"][:10],
        "end": answer["end"][:10],
        "before": visit.url("/calendar", start=before[0], end=before[1]),
        "after": visit.url("/calendar", start=after[0], end=after[1]),
        "entry_tones": ENTRY_TONES,
        "here": "/calendar",
    }
    return Shown("calendar.html", values, answer, follows=Follows(runs=True))
