"""Thresholds: items sorted by a number.

Fast path, measured by `make bench ONLY=W3`: one search finds all conditions `@size > N` that a number meets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Generic, Protocol, TypeVar


class Numbered(Protocol):
    """An item: its serial distinguishes it from others with the same number, and does not change."""

    serial: int


Item = TypeVar("Item", bound=Numbered)

_MOST = 1024
"""The most items in a chunk: moving them costs less than iterating over more chunks."""
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
        if len(chunk.items) > _MOST:
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
