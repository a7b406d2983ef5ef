"""SortedInts: integers in order, eight bytes each.

Fast path, measured by `make bench ONLY=W8`: a dictionary spends 42 bytes on a key and 32 on the number. Here
bare numbers are in chunks of a sorted list, so adding or removing one moves the numbers of one chunk.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

MOST = 1024
"""The most numbers in a chunk: moving 8 KB costs less than searching among more chunks."""


class SortedInts:
    """Distinct integers below 2**64, in ascending order."""

    __slots__ = ("_chunks", "_firsts")

    def __init__(self, ascending: Iterable[int] = ()) -> None:
        """Initialise from distinct numbers in order."""
        whole = array("Q", ascending)
        self._chunks = [whole[at : at + MOST] for at in range(0, len(whole), MOST)] or [whole]
        self._firsts = array("Q", [chunk[0] for chunk in self._chunks[1:]])
        """The first number of each chunk but the first, which has all lower numbers."""

    def add(self, number: int) -> None:
        """Add a number, usually the greatest."""
        chunk = self._chunks[-1]
        if chunk and number > chunk[-1]:
            if len(chunk) < MOST:
                chunk.append(number)
            else:
                self._chunks.append(array("Q", (number,)))
                self._firsts.append(number)
            return
        at = bisect_right(self._firsts, number)
        chunk = self._chunks[at]
        position = bisect_left(chunk, number)
        if position == len(chunk) or chunk[position] != number:
            chunk.insert(position, number)
            if len(chunk) > MOST:
                self._split(at)

    def discard(self, number: int) -> None:
        """Remove a number; ignore a missing one."""
        at = bisect_right(self._firsts, number)
        chunk = self._chunks[at]
        position = bisect_left(chunk, number)
        if position == len(chunk) or chunk[position] != number:
            return
        del chunk[position]
        if not chunk and len(self._chunks) > 1:
            del self._chunks[at]
            del self._firsts[max(at - 1, 0)]

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        chunk = self._chunks[bisect_right(self._firsts, number)]
        position = bisect_left(chunk, number)
        return position < len(chunk) and chunk[position] == number

    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks:
            yield from chunk

    def copy(self) -> SortedInts:
        """A copy of the current numbers."""
        copied = SortedInts()
        copied._chunks, copied._firsts = [chunk[:] for chunk in self._chunks], self._firsts[:]
        return copied

    def above(self, number: int) -> Iterator[int]:
        """The numbers greater than one, ascending; none may be added or removed during iteration."""
        at = bisect_right(self._firsts, number)
        position = bisect_right(self._chunks[at], number)
        for chunk in islice(self._chunks, at, None):
            yield from chunk[position:] if position else chunk
            position = 0

    def descending(self, below: int | None = None) -> Iterator[int]:
        """The numbers, or those below one, descending; some may be added and removed during iteration."""
        below = 1 << 64 if below is None else below
        while True:
            at = bisect_left(self._firsts, below)
            position = bisect_left(self._chunks[at], below)
            if not position and at:  # the first of this chunk was removed
                at -= 1
                position = len(self._chunks[at])
            if not position:
                return
            lower = self._chunks[at][:position]
            yield from reversed(lower)
            below = lower[0]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __bool__(self) -> bool:
        return bool(self._chunks[0])

    def _split(self, at: int) -> None:
        chunk = self._chunks[at]
        other = chunk[MOST // 2 :]
        del chunk[MOST // 2 :]
        self._chunks.insert(at + 1, other)
        self._firsts.insert(at, other[0])


class Span:
    """A live view of the numbers from `low` on and below `high`, minus `low`."""

    __slots__ = ("_high", "_low", "_numbers")

    def __init__(self, numbers: SortedInts, low: int, high: int) -> None:
        self._numbers, self._low, self._high = numbers, low, high

    def copy(self) -> Span:
        """A copy of the current numbers."""
        return Span(self._numbers.copy(), self._low, self._high)

    def __iter__(self) -> Iterator[int]:
        low, high = self._low, self._high
        at = bisect_right(self._numbers._firsts, low)
        position = bisect_left(self._numbers._chunks[at], low)
        for chunk in self._numbers._chunks[at:]:
            for number in chunk[position:] if position else chunk:
                if number >= high:
                    return
                yield number - low
            position = 0

    def descending(self, below: int | None = None) -> Iterator[int]:
        """The numbers, or those below one, descending; some may be added and removed during iteration."""
        low, high = self._low, self._high
        for number in self._numbers.descending(high if below is None else min(high, low + below)):
            if number < low:
                return
            yield number - low

    def __len__(self) -> int:
        if self._low >= self._high:
            return 0
        chunks = self._numbers._chunks
        first = bisect_right(self._numbers._firsts, self._low)
        last = bisect_left(self._numbers._firsts, self._high)
        whole = sum(map(len, chunks[first:last]))
        return whole + bisect_left(chunks[last], self._high) - bisect_left(chunks[first], self._low)


def ascending(sets: Sequence[SortedInts | Span]) -> Iterable[int]:
    """Each number of several sets once, ascending."""
    return sets[0] if len(sets) == 1 else distinct(heapq.merge(*sets))


def snapshot(sets: Sequence[SortedInts | Span]) -> Iterable[int]:
    """A copy of the numbers in several sets, each once, ascending: the sets may change during iteration."""
    return ascending([each.copy() for each in sets])


def descending(sets: Sequence[SortedInts | Span], below: int | None = None) -> Iterator[int]:
    """Each number of several sets once, or those below one, descending; some may be added meanwhile."""
    ways = [each.descending(below) for each in sets]
    return ways[0] if len(ways) == 1 else distinct(heapq.merge(*ways, reverse=True))


def distinct(numbers: Iterable[int]) -> Iterator[int]:
    """Numbers without repetitions of the previous one."""
    last = 0
    for number in numbers:
        if number != last:
            yield number
            last = number
