"""Sorted numbers in chunks: SortedInts, integers of eight bytes each, and Thresholds, items sorted by a
number.

Fast path, measured by `make bench ONLY=W8` and `ONLY=W3`: a dictionary spends 42 bytes on a key and 32 on the
number. Here bare numbers are in chunks of a sorted list, so adding or removing one moves the numbers of one
chunk. One search finds all conditions `@size > N` that a number meets.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

MOST = 1024
"""The most numbers or items in a chunk: moving 8 KB costs less than searching among more chunks."""


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


class Numbered(Protocol):
    """An item: its serial distinguishes it from others with the same number, and does not change."""

    serial: int


Item = TypeVar("Item", bound=Numbered)

_serial = attrgetter("serial")


class _Chunk(Generic[Item]):
    """Some sorted numbers, bare in an array, and their items in the same order."""

    __slots__ = ("items", "numbers")

    def __init__(self) -> None:
        self.numbers = array("d")
        self.items: list[Item] = []

    def first(self) -> tuple[float, int]:
        return self.numbers[0], self.items[0].serial

    def position(self, number: float, item: Item) -> int:
        """The position of an item, present or not: by number, then by serial."""
        items, start = self.items, bisect_left(self.numbers, number)
        if start == len(items) or items[start] is item or self.numbers[start] != number:
            return start
        return bisect_left(items, item.serial, start, bisect_right(self.numbers, number, start), key=_serial)

    def split(self) -> _Chunk[Item]:
        """Keep the first half and return the second."""
        half, other = len(self.items) // 2, _Chunk[Item]()
        other.numbers, other.items = self.numbers[half:], self.items[half:]
        del self.numbers[half:], self.items[half:]
        return other


class Thresholds(_Chunk[Item]):
    """A sorted list in chunks: adding and removing move the items of one chunk, a query touches only its
    results.

    The first chunk is the list itself, and usually the only one.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        super().__init__()
        self._rest: tuple[_Chunk[Item], ...] = ()

    def __len__(self) -> int:
        return len(self.items) + sum([len(chunk.items) for chunk in self._rest])

    def add(self, number: float, item: Item) -> None:
        """Add an item under a number."""
        chunk, at = self._chunk_of(number, item) if self._rest else (self, 0)
        position = chunk.position(number, item)
        chunk.numbers.insert(position, number)
        chunk.items.insert(position, item)
        if len(chunk.items) > MOST:
            self._rest = (*self._rest[:at], chunk.split(), *self._rest[at:])

    def delete(self, number: float, item: Item) -> None:
        """Remove an item that was added under a number."""
        if not self._rest:
            numbers, items = self.numbers, self.items
            position = bisect_left(numbers, number)
            if items[position] is not item:
                position = self.position(number, item)
            del numbers[position], items[position]
            return
        chunk, at = self._chunk_of(number, item)
        position = chunk.position(number, item)
        del chunk.numbers[position], chunk.items[position]
        if chunk.items:
            return
        if chunk is self:
            self.numbers, self.items = self._rest[0].numbers, self._rest[0].items
            self._rest = self._rest[1:]
        else:
            self._rest = (*self._rest[: at - 1], *self._rest[at:])

    def below(self, number: float) -> list[Item]:
        """The items with smaller numbers, in order."""
        if not self._rest:
            return self.items[: bisect_left(self.numbers, number)]
        items: list[Item] = []
        for chunk in (self, *self._rest):
            if chunk.numbers[0] >= number:
                break
            items += chunk.items[: bisect_left(chunk.numbers, number)]
        return items

    def beyond(self, number: float) -> list[Item]:
        """The items with greater numbers; in order within each chunk."""
        if not self._rest:
            return self.items[bisect_right(self.numbers, number) :]
        items: list[Item] = []
        for chunk in (*reversed(self._rest), self):
            if chunk.numbers[-1] <= number:
                break
            items += chunk.items[bisect_right(chunk.numbers, number) :]
        return items

    def _chunk_of(self, number: float, item: Item) -> tuple[_Chunk[Item], int]:
        """The chunk that an item belongs to, and the number of the other chunks that start no later."""
        at = bisect_right(self._rest, (number, item.serial), key=_Chunk.first)
        return (self._rest[at - 1] if at else self), at
