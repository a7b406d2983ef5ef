"""Simulations say nothing in the log; the tests after them do again."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    logger = logging.getLogger("narval")
    level = logger.level
    yield
    logger.setLevel(level)
