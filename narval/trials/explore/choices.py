"""All answers to questions about the unknown: a decision is repeated until no answer is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Decision = TypeVar("Decision")

MOST_WAYS = 10_000
"""The most ways through one decision that are tried; a decision with more is not fully explored."""


class TooManyWays(Exception):  # noqa: N818 - not an error: the search is cut short
    """The signal that a decision depends on more than can be tried."""


class Choices:
    """One way through the questions of a decision: the first questions have fixed answers, each later one
    takes its first answer.
    """

    __slots__ = ("_given", "taken")

    def __init__(self, choices: list[int]) -> None:
        self._given = choices
        self.taken: list[tuple[int, int]] = []
        """The answers, each with the number of possible ones."""

    def choose(self, ways: int = 2) -> int:
        """One of `ways` answers, counted from 0."""
        at = len(self.taken)
        chosen = self._given[at] if at < len(self._given) else 0
        self.taken.append((chosen, ways))
        return chosen

    def whether(self) -> bool:
        """Yes or no; yes is tried first."""
        return self.choose() == 0


def each_way(decide: Callable[[Choices], Decision]) -> Iterator[Decision]:
    """The decision, for each way through the questions asked. Raises TooManyWays."""
    given: list[int] = []
    for _ in range(MOST_WAYS):
        choices = Choices(given)
        yield decide(choices)
        taken = choices.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        given = [chosen for chosen, _ in taken]
        given[-1] += 1
    raise TooManyWays
