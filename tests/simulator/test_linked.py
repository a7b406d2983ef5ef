"""What must hold of links between stores (G39 to G42): seeds, many by `make soak`."""

from __future__ import annotations

import pytest

from tests.simulator.linked import run

FEW, MANY = 60, 20_000
"""Seeds; 60 take less than a second."""


@pytest.mark.parametrize("many", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
def test_G41_each_message_is_taken_once_and_in_order_whatever_becomes_of_frames(many: int) -> None:
    stories = [run(seed) for seed in range(many)]
    assert sum(story.texts for story in stories) > 20 * many


@pytest.mark.parametrize("many", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
def test_G42_what_is_lost_or_sent_before_as_backups_are_put_back_is_told(many: int) -> None:
    stories = [run(seed, restores=True) for seed in range(many)]
    assert sum(bool(story.put_back) for story in stories) > many // 2
