"""Lines in order of arrival; any key may leave at a cost that does not grow with the line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

Key = TypeVar("Key", int, str)


class ArrivalLine(msgspec.Struct, Generic[Key], omit_defaults=True):
    """Keys in order: `keys` by place and `places` by key, from `head` to before `tail`.

    A dictionary alone would be too slow: finding its first key takes long after many were removed from the
    front.
    """

    keys: dict[int, Key] = {}
    places: dict[Key, int] = {}
    head: int = 0
    tail: int = 0

    @property
    def first(self) -> Key | None:
        """The first key; None if there is none."""
        return self.keys.get(self.head)

    def append(self, key: Key) -> None:
        """Add a key at the end, unless it is there."""
        if key not in self.places:
            self.keys[self.tail], self.places[key] = key, self.tail
            self.tail += 1

    def prepend(self, key: Key) -> None:
        """Add a key at the front, unless it is there."""
        if key not in self.places:
            self.head -= 1
            self.keys[self.head], self.places[key] = key, self.head

    def discard(self, key: Key) -> None:
        """Remove a key, if it is there."""
        place = self.places.pop(key, None)
        if place is None:
            return
        del self.keys[place]
        if not self.keys:
            self.head = self.tail = 0
        while self.head < self.tail and self.head not in self.keys:
            self.head += 1

    def __iter__(self) -> Iterator[Key]:
        return (self.keys[place] for place in sorted(self.keys))

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: Key) -> bool:
        return key in self.places
