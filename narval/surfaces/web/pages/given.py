"""The elements that a form gives to a run: chosen for its inputs, named by their numbers, or pasted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.core.errors import NarvalError, RequestError
from narval.surfaces.http.page import Visit, whole_number

OFFERED = 20
"""The most elements offered for an input, the newest that match."""

CHOSEN = "chosen"
"""The field of the form for each element that is chosen for an input."""


async def form_of(visit: Visit, name: str) -> dict[str, Any]:
    """The inputs of a definition, each with the elements that may be chosen for it; `has_environment` says
    that a run of it may be given attributes. Raises RequestError for an unknown definition.
    """
    definition = await visit.ask("definition", name=name)
    return {
        "inputs": [
            {**row, "offered": await offered(visit, row["match"], OFFERED)} for row in definition["takes"]
        ],
        "has_environment": definition["has_environment"],
        "chosen": frozenset(visit.fields.all(CHOSEN)),
    }


async def offered(visit: Visit, match: list[str], limit: int) -> list[dict[str, Any]]:
    """The newest elements that match the first two patterns (most inputs have no more), with their titles."""
    wanted = {"xpath": match[0], "among": match[1:2] or None, "current": True, "limit": limit}
    try:
        page = await visit.ask("elements", **wanted)
    except NarvalError:  # a prefix of the definition, or a variable
        return []
    return [{"eid": row["eid"], "name": row["name"], "title": row["title"]} for row in page["elements"]]


async def elements_given(visit: Visit, values: Mapping[str, str]) -> list[bytes]:
    """The chosen elements, then those that a form names by numbers, then those pasted into it.

    Each is given once. Raises RequestError.
    """
    words = [*filter(None, visit.fields.all(CHOSEN)), *values["elements"].replace(",", " ").split()]
    texts = []
    for word in dict.fromkeys(words):
        eid = whole_number(word)
        if eid is None:
            raise RequestError(f"expected numbers of elements, such as 12 15, got {word!r:.40}")
        texts.append((await visit.ask("element", eid=eid))["xml"])
    texts += [values["xml"]] if values["xml"].strip() else []
    return [text.encode("utf-8", "surrogatepass") for text in texts]
