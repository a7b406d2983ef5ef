"""The page of webhooks: the element that each makes, its last call, and its refused calls."""

from __future__ import annotations

from narval.surfaces.http.page import Follows, Shown, Visit, page

WHY_REFUSED = {
    "400": "no body of its type", "401": "a wrong token", "408": "too slow", "413": "too long",
    "415": "another type", "422": "refused by its schema", "429": "too many a minute",
}  # fmt: skip
"""The reasons for refusing a call, by status."""


@page("/a/{agent}/hooks", command="narval hooks")
async def hooks_page(visit: Visit) -> Shown:
    """List the webhooks of the home."""
    rows = await visit.ask("hooks")
    values = {"rows": rows, "why_refused": WHY_REFUSED, "here": "/memory", "section": "/hooks"}
    return Shown("hooks.html", values, rows, follows=Follows(elements=True, faults=True))
