"""Feeds: real files, a real server on loopback, and whatever hypothesis makes of both."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from lxml import etree

import narval
from modules import feeds
from modules.feeds import origins as feeds_origins
from modules.feeds import reading as feeds_reading
from narval import Element, Fetched
from narval.calls.context import CallContext, Target, call
from narval.core.elements.canonical import canonical
from narval.system.fetch import MAX_REDIRECTS
from tests.modules.feed_server import Server, says
from tests.modules.feed_texts import RSS, answer, feed, gather, rss, taken, titles, watched

# --- over HTTP ------------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")  # proxies are not asked: nobody answers there
    monkeypatch.setattr(feeds, "SHORTEST_SECONDS", 0.0)
    served = Server()
    yield served
    served.close()


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

    here = CallContext("1.1", 1, "step", tmp_path, target=Target(where="source"), fetch_allow=("127.0.0.1",))
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
        while not call().has_caught_up:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    answer(tmp_path, a_while())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("120", 120, 120),
        pytest.param(formatdate(time.time() + 300, usegmt=True), 0, 301, id="soon-by-date"),
        (formatdate(0, usegmt=True), 0, 0),
        ("99999999999", feeds_origins.DAY_SECONDS, feeds_origins.DAY_SECONDS),
        ("-1", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
    ],
)
def test_retry_after_holds_seconds_or_a_date(header: str, least: float, most: float) -> None:
    found = Fetched(503, "Busy", "http://example.org/", {"retry-after": header}, b"")
    assert least <= feeds_origins.asked_pause(found) <= most


def test_refusals_make_the_pauses_longer_up_to_a_day_and_silence_does_not() -> None:
    web = feeds_origins.Web("f", "http://example.org/", 600.0, None)
    pauses = []
    for _ in range(12):
        web.back_off(feeds_reading.FeedError("feed-unreachable", "404", refused=True))
        pauses.append(web.pause)
    assert pauses[:4] == [600, 1200, 2400, 4800]
    assert pauses[-1] == feeds_origins.DAY_SECONDS
    away = feeds_origins.Web("f", "http://example.org/", 600.0, None)
    for _ in range(12):
        away.back_off(feeds_reading.FeedError("feed-unreachable", "no route"))
    assert away.pause == 600


def redirects(location: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return says(b"elsewhere", status=302, location=location)


@pytest.mark.parametrize(
    ("bad", "kind", "word"),
    [
        (says(status=404), "feed-unreachable", "404"),
        (says(status=429), "feed-unreachable", "429"),
        (redirects("/feed"), "feed-unreachable", "redirected more than"),
        (redirects("file:///etc/passwd"), "feed-unreachable", "file:///etc/passwd"),
        (redirects("http://[bad"), "feed-unreachable", "bad"),
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
    monkeypatch.setattr(feeds_origins, "TOTAL_SECONDS", 0.4 if bad is drips else 60.0)
    monkeypatch.setattr(feeds_origins, "DAY_SECONDS", 0.02)
    times = MAX_REDIRECTS + 1 if word == "redirected more than" else 1
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
    ],
)
def test_a_feed_that_asks_for_the_impossible_says_what_was_expected(
    attributes: dict[str, str], word: str
) -> None:
    with pytest.raises(Exception, match=word):
        read(None, feed(**attributes))


def test_without_a_home_a_feed_lies_where_the_program_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.rss").write_bytes(RSS)
    assert len(read(None, feed(path="a.rss"))) == 7


def test_a_feed_without_a_name_is_known_by_where_it_is() -> None:
    assert feeds.Feed.of(feed(url="https://me:secret@example.org/a/feed?x=1")).name == "example.org/a/feed"
    assert feeds.Feed.of(feed(path="data/a.rss")).name == "data/a.rss"


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
    for folder in ("recipes", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
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
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
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
