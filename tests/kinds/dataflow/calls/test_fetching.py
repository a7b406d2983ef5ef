"""The operator fetch against a site on loopback: politeness, repetition, refusals, texts of pages."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from narval.core.errors import ActionError
from narval.kinds.dataflow.calls.web import AT_ONCE, TRIES, KeptPage, PageCache, Web
from tests.kinds.dataflow.calls.driving import drive, enter
from tests.local_site import Answer, LocalSite, local_site, page

NOW = 1_000_000.0


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as made:
        yield made


class Asking:
    """A client of the site; it keeps what it would have slept."""

    def __init__(self, *allow: str, store: PageCache | None = None) -> None:
        self.slept: list[float] = []
        self.allow = allow
        self.web = Web(store or PageCache(None), self.sleep, lambda: NOW)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def page(self, url: str) -> KeptPage:
        return asyncio.run(self.asked(url))

    async def asked(self, url: str) -> KeptPage:
        enter(Path(), *self.allow)
        return await self.web.page(url)


def test_a_page_that_has_not_changed_is_not_sent_again(site: LocalSite) -> None:
    site.put("/", page("<p>one</p>", etag='"1"'))
    asking = Asking(site.place)
    assert [asking.page(f"{site.url}/").content for _ in range(2)] == ["<p>one</p>"] * 2
    assert asking.page(f"{site.url}/").status == 200
    first, second, third = site.requests("/")
    assert "if-none-match" not in first.headers
    assert second.headers["if-none-match"] == third.headers["if-none-match"] == '"1"'
    site.put("/", page("<p>two</p>", etag='"2"'))
    assert asking.page(f"{site.url}/").content == "<p>two</p>"


def test_a_page_without_an_etag_is_asked_for_by_its_date(site: LocalSite) -> None:
    site.put("/", page("one", last_modified="Thu, 01 Jan 2026 00:00:00 GMT"), Answer(status=304))
    asking = Asking(site.place)
    assert [asking.page(f"{site.url}/").content for _ in range(2)] == ["one", "one"]
    assert site.requests("/")[1].headers["if-modified-since"] == "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    ("after", "slept"),
    [
        (None, [1.0, 4.0]),
        ("7", [7.0, 7.0]),
        (formatdate(NOW + 30, usegmt=True), [30.0, 30.0]),
        (formatdate(NOW - 30, usegmt=True), [0.0, 0.0]),
        ("soon", [1.0, 4.0]),
    ],
)
def test_a_server_that_is_busy_is_asked_again_when_it_says(
    site: LocalSite, after: str | None, slept: list[float]
) -> None:
    busy = page("busy", 429, **({"retry_after": after} if after else {}))
    site.put("/", busy, busy, page("now"))
    asking = Asking(site.place)
    found = asking.page(f"{site.url}/")
    assert (found.status, found.content) == (200, "now")
    assert asking.slept == slept


def test_a_server_that_stays_busy_is_taken_at_its_word(site: LocalSite) -> None:
    site.put("/", page("down", 503))
    site.put("/tomorrow", page("busy", 429, retry_after="86400"))
    asking = Asking(site.place)
    assert asking.page(f"{site.url}/").status == 503
    assert len(site.requests("/")) == TRIES
    assert asking.page(f"{site.url}/tomorrow").status == 429
    assert len(site.requests("/tomorrow")) == 1
    assert asking.page(f"{site.url}/none").status == 404
    assert len(site.requests("/none")) == 1


def test_a_server_that_is_not_there_is_asked_three_times() -> None:
    with local_site() as gone:
        asking = Asking(gone.place)
    with pytest.raises(ActionError) as raised:
        asking.page(f"{gone.url}/")
    assert raised.value.kind == "unreachable"
    assert asking.slept == [1.0, 4.0]


@pytest.mark.parametrize("url", ["http://nobody.invalid/", "http://[bad/", "ftp://x/", "http://"])
def test_TA25_what_cannot_pass_is_not_tried_again(url: str) -> None:
    asking = Asking()
    with pytest.raises(ActionError) as raised:
        asking.page(url)
    assert raised.value.final
    assert asking.slept == []


def test_a_host_is_asked_for_so_many_pages_at_once(site: LocalSite) -> None:
    paths = [f"/{number}" for number in range(3 * AT_ONCE)]
    for path in paths:
        site.put(path, Answer(b"x", latency=0.05))
    asking = Asking(site.place)

    async def all_pages() -> list[KeptPage]:
        return await asyncio.gather(*(asking.asked(site.url + path) for path in paths))

    assert {found.content for found in asyncio.run(all_pages())} == {"x"}
    assert site.most_at_once <= AT_ONCE


@pytest.mark.parametrize(
    ("body", "type"),
    [
        ("café €".encode(), "text/html; charset=utf-8"),
        ("café €".encode("cp1252"), "text/html; charset=windows-1252"),
        ("café €".encode("cp1252"), "text/html"),
        ("café €".encode("cp1252"), "text/html; charset=utf-8"),
        ("café €".encode(), "text/html; charset=klingon"),
        ("café €".encode("utf-16"), "text/html"),
        ("\ufeffcafé €".encode(), "text/plain; charset=latin-1"),
        (b'<meta charset="iso-8859-15">' + "café €".encode("iso-8859-15"), "text/html"),
        (b'<?xml version="1.0" encoding="iso-8859-15"?>' + "café €".encode("iso-8859-15"), "text/xml"),
    ],
)
def test_a_page_has_its_text_whatever_its_character_set(site: LocalSite, body: bytes, type: str) -> None:
    site.put("/", page(body, content_type=type))
    assert Asking(site.place).page(f"{site.url}/").content.endswith("café €")


# --- as an operator -------------------------------------------------------------------------------------

FETCH = """
PLAN P { INPUT: String url; OUTPUT: TupleStream out; BODY {
  fetch(url : pages) project("url, status, content", pages : out)
} }
"""


def test_what_is_inside_is_refused_unless_it_is_granted(tmp_path: Path, site: LocalSite) -> None:
    site.put("/", "secret")
    site.put("/away", page("", 302, location=f"{site.url}/"))
    over, _ = drive(tmp_path, FETCH, inputs={"url": f"{site.url}/"})
    assert over.failure is not None
    assert over.failure.kind == "forbidden"
    assert f'fetch_allow = ["{site.place}"]' in over.failure.message
    assert site.asked == []
    over, taken = drive(tmp_path, FETCH, inputs={"url": f"{site.url}/away"}, allow=(site.place,))
    assert over.state == "done", over
    assert taken.rows["out"] == [{"url": f"{site.url}/away", "status": 200, "content": "secret"}]


@pytest.mark.parametrize("place", ["169.254.169.254", "[::ffff:127.0.0.1]:9", "localhost:9", "0.0.0.0:9"])
def test_a_redirect_does_not_lead_inside(tmp_path: Path, site: LocalSite, place: str) -> None:
    site.put("/", page("", 302, location=f"http://{place}/latest/meta-data"))
    over, _ = drive(tmp_path, FETCH, inputs={"url": f"{site.url}/"}, allow=(site.place,))
    assert over.failure is not None
    assert over.failure.kind == "forbidden"


LIES: dict[str, tuple[Answer, str]] = {
    "too large": (Answer(b"x" * (11 << 20)), "too-large"),
    "longer than it says": (Answer(b"x", headers={"Content-Length": "999"}), "unreachable"),
    "in a circle": (page("", 302, location="/"), "bad-answer"),
    "badly packed": (page(b"no gzip", content_encoding="gzip"), "bad-answer"),
    "to a file": (page("", 302, location="file:///etc/passwd"), "bad-address"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_fails_the_operator_and_no_more(tmp_path: Path, site: LocalSite, lie: str) -> None:
    answer, kind = LIES[lie]
    site.put("/", answer)
    plan = """
    PLAN P { INPUT: String url; OUTPUT: TupleStream out, why; BODY {
      fetch(url : out) ON_ERROR: failed
      makestream2("[{\\"it\\": \\"failed\\"}]" : why) WAIT: failed
    } }
    """
    over, taken = drive(tmp_path, plan, inputs={"url": f"{site.url}/"}, allow=(site.place,))
    assert over.state == "done", (over, kind)
    assert taken.rows == {"why": [{"it": "failed"}]}


def test_a_page_goes_on_while_the_next_is_loading(tmp_path: Path, site: LocalSite) -> None:
    held, seen = threading.Event(), tmp_path / "seen"
    site.put("/1", "one")
    site.put("/2", Answer(b"two", held=held))
    plan = """
    PLAN P { BODY {
      makestream2("[{\\"url\\": \\"URL/1\\"}, {\\"url\\": \\"URL/2\\"}]" : urls)
      fetch(urls : pages) project("content", pages : found) notify("file:seen", found)
    } }
    """.replace("URL", site.url)

    def see() -> None:
        while not seen.exists():
            time.sleep(0.01)
        held.set()

    threading.Thread(target=see, daemon=True).start()
    over, _ = drive(tmp_path, plan, allow=(site.place,))
    assert over.state == "done", over
    assert seen.read_text() == '{"content":"one"}\n{"content":"two"}\n'
