"""Settings of the rules of the house."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.house.code import classes, read


@pytest.fixture(scope="package", autouse=True)
def _trees_that_stay() -> Iterator[None]:
    """The trees of all files, millions of objects: no garbage is looked for among them, and they go at the
    end.
    """
    gc.disable()
    yield
    read.cache_clear()
    classes.cache_clear()
    gc.enable()
