"""Outputs of the parts of definitions, and of the runs that call one another.

They are sets of places. A set is a number with a bit for each place, so that sets of thousands of places are
joined at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Key = tuple[str, str, str]
"""A definition: its kind, full name and version."""


class Returns(NamedTuple):
    """The results of runs of a definition."""

    own: int
    """The places besides outputs, as a set."""
    parts: tuple[str, ...]
    """The parts whose outputs they return."""


class Outputs:
    """The outputs of the parts of definitions, including what runs that they call return to them."""

    def __init__(self) -> None:
        self._given: dict[tuple[Key, str], int] = {}
        """The outputs of parts themselves."""
        self._called: dict[tuple[Key, str], list[Key]] = {}
        """The definitions whose runs parts call within the agent."""
        self._callers: dict[Key, dict[Key, None]] = {}
        """The definitions that call a definition."""
        self._returned: dict[Key, int] = {}
        """The results of runs, as followed last."""

    def give(self, key: Key, part: str, bit: int) -> None:
        """Add a place to what a part gives."""
        self._given[key, part] = self.given(key, part) | bit

    def call(self, key: Key, part: str, called: Iterable[Key]) -> None:
        """Add definitions whose runs a part calls."""
        for one in called:
            self._called.setdefault((key, part), []).append(one)
            self._callers.setdefault(one, {})[key] = None

    def given(self, key: Key, part: str) -> int:
        """The outputs of a part itself."""
        return self._given.get((key, part), 0)

    def called(self, key: Key, part: str) -> Iterable[Key]:
        """The definitions whose runs a part calls."""
        return self._called.get((key, part), ())

    def of_part(self, key: Key, part: str) -> int:
        """The outputs of a part, with what runs return to it."""
        bits = self.given(key, part)
        for called in self.called(key, part):
            bits |= self._returned.get(called, 0)
        return bits

    def follow(self, returns: Mapping[Key, Returns]) -> None:
        """Follow what runs return through their callers, until nothing is new: calls may form a circle."""
        pending = dict.fromkeys(returns)
        while pending:
            key, _ = pending.popitem()
            bits = returns[key].own
            for part in returns[key].parts:
                bits |= self.of_part(key, part)
            if bits != self._returned.get(key, 0):
                self._returned[key] = bits
                pending.update(self._callers.get(key, {}))
