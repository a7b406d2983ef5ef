"""The pytest plugin `narval`: a fixture `agent` on a home in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from narval.surfaces.embedded import Agent


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent with nothing on disk, whose memory is empty; it is closed when the test ends."""
    import narval

    with narval.open() as opened:
        yield opened
