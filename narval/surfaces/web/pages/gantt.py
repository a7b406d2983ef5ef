"""The page of the last hour: a bar for each run that was under way, with its calls."""

from __future__ import annotations

from narval.surfaces.http.page import Shown, Visit, page
from narval.surfaces.web.drawing.figures import gantt

SPANS = ((10, "10 minutes"), (60, "an hour"), (360, "6 hours"), (1440, "a day"))
"""The periods that links offer, in minutes."""


@page("/a/{agent}/runs/gantt", command="narval gantt", options={"minutes": "--minutes"})
async def gantt_page(visit: Visit) -> Shown:
    """Show the runs of the last hour, or of another number of minutes, as bars over time."""
    minutes = visit.number("minutes") or 60
    answer = await visit.ask("gantt", minutes=minutes)
    values = {
        "gantt": answer,
        "drawn": gantt(answer),
        "minutes": minutes,
        "spans": [(words, number, visit.url("/runs/gantt", minutes=number)) for number, words in SPANS],
        "here": "/runs",
    }
    return Shown("gantt.html", values, answer)
