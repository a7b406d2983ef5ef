"""A home full of hostile texts, seen through all of its pages and their data (M71)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.surfaces.cli.command_line import daemon
from tests.surfaces.http.hostile_home import begin_all, make_hostile
from tests.surfaces.http.reading_html import read
from tests.surfaces.http.served_pages import Browsing, GotPage, served


@pytest.fixture(scope="module")
def browsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    """Somebody at the pages of the home."""
    home = make_hostile(tmp_path_factory.mktemp("hostile") / "home")
    with daemon(home):
        assert begin_all(home) == {}
        with served(home) as port:
            browsing = Browsing(home, port, "ann")
            yield browsing
            browsing.close()


@pytest.fixture(scope="module")
def crawled(browsing: Browsing) -> dict[str, GotPage]:
    return browsing.crawl("/a/narval/", "/sessions")


def test_M71_every_page_is_made_of_our_own_elements_alone(crawled: dict[str, GotPage]) -> None:
    broken: dict[str, object] = {}
    for address, answer in crawled.items():
        if answer.status >= 500:
            broken[address] = answer.status
        elif answer.is_page and (strange := read(answer.text).strange):
            broken[address] = strange[:3]
        elif answer.headers.get("content-type") == "application/json":
            json.loads(answer.text)
    assert broken == {}


def test_M71_links_lead_to_what_they_name(crawled: dict[str, GotPage]) -> None:
    assert [address for address, answer in crawled.items() if answer.status not in (200, 303, 307)] == []
