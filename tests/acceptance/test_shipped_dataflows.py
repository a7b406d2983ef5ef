"""The dataflows that ship, taken into a home and run by a daemon against a site on loopback (T60)."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.acceptance.home import Narval, make, until
from tests.local_site import Answer, LocalSite, local_site, page
from tests.places import ROOT

DOCS = ROOT / "docs" / "reference" / "dataflows.md"


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as made:
        yield made


def taken(folder: Path, site: LocalSite, example: str, settings: str = "") -> Narval:
    """A home with an example, that may fetch from the site."""
    narval = make(folder / "home", settings=f'fetch_allow = ["{site.place}"]\n{settings}')
    done = narval("take", f"examples/{example}")
    assert done.returncode == 0, done.stderr
    return narval


def started(narval: Narval, name: str, **values: str) -> dict[str, Any]:
    """A run, to its end."""
    given = [part for pair in values.items() for part in ("--set", "=".join(pair))]
    run = narval("start", name, *given)
    assert run.returncode == 0, run.stderr
    eid = run.stdout.decode().strip()
    until(lambda: narval.ask("show", eid)["phase"] != "active", f"the end of run {eid}")
    shown: dict[str, Any] = narval.ask("show", eid)
    return shown


def lines(narval: Narval, name: str) -> list[str]:
    file = narval.home / name
    return sorted(file.read_text().splitlines()) if file.exists() else []


# --- flats ----------------------------------------------------------------------------------------------


def table(flats: Sequence[tuple[str, str, str]], following: str = "") -> str:
    rows = "".join(
        f"<tr><td><a href='{id}'>{name}</a></td><td>{price}</td></tr>" for id, name, price in flats
    )
    link = f"<a rel='next' href='{following}'>more</a>" if following else ""
    return f"<html><body><table class='flats'>{rows}</table>{link}</body></html>"


def board(flats: Sequence[tuple[str, str, float]], following: str | None = None) -> Answer:
    found = [{"name": name, "rent": {"warm": price}, "page": id} for id, name, price in flats]
    return page(json.dumps({"flats": found, "next": following}), content_type="application/json")


def flats(site: LocalSite, attic: str = "700") -> None:
    site.put("/flats", table([("/f/1", "Attic", attic), ("/f/2", "Palace", "9,000")], "?page=2"))
    site.put("/flats?page=2", table([("/f/3", "Cellar", "300")], "?page=3"))
    site.put("/flats?page=3", table([]))
    site.put("/board", board([("/b/1", "Barn", 500.5)], "/board/2"))
    site.put("/board/2", board([("/b/2", "Villa", 2000), ("/b/3", "Hut", 100)]))


def of_flats(site: LocalSite) -> dict[str, str]:
    asked = {"agency": f"{site.url}/flats", "board": f"{site.url}/board", "most": "900"}
    return {**asked, "to": "file:news.txt"}


def test_T60_flats_are_told_of_once_and_again_when_they_are_cheaper(tmp_path: Path, site: LocalSite) -> None:
    narval = taken(tmp_path, site, "flats")
    flats(site)
    with narval.running():
        first = started(narval, "flats.Flats", **of_flats(site))
        assert first["phase"] == "done", first
        (unread,) = first["unread"]
        assert (unread["attribute"], unread["count"], unread["texts"]) == ("price", 1, ["9,000"])
        assert b"'9,000'" in narval("show", str(first["eid"])).stdout
        new = [
            f"new: Attic, 700: {site.url}/f/1",
            f"new: Barn, 500.5: {site.url}/b/1",
            f"new: Cellar, 300: {site.url}/f/3",
            f"new: Hut, 100: {site.url}/b/3",
        ]
        told = [json.loads(line)["text"] for line in lines(narval, "news.txt")]
        assert told == new
        flats(site, attic="650")
        assert started(narval, "flats.Flats", **of_flats(site))["phase"] == "done"
        told = [json.loads(line)["text"] for line in lines(narval, "news.txt")]
        assert told == [f"cheaper: Attic, 650 instead of 700: {site.url}/f/1", *new]
        flats(site, attic="800")  # what costs more is no news
        assert started(narval, "flats.Flats", **of_flats(site))["phase"] == "done"
        assert len(lines(narval, "news.txt")) == 5
        assert narval.ask("remembered") == [{"name": "flats", "items": 4, "by": ["flats.Flats"]}]
        assert len(narval.ask("remembered", "flats")) == 4
        (attic,) = narval.ask("remembered", "flats", f"{site.url}/f/1")
        assert attic["tuple"] == {"title": "Attic", "price": 800, "link": f"{site.url}/f/1"}
        assert attic["key"] == [f"{site.url}/f/1"]
        assert narval("remembered", "flats", "x", "--forget").returncode == 1
        assert b"did you mean 'flats'" in narval("remembered", "flat").stderr
        assert narval.ask("remembered", "flats", f"{site.url}/f/1", "--forget")["forgotten"] == 1
        assert started(narval, "flats.Flats", **of_flats(site))["phase"] == "done"
        assert any("Attic, 800" in line for line in lines(narval, "news.txt"))
    assert b"Attic" in narval("remembered", "flats").stdout
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (narval.home / "var").iterdir())
    assert len(narval.ask("remembered", "flats", "--limit", "2")) == 2
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (narval.home / "var").iterdir()) == before
    assert b"forgotten: 4 of flats" in narval("remembered", "flats", "--forget-all").stdout
    assert narval.ask("remembered") == []


def results(narval: Narval) -> int:
    """The number of results of I/O that a home keeps."""
    with closing(sqlite3.connect(narval.home / "var" / "store.db")) as store:
        return int(store.execute("SELECT count(*) FROM results").fetchone()[0])


def has_settled(narval: Narval) -> bool:
    """True once half a second brings no other result: a page that has just come is kept by then."""
    before = results(narval)
    time.sleep(0.5)
    return results(narval) == before


def test_T23_a_page_is_not_fetched_again_after_a_kill(tmp_path: Path, site: LocalSite) -> None:
    narval = taken(tmp_path, site, "flats")
    flats(site)
    held = threading.Event()
    site.put("/board/2", Answer(b"", 500, held=held), board([("/b/2", "Villa", 2000), ("/b/3", "Hut", 100)]))
    daemon = narval.daemon()
    assert daemon.stdout is not None
    daemon.stdout.readline()
    given = [part for pair in of_flats(site).items() for part in ("--set", "=".join(pair))]
    run = narval("start", "flats.Flats", *given).stdout.decode().strip()
    until(lambda: site.requests("/flats?page=3") and site.requests("/board/2"), "the last page is asked for")
    until(lambda: len(lines(narval, "news.txt")) == 3, "what is known is told")
    until(lambda: has_settled(narval), "what came is kept")
    daemon.kill()
    daemon.communicate()
    held.set()
    with narval.running():
        until(lambda: narval.ask("show", run)["phase"] == "done", "the run goes on to its end")
    asked = {
        path: len(site.requests(path)) for path in ("/flats", "/flats?page=2", "/flats?page=3", "/board")
    }
    assert set(asked.values()) == {1}, asked
    assert len(site.requests("/board/2")) == 2
    told = [json.loads(line)["text"].partition(",")[0] for line in lines(narval, "news.txt")]
    assert told == ["new: Attic", "new: Barn", "new: Cellar", "new: Hut"]


# --- shops ----------------------------------------------------------------------------------------------


def test_T44_TA24_shops_are_compared_though_one_is_down_and_one_writes_with_a_comma(
    tmp_path: Path, site: LocalSite
) -> None:
    narval = taken(tmp_path, site, "shops", "[dataflows]\nrestarts = 0\n")
    row, item = "<tr><td>{}</td><td>{}</td></tr>", "<li><b>{}</b> <i>{}</i></li>"
    site.put(
        "/hill", f"<table class=prices>{row.format('Tea', '12.00')}{row.format('Bread', '2.50')}</table>"
    )
    site.put("/lake", "<ul class=prices>" + item.format("Tea", "12,50 €") + item.format("Bread", "2,20 €"))
    site.put("/moor", "moved")
    asked = {name: f"{site.url}/{name}" for name in ("hill", "lake", "moor")}
    with narval.running():
        run = started(narval, "shops.Morning", **asked, to="element:prices")
        assert run["phase"] == "done"
        (told,) = narval.ask("memory", "prices")
        assert "Bread: 2.2 at Lake, of 2" in told["xml"]
        assert "Tea: 12 at Hill, of 2" in told["xml"]
        assert "Moor: no prices today" in told["xml"]

        asked["moor"] = "http://127.0.0.1:1/"  # fetched from nowhere: it may not be, which is for good
        site.put("/hill", f"<table class=prices>{row.format('Tea', '11,00')}</table>")
        run = started(narval, "shops.Morning", **asked, to="element:prices")
        assert run["phase"] == "done"
        assert [line["line"] for line in run["printed"]] == ["Moor could not be read"]
        assert [one["texts"] for one in run["unread"]] == [["11,00"]]
        newest = narval.ask("memory", "prices")[0]["xml"]
        assert "Tea: 12.5 at Lake, of 1" in newest
        assert "Hill: no prices today" in newest
        assert "Moor: no prices today" in newest


# --- spider ---------------------------------------------------------------------------------------------


def test_T60_a_spider_reports_what_is_new_and_what_changed(tmp_path: Path, site: LocalSite) -> None:
    narval = taken(tmp_path, site, "spider")
    targets = ("/", "/a", "/b", "/gone", "//elsewhere.example/")
    links = " ".join(f"<a href='{target}'>there</a>" for target in targets)
    site.put("/", f"<title>Home</title><body>{links}</body>")
    site.put("/a", page("<title>A</title><body>one</body>", etag='"1"'))
    site.put("/b", "<title>B</title><body>same</body>", page("busy", 503, retry_after="0"))
    with narval.running():
        asked = {"start": f"{site.url}/", "to": "element:report"}
        assert started(narval, "spider.Spider", **asked)["phase"] == "done"
        reports = sorted(one["xml"] for one in narval.ask("memory", "report"))
        assert [
            f"new: {site.url}{path}" in text for path, text in zip(("/", "/a", "/b"), reports, strict=True)
        ]
        site.put("/a", page("<title>A</title><body>two</body>", etag='"2"'))
        assert started(narval, "spider.Spider", **asked)["phase"] == "done"
        newest = narval.ask("memory", "report")[0]["xml"]
        assert f"changed: {site.url}/a (A): two (it was: one)" in newest
        assert len(narval.ask("memory", "report")) == 4
        assert len(site.requests("/")) == 2


# --- theaters -------------------------------------------------------------------------------------------

SOURCES = """
[sources.theaters]
kind = "csv"
path = "data/theaters.csv"

