"""A home full of hostile texts, seen through all of its pages and their data (M71)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from narval.surfaces.http.page import name_in, segment
from narval.surfaces.http.rendering import Exact, visible
from tests.surfaces.cli.command_line import daemon
from tests.surfaces.http.hostile_home import IDS, NODES, TEXTS, begin_all, make_hostile
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
    return browsing.crawl("/a/narval/", "/sessions", all_of="/a/narval/memory/0")


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


def test_M71_a_segment_of_a_path_names_the_same_thing_again() -> None:
    for text in (*IDS, *NODES, *TEXTS, "%", "%25", "%2F", "a%2Fb", "live.json", ".json", "...", "ä/ö", ""):
        part = segment(text)
        assert name_in(unquote(part)) == text
        assert unquote(part) not in (".", "..", "live")
        assert "/" not in unquote(part)
        assert not unquote(part).endswith(".json")
        assert part.isascii()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\u202eb", r"a\u202eb"),
        ("\x00\x1b[2J\r\n\t", "\\x00\\x1b[2J\\x0d\n\t"),
        ("\u200bzero\u2060\ufeff\xad\u3164", r"\u200bzero\u2060\ufeff\xad\u3164"),
        ("\ud800", r"\ud800"),
        ("password=hunter2", "password=…"),
        ("https://me:hunter2@example.org", "https://me:…@example.org"),
        ("Ä 日本 \U0001f600 \u05d0", "Ä 日本 \U0001f600 \u05d0"),
    ],
)
def test_M71_what_hides_or_turns_is_shown_as_an_escape(given: str, shown: str) -> None:
    assert visible(given) == shown


def test_M71_what_a_form_holds_is_sent_as_it_is() -> None:
    assert visible(Exact("a\u202epassword=x")) == "a\u202epassword=x"
    assert visible(Exact("a\x00\ud800")) == r"a\x00\ud800"
