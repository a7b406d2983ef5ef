"""Documents from outside, split into elements and checked against the schemas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from narval.agent.agent import OVER_LIMIT
from narval.agent.turn import Turn
from narval.core.elements.canonical import check_together, elements_of
from narval.core.elements.element import Origin
from narval.core.errors import ElementError, RequestError
from narval.files.schemas import Schemas
from narval.system.long_work import TimeSlice

LONG = 64 * 1024
"""The size in bytes from which a document is parsed in a thread."""

SEVERAL = "Extra content at the end of the document"
"""The parser's message on a document with two roots."""


async def elements_in(documents: Sequence[bytes] | None) -> list[bytes]:
    """The elements of documents, without blocking the loop: of each the root, or each child of a root
    `memory`. Raises ElementError, also for more than fits in one turn.
    """
    parsed: list[bytes] = []
    for document in documents or ():
        is_short = len(document) < LONG
        parsed += _elements(document) if is_short else await asyncio.to_thread(_elements, document)
    check_together(parsed)
    return parsed


async def admitted(schemas: Schemas, documents: Sequence[bytes]) -> list[bytes]:
    """The elements of documents, without blocking the loop. Raises ElementError, also if a schema refuses one
    (N7).
    """
    parsed = await elements_in(documents)
    time_slice = TimeSlice()
    for position, element in enumerate(parsed):
        refusal = schemas.refusal(element)
        if refusal is not None:
            raise _refused_at(schemas, documents, position, refusal)
        await time_slice.yield_if_due()
    return parsed


def add_all(turn: Turn, elements: Sequence[bytes], origin: Origin | None = None) -> list[int]:
    """Add elements from outside to memory, all or none; returns their eids. Raises ElementError."""
    raise_if_refused(turn, elements)
    return [turn.add(element, origin) for element in elements]


def raise_if_over_limit(turn: Turn, elements: Sequence[bytes], runs: int = 0) -> None:
    """Raise RequestError if memory has no room for the elements, or the agent none for the runs."""
    over = turn.agent.excess_of_elements(elements) or (turn.agent.excess_of_runs(runs) if runs else "")
    if over:
        raise RequestError(f"{OVER_LIMIT}: {over}")


def raise_if_refused(turn: Turn, elements: Sequence[bytes]) -> None:
    """Raise ElementError for an element that its current schema refuses."""
    for element in elements:
        refusal = turn.view.schema_fault(element)
        if refusal is not None:
            raise ElementError("invalid", f"refused by its schema: {refusal}")


def _refused_at(schemas: Schemas, documents: Sequence[bytes], position: int, refusal: str) -> ElementError:
    """The refusal of the element at a position among all, with its place in its document."""
    for number, document in enumerate(documents, 1):
        count = len(elements_of(document))
        if position < count:
            fault = schemas.refusal_in(document, position)
            if fault is None:
                break
            which = f"document {number} of {len(documents)}: " if len(documents) > 1 else ""
            why = f"{which}{fault.line}:{fault.column}: refused by its schema: {fault.message}"
            return ElementError("invalid", why, fault.line, fault.column)
        position -= count
    return ElementError("invalid", f"refused by its schema: {refusal}")


def _elements(document: bytes) -> list[bytes]:
    try:
        return elements_of(document)
    except ElementError as error:
        hint = "; put several elements within <memory>…</memory>" if SEVERAL in str(error) else ""
        message = f"{error.line}:{error.column}: {error}{hint}"
        raise ElementError(error.kind, message, error.line, error.column) from None
