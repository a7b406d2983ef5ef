"""The search for the elements of an input or condition, by rank, nearest first (N15).

The ranks are: arguments, and what `context` selects; what triggered the transition; what its in-steps
produced; the context of the run, and those of its callers; all of memory. The inputs of a call and the
conditions of a transition use the same search; only the nearest ranks differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from narval.core.definitions.prototype import Context
from narval.core.elements.changes import MarkScope
from narval.core.elements.element import Element
from narval.core.engines.view import View
from narval.core.patterns.pattern import Bound

Bindings = Mapping[str, Sequence[Element]]


class CandidateSearch:
    """The search for elements around one step or transition of a run, by rank, nearest first.

    `arguments` are elements not in memory yet (their eids are negative). `context` is the `context` node,
    which promotes what it selects to rank 1. `nearby` are the eids of the ranks between that and the run's
    own context.
    """

    __slots__ = ("_alternatives", "arguments", "context", "nearby", "run", "view")

    def __init__(
        self,
        view: View,
        run: int,
        nearby: tuple[tuple[int, ...], ...],
        arguments: tuple[Element, ...] = (),
        context: Context | None = None,
        bindings: Bindings | None = None,
    ) -> None:
        self.view, self.run, self.nearby = view, run, nearby
        self.arguments, self.context = arguments, context
        self._alternatives = (
            tuple(alternative.bind(bindings or {}) for alternative in context.alternatives)
            if context is not None
            else ()
        )

    def ranks(
        self, bound: Bound, scope: MarkScope | None, again: tuple[int, ...] = (), newest: int = 0
    ) -> Callable[[], Iterator[Iterable[int]]]:
        """The ranks of one input or condition, read lazily.

        Elements in `again` may be taken though marked: the run that this one restarts has used them. If
        `newest` is not 0, each rank has only that many elements, the newest.
        """
        if newest:
            return partial(self._newest, bound, scope, again, newest)
        return partial(self._ranks, bound, scope, again)

    def promoted(self) -> tuple[int, ...]:
        """All elements that the `context` node selects, oldest first."""
        return tuple(sorted({eid for bound in self._alternatives for eid in self._place(bound, None)}))

    def _newest(
        self, bound: Bound, scope: MarkScope | None, again: tuple[int, ...], most: int
    ) -> Iterator[Iterable[int]]:
        """The `most` newest of each rank, oldest first; no more of memory is read than that."""
        for rank in self._near(bound, scope, again):
            yield deque(rank, most)
        yield sorted(islice(self.view.matching(bound, scope, newest_first=True), most))

    def _ranks(
        self, bound: Bound, scope: MarkScope | None, again: tuple[int, ...]
    ) -> Iterator[Iterable[int]]:
        yield from self._near(bound, scope, again)
        yield self.view.matching(bound, scope)

    def _near(self, bound: Bound, scope: MarkScope | None, again: tuple[int, ...]) -> Iterator[Iterable[int]]:
        """The ranks before all of memory."""
        view, run = self.view, self.run
        if self.arguments or self._alternatives:
            yield self._first(bound, scope)
        if again and scope is not None:
            yield view.among(again, bound, None)
        for eids in self.nearby:
            if eids:
                yield view.among(eids, bound, scope)
        yield view.among(view.context(run), bound, scope)
        caller = view.caller(run)
        while caller is not None:
            for eids in caller.nearby:
                yield view.among(eids, bound, scope)
            yield view.among(view.context(caller.run), bound, scope)
            caller = view.caller(caller.run)

    def _first(self, bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        for argument in self.arguments:
            if self.view.fits(argument, bound):
                yield argument.eid
        if self._alternatives:
            for eid in self._place(bound, scope):
                element = self.view.element(eid)
                if element is not None and any(
                    self.view.fits(element, alternative) for alternative in self._alternatives
                ):
                    yield eid

    def _place(self, bound: Bound, scope: MarkScope | None) -> Iterator[int]:
        if self.context is not None and self.context.of_run:
            return self.view.among(self.view.context(self.run), bound, scope)
        return self.view.matching(bound, scope)
