"""The page of the last hour: a bar for each run that was under way, with its calls."""

from __future__ import annotations

from narval.surfaces.http.page import Shown, Visit, page
from narval.surfaces.web.drawing.figures import gantt

SPANS = ((10, "10 minutes"), (60, "an hour"), (360, "6 hours"), (1440, "a day"))
"""The periods that links offer, in minutes."""

GANTT_OPTIONS = {"minutes": "--minutes", "notices": "--notices!"}
"""The options of the command for the parameters of the page."""


@page("/a/{agent}/runs/gantt", command="narval gantt", options=GANTT_OPTIONS)
async def gantt_page(visit: Visit) -> Shown:
    """Show the runs of the last hour, or of another number of minutes, as bars over time."""
    minutes, notices = visit.number("minutes") or 60, visit.query.get("notices")
    answer = await visit.ask("gantt", minutes=minutes, notices=bool(notices))

    def url(minutes: int, notices: str | None) -> str:
        return visit.url("/runs/gantt", minutes=minutes, notices=notices)

    values = {
        "gantt": answer,
        "drawn": gantt(answer),
        "minutes": minutes,
        "with_notices": url(minutes, "yes"),
        "spans": [(words, number, url(number, notices)) for number, words in SPANS],
        "here": "/runs",
    }
    return Shown("gantt.html", values, answer)
