"""What the tests of pages and of their guard share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from tests.surfaces.http.doors import Door


@pytest.fixture(autouse=True, scope="module")
def loop_of_doors() -> Iterator[None]:
    """One loop for all requests of a file at doors: to begin one takes longer than a request."""
    with start_blocking_portal() as portal:
        Door.portal = portal
        yield
        Door.portal = None
