"""The pages of one home at work, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.surfaces.web.household import PagesOfHome, at_work, browsing, make_show


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home whose daemon is at work."""
    home = make_show(tmp_path_factory.mktemp("web") / "home")
    with at_work(home), browsing(home) as pages:
        yield pages
