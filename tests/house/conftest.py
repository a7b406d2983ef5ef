"""Settings of the rules of the house."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _trees_that_stay() -> Iterator[None]:
    """The trees of all files, millions of objects that all rules share: no garbage is looked for among them,
    while they are made and later.
    """
    gc.disable()
    yield
    gc.enable()
    gc.freeze()
