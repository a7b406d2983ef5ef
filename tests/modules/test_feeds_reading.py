"""Feeds as bytes: the items in them, whatever is wrong with them (N37; docs/reference/modules/feeds.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from modules import feeds
from modules.feeds import reading as feeds_reading
from narval.core.elements.canonical import canonical
from tests.examples import examples
from tests.modules.feed_texts import ATOM, RSS, one, rss, titles


def test_the_demo_rss_feed_is_read_in_spite_of_all_that_is_wrong_with_it() -> None:
    items = feeds_reading.items_of(RSS, "harbour")
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
    items = feeds_reading.items_of(ATOM, "observatory")
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
    first, second = (list(map(key, feeds_reading.items_of(RSS, "harbour"))) for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)
    assert first[0] == "harbour harbour-2026-118"
    assert first[1].startswith("harbour sha256:")
    assert key(feeds_reading.items_of(RSS, "other")[0]) != first[0]


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
    assert len(item.findtext("summary", "")) <= feeds_reading.LONGEST["summary"]
    assert item.findtext("summary", "").endswith("word…")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_feed_is_read_in_its_own_encoding(encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>' + rss("Fähre").decode()
    assert titles(feeds_reading.items_of(declared.encode(encoding), "f")) == ["Fähre"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"/etc/passwd",
        b"<html><body>Moved</body></html>",
        b'<rss version="2.0"><chan',
        b"{}",
        b"x" * (feeds_reading.MAX_BYTES + 1),
        b'<rss version="2.0"><channel><item>' + b"<a>" * (feeds_reading.MAX_TAGS + 1),
    ],
    ids=["empty", "zero", "a file's name", "a page", "cut short", "json", "huge", "many tags"],
)
def test_what_is_no_feed_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(feeds_reading.FeedError) as caught:
        feeds_reading.items_of(data, "f")
    assert caught.value.kind == "bad-feed"


def test_a_feed_with_nothing_in_it_is_still_a_feed() -> None:
    assert feeds_reading.items_of(rss(), "f") == []
    assert feeds_reading.items_of(b'<rss version="2.0"><channel><item/></channel></rss>', "f") == []


def test_entities_do_not_grow_and_reach_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden-word")
    layers = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    hostile = (
        f'<!DOCTYPE rss [<!ENTITY e0 "ha">{layers}<!ENTITY file SYSTEM "{secret.as_uri()}">]>'
        '<rss version="2.0"><channel><item><title>a &e9; &file;</title></item></channel></rss>'
    )
    text = b"".join(etree.tostring(item) for item in feeds_reading.items_of(hostile.encode(), "f"))
    assert len(text) < 2_000
    assert b"hidden-word" not in text


def test_a_feed_whose_own_address_no_xml_can_hold_gives_its_items_all_the_same() -> None:
    hostile = (
        b'<rss version="2.0"><channel><link>http://example.org/\x07/</link>'
        b"<item><title>one</title><link>two</link></item></channel></rss>"
    )
    (item,) = feeds_reading.items_of(hostile, "f")
    assert item.get("title") == "one"
    assert canonical(etree.tostring(item))


def assert_survives(data: bytes) -> None:
    """Whatever the bytes: items that memory accepts and that fit the output, or a FeedError."""
    try:
        items = feeds_reading.items_of(data, "f", "https://example.org/")
    except feeds_reading.FeedError as error:
        canonical(error.element("f"))
        return
    fits = etree.XPath("self::item[@feed and @id]")
    for item in items:
        assert fits(etree.fromstring(canonical(item)))


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    assert_survives(data)
    assert_survives(b'<rss version="2.0"><channel><item><title>' + data)


@settings(max_examples=examples(80), deadline=None)
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
