"""The order of a listing, and its pages: one rule for all operations that list things by eid.

Without a `limit` a listing has all, oldest first; with one it has the newest, newest first. `before` leaves
out that eid and all above it, so the last eid of a page is the `before` of the next one. The cost of a page
is that of its rows and of those that do not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeVar

from narval.core.definitions.appointment import read_date
from narval.core.errors import RequestError
from narval.system.long_work import TimeSlice

T = TypeVar("T")


def check_limit(limit: int | None) -> None:
    """Raise RequestError for a limit below 1."""
    if limit is not None and limit < 1:
        raise RequestError(f"expected limit to be 1 or more, or none for all, got {limit}")


def eids_of(
    limit: int | None,
    before: int | None,
    oldest_first: Callable[[], Iterable[int]],
    newest_first: Callable[[int | None], Iterable[int]],
) -> Iterable[int]:
    """The eids to read, in the order of the listing; `newest_first` takes `before`.

    Raises RequestError for a limit below 1.
    """
    check_limit(limit)
    if limit is not None:
        return newest_first(before)
    if before is None:
        return oldest_first()
    return takewhile(lambda eid: eid < before, oldest_first())


def moment_from(text: str | None, zone: str) -> float | None:
    """A moment in seconds since 1970 from ISO 8601, without an offset in that zone; None for None.
    Raises RequestError.
    """
    try:
        return read_date(text, zone) if text is not None else None
    except (ValueError, OSError):
        raise RequestError(
            f"expected a moment such as 2026-01-31 or 2026-01-31T18:30, got {text!r:.80}"
        ) from None


async def gathered(items: Iterable[T | None], limit: int | None) -> list[T]:
    """The rows that are not None, at most `limit`, gathered without blocking the loop."""
    rows: list[T] = []
    time_slice = TimeSlice()
    for row in items:
        await time_slice.yield_if_due()
        if row is not None:
            rows.append(row)
            if len(rows) == limit:
                break
    return rows
