"""Sorted integers behave as a sorted list of them, in eight bytes each."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from narval.core.index import sorted_numbers
from narval.core.index.sorted_numbers import SortedInts, Span

SMALL = st.integers(0, 60)
STEPS = st.lists(st.tuples(st.booleans(), SMALL), max_size=120)


@pytest.fixture(autouse=True, scope="module")
def _chunks_of_four():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_numbers, "MOST", 4)
        yield


@given(st.sets(SMALL), STEPS, st.tuples(SMALL, SMALL))
@example({0, 1, 3, 4}, [(True, 2)], (2, 2))
def test_numbers_are_as_a_sorted_list_of_them(begin, steps, ends):
    model, ours = set(begin), SortedInts(sorted(begin))
    for comes, number in steps:
        if comes:
            model.add(number)
            ours.add(number)
        else:
            model.discard(number)
            ours.discard(number)
        assert (number in ours) == (number in model)
        assert bool(ours) == bool(model)
    assert list(ours) == sorted(model)
    assert len(ours) == len(model)
    low, high = sorted(ends)
    span = Span(ours, low, high)
    assert list(span) == [number - low for number in sorted(model) if low <= number < high]
    assert len(span) == len(list(span))
    for below in (None, low, high):
        rest = [number for number in sorted(model, reverse=True) if below is None or number < below]
        assert list(ours.descending(below)) == rest
        wanted = [number - low for number in sorted(model, reverse=True) if low <= number < high]
        assert list(span.descending(below)) == [each for each in wanted if below is None or each < below]


@given(st.sets(SMALL), STEPS)
def test_numbers_read_downwards_are_those_that_stayed_whatever_changes_meanwhile(begin, steps):
    stayed, ours = set(begin), SortedInts(sorted(begin))
    reading, read = ours.descending(), []
    for comes, number in steps:
        if comes:
            ours.add(number)
        else:
            ours.discard(number)
            stayed.discard(number)
        read += [found for found in [next(reading, None)] if found is not None]
    read += reading
    assert read == sorted(set(read), reverse=True)
    assert stayed <= set(read)


def test_all_of_64_bits_is_a_number():
    ours = SortedInts()
    for number in (2**64 - 1, 0, 2**63):
        ours.add(number)
    assert list(ours) == [0, 2**63, 2**64 - 1]
    assert list(ours.descending()) == [2**64 - 1, 2**63, 0]
    assert "0" not in ours


def test_a_number_takes_little_more_than_eight_bytes(monkeypatch):
    monkeypatch.setattr(sorted_numbers, "MOST", 1024)
    tracemalloc.start()
    try:
        ours = SortedInts()
        for number in range(100_000):
            ours.add(number)
        assert tracemalloc.get_traced_memory()[0] < 9.5 * 100_000
    finally:
        tracemalloc.stop()
