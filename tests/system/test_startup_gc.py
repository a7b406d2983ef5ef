"""Garbage collection at the first opening of a home: held back once, never begun for a program without."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from narval.system.startup_gc import FirstTime


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()
    gc.unfreeze()


def test_only_the_first_block_collects_nothing() -> None:
    first = FirstTime()
    with first.suspended():
        assert not gc.isenabled()
    assert gc.isenabled()
    with first.suspended():
        assert gc.isenabled()


def test_a_program_that_collects_by_itself_goes_on_to() -> None:
    first = FirstTime()
    gc.disable()
    with first.suspended():
        pass
    assert not gc.isenabled()
