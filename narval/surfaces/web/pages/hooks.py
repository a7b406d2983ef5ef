"""The page of webhooks: the element each gives, what it took last, and how often it refused."""

from __future__ import annotations

from narval.surfaces.http.page import Follows, Shown, Visit, page

WHY_REFUSED = {
    "400": "no body of its type", "401": "a wrong token", "408": "too slow", "413": "too long",
    "415": "another type", "422": "refused by its schema", "429": "too many a minute",
}  # fmt: skip
"""The words for the statuses with which calls are refused."""


@page("/a/{agent}/hooks", command="narval hooks")
async def hooks_page(visit: Visit) -> Shown:
    """List the webhooks of the home."""
    rows = await visit.ask("hooks")
    values = {"rows": rows, "why_refused": WHY_REFUSED, "here": "/memory", "section": "/hooks"}
    return Shown("hooks.html", values, rows, follows=Follows(elements=True, faults=True))
