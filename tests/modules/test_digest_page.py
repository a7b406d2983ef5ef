"""The transform digest.page: what it shows, and that nothing in a mail or feed becomes more than text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree, html

import narval
from modules import basic
from modules.feeds import reading as feeds_reading
from narval import Element
from narval.calls.context import CallContext, Target
from narval.calls.workers.frames import Allowance
from narval.calls.workers.transforms import answer
from narval.core.definitions.transform.definition import Transform
from narval.core.elements.canonical import canonical
from narval.files.reading import load
from tests.examples import examples
from tests.places import ROOT

SHEET = ROOT / "recipes" / "digest.page.xsl"
PAGE = Target(action="digest.page", where="transform", module_path=str(SHEET))

Attributes = dict[str, str]


def made(name: str, eid: int, attributes: Attributes, *children: tuple[str, Attributes, str]) -> Element:
    root = etree.Element(name, attributes)
    for child, given_attributes, text in children:
        etree.SubElement(root, child, given_attributes).text = text
    return Element(eid, canonical(root))


def mail(
    eid: int, attributes: Attributes | None = None, text: str = "The text.", *files: Attributes
) -> Element:
    usual = {"from": "ana@example.org", "subject": f"Mail {eid}", "message-id": f"{eid}@example.org"}
    usual["date"] = f"2026-11-{eid:02}T08:30:15Z"
    return made(
        "email", eid, usual | (attributes or {}), ("body", {}, text), *(("attachment", f, "") for f in files)
    )


def ack(eid: int, attributes: Attributes) -> Element:
    return made("email", eid, {"kind": "ack", "date": "2026-11-20T10:00:00Z"} | attributes)


def item(eid: int, attributes: Attributes, text: str = "") -> Element:
    return made("item", eid, {"feed": "Harbour", "id": str(eid)} | attributes, ("summary", {}, text))


def page(**inputs: list[Element]) -> etree._Element:
    lists = {name: inputs.get(name, []) for name in ("mails", "answers", "verdicts", "items")}
    outcome = answer(CallContext("1.1", 1, "page", target=PAGE, inputs=lists), None, Allowance((), 1 << 30))
    assert outcome.problem is None
    [raw] = outcome.elements
    return etree.fromstring(raw.xml)


def text_of(node: etree._Element) -> str:
    return " ".join(" ".join(node.itertext()).split())


def section(root: etree._Element, id: str) -> list[str]:
    """The headings of the mails of a section, or of the items of the feeds, in order."""
    found = root.xpath(f"//section[@id='{id}']//article")
    return [text_of(each.xpath("h3 | p[1]//*[@class='name']")[-1]) for each in found]


# --- what it shows --------------------------------------------------------------------------------------


def test_N21_it_is_a_transform_with_optional_lists_for_inputs() -> None:
    loaded = load(ROOT)
    transform = loaded.library.of("transform")["digest.page"]
    assert isinstance(transform, Transform)
    inputs = transform.prototype.inputs
    assert [each.id for each in inputs] == ["mails", "answers", "verdicts", "items"]
    assert all(each.list and each.optional and not each.use for each in inputs)
    assert [each.match for each in transform.prototype.outputs] == [("html",)]
    assert transform.descriptions["en"]


def test_mails_are_grouped_by_what_became_of_them() -> None:
    root = page(
        mails=[
            mail(1),
            mail(2),
            mail(3, {"list": "garden.lists.example.org"}),
            mail(4, {"auto": "auto-replied"}),
            mail(5, {"list": "announce.example.org", "auto": "bulk"}),
            mail(6),
            mail(7, {"list": "garden.lists.example.org"}),
        ],
        answers=[ack(20, {"in-reply-to": "2@example.org"}), ack(21, {"in-reply-to": "7@example.org"})],
        verdicts=[
            made("triage", 30, {"mail": "6", "verdict": "leave", "why": "it names no sender"}),
            made("triage", 31, {"mail": "1", "verdict": "acknowledge", "why": "a person wrote it"}),
        ],
    )
    assert section(root, "open") == ["Mail 1"]
    assert section(root, "answered") == ["Mail 7", "Mail 2"]
    assert section(root, "left") == ["Mail 6"]
    assert section(root, "machines") == ["Mail 4"]
    assert section(root, "lists") == ["Mail 5", "Mail 3"]
    assert [text_of(each) for each in root.iterfind(".//nav/a")] == [
        "1 to answer", "2 answered", "1 left alone", "1 from programs", "2 from lists",
    ]  # fmt: skip
    assert "it names no sender" in text_of(root.xpath("//section[@id='left']")[0])
    assert "a person wrote it" not in text_of(root)
    assert "garden.lists.example.org" in text_of(root.xpath("//section[@id='lists']")[0])
    assert "answered 2026-11-20 10:00" in text_of(root.xpath("//section[@id='answered']")[0])


def test_a_mail_without_an_id_is_answered_by_its_thread() -> None:
    nameless = made("email", 1, {"subject": "Nameless", "thread": "k1"})
    root = page(mails=[nameless], answers=[ack(2, {"thread": "k1"})])
    assert section(root, "answered") == ["Nameless"]
    assert (
        section(page(mails=[mail(1, {"thread": "k1"})], answers=[ack(2, {"thread": "k1"})]), "answered") == []
    )


def test_a_mail_shows_who_what_when_and_the_beginning_of_its_text() -> None:
    long = "word " * 1_000
    [shown] = page(mails=[mail(9, {"from-name": "Ana"}, long)]).iterfind(".//article")
    assert text_of(shown.find("p[@class='from']/span")) == "Ana ana@example.org"  # type: ignore[arg-type]
    time = shown.find(".//time")
    assert time is not None
    assert (time.get("datetime"), time.text) == ("2026-11-09T08:30:15Z", "2026-11-09 08:30")
    excerpt = text_of(shown.find("p[@class='text']"))  # type: ignore[arg-type]
    assert 235 <= len(excerpt) <= 241
    assert excerpt.endswith("…")


def test_what_a_mail_lacks_is_said_or_left_out() -> None:
    [shown] = page(mails=[made("email", 1, {"subject": " "})]).iterfind(".//article")
    assert text_of(shown) == "no sender no subject"
    assert shown.find(".//time") is None


def test_attachments_are_named_with_their_size() -> None:
    sizes = ["0", "770", "1024", "1500000", "much"]
    [shown] = page(mails=[mail(1, {}, "", *({"name": f"f{size}", "size": size} for size in sizes))]).iterfind(
        ".//article"
    )
    assert [text_of(each) for each in shown.iterfind(".//li")] == [
        "f0 0 B", "f770 770 B", "f1024 1 kB", "f1500000 1.4 MB", "fmuch",
    ]  # fmt: skip


def test_items_are_grouped_by_feed_newest_first() -> None:
    root = page(
        items=[
            item(1, {"title": "Old", "published": "2026-11-01T00:00:00Z", "link": "https://example.org/old"}),
            item(2, {"title": "Stars", "feed": "Observatory", "author": "Per"}),
            item(3, {"title": "New", "published": "2026-11-02T00:00:00Z"}, "Text."),
            item(4, {}),
        ]
    )
    assert section(root, "feeds") == ["New", "Old", "no title", "Stars"]
    assert [text_of(each) for each in root.iterfind(".//h3[@class='feed']")] == ["Harbour", "Observatory"]
    assert [each.get("href") for each in root.iterfind(".//article//a")] == ["https://example.org/old"]
    assert text_of(root.find(".//p[@class='newest']")) == "up to 2026-11-02 00:00"  # type: ignore[arg-type]


def test_the_demo_feeds_make_a_page() -> None:
    demo = ROOT / "data" / "demo" / "feeds"
    items = [
        Element(eid, canonical(each))
        for eid, each in enumerate(
            [
                *feeds_reading.items_of((demo / "harbour.rss").read_bytes(), "Harbour"),
                *feeds_reading.items_of((demo / "observatory.atom").read_bytes(), "Observatory"),
            ]
        )
    ]
    root = page(items=items)
    assert len(section(root, "feeds")) == 12
    assert "夜の一覧" in text_of(root)


def test_nothing_at_all_is_said_too() -> None:
    assert text_of(page().find("body")) == "Digest Nothing has come in."  # type: ignore[arg-type]


def test_a_thousand_mails_are_counted_and_the_newest_shown() -> None:
    mails = [mail(eid, {"date": f"2026-01-01T{eid // 60:02}:{eid % 60:02}:00Z"}) for eid in range(1_000)]
    root = page(mails=mails)
    assert text_of(root.find(".//nav")) == "1000 to answer"  # type: ignore[arg-type]
    assert section(root, "open") == [f"Mail {eid}" for eid in range(999, 799, -1)]
    assert text_of(root.xpath("//p[@class='more']")[0]) == "and 800 older"


def test_a_page_is_of_the_newest_so_many_mails_and_says_so() -> None:
    transform = load(ROOT).library.of("transform")["digest.page"]
    assert isinstance(transform, Transform)
    newest = {slot.id: slot.newest for slot in transform.prototype.inputs}
    assert newest == {"mails": 100, "answers": 200, "verdicts": 200, "items": 200}
    told = page(mails=[mail(eid, {"date": f"2026-01-01T08:{eid % 60:02}:00Z"}) for eid in range(100)])
    assert text_of(told.find(".//p[@class='newest']")).endswith("08:59 , the newest 100 mails")  # type: ignore[arg-type]


# --- that it is safe ------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</style><script>alert(1)</script>",
    "{{7*7}} ${x} <!-- --> <![CDATA[ ]]>",
    "&lt;b&gt; &#60;",
    "\u202eright to left\u2066",
    "data:text/html,<b>",
    " https://example.org/",
    "HTTPS://example.org/",
]
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "nav", "a", "b", "main", "section",
    "h2", "h3", "article", "span", "bdi", "i", "time", "ul", "li",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "name", "content", "http-equiv", "class", "id", "href", "rel", "dir", "datetime",
    "aria-label",
}  # fmt: skip


def assert_harmless(root: etree._Element, texts: list[str]) -> None:
    """Nothing but the page's own elements, as XML and as a browser reads it; the texts are in it as text."""
    served = html.document_fromstring(basic.FORMS["html"](Element(0, etree.tostring(root))).decode())
    for tree in (root, served):
        nodes = list(tree.iter())
        assert {node.tag for node in nodes} <= TAGS
        assert {name for node in nodes for name in node.attrib} <= ATTRIBUTES
        for node in tree.iter("a"):
            assert re.match(r"https?://|#[a-z]+$", node.get("href", ""))
        for text in texts:
            assert " ".join(text.split())[:150] in text_of(tree)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_stranger_wrote_is_text_and_nothing_else(text: str) -> None:
    strange = dict.fromkeys(("from", "from-name", "subject", "list", "message-id"), text)
    root = page(
        mails=[
            mail(1, strange, text, {"name": text, "size": "1"}),
            mail(2, strange | {"auto": text}),
            mail(3, {"date": text, "auto": text}),
        ],
        answers=[ack(4, {"in-reply-to": text, "date": text})],
        verdicts=[made("triage", 5, {"mail": "3", "verdict": "leave", "why": text})],
        items=[item(6, dict.fromkeys(("feed", "title", "link", "author", "published"), text), text)],
    )
    assert_harmless(root, [text])
    assert len(list(root.iter("article"))) == 4


