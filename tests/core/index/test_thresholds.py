"""Thresholds against a plain sorted list."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.index import sorted_numbers
from narval.core.index.sorted_numbers import Thresholds


@dataclass(eq=False)
class Item:
    serial: int
    number: float


coming_and_going = st.lists(
    st.one_of(st.integers(-5, 5).map(float), st.integers(-5, 5).map(float), st.none()), max_size=80
)
"""A number to add, or None to remove a random one."""


@settings(deadline=None)
@given(moves=coming_and_going, chance=st.randoms(use_true_random=False), most=st.sampled_from((2, 4, 1024)))
def test_thresholds_are_a_sorted_list(moves: list[float | None], chance: random.Random, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_numbers, "MOST", most)
        order, kept = Thresholds[Item](), list[Item]()
        for serial, number in enumerate(moves):
            if number is not None:
                kept.append(Item(serial, number))
                order.add(number, kept[-1])
            elif kept:
                item = kept.pop(chance.randrange(len(kept)))
                order.delete(item.number, item)
            agree(order, kept)


def agree(order: Thresholds[Item], kept: list[Item]) -> None:
    assert len(order) == len(kept)
    for probe in (-6, -5, -1, 0, 0.5, 5, 6):
        assert set(order.below(probe)) == {item for item in kept if item.number < probe}
        assert set(order.beyond(probe)) == {item for item in kept if item.number > probe}


def test_below_comes_in_order_and_infinity_has_a_place() -> None:
    order = Thresholds[Item]()
    items = [
        Item(serial, number) for serial, number in enumerate((3.0, float("inf"), 1.0, float("-inf"), 2.0))
    ]
    for item in items:
        order.add(item.number, item)
    assert [item.number for item in order.below(3.5)] == [float("-inf"), 1.0, 2.0, 3.0]
    assert [item.number for item in order.beyond(2)] == [3.0, float("inf")]
