"""Extraction of tuples from documents, by rules in XPath, CSS and JMESPath (TA40)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from narval.kinds.dataflow.calls.documents import relation_of
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from tests.kinds.dataflow.calls.driving import Taken, drive

PAGE = """<html><body><table class="houses">
<tr><td>12 <b>Elm</b>
  Street</td><td class="price">1 200</td><td><a href="/1">more</a></td></tr>
<tr><td>Oak Road</td><td class="price">ask</td></tr>
</table></body></html>"""


def extracted(
    folder: Path, rules: str, *rows: tuple[str, ...], schema: tuple[str, ...] = ("value",)
) -> Taken:
    plan = f"""PLAN P {{ INPUT: TupleStream pages; OUTPUT: TupleStream out;
      BODY {{ extract(pages, "{rules}" : out) }} }}"""
    pages = relation_of(TupleBatch(schema, list(rows)), "pages")
    over, taken = drive(folder, plan, "", {"pages": pages})
    taken.values["over"] = over
    return taken


BY_CLASS = r"translate(string(td[@class='price']), ' ', '')"


@pytest.mark.parametrize(
    "rules",
    [
        "record //table/tr\naddress td[1]\nprice Number translate(td[2], ' ', '')\nlink td/a/@href",
        f"record css:.houses tr\naddress css:td:first-child\nprice Number {BY_CLASS}\nlink css:a::attr(href)",
    ],
)
def test_TA40_records_of_a_page(tmp_path: Path, rules: str) -> None:
    assert extracted(tmp_path, rules, (PAGE,)).rows["out"] == [
        {"address": "12 Elm Street", "price": 1200, "link": "/1"},
        {"address": "Oak Road", "price": None, "link": None},
    ]


def test_TA40_records_of_json(tmp_path: Path) -> None:
    document = {"items": [{"name": "a", "cost": {"eur": 7}}, {"name": "b", "tags": ["x"]}, {"name": None}]}
    rules = "record json:items\nname json:name\ncost Number json:cost.eur\ntags json:tags"
    assert extracted(tmp_path, rules, (json.dumps(document),)).rows["out"] == [
        {"name": "a", "cost": 7, "tags": None},
        {"name": "b", "cost": None, "tags": '["x"]'},
        {"name": None, "cost": None, "tags": None},
    ]


def test_TA40_of_a_page_that_was_fetched_its_content_counts(tmp_path: Path) -> None:
    feed = '<?xml version="1.0"?><feed><Item n="1"/><Item n="2"/></feed>'
    row = ("http://x/", 200, "application/xml", feed)
    taken = extracted(
        tmp_path, "record //Item\nn Number @n", row, schema=("url", "status", "type", "content")
    )
    assert taken.rows["out"] == [{"n": 1}, {"n": 2}]


BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "yyyy"><!ENTITY z "&x;&x;&x;">]><a><b>&z;</b></a>'
OUTSIDE = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a><b>&x;</b></a>'


@pytest.mark.parametrize(
    "document", [BOMB, OUTSIDE, "<a>" * 5000, "", "\x00\x01", '<?xml version="1.0"?><a', "]]>"]
)
def test_hostile_documents_give_nothing_of_outside(tmp_path: Path, document: str) -> None:
    taken = extracted(tmp_path, "record //b\ntext .", (document,))
    found = [row["text"] for row in taken.rows.get("out", [])]
    assert "root:" not in "".join(text or "" for text in found)
    assert taken.values["over"].state in ("done", "failed")


@pytest.mark.parametrize(("document", "why"), [("{", "expected JSON"), ("[" * 100_000, "expected JSON")])
def test_what_is_no_json_is_told(tmp_path: Path, document: str, why: str) -> None:
    over = extracted(tmp_path, "record json:a\nn json:n", (document,)).values["over"]
    assert over.state == "failed"
    assert why in over.failure.message


def test_a_document_may_be_so_large(tmp_path: Path) -> None:
    over = extracted(tmp_path, "record //b\nn .", ("x" * 10_000_001,)).values["over"]
    assert "10,000,000 characters at most" in over.failure.message


def test_TA40_links_are_made_whole_and_attributes_of_the_page_are_kept(tmp_path: Path) -> None:
    plan = r"""
    PLAN P { INPUT: TupleStream pages; OUTPUT: out; BODY {
      extract(pages, "record //a\nlink Url @href\npage tuple:url" : out)
    } }
    """
    content = "<a href='?page=2'>2</a><a href='/x'>x</a><a href='http://[bad'>y</a><a>z</a>"
    pages = relation_of(TupleBatch(("url", "content"), [("http://h.example/a/b", content)]), "pages")
    over, taken = drive(tmp_path, plan, inputs={"pages": pages})
    assert over.state == "done", over
    links = ["http://h.example/a/b?page=2", "http://h.example/x", None, None]
    assert [row["link"] for row in taken.rows["out"]] == links
    assert {row["page"] for row in taken.rows["out"]} == {"http://h.example/a/b"}


def test_numbers_in_a_form_are_read_and_others_are_counted(tmp_path: Path) -> None:
    plan = r"""
    PLAN P { INPUT: TupleStream pages; OUTPUT: out; BODY {
      extract(pages, "
        record //li
        a Number(\"1.234,56\") .
        b Number( currency ) .
        c Number('12.50') .
        d number(3) " : out)
    } }
    """.replace("\\", "\\")
    texts = ["12,50 €", "1.250,00", "7"]
    content = "".join(f"<li>{text}</li>" for text in texts)
    over, taken = drive(tmp_path, plan, inputs={"pages": content})
    assert over.state == "done", over
    assert taken.rows["out"] == [
        {"a": None, "b": 12.5, "c": None, "d": "3.0"},
        {"a": 1250, "b": 1250, "c": None, "d": "3.0"},
        {"a": 7, "b": 7, "c": 7, "d": "3.0"},
    ]
    assert {one.attribute: one.texts for one in taken.unread.unread} == {
        "a": ("12,50 €",),
        "c": ("12,50 €", "1.250,00"),
    }