@settings(max_examples=examples(40), deadline=None)
@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
        max_size=60,
    )
)
def test_whatever_is_written_stays_text(text: str) -> None:
    words = " ".join(re.split("[ \t\r\n]+", text)).strip()
    root = page(
        mails=[mail(1, {"subject": text}, text)], items=[item(2, {"title": text, "link": text}, text)]
    )
    assert_harmless(root, [])
    assert words in text_of(root) or " ".join(words.split()) in text_of(root)


def test_the_page_runs_and_loads_nothing() -> None:
    root = page(mails=[mail(1)], items=[item(2, {"link": "https://example.org/"})])
    [policy] = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = root.findtext(".//style", "")
    assert not re.search(r"url\(|@import|[<>&]", style)
    assert "prefers-color-scheme: dark" in style
    assert not root.xpath("//@src | //link | //script")


def test_as_html_and_as_xml_the_page_is_the_same() -> None:
    root = page(mails=[mail(1)], items=[item(2, {"title": "a < b & c"})])
    served = basic.FORMS["html"](Element(0, etree.tostring(root))).decode()
    assert served.startswith('<!DOCTYPE html>\n<html lang="en">')
    again = html.document_fromstring(served)
    assert [node.tag for node in again.iter()].count("article") == 2
    assert text_of(again) == text_of(root)


# --- from memory to the file ----------------------------------------------------------------------------

COOKBOOK = """
<cookbook group="try">
  <recipe group="try" name="page" start_step="page" end_step="save">
    <step id="page" type="transform" target="digest.page"/>
    <step id="save" type="action" target="basic.write_file">
      <arguments><target path="var/digest.html"/></arguments>
      <input id="content"><match>html</match></input>
    </step>
    <transition id="t"><in idref="page"/><out idref="save"/></transition>
  </recipe>
</cookbook>
"""


def test_N32_in_a_plan_the_mails_are_consulted_and_the_page_is_saved(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / SHEET.name).write_bytes(SHEET.read_bytes())
    (tmp_path / "recipes" / "try.xml").write_text(COOKBOOK)
    with narval.open(tmp_path) as agent:
        agent.add(mail(0, {"subject": "First"}))
        for _ in range(2):
            run = agent.start("try.page")
            agent.until_idle()
            assert agent.run(run)["phase"] == "done"
        agent.add(item(0, {"title": "Later"}))
        agent.start("try.page")
        agent.until_idle()
    written = (tmp_path / "var" / "digest.html").read_text()
    assert "First" in written
    assert "Later" in written
