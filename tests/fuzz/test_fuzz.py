"""Nothing that comes from outside does more than be refused; `make soak` tries a hundred times as much."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from random import Random, SystemRandom

import pytest

from tests.fuzz import surfaces
from tests.fuzz.mutation import spoilt
from tests.fuzz.surfaces import SURFACES, Surface, tried

INPUTS = 200
SOAK = int(os.environ.get("NARVAL_INPUTS", "20000"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    log = logging.getLogger("narval")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.mark.parametrize("name", SURFACES)
def test_no_input_does_more_than_be_refused(name: str) -> None:
    tried(name, 0, INPUTS)


@pytest.mark.soak
@pytest.mark.parametrize("name", SURFACES)
def test_no_input_of_thousands_does_more_than_be_refused(name: str) -> None:
    tried(name, SystemRandom().randrange(10**6, 10**9), SOAK)


def test_the_same_seed_is_the_same_input() -> None:
    assert spoilt(Random(3), surfaces.ELEMENTS) == spoilt(Random(3), surfaces.ELEMENTS)


def test_who_does_harm_is_told_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def harmed(chance: Random) -> None:
        if chance.random() < 0.3:
            raise ZeroDivisionError("harm")

    monkeypatch.setitem(SURFACES, "glass", Surface("breaks", harmed))
    with pytest.raises(AssertionError, match=r"harm; again: python -m tests.fuzz glass --from \d+ --count 1"):
        tried("glass", 0, 100)
