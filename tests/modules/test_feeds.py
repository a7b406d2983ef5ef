"""Feeds: real files, a real server on loopback, and whatever hypothesis makes of both."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

import narval
from modules import feeds
from narval import Element
from narval.memory.elements.canonical import canonical
from narval.runtime.calls.context import CallContext, Target
from tests.places import ROOT

DEMO = ROOT / "data" / "demo" / "feeds"
RSS, ATOM = (DEMO / "harbour.rss").read_bytes(), (DEMO / "observatory.atom").read_bytes()


def feed(**attributes: str) -> Element:
    return Element(0, etree.tostring(etree.Element("feed", attributes)))


def rss(*titles: str) -> bytes:
    items = "".join(f"<item><title>{title}</title><guid>{title}</guid></item>" for title in titles)
    return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()


def one(entry: str, **options: str) -> etree._Element:
    [item] = feeds.items_of(
        f'<rss version="2.0"><channel><title>t</title><item>{entry}</item></channel></rss>'.encode(),
        "f",
        **options,
    )
    return item


def answer(home: Path | None, coroutine: Coroutine[Any, Any, Any]) -> CallContext:
    """Run a coroutine as the answer to a call."""
    here = CallContext("1.1", 1, "step", home, target=Target(where="source"))
    here.context().run(asyncio.run, coroutine)
    return here


def titles(elements: list[etree._Element]) -> list[str]:
    return [element.get("title") or element.get("type", "") for element in elements]


# --- reading --------------------------------------------------------------------------------------------


def test_the_demo_rss_feed_is_read_in_spite_of_all_that_is_wrong_with_it() -> None:
    items = feeds.items_of(RSS, "harbour")
    assert [(item.get("title"), item.get("link"), item.get("published")) for item in items] == [
        (
            "The north pier is open again",
            "https://harbour.example.org/notes/north-pier",
            "2026-11-02T07:30:00Z",
        ),
        (
            "Tide tables for December",
            "https://harbour.example.org/notes/tides/2026-12.html",
            "2026-11-03T10:00:00Z",
        ),
        (
            "Ropes & knots: an evening for beginners",
            "https://harbour.example.org/notes/ropes",
            "2026-11-05T00:00:00Z",
        ),
        (
            "Fish &chips; at the slipway",
            "https://harbour.example.org/notes/slipway?day=sat&from=feed",
            "2026-11-05T00:00:00Z",
        ),
        (None, None, "2026-11-05T17:45:00Z"),
        ("Webcam on the breakwater", None, "2026-11-06T00:00:00Z"),
        (
            "Winter berths: apply by the end of February",
            "https://harbour.example.org/notes/winter-berths",
            None,
        ),
    ]
    assert [item.get("author") for item in items[:3]] == ["Ada Quay", None, "The harbour office"]
    assert items[0].findtext("summary") == (
        "After nine weeks the north pier is open.\n\n"
        "• Berths 1 to 14: all boats\n• Berths 15 to 20: up to 9 m\n\nSee the map."
    )
    assert (
        items[5].findtext("summary")
        == "The camera looks west now.\nAt night it sees nothing.\n\nthe breakwater at noon"
    )
    assert (
        items[6].findtext("summary", "").startswith("Winter berths\n\nForms are at the office — or on paper")
    )


def test_the_demo_atom_feed_keeps_its_bases_languages_and_types() -> None:
    items = feeds.items_of(ATOM, "observatory")
    assert [(item.get("title"), item.get("link")) for item in items] == [
        ("First light of the new mirror", "https://observatory.example.org/log/2026/11/first-light"),
        ("When a < b: magnitudes for beginners", "https://observatory.example.org/talks/magnitudes"),
        (
            "Übersicht der Nächte · 夜の一覧 · سجل الليالي 🔭",
            "https://observatory.example.org/log/nights#november",
        ),
        ("The dome squeaks", "https://observatory.example.org/log/dome"),
        ("Sky map for the week", "https://observatory.example.org/maps/45.svg"),
    ]
    assert [item.findtext("summary") for item in items] == [
        "Seeing 1.1″, no wind.\n\nThe mirror holds. Nobody slept.",
        "Smaller is brighter & nobody meant it that way.",
        "Clear: 3. Cloudy: 4. Fog & owls: 1.",
        "It has been oiled. It squeaks.",
        None,
    ]
    assert items[1].get("published") == "2026-11-03T23:00:00Z"


def test_N37_an_item_has_one_key_however_often_and_from_wherever_it_is_read() -> None:
    key = etree.XPath(f"string({feeds.ITEMS.unique})")
    first, second = (list(map(key, feeds.items_of(RSS, "harbour"))) for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)
    assert first[0] == "harbour harbour-2026-118"
    assert first[1].startswith("harbour sha256:")
    assert key(feeds.items_of(RSS, "other")[0]) != first[0]


def test_N37_without_an_id_link_title_and_date_say_which_item_it_is() -> None:
    def ident(*parts: str) -> str | None:
        return one("".join(parts)).get("id")

    title, link, date = "<title>a</title>", "<link>https://a.example/</link>", "<pubDate>2026-01-01</pubDate>"
    known = {
        ident(title, link, date),
        ident(title, link),
        ident(title, date),
        ident(link, date),
        ident(title),
    }
    assert len(known) == 5
    assert ident(title, link, date, "<description>edited since</description>") in known
    assert len(ident("<guid>" + "x" * 5_000 + "</guid>") or "") < 100


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Mon, 02 Nov 2026 08:30:00 +0100", "2026-11-02T07:30:00Z"),
        ("Mon, 2 Nov 26 8:30 EST", "2026-11-02T13:30:00Z"),
        ("Monday, 2 November 2026 08:30", "2026-11-02T08:30:00Z"),
        ("2026-11-02T08:30:00.5+05:30", "2026-11-02T03:00:00Z"),
        ("2026-11-02", "2026-11-02T00:00:00Z"),
        ("Monday, November 2, 2026", "2026-11-02T00:00:00Z"),
        ("November 2, 2026", "2026-11-02T00:00:00Z"),
        ("2 Nov 2026", "2026-11-02T00:00:00Z"),
        ("2026/11/02", "2026-11-02T00:00:00Z"),
        ("02.11.2026", "2026-11-02T00:00:00Z"),
        ("03/04/2026", None),
        ("Sun, 30 Feb 2026 09:00:00 GMT", None),
        ("Thu, 31 Dec 99999 00:00:00 GMT", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_date_is_read_when_anyone_could_be_sure_of_it(written: str, meant: str | None) -> None:
    assert one(f"<title>a</title><pubDate>{written}</pubDate>").get("published") == meant


@pytest.mark.parametrize(
    ("link", "kept"),
    [
        ("a?b=c", "https://feeds.example.org/x/a?b=c"),
        ("//other.example.org/", "https://other.example.org/"),
        ("HTTPS://example.org/A", "https://example.org/A"),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("file:///etc/passwd", None),
        ("http://[bad", None),
        ("https://example.org/" + "a" * 3_000, None),
    ],
)
def test_a_link_is_absolute_and_for_the_web_or_left_out(link: str, kept: str | None) -> None:
    item = one(f"<title>a</title><link>{link}</link>", base="https://feeds.example.org/x/feed")
    assert item.get("link") == kept


def test_text_is_fit_for_xml_and_bounded() -> None:
    item = one("<title>a&#x8;b&#x7f;c</title><description>" + "word " * 10_000 + "</description>")
    assert item.get("title") == "abc"
    assert len(item.findtext("summary", "")) <= feeds.LONGEST["summary"]
    assert item.findtext("summary", "").endswith("word…")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_feed_is_read_in_its_own_encoding(encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>' + rss("Fähre").decode()
    assert titles(feeds.items_of(declared.encode(encoding), "f")) == ["Fähre"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"/etc/passwd",
        b"<html><body>Moved</body></html>",
        b'<rss version="2.0"><chan',
        b"{}",
        b"x" * (feeds.MAX_BYTES + 1),
        b'<rss version="2.0"><channel><item>' + b"<a>" * (feeds.MAX_TAGS + 1),
    ],
    ids=["empty", "zero", "a file's name", "a page", "cut short", "json", "huge", "many tags"],
)
def test_what_is_no_feed_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(feeds.FeedError) as caught:
        feeds.items_of(data, "f")
    assert caught.value.kind == "bad-feed"


def test_a_feed_with_nothing_in_it_is_still_a_feed() -> None:
    assert feeds.items_of(rss(), "f") == []
    assert feeds.items_of(b'<rss version="2.0"><channel><item/></channel></rss>', "f") == []


def test_entities_do_not_grow_and_reach_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden-word")
    layers = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    hostile = (
        f'<!DOCTYPE rss [<!ENTITY e0 "ha">{layers}<!ENTITY file SYSTEM "{secret.as_uri()}">]>'
        '<rss version="2.0"><channel><item><title>a &e9; &file;</title></item></channel></rss>'
    )
    text = b"".join(etree.tostring(item) for item in feeds.items_of(hostile.encode(), "f"))
    assert len(text) < 2_000
    assert b"hidden-word" not in text


def test_a_feed_whose_own_address_no_xml_can_hold_gives_its_items_all_the_same() -> None:
    hostile = (
        b'<rss version="2.0"><channel><link>http://example.org/\x07/</link>'
        b"<item><title>one</title><link>two</link></item></channel></rss>"
    )
    (item,) = feeds.items_of(hostile, "f")
    assert item.get("title") == "one"
    assert canonical(etree.tostring(item))


def assert_survives(data: bytes) -> None:
    """Whatever the bytes: items that memory accepts and that fit the output, or a FeedError."""
    try:
        items = feeds.items_of(data, "f", "https://example.org/")
    except feeds.FeedError as error:
        canonical(error.element("f"))
        return
    fits = etree.XPath("self::item[@feed and @id]")
    for item in items:
        assert fits(etree.fromstring(canonical(item)))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    assert_survives(data)
    assert_survives(b'<rss version="2.0"><channel><item><title>' + data)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from((RSS, ATOM)), st.data())
def test_damaged_feeds_never_raise_anything_else(original: bytes, data: st.DataObject) -> None:
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(damaged)))
        end = min(len(damaged), start + data.draw(st.sampled_from((0, 1, 5, 200, 5_000))))
        fresh = st.binary(max_size=8) | st.sampled_from(
            (b"<", b">", b"&", b"]]>", b"<![CDATA[", b"<!--", b"\0", b"&#0;")
        )
        damaged[start:end] = data.draw(fresh | st.just(bytes(damaged[end : end + 300])))
    assert_survives(bytes(damaged))


# --- over HTTP ------------------------------------------------------------------------------------------


class Server:
    """Answers each request with the next of its answers, the last one again and again; keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.requests: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append({"path": self.path} | {k.lower(): v for k, v in self.headers.items()})
                self.close_connection = True
                (server.answers.pop(0) if len(server.answers) > 1 else server.answers[0])(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/feed"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(feeds, "SHORTEST_SECONDS", 0.0)
    served = Server()
    yield served
    served.close()


def says(body: bytes = b"", status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in ({"content_length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


def drips(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" ")
            time.sleep(0.01)
    except OSError:
        return


def floods(handler: BaseHTTPRequestHandler) -> None:
    """Bytes without end."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65_536)
    except OSError:
        return


def babbles(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x00\xff what is this\r\n\r\n")


async def taken(source: AsyncIterator[list[Any]], count: int) -> list[list[Any]]:
    """The first yields of a source, the last of which it knows to be recorded; then it is closed."""
    found: list[list[Any]] = []
    async with aclosing(source) as open_source:  # type: ignore[type-var]
        async for elements in open_source:
            found.append(elements)
            if len(found) == count:
                break
    return found


async def gather(source: AsyncIterator[list[Any]], enough: Callable[[list[Any]], bool]) -> list[Any]:
    """What a source gives until it is enough, with the last yield recorded as well."""
    found: list[Any] = []
    caught = asyncio.Event()

    async def follow() -> None:
        async for elements in source:
            found.extend(elements)
            if enough(found):
                caught.set()

    task = asyncio.create_task(follow())
    await asyncio.wait((task, asyncio.create_task(caught.wait())), return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found


def watched(home: Path | None, element: Element, enough: int) -> list[etree._Element]:
    found: list[etree._Element] = []

    async def go() -> None:
        found.extend(await gather(feeds.watch(element), lambda so_far: len(so_far) >= enough))

    answer(home, go())
    return found


def test_N36_a_watched_feed_gives_its_items_then_what_is_added(server: Server, tmp_path: Path) -> None:
    server.answers = [says(rss("a", "b")), says(rss("a", "b")), says(rss("c", "a", "b"))]
    found = watched(tmp_path, feed(name="f", url=server.url, every="0.01"), 7)
    assert titles(found)[:7] == ["a", "b", "a", "b", "c", "a", "b"]
    assert {item.get("feed") for item in found} == {"f"}


def test_N36_it_has_caught_up_once_the_first_pass_is_recorded(server: Server, tmp_path: Path) -> None:
    server.answers = [says(rss("a"))]

    async def go() -> None:
        async with aclosing(feeds.watch(feed(url=server.url))) as source:  # type: ignore[type-var]
            assert titles(await anext(source)) == ["a"]
            assert not here.has_caught_up
            rest = asyncio.create_task(anext(source))
            while not here.has_caught_up:
                await asyncio.sleep(0.001)
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)

    here = CallContext("1.1", 1, "step", tmp_path, target=Target(where="source"))
    here.context().run(asyncio.run, go())
    assert len(server.requests) == 1


def test_the_caching_headers_are_sent_back_also_by_the_next_start(server: Server, tmp_path: Path) -> None:
    element = feed(name="f", url=server.url, every="0.01")
    dated = "Mon, 02 Nov 2026 07:30:00 GMT"
    server.answers = [says(rss("a"), etag='W/"1"', last_modified=dated), says(status=304, content_length="0")]

    async def wait_for_three() -> None:
        task = asyncio.create_task(gather(feeds.watch(element), lambda _: False))
        while len(server.requests) < 3:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    answer(tmp_path, wait_for_three())
    assert "if-none-match" not in server.requests[0]
    for request in server.requests[1:]:
        assert (request["if-none-match"], request["if-modified-since"]) == ('W/"1"', dated)
    before = len(server.requests)
    server.answers = [says(rss("b"))]
    assert titles(watched(tmp_path, element, 1))[:1] == ["b"]
    assert server.requests[before]["if-none-match"] == 'W/"1"'
    [kept] = (tmp_path / "var" / "feeds").iterdir()
    assert kept.stat().st_size < 1_000


def test_N35_what_was_not_recorded_is_asked_for_again(server: Server, tmp_path: Path) -> None:
    element = feed(name="f", url=server.url)
    server.answers = [says(rss("a"), etag='"1"')]

    async def killed_before_it_was_recorded() -> None:
        assert titles((await taken(feeds.watch(element), 1))[0]) == ["a"]

    answer(tmp_path, killed_before_it_was_recorded())
    answer(tmp_path, killed_before_it_was_recorded())
    assert ["if-none-match" in request for request in server.requests] == [False, False]


def test_a_feed_under_another_name_is_asked_for_as_if_for_the_first_time(
    server: Server, tmp_path: Path
) -> None:
    server.answers = [says(rss("a"), etag='"1"')]
    for name in ("f", "g"):
        [item] = watched(tmp_path, feed(name=name, url=server.url), 1)
        assert item.get("feed") == name
    assert "if-none-match" not in server.requests[1]


def test_a_home_in_memory_and_a_kept_file_that_is_broken_cost_only_traffic(
    server: Server, tmp_path: Path
) -> None:
    element = feed(name="f", url=server.url)
    server.answers = [says(rss("a"), etag='"1"')]
    assert titles(watched(None, element, 1)) == ["a"]
    assert titles(watched(tmp_path, element, 1)) == ["a"]
    [kept] = (tmp_path / "var" / "feeds").iterdir()
    for broken in (b"", b"[]", b"\xff", b'{"etag": 7}', b'{"etag": "a\\nb: c", "not_before": "soon"}'):
        kept.write_bytes(broken)
        assert titles(watched(tmp_path, element, 1)) == ["a"]
    assert all("if-none-match" not in request for request in server.requests)


def test_a_server_that_asks_to_be_left_alone_is_left_alone_also_by_the_next_start(
    server: Server, tmp_path: Path
) -> None:
    element = feed(name="f", url=server.url, every="0.01")
    server.answers = [says(status=503, retry_after="3600")]
    [error] = watched(tmp_path, element, 1)
    assert (error.tag, error.get("type"), error.get("feed")) == ("error", "feed-unreachable", "f")
    assert "503" in error.findtext("message", "")

    async def a_while() -> None:
        task = asyncio.create_task(gather(feeds.watch(element), lambda _: False))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert answer(tmp_path, a_while()).has_caught_up
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("120", 120, 120),
        pytest.param(formatdate(time.time() + 300, usegmt=True), 0, 301, id="soon-by-date"),
        (formatdate(0, usegmt=True), 0, 0),
        ("99999999999", feeds.DAY_SECONDS, feeds.DAY_SECONDS),
        ("-1", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
    ],
)
def test_retry_after_holds_seconds_or_a_date(header: str, least: float, most: float) -> None:
    assert least <= feeds._retry_after(header) <= most


def test_refusals_make_the_pauses_longer_up_to_a_day_and_silence_does_not() -> None:
    wanted = feeds.Feed("f", "http://example.org/", "", 600.0)
    web = feeds.Web(wanted, None)
    pauses = []
    for _ in range(12):
        web._back_off(feeds.FeedError("feed-unreachable", "404", refused=True))
        pauses.append(web._pause)
    assert pauses[:4] == [600, 1200, 2400, 4800]
    assert pauses[-1] == feeds.DAY_SECONDS
    away = feeds.Web(wanted, None)
    for _ in range(12):
        away._back_off(feeds.FeedError("feed-unreachable", "no route"))
    assert away._pause == 600


def redirects(location: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return says(b"elsewhere", status=302, location=location)


@pytest.mark.parametrize(
    ("bad", "kind", "word"),
    [
        (says(status=404), "feed-unreachable", "404"),
        (says(status=429), "feed-unreachable", "429"),
        (redirects("/feed"), "feed-unreachable", "redirected more than"),
        (redirects("file:///etc/passwd"), "feed-unreachable", "redirected to"),
        (redirects("http://[bad"), "feed-unreachable", "redirected to"),
        (drips, "feed-unreachable", "within"),
        (floods, "bad-feed", "10,485,760"),
        (babbles, "feed-unreachable", ""),
        (says(gzip.compress(b" " * 50_000_000), content_encoding="gzip"), "bad-feed", "10,485,760"),
        (says(b"not gzip", content_encoding="gzip"), "feed-unreachable", "compressed"),
        (says(b"x", content_encoding="br"), "feed-unreachable", "br"),
        (says(rss("a")[:60], content_length="1000"), "feed-unreachable", ""),
        (says(b"<html>Not a feed</html>"), "bad-feed", "neither"),
    ],
    ids=[
        "404", "429", "redirect loop", "redirect to a file", "redirect to nowhere", "slow drip", "huge body",
        "no HTTP", "gzip bomb", "bad gzip", "unasked encoding", "cut short", "a page",
    ],
)  # fmt: skip
def test_a_trouble_is_told_once_and_the_source_goes_on(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    bad: Callable[[BaseHTTPRequestHandler], None],
    kind: str,
    word: str,
) -> None:
    monkeypatch.setattr(feeds, "TOTAL_SECONDS", 0.4 if bad is drips else 60.0)
    monkeypatch.setattr(feeds, "DAY_SECONDS", 0.02)
    times = feeds.MAX_REDIRECTS + 1 if word == "redirected more than" else 1
    server.answers = [bad] * 2 * times + [says(rss("a"))]
    found = watched(None, feed(name="f", url=server.url, every="0.01"), 2)
    assert titles(found)[:2] == [kind, "a"]
    assert word in found[0].findtext("message", "")
    canonical(found[0])


def test_a_server_that_is_not_there_is_a_trouble(server: Server) -> None:
    server.close()
    [error] = watched(None, feed(name="f", url=server.url, every="0.01"), 1)
    assert error.get("type") == "feed-unreachable"


def test_a_redirect_is_followed_and_its_body_is_not_read(server: Server) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(301)
        handler.send_header("location", "/moved/feed")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 65_536)
        except OSError:
            return

    relative = b'<rss version="2.0"><channel><item><title>a</title><link>b</link></item></channel></rss>'
    server.answers = [endless, says(relative)]
    [item] = watched(None, feed(name="f", url=server.url), 1)
    assert item.get("link") == server.url.replace("/feed", "/moved/b")
    assert server.requests[1]["path"] == "/moved/feed"


def test_a_password_goes_to_its_server_and_into_no_element(server: Server, tmp_path: Path) -> None:
    server.answers = [
        says(b'<rss version="2.0"><channel><item><title>a</title><link>b</link></item></channel></rss>')
    ]
    element = feed(url=server.url.replace("//", "//me:secret@"))
    [item] = watched(tmp_path, element, 1)
    assert server.requests[0]["authorization"].startswith("Basic ")
    assert item.get("link") == server.url.replace("/feed", "/b")
    assert b"secret" not in etree.tostring(item)
    server.answers = [says(status=500)]
    [error] = read(tmp_path, element)
    assert b"secret" not in etree.tostring(error)


def test_a_compressed_feed_is_read(server: Server) -> None:
    server.answers = [says(gzip.compress(rss("a")), content_encoding="gzip")]
    assert titles(watched(None, feed(url=server.url), 1)) == ["a"]
    assert server.requests[0]["accept-encoding"] == "gzip"


# --- read, and what is asked for ------------------------------------------------------------------------


def read(home: Path | None, element: Element) -> list[etree._Element]:
    found: list[etree._Element] = []

    async def go() -> None:
        found.extend(await feeds.read(element))

    answer(home, go())
    return found


def test_read_gives_what_a_feed_holds_now_whatever_was_seen_before(server: Server, tmp_path: Path) -> None:
    element = feed(name="f", url=server.url)
    server.answers = [says(rss("a"), etag='"1"')]
    assert titles(watched(tmp_path, element, 1)) == ["a"]
    assert titles(read(tmp_path, element)) == ["a"]
    assert "if-none-match" not in server.requests[-1]
    server.answers = [says(status=500)]
    assert titles(read(tmp_path, element)) == ["feed-unreachable"]


def test_read_of_a_file_starts_from_the_home(tmp_path: Path) -> None:
    (tmp_path / "a.rss").write_bytes(RSS)
    assert len(read(tmp_path, feed(path="a.rss"))) == 7
    assert read(tmp_path, feed(path="a.rss"))[0].get("feed") == "a.rss"
    assert titles(read(tmp_path, feed(path="missing.rss"))) == ["feed-unreachable"]
    assert titles(read(tmp_path, feed(path="."))) == ["feed-unreachable"]
    os.mkfifo(tmp_path / "pipe")
    assert titles(read(tmp_path, feed(path="pipe"))) == ["bad-feed"]


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"url": "ftp://example.org/feed"}, "http"),
        ({"url": "file:///etc/passwd"}, "http"),
        ({"url": "https://"}, "http"),
        ({"url": "http://[bad"}, "http"),
        ({"url": "https://example.org/", "every": "often"}, "every"),
        ({"url": "https://example.org/", "every": "0"}, "every"),
        ({"url": "https://example.org/", "every": "nan"}, "every"),
        ({"path": "relative.rss"}, "absolute"),
    ],
)
def test_a_feed_that_asks_for_the_impossible_says_what_was_expected(
    attributes: dict[str, str], word: str
) -> None:
    with pytest.raises(Exception, match=word):
        read(None, feed(**attributes))


def test_a_feed_without_a_name_is_known_by_where_it_is() -> None:
    assert feeds.Feed.of(feed(url="https://me:secret@example.org/a/feed?x=1")).name == "example.org/a/feed"
    assert feeds.Feed.of(feed(path="data/a.rss")).name == "data/a.rss"


# --- from a file ----------------------------------------------------------------------------------------


def write_in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def rename_into_place(path: Path, data: bytes) -> None:
    fresh = path.with_name(".fresh")
    fresh.write_bytes(data)
    fresh.rename(path)


def move_from_elsewhere(path: Path, data: bytes) -> None:
    away = path.parent.parent / "away"
    away.write_bytes(data)
    shutil.move(away, path)


def keep_a_backup(path: Path, data: bytes) -> None:
    path.rename(path.with_suffix(".bak"))
    path.write_bytes(data)


def append(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate()
        for start in range(0, len(data), 40):
            file.write(data[start : start + 40])
            file.flush()


def make_the_folder_anew(path: Path, data: bytes) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_bytes(data)


def exchange_the_folder(path: Path, data: bytes) -> None:
    fresh = path.parent.with_name("fresh")
    fresh.mkdir()
    (fresh / path.name).write_bytes(data)
    path.parent.rename(path.parent.with_name("old"))
    fresh.rename(path.parent)


SAVES = [
    write_in_place, rename_into_place, move_from_elsewhere, keep_a_backup, append, make_the_folder_anew,
    exchange_the_folder,
]  # fmt: skip


@pytest.mark.parametrize("save", SAVES)
def test_N36_a_feed_in_a_file_is_read_again_however_it_was_saved(
    tmp_path: Path, save: Callable[[Path, bytes], None]
) -> None:
    path = tmp_path / "feeds" / "a.rss"
    path.parent.mkdir()
    path.write_bytes(rss("a"))

    async def go() -> None:
        async with aclosing(feeds.watch(feed(path=str(path)))) as source:  # type: ignore[type-var]
            assert titles(await anext(source)) == ["a"]
            following = asyncio.create_task(anext(source))
            while not here.has_caught_up:
                await asyncio.sleep(0.001)
            save(path, rss("b", "a"))
            assert titles(await following) == ["b", "a"]

    here = CallContext("1.1", 1, "step", tmp_path, target=Target(where="source"))
    here.context().run(asyncio.run, go())


def test_a_file_that_goes_and_comes_back_with_its_folders_is_told_of_each_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "a.rss"

    async def go() -> None:
        async with aclosing(feeds.watch(feed(path=str(path)))) as source:  # type: ignore[type-var]
            assert titles(await anext(source)) == ["feed-unreachable"]
            for title in ("a", "b"):
                following = asyncio.create_task(anext(source))
                await asyncio.sleep(0.05)
                path.parent.mkdir(parents=True)
                path.write_bytes(rss(title))
                assert titles(await following) == [title]
                following = asyncio.create_task(anext(source))
                await asyncio.sleep(0.05)
                shutil.rmtree(tmp_path / "deep")
                assert titles(await following) == ["feed-unreachable"]

    answer(tmp_path, go())


def test_a_neighbour_that_changes_is_no_reason_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.rss"
    path.write_bytes(rss("a"))
    readings = []
    whole = feeds.File._items
    monkeypatch.setattr(feeds.File, "_items", lambda self: readings.append(1) or whole(self))

    async def go() -> None:
        async with aclosing(feeds.watch(feed(path=str(path)))) as source:  # type: ignore[type-var]
            await anext(source)
            following = asyncio.create_task(anext(source))
            for number in range(20):
                (tmp_path / f"other-{number}").write_bytes(b"x")
                await asyncio.sleep(0.01)
            await asyncio.sleep(2 * feeds.QUIET_SECONDS)
            assert len(readings) == 1
            path.write_bytes(rss("b"))
            assert titles(await following) == ["b"]

    answer(tmp_path, go())


# --- in a home ------------------------------------------------------------------------------------------

COOKBOOK = """
<cookbook group="try">
  <recipe group="try" name="watch" start_step="watch" end_step="watch">
    <step id="watch" type="action" target="feeds.watch"/>
  </recipe>
  <recipe group="try" name="read" start_step="read" end_step="read">
    <step id="read" type="action" target="feeds.read"/>
  </recipe>
  <recipe group="try" name="hear" start_step="listen" end_step="heard">
    <step id="listen" type="action" target="basic.nothing"/>
    <step id="heard" type="action" target="basic.nothing"/>
    <transition id="t"><in idref="listen"/><out idref="heard"/>
      <condition><match>item[@title='Fresh'] | error[@feed]</match></condition>
    </transition>
  </recipe>
</cookbook>
"""


def test_N37_each_item_enters_memory_once_across_passes_and_restarts(tmp_path: Path) -> None:
    for folder in ("recipes", "modules", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
    for name in ("basic.py", "feeds.py", "files.py", "files_places.py", "files_watching.py"):
        shutil.copy(ROOT / "modules" / name, tmp_path / "modules")
    (tmp_path / "data" / "a.rss").write_bytes(RSS)
    with narval.open(tmp_path) as agent:
        agent.add('<feed name="Harbour" path="data/a.rss"/>')
        agent.start("try.watch")
        agent.until_idle()
        assert len(agent.memory("item")) == 7
        read = agent.start("try.read")
        assert agent.wait(read)["phase"] == "done"
        assert len(agent.memory("item")) == 7
    with narval.open(tmp_path) as agent:
        agent.until_idle()
        assert len(agent.memory("item")) == 7
        fresh = b"<item><title>Fresh</title></item></channel>"
        (tmp_path / "data" / "a.rss").write_bytes(RSS.replace(b"</channel>", fresh))
        agent.wait(agent.start("try.hear"))
        assert len(agent.memory("item")) == 8


def test_N36_a_trouble_enters_memory_and_the_source_goes_on(tmp_path: Path) -> None:
    for folder in ("recipes", "modules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
    for name in ("basic.py", "feeds.py", "files.py", "files_places.py", "files_watching.py"):
        shutil.copy(ROOT / "modules" / name, tmp_path / "modules")
    (tmp_path / "a.rss").write_bytes(b"<html>no feed</html>")
    with narval.open(tmp_path) as agent:
        agent.add('<feed name="f" path="a.rss"/>')
        watch = agent.start("try.watch")
        agent.until_idle()
        assert [error.attributes["type"] for error in agent.memory("error")] == ["bad-feed"]
        assert agent.run(watch)["phase"] == "active"
        (tmp_path / "a.rss").write_bytes(rss("Fresh"))
        hear = agent.start("try.hear")
        agent.wait(hear)
        agent.cancel(watch)
