"""Conditions that depend on others of their transition (N42), take all that fit (N43), or nothing (N44).

If a later condition uses the name of an earlier one, its matches depend on what the earlier one takes. So
elements are chosen in order: for each condition whose name is used, the candidates are tried in turn, nearest
rank and oldest first, and the other conditions must then have an element. The first choice that gives each
condition an element is taken, so a choice is found whenever there is one.

If a transition waits and an element comes, only choices that take this element are new: the only candidates
are those beside which a condition can take it, and they are looked up by the attributes that must be equal.
Otherwise each element of a stream would have all choices of all elements before it tried again.

A watch cannot wait for each choice separately. It binds a name to all candidates at once: if the condition
grows in the name, an element that fits with one candidate fits with all of them together, and is found by its
values. If it does not grow, or there are many candidates, any element of the right name wakes the transition.
A new candidate wakes it too, and the watch is set again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, groupby, islice
from math import inf
from operator import itemgetter

from narval.core.definitions.prototype import TransitionCondition
from narval.core.elements.element import Element
from narval.core.elements.names import RUNS
from narval.core.engines.assignment import Candidates, Slot, assign
from narval.core.engines.decision import Wanted
from narval.core.patterns.pattern import Bound, Condition, Pattern, compile_pattern, named_one_of
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.transitions import conditions
from narval.kinds.recipe.language.definition import Transition

MOST_TRIED = 10_000
"""The most candidates that are tried at once; a transition with more does not fire until it is
woken again.
"""

MOST_BOUND = 100
"""The most candidates whose values a watch waits for; beyond that it waits for any element of the
right name.
"""

Found = tuple[tuple[int, ...], tuple[int, ...]]
"""The elements of conditions in their order, and the number for each, if not one."""


def elements_for(decision: RecipeDecision, transition: Transition, new: int = 0) -> Found | None:
    """Distinct elements for all conditions; None if no choice satisfies each.

    If `new` is not 0, no choice satisfied each before this element came, or could be taken again.
    """
    # A rival of less priority could take what has come since, which is not announced yet.
    is_last = len(transition.rivals) == 1 or decision.view.next_eid == new + 1
    combination = _Combination(decision, transition, new if is_last else 0)
    found = combination.found()
    if found is None or combination.new is None:
        return found
    # Others may have come with it that are not announced yet: among all choices, the first counts. If there
    # are too many to try, this one does.
    return _Combination(decision, transition).found() or found


def relaxed(decision: RecipeDecision, transition: Transition) -> Wanted:
    """The conditions for a watch: every element that could let the transition fire fits one of these."""
    return _Combination(decision, transition).relaxed()


def also_watched(transition: Transition) -> Wanted:
    """The additional conditions to watch if runs must be absent.

    A run is one element for its whole life: it may stop fitting although nothing replaced it (N2).
    """
    names = [condition.condition.names for condition in transition.conditions if condition.absent]
    of_runs = frozenset[str]().union(*(RUNS if runs is None else RUNS & runs for runs in names))
    return [(named_one_of(of_runs), None)] if of_runs else []


def _may_change(condition: TransitionCondition) -> bool:
    """True if a condition may have an element although none has come: a list, after some time, or a run."""
    names = condition.condition.names
    return condition.listed or condition.lasting is not None or names is None or not RUNS.isdisjoint(names)


def _takers(required: Sequence[TransitionCondition], keys: list[int]) -> list[list[Condition]]:
    """For each number of names that are chosen, the patterns of the other conditions that can be tried."""
    takers: list[list[Condition]] = []
    for depth in range(len(keys) + 1):
        later = {required[at].name for at in keys[depth:]}
        others = [
            condition.condition
            for at, condition in enumerate(required)
            if not condition.absent and at not in keys[:depth]
        ]
        takers.append([_without(later, other) for other in others])
    return takers


def _without(names: Set[str], condition: Condition) -> Condition:
    """The patterns of a condition that use none of these names."""
    return Condition(pattern for pattern in condition.patterns if names.isdisjoint(pattern.variables))


def _alike(taker: Condition, name: str) -> Pattern | None:
    """The pattern of elements beside which `taker` can take the one that `name` stands for, the other way
    round than in the condition; None if they need have no attribute in common.
    """
    for pattern in taker.patterns:
        for own, other in sorted(pattern.shape.equal_to(name)):
            return compile_pattern(f"*[@{other} = ${name}/@{own}]")
    return None


class _Combination:
    """The choice of elements for the conditions of a transition."""

    def __init__(self, decision: RecipeDecision, transition: Transition, new: int = 0) -> None:
        self._decision, self._transition = decision, transition
        self._conditions = transition.conditions
        self._names = dict(decision.bindings(transition.variables))
        """The elements that variables stand for; those of the transition's own names are set as they are
        chosen.
        """
        self._names |= dict.fromkeys(transition.inner_names, ())
        self._scopes = [scope for _, scope in conditions.wanted(decision, transition)]
        self._keys = [
            at for at, condition in enumerate(self._conditions) if condition.name in transition.inner_names
        ]
        """The positions of the conditions whose names others use."""
        self._around = conditions.around(decision, transition)
        self._known: dict[int, Candidates] = {}
        """The candidates of conditions that depend on no other."""
        self._held: dict[int, tuple[int, ...]] = {}
        """The elements chosen so far, by position."""
        self._tried = 0
        self.new = self._only_new(new)
        """The element that each choice must take; None: any choice may be new."""
        self._takers = _takers(self._conditions, self._keys) if self.new else []
        """For each number of names that are chosen, the conditions by which another may take that element."""

    # --- choosing -------------------------------------------------------------------------------------

    def found(self) -> Found | None:
        """The first choice that satisfies each condition."""
        return self._choose(0) if self._leads_to_new(0) and self._admit(None) else None

    def _choose(self, depth: int) -> Found | None:
        if depth == len(self._keys):
            return self._assigned()
        at = self._keys[depth]
        for eids in self._options(depth):
            self._hold(at, eids)
            if not self._leads_to_new(depth + 1):
                del self._held[at]
                continue
            self._tried += 1
            if self._tried > MOST_TRIED:
                break
            chosen = self._choose(depth + 1) if self._admit(at) else None
            if chosen is not None:
                return chosen
            del self._held[at]
        return None

    def _only_new(self, new: int) -> Element | None:
        """The element `new`, if nothing but it can have made a choice possible: no list that it joins, no
        absence or time that it ends, no run, which changes while it stays the same element.
        """
        element = self._decision.view.element(new) if new else None
        if element is None or any(_may_change(condition) for condition in self._conditions):
            return None
        if any(bound.name in RUNS for elements in self._names.values() for bound in elements):
            return None
        anything = named_one_of(None)
        return element if next(self._decision.view.among((new,), anything, None), None) is not None else None

    def _leads_to_new(self, depth: int) -> bool:
        """False if no choice with the first `depth` names as they are takes the new element."""
        new = self.new
        if new is None or any(new.eid in eids for eids in self._held.values()):
            return True
        among, alone = self._decision.view.among, (new.eid,)
        takers = (taker.bind(self._names) for taker in self._takers[depth])
        return any(next(among(alone, bound, None), None) is not None for bound in takers)

    def _options(self, depth: int) -> Iterator[tuple[int, ...]]:
        """The choices of the next condition: each free element, or all of them as a list."""
        at = self._keys[depth]
        if self.new is not None and not any(self.new.eid in eids for eids in self._held.values()):
            return ((eid,) for eid in self._leading(at, self._takers[depth + 1], self.new))
        if not self._conditions[at].listed:
            return ((eid,) for eid in self._free(at))
        every = tuple(self._free(at))
        return iter((every,) if every else ())

    def _leading(self, at: int, takers: list[Condition], new: Element) -> Iterable[int]:
        """The free elements of a condition beside which another may take the new element; if these must have
        a value that it has, they are looked up by the value. Their order does not count.
        """
        view, name, patterns = self._decision.view, self._conditions[at].name, self._bound(at).patterns
        again = new.eid in self._decision.state.taken_before(self._transition.id, f"#{at + 1}")
        bounds = [self._bound(at)]
        leading = [*view.among((new.eid,), bounds[0], None if again else self._scopes[at])]
        for taker in takers:
            apart = _without({name}, taker).bind(self._names)
            if next(view.among((new.eid,), apart, None), None) is None:
                continue
            alike = _alike(taker, name)
            if alike is None:
                return self._free(at)
            bounds.append(Condition((*patterns, alike)).bind({**self._names, name: (new,)}))
        if any(most is not None for bound in bounds for most in bound.room):
            return self._free(at)
        taken = {eid for eids in self._held.values() for eid in eids}
        ranks = chain.from_iterable(self._read(at, bound) for bound in dict.fromkeys(bounds[1:]))
        return [eid for eid in dict.fromkeys((*leading, *chain.from_iterable(ranks))) if eid not in taken]

    def _hold(self, at: int, eids: tuple[int, ...]) -> None:
        self._held[at] = eids
        self._names[self._conditions[at].name] = self._elements(eids)

    def _elements(self, eids: tuple[int, ...]) -> tuple[Element, ...]:
        elements = map(self._decision.view.element, eids)
        return tuple(element for element in elements if element is not None)

    def _admit(self, last: int | None) -> bool:
        """True if each condition whose last dependency is `last` has an element."""
        return all(
            not self._is_present(at) if condition.absent else next(self._free(at), None) is not None
            for at, condition in enumerate(self._conditions)
            if self._last_needed(at) == last
        )

    def _is_present(self, at: int) -> bool:
        """True if an element fits a condition, even if it is used, reserved, or taken by another
        condition.
        """
        bound = self._bound(at)
        candidates = (eid for rank in self._around.ranks(bound, None)() for eid in rank)
        return next(candidates, None) is not None or self._decision.view.reserved(bound, None)

    def _last_needed(self, at: int) -> int | None:
        """The position of the last condition that this one depends on; None if it depends on none."""
        used = self._conditions[at].condition.variables
        return max((key for key in self._keys if self._conditions[key].name in used), default=None)

    def _free(self, at: int) -> Iterator[int]:
        """The candidates of a condition that no condition has taken so far; those in a list stay free."""
        taken = {
            eid for held, eids in self._held.items() if not self._conditions[held].listed for eid in eids
        }
        return (eid for eid in self._candidates(at) if eid not in taken)

    def _candidates(self, at: int) -> Iterator[int]:
        """All elements that fit a condition by the present names, nearest first."""
        return chain.from_iterable(self._ranks(at))

    def _ranks(self, at: int) -> Iterator[Iterable[int]]:
        """These elements by rank."""
        if self._last_needed(at) is not None:
            return self._read(at, self._bound(at))
        if at not in self._known:
            self._known[at] = Candidates(self._read(at, self._bound(at)))
        ranks = groupby(self._known[at].within(inf), itemgetter(0))
        return ((eid for _, eid in rank) for _, rank in ranks)

    def _read(self, at: int, bound: Bound, *, lasted: bool = True) -> Iterator[Iterable[int]]:
        where = self._decision, self._transition, self._around, at, bound, self._scopes[at]
        return conditions.slot_of(*where, lasted=lasted).ranks()

    def _bound(self, at: int) -> Bound:
        return self._conditions[at].condition.bind(self._names)

    def _assigned(self) -> Found | None:
        """The elements of all conditions, given those chosen for names that others use."""
        wanting = [at for at, condition in enumerate(self._conditions) if not condition.absent]
        assigned = assign([self._slot(at) for at in wanting])
        if assigned.missing:
            return None
        by_condition = [assigned.given.get(str(at), ()) for at in range(len(self._conditions))]
        counts = tuple(map(len, by_condition))
        return tuple(eid for eids in by_condition for eid in eids), counts if set(counts) != {1} else ()

    def _slot(self, at: int) -> Slot:
        held, listed = self._held.get(at), self._conditions[at].listed
        if held is None and not listed:
            return Slot(str(at), lambda: self._ranks(at))
        return Slot(  # a list takes elements of all ranks
            str(at), lambda: iter((self._candidates(at) if held is None else held,)), list=listed
        )

    # --- watching -------------------------------------------------------------------------------------

    def relaxed(self) -> Wanted:
        """The conditions with each name bound to all its candidates."""
        many: set[str] = set()
        relaxed: Wanted = []
        for at, condition in enumerate(self._conditions):
            own = condition.condition.variables & self._transition.inner_names
            bound = self._bound(at)
            growing = own.isdisjoint(many) and condition.condition.grows_in(own)
            # Room for one candidate may not be room for all of them at once.
            if own and not (growing and all(most is None for most in bound.room)):
                bound = named_one_of(condition.condition.names)
            relaxed.append((bound, self._scopes[at]))
            if at in self._keys:
                candidates = chain.from_iterable(self._read(at, bound, lasted=False))
                eids = tuple(dict.fromkeys(islice(candidates, MOST_BOUND + 1)))
                self._names[condition.name] = self._elements(eids)
                if len(eids) > MOST_BOUND:
                    many.add(condition.name)
        return relaxed