[sources.restaurants]
kind = "json"
url = "{url}/restaurants"
"""


def test_T60_theaters_and_restaurants_are_joined_by_what_is_looked_up(
    tmp_path: Path, site: LocalSite
) -> None:
    narval = taken(tmp_path, site, "theaters", SOURCES.format(url=site.url))
    narval.write(
        "data/theaters.csv",
        "name,address,city\nOdeon,1 Elm Street,York\nGlobe,2 Oak Road,York\nOpera,3 Rue X,Lyon\n",
    )
    eating = [
        ("Grill", "9 Elm Street", "York"),
        ("Bar", "1 Elm Street", "York"),
        ("Bouchon", "4 Rue Y", "Lyon"),
    ]
    found = [{"name": name, "address": address, "city": city} for name, address, city in eating]
    site.put("/restaurants", page(json.dumps(found), content_type="application/json"))
    for address, district in (("1 Elm Street", "North"), ("2 Oak Road", "South"), ("9 Elm Street", "North")):
        answer = json.dumps({"places": [{"district": district, "address": address}]})
        site.put(f"/maps?q={quote(address)}", page(answer, content_type="application/json"))
    with narval.running():
        shown = started(narval, "theaters.Evening", city="York", service=f"{site.url}/maps?q=%address%")
        assert shown["phase"] == "done", shown
        (evening,) = narval.ask("memory", "relation")
        for expected in ("Grill, 9 Elm Street", "Bar, 1 Elm Street", "Odeon, 1 Elm Street"):
            assert expected in evening["xml"]
        assert "Globe" not in evening["xml"]
        assert len(site.requests(f"/maps?q={quote('2 Oak Road')}")) == 1
        assert [asked.path for asked in site.asked if "Rue" in asked.path] == []
