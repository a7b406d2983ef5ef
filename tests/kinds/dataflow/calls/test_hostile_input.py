"""Hostile inputs and sources: each is a fault that says what was expected, in little time (TA19)."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import NarvalError
from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.foreground import sessions_of
from tests.kinds.dataflow.calls.driving import Taken, drive
from tests.local_site import local_site, page

READ = 'PLAN P { OUTPUT: TupleStream out; BODY { retrieve("s", "" : out) } }'

ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{10 * f"&{chr(97 + n)};"}">' for n in range(9))
BOMB = f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">{ENTITIES}]><r><x>&j;</x></r>'
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r><x>&a;</x></r>"""
FEED = "<rss version='2.0'><channel><item><guid>1</guid><title>&j;</title></item></channel></rss>"


def read(folder: Path, kind: Any, text: str | bytes, **more: Any) -> tuple[Any, Taken]:
    (folder / "f").write_bytes(text if isinstance(text, bytes) else text.encode())
    source = FlowSource("s", kind, path=str(folder / "f"), **more)
    began = time.monotonic()
    found = drive(folder, READ, sources={"s": source})
    assert time.monotonic() - began < 30
    return found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("xml", BOMB),
        ("xml", OUTSIDE),
        ("xml", "<r>" * 100_000),
        ("xml", "<a>" * 5_000 + "</a>" * 5_000),
        ("xml", ""),
        ("xml", "\0\1\2"),
        ("json", "[" * 1_000_000),
        ("json", '{"a":' * 200_000),
        ("json", "[" + "9" * 100_000 + "]"),
        ("json", "{"),
        ("json", ""),
        ("csv", "a\n" + "x" * 200_000),
        ("rss", "http://127.0.0.1:9/feed"),
        ("rss", "/etc/passwd"),
        ("rss", ""),
        ("rss", "<html><body>Sorry</body></html>"),
        (
            "rss",
            "<!-- <a> --><rss version='2.0'><channel><item><guid>1</guid><title>a</title></item><item><tit",
        ),
    ],
)
def test_TA19_a_hostile_document_is_a_fault(tmp_path: Path, kind: Any, text: str) -> None:
    over, taken = read(tmp_path, kind, text)
    assert over.state == "failed", taken.rows
    assert over.failure.kind == "bad-document", over
    assert over.failure.final
    assert len(over.failure.message) < 1_000
    assert taken.rows == {}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("csv", "", []),
        ("csv", "a\n1\n2\n", [{"a": "1"}, {"a": "2"}]),
        ("csv", "a,b\n1\n2,3,4,5\n", [{"a": "1", "b": None}, {"a": "2", "b": "3"}]),
        ("csv", "é;b\n1;2\n".encode("cp1252"), [{"é": "1", "b": "2"}]),
        ("csv", b"a,b\n1,\0\n", [{"a": "1", "b": "\0"}]),
        (
            "xml",
            "<?xml version='1.0' encoding='iso-8859-1'?><r><h a='é'/></r>".encode("latin-1"),
            [{"a": "é"}],
        ),
        ("json", "[1e999, NaN, -0.0, null, true]", None),
        ("json", '[{"": 1, "a b": {"c": []}}]', [{"": 1, "a b": '{"c": []}'}]),
        (
            "rss",
            FEED.replace("<rss", BOMB.partition("<r>")[0].replace("DOCTYPE r", "DOCTYPE rss") + "<rss", 1),
            None,
        ),
    ],
)
def test_TA19_an_odd_document_is_read(
    tmp_path: Path, kind: Any, text: str | bytes, expected: list[dict[str, Any]] | None
) -> None:
    over, taken = read(tmp_path, kind, text)
    if expected is not None:
        assert over.state == "done", over
        assert taken.rows.get("out", []) == expected


def test_TA19_numbers_of_a_source_are_those_that_can_be_reckoned_with(tmp_path: Path) -> None:
    text = "p\n9\n1e5\n1e999\nnan\n12 000\n" + "9" * 5_000 + "\n"
    over, taken = read(tmp_path, "csv", text, numbers={"p": None})
    assert over.state == "done", over
    assert [row["p"] for row in taken.rows["out"]] == [9, 1e5, None, None, None, None]


def test_a_feed_whose_content_is_an_address_is_not_fetched(tmp_path: Path) -> None:
    with local_site() as site:
        site.put("/feed", page(f"{site.url}/inside"))
        source = FlowSource("s", "rss", url=f"{site.url}/feed")
        over, _ = drive(tmp_path, READ, sources={"s": source}, allow=(site.place,))
        assert over.state == "failed"
        assert site.requests("/inside") == []


@pytest.mark.parametrize("name", ['h"; DROP TABLE homes; --', "no\0pe", "", "sqlite_master", "x" * 10_000])
def test_TA20_the_name_of_a_table_is_no_statement(tmp_path: Path, name: str) -> None:
    connection = sqlite3.connect(tmp_path / "d")
    connection.execute("CREATE TABLE homes (a)")
    connection.commit()
    plan = """
    PLAN P { INPUT: String name; BODY {
      makestream2("[{\\"a\\": 1}]" : ones) accumulate(ones : all) exportrelation("d", name, all)
    } }
    """
    source = FlowSource("d", "sqlite", path=str(tmp_path / "d"), write=True)
    over, _ = drive(tmp_path, plan, inputs={"name": name}, sources={"d": source})
    assert over.state in ("done", "failed")
    assert connection.execute("SELECT count(*) FROM homes").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize(
    "text",
    [b"", b"<", BOMB.encode(), OUTSIDE.encode(), b"<plan/>", b"<plan_input>" * 10_000, b"\xff\xfe", b"\0"],
)
def test_T21_a_document_that_is_none_of_inputs_is_told(text: bytes) -> None:
    with pytest.raises(NarvalError) as raised:
        sessions_of(text, {})
    assert len(str(raised.value)) < 500
