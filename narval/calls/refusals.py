"""Refusals that an action can foresee: why memory would refuse elements that it is about to return."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from narval.calls.context import call
from narval.core.elements.canonical import canonical
from narval.core.errors import ElementError
from narval.files.schemas import SHOWN, Schemas


def refusals(elements: Iterable[str | bytes | etree._Element]) -> list[str]:
    """The reasons why elements would be refused, in their order; [] if all would be accepted.

    An element is refused if it is not well formed, has a DOCTYPE, more than 16 MiB or 256 levels, or does not
    match the schema of its name in `etc/schemas` of the home. Schemas of an agent alone are ignored. For
    actions while they run: the home is that of the call.
    """
    home = call().home
    schemas = Schemas(home / SHOWN if home is not None else None)
    reasons: list[str] = []
    for element in elements:
        try:
            reason = schemas.refusal(canonical(element))
        except ElementError as error:
            reason = str(error)
        if reason:
            reasons.append(reason)
    return reasons
