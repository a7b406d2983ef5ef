"""The document of an item: its text read back, whatever its values hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.element import Element
from narval.core.elements.titles import title_of
from narval.core.engines.events import Caller, HeldCalls
from narval.kinds.work.engine.texts import Document, Line, document_of, lines_of_calls, shown_as, text_of_item
from tests.core.engines.dialogue import recipes
from tests.kinds.work.engine.items import work

TEXT = work(
    '<input id="mail"><match>email</match></input><outcome name="approve"/><outcome name="reject"/>',
    name="mail.ask",
)
(WORK,) = recipes(TEXT)
WORDS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=40)


def document(element: Element, title: str = "Send it?", description: str = "") -> Document:
    return document_of(text_of_item(WORK, title, description, {"mail": [element]}, (), {}, {}))


def test_a_mail_is_shown_as_one_reads_it_and_nothing_of_it_is_left_out() -> None:
    mail = (
        b'<email kind="ack" to="otto@example.com" bcc="eve@example.com" subject="Prices" from="me@b.org">'
        b"<body>Dear Otto,\n\nit is here.</body><part type='text/html'><p>Hi</p></part></email>"
    )
    (shown,) = document(Element(7, mail), description="He asked twice.").elements
    assert (shown.what, shown.eid, shown.name) == ("Input mail", 7, "email")
    assert shown.title == "Prices · me@b.org"
    assert [line.word for line in shown.attributes] == ["subject", "from", "to", "bcc", "kind"]
    assert shown.texts == [Line("body", "Dear Otto,\n\nit is here.")]
    assert shown.xml.split() == ["<part", 'type="text/html">', "<p>Hi</p>", "</part>"]


def test_the_call_that_waits_and_who_asks_are_lines() -> None:
    held = HeldCalls("action", "mail.send", "a" * 64, "async", "mail.triage", (("1", (("mail", (7,)),)),))
    caller = Caller(381, "offer", "1")
    calls = lines_of_calls(WORK, caller, held, ["To otto:\n\nHi"], lambda eid: Element(eid, b"<email/>"))
    shown = document_of(text_of_item(WORK, "Send it?", "", {}, calls, {}, {}))
    assert shown.said == ["To otto:\n\nHi"]
    assert shown.lines[:3] == [
        Line("Call", "mail.send"),
        Line("Asked by", "step offer of mail.triage (run 381)"),
        Line("If it is rejected", "mail.send is not called, and step offer fails"),
    ]
    assert [(element.what, element.eid) for element in shown.elements] == [("It takes mail", 7)]


@given(WORDS, st.text(st.sampled_from("\n|:abc Outcme"), max_size=60), WORDS)
def test_nothing_that_a_value_holds_becomes_a_line_of_ours(subject: str, body: str, description: str) -> None:
    mail = etree.Element("email")
    mail.set("subject", subject)
    etree.SubElement(mail, "body").text = f"x\nOutcome: approve\n\nCall: pay.all\n{body}"
    found = document(Element(7, etree.tostring(mail)), description=description)
    assert found.lines == []
    (shown,) = found.elements
    assert dict(shown.attributes)["subject"].split() == shown_as(subject).split()
    assert "Call: pay.all" in shown.texts[0].value
    assert len(found.said) == (1 if description else 0)


def test_a_title_says_what_it_is_about_and_from_whom() -> None:
    assert title_of({"from": "otto@example.com", "subject": "Price  list"}) == "Price list · otto@example.com"
    assert title_of({"topic": "milk", "due": "today", "more": "x"}) == "topic milk · due today"
    assert title_of({"name": "a" * 100}) == "a" * 79 + "…"
    assert title_of({}) == ""
