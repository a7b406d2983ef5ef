"""The acts on grants: grant what a definition needs, or revoke it, on its page."""

from __future__ import annotations

from narval.surfaces.http.page import Redirect, Visit, act, segment


@act("/a/{agent}/definitions/{name}/grant")
async def grant_definition(visit: Visit) -> Redirect:
    """Grant what a definition needs now, as its page shows it."""
    await visit.act("grant", name=visit.path["name"])
    return Redirect(visit.url(f"/definitions/{segment(visit.path['name'])}"))


@act("/a/{agent}/definitions/{name}/revoke")
async def revoke_definition(visit: Visit) -> Redirect:
    """Take back what was granted to a definition; runs under way keep it."""
    await visit.act("revoke", name=visit.path["name"])
    return Redirect(visit.url(f"/definitions/{segment(visit.path['name'])}"))
