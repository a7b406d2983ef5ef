"""Assignment: which element goes to which input or condition, by rank (N15, N16, §1.4.2).

A *slot* is an input of a call or a condition of a transition. Slots compete for elements, each of which goes
to one slot at most, so this is a matching in a bipartite graph, not a first-come loop. Six passes decide it;
each keeps the decisions of those before:

1. every mandatory slot is seated somewhere, by augmenting paths; if that is impossible, nothing is given;
2. mandatory slots, in declaration order, fix the nearest rank that still leaves all others a seat, and keep
   any seat within it;
3. optional plain slots, in declaration order, do the same with what is left;
4. plain slots, the mandatory ones first, take the oldest candidate of their rank that leaves all others a
   seat: no slot gets a farther rank, or stays empty, for the age of another's element;
5. mandatory lists fix their seat, then take the rest of their rank;
6. optional lists, in declaration order, take the rest of the nearest rank that has any left.

Candidates are read only as far as needed. A slot looks past a candidate only when another slot holds it, so
with k slots it reads at most k of them (and the rest of one rank, for a list): the last rank is all of
memory, and is rarely read to its end. `candidates` finds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec


class Slot(msgspec.Struct, frozen=True):
    """An input or a condition that needs elements.

    `ranks()` yields, for rank 1, 2, 3 …, the eids that match at that rank: nearest rank first, oldest first
    within a rank. An eid may appear at several ranks; its nearest counts.
    """

    id: str
    ranks: Callable[[], Iterator[Iterable[int]]]
    optional: bool = False
    list: bool = False


class Assignment(msgspec.Struct, frozen=True):
    """The elements of each slot, by slot id; an optional slot without elements is absent.

    If a mandatory slot cannot be satisfied, nothing is given, and `missing` names the slots left empty by a
    maximum matching that prefers earlier slots.
    """

    given: dict[str, tuple[int, ...]]
    missing: tuple[str, ...] = ()


def assign(slots: Sequence[Slot]) -> Assignment:
    """Assign elements to slots. Mandatory slots are filled whenever any assignment fills them; then the
    nearest rank and the oldest element go first, in order of declaration (N16).
    """
    if len(slots) == 1 and not slots[0].list:
        return _nearest(slots[0])
    candidates = candidates_of(slots)
    return uncontested(slots, candidates) or in_six_passes(slots, candidates)


def _nearest(slot: Slot) -> Assignment:
    """The assignment of a slot without rivals: the first candidate."""
    for rank in slot.ranks():
        for eid in rank:
            return Assignment({slot.id: (eid,)})
    return Assignment({}, () if slot.optional else (slot.id,))


def candidates_of(slots: Sequence[Slot]) -> list[Candidates]:
    """The candidates of each slot, not read yet."""
    return [Candidates(slot.ranks()) for slot in slots]


def uncontested(slots: Sequence[Slot], candidates: Sequence[Candidates]) -> Assignment | None:
    """Give each slot its nearest candidate, or a list the nearest rank that has any. This equals the result
    of the six passes if no two slots want the same candidate; None if two do.
    """
    eids_of: dict[str, tuple[int, ...]] = {}
    missing: list[str] = []
    taken: set[int] = set()
    for slot, choices in zip(slots, candidates, strict=True):
        eids = choices.first(all_of_rank=slot.list)
        if not taken.isdisjoint(eids):
            return None
        if eids:
            taken.update(eids)
            eids_of[slot.id] = eids
        elif not slot.optional:
            missing.append(slot.id)
    return Assignment({}, tuple(missing)) if missing else Assignment(eids_of)


def in_six_passes(slots: Sequence[Slot], candidates: Sequence[Candidates]) -> Assignment:
    """The assignment by the six passes, whether slots compete or not."""
    seating = _Seating(candidates)
    mandatory = [index for index, slot in enumerate(slots) if not slot.optional]
    missing = tuple(slots[index].id for index in mandatory if not seating.seat(index, set()))
    if missing:
        return Assignment({}, missing)
    optional = [index for index, slot in enumerate(slots) if slot.optional and not slot.list]
    for index in (*mandatory, *optional):
        seating.fix_rank(index)
    for index in (*mandatory, *optional):
        if not slots[index].list:
            seating.settle(index)
    lists = [index for index in mandatory if slots[index].list]
    for index in lists:
        seating.settle(index)
    lists += [index for index, slot in enumerate(slots) if slot.optional and slot.list]
    eids_of = {index: seating.rest(index) for index in lists}
    eids_of.update((index, (eid,)) for index, eid in seating.held.items() if not slots[index].list)
    return Assignment({slot.id: eids_of[index] for index, slot in enumerate(slots) if eids_of.get(index)})


class Candidates:
    """The candidates of one slot as (rank, eid), nearest first; read on demand, then kept."""

    __slots__ = ("_known", "_rank", "_ranks", "_seen", "_unread")

    def __init__(self, ranks: Iterator[Iterable[int]]) -> None:
        self._known: list[tuple[int, int]] = []
        self._ranks, self._rank = ranks, 0
        self._unread: Iterator[int] = iter(())
        self._seen: set[int] = set()

    def first(self, *, all_of_rank: bool = False) -> tuple[int, ...]:
        """The nearest candidate, or all of its rank; () if there is none."""
        if not (self._known or self._read(math.inf)):
            return ()
        rank, eid = self._known[0]
        return tuple([other for _, other in self.within(rank)]) if all_of_rank else (eid,)

    def within(self, last: float) -> Iterator[tuple[int, int]]:
        """The candidates of rank 1 to `last`; those beyond are not read."""
        ranked, position = self._known, 0
        while position < len(ranked) or self._read(last):
            if ranked[position][0] > last:
                return
            yield ranked[position]
            position += 1

    def _read(self, last: float) -> bool:
        """Read one more candidate of rank `last` or nearer; False if there is none."""
        while True:
            for eid in self._unread:
                if eid not in self._seen:
                    self._seen.add(eid)
                    self._known.append((self._rank, eid))
                    return True
            following = next(self._ranks, None) if self._rank < last else None
            if following is None:
                return False
            self._rank += 1
            self._unread = iter(following)


class _Seating:
    """A matching in progress: each seated slot holds one element; a settled slot keeps its element."""

    __slots__ = ("_bound", "_candidates", "_holders", "_settled", "held")

    def __init__(self, candidates: Sequence[Candidates]) -> None:
        self._candidates = candidates
        self._holders: dict[int, int] = {}
        self._settled: set[int] = set()
        self._bound: dict[int, int] = {}
        self.held: dict[int, int] = {}

    def seat(self, index: int, tried: set[int]) -> bool:
        """Seat a slot, moving other unsettled slots if needed (an augmenting path).

        A free candidate is taken before any slot is moved: if that always succeeds, the result is already the
        best one, and no slot has read further than necessary.
        """
        occupied = []
        for _, eid in self._choices(index):
            holder = self._holders.get(eid)
            if holder is None:
                self._sit(index, eid)
                return True
            if holder not in self._settled:
                occupied.append(eid)
        for eid in occupied:
            if eid not in tried:
                tried.add(eid)
                if self.seat(self._holders[eid], tried):
                    self._sit(index, eid)
                    return True
        return False

    def fix_rank(self, index: int) -> None:
        """Give a slot the nearest rank that leaves all seated slots a seat; it may change seats within it."""
        seat, seated = self.held.get(index), None
        if seat is not None:
            seated = next(rank for rank, eid in self._choices(index) if eid == seat)
        for rank, eid in self._choices(index):
            if rank == seated or self._move(index, eid):
                self._bound[index] = rank
                return

    def settle(self, index: int) -> None:
        """Give a seated slot the oldest candidate of its rank that leaves every seated slot a seat."""
        if index in self.held and any(self._move(index, eid) for _, eid in self._choices(index)):
            self._settled.add(index)

    def rest(self, index: int) -> tuple[int, ...]:
        """The elements of a list: all of its rank that no other slot holds, or of the nearest such rank."""
        if index not in self._bound:
            self.fix_rank(index)
        taken = tuple(eid for _, eid in self._choices(index) if self._holders.get(eid, index) == index)
        self._holders.update(dict.fromkeys(taken, index))
        self._settled.add(index)
        return taken

    def _choices(self, index: int) -> Iterator[tuple[int, int]]:
        bound = self._bound.get(index)
        if bound is None:
            return self._candidates[index].within(math.inf)
        return (choice for choice in self._candidates[index].within(bound) if choice[0] == bound)

    def _move(self, index: int, eid: int) -> bool:
        """Move a slot to a candidate if its holder can be seated elsewhere; else change nothing."""
        holder = self._holders.get(eid)
        if holder == index:
            return True
        if holder in self._settled:
            return False
        left = self.held.get(index)
        if left is not None:
            del self._holders[left]
        self._sit(index, eid)
        if holder is None or self.seat(holder, {eid}):
            return True
        self._sit(holder, eid)
        del self.held[index]
        if left is not None:
            self._sit(index, left)
        return False

    def _sit(self, index: int, eid: int) -> None:
        self._holders[eid] = index
        self.held[index] = eid
