"""Answers to questions about the unknown during one event: all of them, so that no two contradict each other.

A decision is repeated until no answer is left. The assumptions about memory keep what earlier answers imply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from narval.core.elements import changes
from narval.core.elements.changes import Change, MarkScope
from narval.core.elements.element import Element
from narval.core.patterns.contradictions import Demands, contradictory
from narval.core.patterns.pattern import Condition

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
    choices_made: list[int] = []
    for _ in range(MOST_WAYS):
        choices = Choices(choices_made)
        yield decide(choices)
        taken = choices.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        choices_made = [chosen for chosen, _ in taken]
        choices_made[-1] += 1
    raise TooManyWays


ANY = "any"
"""The name of elements whose name is unknown."""

Wanted = tuple[Demands, MarkScope | None]
"""Demands, and the scope in which an element must not be used."""


class Assumptions:
    """Known elements, with the demands they meet and the scopes in which they are free; demands that nothing
    meets.

    `choices` decides open questions, and the decisions hold from then on.
    """

    def __init__(self, choices: Choices, next_eid: int) -> None:
        self.next_eid, self._choices = next_eid, choices
        self.added: dict[int, Element] = {}
        self._fitting: dict[int, list[Demands]] = {}
        self._unfit: set[tuple[int, Demands]] = set()
        self._lasting: dict[Demands, bool] = {}
        self._free: set[tuple[int, MarkScope | None]] = set()
        """The elements known to be free in a scope."""
        self._taken: set[tuple[int, MarkScope | None]] = set()
        """The elements used in a scope; with None, those reserved or outdated."""
        self._none: list[Wanted] = []
        self._among: dict[Wanted, bool] = {}

    def met(self) -> tuple[int, ...]:
        """The elements about which something is known."""
        return tuple(self._fitting)

    def fresh(self, asked: Demands, scope: MarkScope | None) -> int:
        """A new element, which meets the demands and is free."""
        eid = self.next_eid
        self.next_eid += 1
        self._fitting[eid] = [asked]
        self._free.add((eid, scope))
        return eid

    def surely(self, eid: int, asked: Demands, scope: MarkScope | None) -> bool:
        """True if an element is known to meet the demands and to be free."""
        if not self._may_be(eid, asked, scope) or not self._known_to_fit(eid, asked):
            return False
        return (eid, scope) in self._free or (scope is None and any(free == eid for free, _ in self._free))

    def none_fits(self, asked: Demands, scope: MarkScope | None) -> None:
        """Assume that nothing in memory meets the demands and is free."""
        self._none.append((asked, scope))

    def surely_none(self, asked: Demands, scope: MarkScope | None) -> bool:
        """True if nothing is known to meet these demands, or fewer."""
        if contradictory(asked):
            return True
        return any(less <= asked and of in (None, scope) for less, of in self._none)

    def is_among(self, eid: int, asked: Demands, scope: MarkScope | None) -> bool:
        """True if an element meets the demands and is free; all elements from before this event are alike."""
        if not self._may_be(eid, asked, scope):
            return False
        if self.surely(eid, asked, scope):
            return True
        if eid not in self._fitting and eid not in self.added:
            if (asked, scope) not in self._among:
                self._among[asked, scope] = self._choices.whether()
            return self._among[asked, scope]
        if not self.fits(eid, asked):
            return False
        free = eid in self.added or self._choices.whether()
        (self._free if free else self._taken).add((eid, scope))
        return free

    def fits(self, eid: int, asked: Demands) -> bool:
        """True if an element meets the demands."""
        if self._known_to_fit(eid, asked):
            return True
        fitting = asked.union(*self._fitting.get(eid, ()))
        if (eid, asked) in self._unfit or contradictory(fitting) or self._is_named_otherwise(eid, asked):
            return False
        if self._choices.whether():
            self._fitting.setdefault(eid, []).append(fitting)
            return True
        self._unfit.add((eid, asked))
        return False

    def lasts(self, asked: Demands) -> bool:
        """True if elements have met the demands for any length of time (N38): all of them, or none."""
        if asked not in self._lasting:
            self._lasting[asked] = self._choices.whether()
        return self._lasting[asked]

    def apply(self, fact: Change) -> None:
        """Assume a fact of memory."""
        if isinstance(fact, changes.Added):
            self.next_eid = max(self.next_eid, fact.element.eid + 1)
            self.added[fact.element.eid] = fact.element
            self._none.clear()
        elif isinstance(fact, changes.Released):
            self._taken.difference_update((eid, None) for eid in fact.eids)
            self._none.clear()
        elif isinstance(fact, changes.Used):
            self._taken.update((eid, fact.scope) for eid in fact.eids)
        elif isinstance(fact, changes.Reserved | changes.Outdated):
            self._taken.update((eid, None) for eid in fact.eids)

    def _known_to_fit(self, eid: int, asked: Demands) -> bool:
        return any(asked <= fitting for fitting in self._fitting.get(eid, ()))

    def _may_be(self, eid: int, asked: Demands, scope: MarkScope | None) -> bool:
        """True if nothing known contradicts that the element meets the demands."""
        taken = (eid, None) in self._taken or (eid, scope) in self._taken
        return not taken and not self.surely_none(asked, scope)

    def _is_named_otherwise(self, eid: int, asked: Demands) -> bool:
        """True if an added element has a name that the patterns exclude; nothing else is known of it."""
        element = self.added.get(eid)
        if element is None or element.name == ANY:
            return False
        names = Condition(pattern for pattern, _ in asked if not pattern.variables).names
        return names is not None and element.name not in names
