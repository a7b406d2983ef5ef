"""A module of a home on what `narval.api` offers: texts, elements, JSON, schemas, mail."""

from __future__ import annotations

from email import message_from_bytes
from pathlib import Path

import narval
from tests.modules.homes import answer

MODULE = '''
"""What comes from a form, as an element that memory takes, and a mail of it."""

from lxml import etree

from narval import ActionError, Element, Input, NarvalError, Output, action, call
from narval.api import (
    MailAccount, compose_mail, element_of_json, elements_of, is_reserved, json_of_element, one_line,
    parse_json, refusals, send_mail, size, text_within, xml_safe,
)


@action(inputs=[Input("form", "form")], outputs=[Output("ticket", "ticket", optional=True)])
def take(form: Element) -> etree._Element:
    """Make a ticket of a form, whose text is JSON, or say why there is none."""
    value = parse_json(form.text)
    if is_reserved(value["name"]):
        raise ActionError(f"{value['name']} means something to narval", "bad-form")
    made = element_of_json(value["name"], value["ticket"])
    made.text = xml_safe(value["text"])
    made.set("summary", one_line(value["text"], 12))
    made.set("most", str(size("2K")))
    if reasons := refusals([made]):
        raise ActionError("; ".join(reasons), "bad-form")
    return made


@action(inputs=[Input("form", "form")], outputs=[Output("read", "read")])
def read(form: Element) -> etree._Element:
    """Count the elements in a text of XML."""
    try:
        found = elements_of(form.text)
    except NarvalError as error:
        raise ActionError(f"{error}", "bad-form") from None
    texts = " ".join(text_within(Element(0, xml).tree()) for xml in found)
    return etree.Element("read", count=str(len(found)), texts=texts, json=json_of_element(form.tree()))


@action(inputs=[Input("form", "form")], outputs=[Output("told", "told")])
async def tell(form: Element) -> etree._Element:
    """Send the text of a form by mail."""
    me = Element(0, b"<identity name='Desk' address='desk@example.org'/>")
    mail = Element(0, compose_mail("new", me, None, form.text, to="ann@example.org", subject="A form"))
    outbox = MailAccount({"path": "Outbox"}, call().home)
    sent = await send_mail(mail, outbox)
    return etree.Element("told", to=" ".join(sent.to), refused=str(len(sent.refused)), id=sent.message_id)
'''

SCHEMA = """<element name="ticket" xmlns="http://relaxng.org/ns/structure/1.0">
  <zeroOrMore><attribute><anyName><except><name>wrong</name></except></anyName></attribute></zeroOrMore><text/>
</element>"""


def home(folder: Path) -> Path:
    """A home with the module, and a schema of tickets."""
    for name, text in {"modules/desk.py": MODULE, "etc/schemas/ticket.rng": SCHEMA}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_module_makes_elements_of_what_a_stranger_wrote(tmp_path: Path) -> None:
    with narval.open(home(tmp_path)) as agent:
        text = '{"name": "ticket", "ticket": {"n": 7}, "text": "It is\\u0001 broken\\nagain"}'
        ticket = answer(agent, "desk.take", f"<form>{text}</form>")
        assert ticket.attributes["summary"] == "It is\ufffd brok…"
        assert (ticket.attributes["most"], ticket.attributes["n"]) == ("2048", "7")
        assert ticket.text == "It is\ufffd broken\nagain"


def test_a_module_learns_what_memory_would_refuse(tmp_path: Path) -> None:
    with narval.open(home(tmp_path)) as agent:
        reserved = '{"name": "plan", "ticket": {}, "text": ""}'
        assert "means something to narval" in answer(agent, "desk.take", f"<form>{reserved}</form>").text
        unfit = '{"name": "ticket", "ticket": {"wrong": "x"}, "text": ""}'
        assert "etc/schemas/ticket.rng" in answer(agent, "desk.take", f"<form>{unfit}</form>").text


def test_a_module_reads_xml_that_it_does_not_trust(tmp_path: Path) -> None:
    with narval.open(home(tmp_path)) as agent:
        memory = "<form>&lt;memory>&lt;a>1&lt;/a>&lt;b>&lt;c>2&lt;/c>&lt;/b>&lt;/memory></form>"
        read = answer(agent, "desk.read", memory).attributes
        assert (read["count"], read["texts"]) == ("2", "1 2")
        assert read["json"].startswith('"<memory>')
        assert "DOCTYPE" in answer(agent, "desk.read", "<form>&lt;!DOCTYPE a>&lt;a/></form>").text


def test_a_module_sends_a_mail(tmp_path: Path) -> None:
    with narval.open(home(tmp_path)) as agent:
        told = answer(agent, "desk.tell", "<form>It is broken.</form>").attributes
        assert (told["to"], told["refused"]) == ("ann@example.org", "0")
        (file,) = (tmp_path / "Outbox" / "new").iterdir()
        mail = message_from_bytes(file.read_bytes())
        assert mail["message-id"] == f"<{told['id']}>"
        assert mail["from"] == "Desk <desk@example.org>"
        assert mail.get_payload().strip() == "It is broken."
