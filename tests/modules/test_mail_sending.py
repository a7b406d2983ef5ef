"""Answers and how they go out: to whom, once, and never with a header that somebody smuggled in (N37)."""

from __future__ import annotations

import asyncio
import email
import email.headerregistry
import email.policy
import os
import re
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from modules import mail
from modules.mail import reading as mail_reading
from modules.mail.mailbox import Mailbox
from narval.calls.context import CallContext
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element
from narval.core.errors import ActionError
from narval.people.mail import writing as mail_writing
from tests.examples import examples

FUZZ = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
IDENTITY = Element(1, b'<identity name="Your office" address="assistant@example.org"/>')
LONG_ID = "DB7PR04MB4971F1B2C3D4E5F60718293A4B5C6D7E8F90@DB7PR04MB4971.eurprd04.prod.outlook.example.com"


def element(tag: str, text: str = "", **given: str) -> Element:
    root = etree.Element(tag, {name.replace("_", "-"): value for name, value in given.items()})
    if tag == "email":
        etree.SubElement(root, "body").text = text
    else:
        root.text = text
    return Element(2, etree.tostring(root, encoding="utf-8"))


def called(
    action: Callable[..., Any], *elements: Element, call: str = "home/run-7/step/1", home: Path | None = None
) -> Element:
    """What an action gives back for a call of that id."""
    given = CallContext(call, 7, "step", home).context().run(_finished, action, *elements)
    assert canonical(given) == given
    return Element(3, given)


def _finished(action: Callable[..., Any], *elements: Element) -> bytes:
    given = action(*elements)
    return asyncio.run(given) if asyncio.iscoroutine(given) else given


def parsed(data: bytes) -> EmailMessage:
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert not message.defects
    return message


ASKED = element(
    "email",
    "Are you open?",
    message_id="q1@example.com",
    thread="q0@example.com",
    references=f"q0@example.com {LONG_ID}",
    subject="Opening hours",
    date="2026-11-02T13:15:35Z",
    **{"from": "ana@example.com", "from-name": "Ana"},
)


# --- composing --------------------------------------------------------------------------------------------


def test_an_acknowledgement_answers_in_the_thread_and_says_that_it_is_automatic() -> None:
    answer = called(mail.acknowledge, ASKED, IDENTITY)
    facts = answer.attributes
    assert facts["kind"] == "ack"
    assert facts["auto"] == "auto-replied"
    assert (facts["from"], facts["from-name"], facts["to"]) == (
        "assistant@example.org",
        "Your office",
        "ana@example.com",
    )
    assert facts["subject"] == "Re: Opening hours"
    assert facts["in-reply-to"] == "q1@example.com"
    assert facts["references"] == f"q0@example.com {LONG_ID} q1@example.com"
    assert facts["thread"] == "q0@example.com"
    assert answer.text.startswith('Dear Ana,\n\nyour message "Opening hours" has arrived')


def test_N37_an_acknowledgement_is_the_same_mail_when_the_call_is_tried_again_and_another_otherwise() -> None:
    ids = [called(mail.acknowledge, ASKED, IDENTITY, call=call).attributes["message-id"] for call in "112"]
    assert ids[0] == ids[1] != ids[2]
    assert all(re.fullmatch(r"[0-9a-f]{32}@example\.org", ident) for ident in ids)


def test_a_template_and_a_signature_make_the_text() -> None:
    template = element(
        "ack-template", "\n{from-name} <{from}> asked about {subject}; {unknown} {date.year}\n"
    )
    answer = called(mail.acknowledge, ASKED, IDENTITY, template, element("signature", "The office\n"))
    assert answer.text == (
        "Ana <ana@example.com> asked about Opening hours; {unknown} {date.year}\n\n-- \nThe office"
    )


def test_a_mail_without_name_and_subject_is_answered_too() -> None:
    answer = called(mail.acknowledge, element("email", **{"from": "ana@example.com"}), IDENTITY)
    assert answer.attributes["subject"] == "Re: your message"
    assert answer.text.startswith("Dear ana@example.com,")
    assert "in-reply-to" not in answer.attributes


def test_an_acknowledgement_goes_to_the_envelope_s_sender_and_a_reply_to_whom_the_writer_asks() -> None:
    asked = element(
        "email", **{"from": "a@example.com", "return-path": "b@example.com", "reply-to": "c@example.com"}
    )
    assert called(mail.acknowledge, asked, IDENTITY).attributes["to"] == "b@example.com"
    assert called(mail.reply, asked, element("draft", "Yes."), IDENTITY).attributes["to"] == "c@example.com"


@pytest.mark.parametrize("subject", ["Re: x", "RE: x", "AW: x", "re[2]: x"])
def test_an_answer_to_an_answer_keeps_its_subject(subject: str) -> None:
    asked = element("email", subject=subject, **{"from": "a@example.com"})
    assert called(mail.reply, asked, element("draft", "Yes."), IDENTITY).attributes["subject"] == subject


@pytest.mark.parametrize(
    ("facts", "answered"),
    [
        ({"from": "a@example.com"}, True),
        ({"from": "a@example.com", "list": "garden.lists.example.net"}, False),
        ({"from": "a@example.com", "auto": "auto-replied"}, False),
        ({"from": "a@example.com", "kind": "ack"}, False),
        ({"subject": "from nobody"}, False),
    ],
)
def test_lists_automata_and_answers_are_no_input_of_acknowledge(
    facts: dict[str, str], answered: bool
) -> None:
    asked = element("email", **facts)
    declaration = mail.acknowledge.__narval_action__  # type: ignore[attr-defined]
    wanted = next(each for each in declaration.inputs if each.id == "mail")
    assert wanted.use
    assert all(map(asked.xpath, wanted.match)) == answered


def test_a_draft_becomes_a_mail() -> None:
    draft = element(
        "draft", "\nHello both,\n", to="a@example.com b@example.net", cc="c@example.org", subject="Hi"
    )
    new = called(mail.compose, draft, IDENTITY)
    facts = new.attributes
    assert (facts["kind"], facts["to"], facts["cc"]) == (
        "new",
        "a@example.com b@example.net",
        "c@example.org",
    )
    assert (facts["subject"], new.text) == ("Hi", "Hello both,")
    assert facts["thread"] == facts["message-id"]
    assert "auto" not in facts
    robots = called(mail.compose, element("draft", "x", to="a@example.com", auto="auto-generated"), IDENTITY)
    assert robots.attributes["auto"] == "auto-generated"


@pytest.mark.parametrize(
    "address",
    [
        "nobody",
        "a@b@c",
        "<a@example.org>",
        "a@example.org,b@example.org",
        "a@exa\u00e9mple.org",
        "a@-x.org",
        "a@x..org",
        "@example.org",
        '"a\\"b"@example.org',
    ],
)
def test_what_is_no_address_is_not_written_to(address: str) -> None:
    with pytest.raises(ActionError, match=r"expected addresses like name@example\.org in to") as caught:
        called(mail.compose, element("draft", "x", to=address), IDENTITY)
    assert caught.value.kind == "bad-address"


# --- what goes out ----------------------------------------------------------------------------------------


def outgoing(**facts: str) -> mail_writing.Outgoing:
    given = {
        "kind": "new",
        "from": "assistant@example.org",
        "to": "a@example.com",
        "message-id": "m1@example.org",
    } | facts
    return mail_writing.outgoing(element("email", given.pop("body", "text"), **given), "call-1")


def test_a_mail_as_others_read_it() -> None:
    sent = outgoing(
        **{
            "from-name": "Œuvre, (the) “office”",
            "to": "a@example.com b@example.net",
            "cc": "c@example.org",
            "subject": "Grüße — 会議 " + "and a long subject " * 8,
            "date": "2026-11-02T13:15:35Z",
            "in-reply-to": LONG_ID,
            "references": f"q0@example.com {LONG_ID}",
            "auto": "auto-replied",
            "body": "Zeile\n\n.\nFrom here\nZürich " + "x" * 2_000,
        }
    )
    assert sent.to == ["a@example.com", "b@example.net", "c@example.org"]
    assert all(len(line) <= 998 for line in sent.data.split(b"\r\n"))
    assert sent.data.isascii()
    message = parsed(sent.data)
    assert message["From"].addresses[0].display_name == "Œuvre, (the) “office”"
    assert [each.addr_spec for each in message["To"].addresses] == ["a@example.com", "b@example.net"]
    assert message["Cc"] == "c@example.org"
    assert message["Subject"] == ("Grüße — 会議 " + "and a long subject " * 8)
    assert message["Date"].datetime.isoformat() == "2026-11-02T13:15:35+00:00"
    assert message["Message-ID"] == "<m1@example.org>"
    assert message["In-Reply-To"] == f"<{LONG_ID}>"
    assert message["References"].split() == ["<q0@example.com>", f"<{LONG_ID}>"]
    assert message["Auto-Submitted"] == "auto-replied"
    assert message.get_content().splitlines() == ["Zeile", "", ".", "From here", "Zürich " + "x" * 2_000]


def test_our_own_answer_is_recognised_when_it_comes_back(tmp_path: Path) -> None:
    answer = called(mail.acknowledge, ASKED, IDENTITY)
    raw = mail_writing.outgoing(answer, "call-1").data
    back = Element(0, mail_reading.read_mail(raw, Mailbox({}, tmp_path))).attributes
    assert back["auto"] == "auto-replied"
    assert back["references"] == answer.attributes["references"]
    assert (back["message-id"], back["thread"]) == (answer.attributes["message-id"], "q0@example.com")


@pytest.mark.parametrize(
    "facts",
    [
        {"subject": "x\nBcc: victim@example.org"},
        {"subject": "x\r\n\r\nbody"},
        {"from-name": "x\nBcc: victim@example.org"},
        {"auto": "no\nX: y"},
        {"message-id": "m@example.org>\nBcc: victim@example.org"},
        {"message-id": "two words@example.org"},
    ],
)
def test_a_line_break_cannot_become_a_header(facts: dict[str, str]) -> None:
    with pytest.raises(ActionError) as caught:
        outgoing(**facts)
    assert caught.value.kind == "header-injection"


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"to": "a@example.org\nBcc:victim@example.org"}, "bad-address"),
        ({"from": ""}, "bad-address"),
        ({"from": "a@example.org b@example.org"}, "bad-address"),
        ({"to": ""}, "bad-address"),
        ({"to": " ".join(f"a{number}@example.org" for number in range(51))}, "too-many-recipients"),
        ({"date": "yesterday"}, "bad-date"),
    ],
)
def test_a_mail_that_its_author_cannot_mean_is_refused(facts: dict[str, str], kind: str) -> None:
    with pytest.raises(ActionError) as caught:
        outgoing(**facts)
    assert caught.value.kind == kind


XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=120
)


@FUZZ
@given(subject=XML_TEXT, name=XML_TEXT, body=XML_TEXT, ident=XML_TEXT)
def test_whatever_the_values_the_headers_are_ours(subject: str, name: str, body: str, ident: str) -> None:
    facts = {"subject": subject, "from-name": name, "body": body, "in-reply-to": ident, "references": ident}
    message = email.message_from_bytes(outgoing(**facts).data, policy=email.policy.compat32)
    ours = {"message-id", "in-reply-to", "references", "from", "to", "subject", "date"}
    ours |= {"content-type", "content-transfer-encoding", "mime-version"}
    assert {key.lower() for key in message} <= ours
    assert len(message.keys()) == len(set(message.keys()))


@pytest.mark.parametrize("name", ["", "Ana Lee", "Lee, Ana", "Françoise"])
@pytest.mark.parametrize(
    "subject", ["", "Re: hi", "Grüße", "=?utf-8?q?x?=", "two  blanks", "word " * 30, " x "]
)
@pytest.mark.parametrize("body", ["", "two\nlines\n", "a " * 80, "é", "\x85", "trailing  \n\n"])
def test_what_is_written_is_what_the_standard_library_would_write(name: str, subject: str, body: str) -> None:
    sent = outgoing(**{"from-name": name, "subject": subject, "body": body, "date": "2026-11-02T13:15:35Z"})
    mime = email.message.EmailMessage(policy=email.policy.SMTP.clone(cte_type="7bit"))
    mime["From"] = email.headerregistry.Address(name, addr_spec="assistant@example.org")
    mime["To"], mime["Subject"] = "a@example.com", subject
    mime["Date"] = "Mon, 02 Nov 2026 13:15:35 +0000"
    mime.set_content(body)
    written, encoding = parsed(sent.data), re.compile(rb"Content-Transfer-Encoding: .*\r\n")
    fields = b"Message-ID: <m1@example.org>\r\n" + mime.as_bytes().partition(b"\r\n\r\n")[0]
    assert encoding.sub(b"", sent.data.partition(b"\r\n\r\n")[0]) == encoding.sub(b"", fields)
    assert (
        written.get_content() == email.message_from_bytes(mime.as_bytes(), policy=mime.policy).get_content()
    )
    assert sent.data.isascii()
    assert max(map(len, sent.data.splitlines())) <= 78


# --- to a Maildir -----------------------------------------------------------------------------------------

OUTBOX = element("outbox", name="out", kind="maildir", path="Outbox")


def delivered(home: Path) -> list[Path]:
    return sorted(path for folder in ("new", "cur") for path in (home / "Outbox" / folder).iterdir())


def test_a_mail_is_delivered_to_a_maildir(tmp_path: Path) -> None:
    answer = called(mail.acknowledge, ASKED, IDENTITY)
    sent = called(mail.send, answer, OUTBOX, home=tmp_path).attributes
    (file,) = delivered(tmp_path)
    assert file.parent.name == "new"
    assert file.stat().st_mode & 0o077 == 0  # whatever the folder above lets others do
    assert b"\r" not in file.read_bytes()
    assert parsed(file.read_bytes())["Message-ID"] == f"<{sent['message-id']}>"
    assert (sent["to"], sent["outbox"], sent["in-reply-to"]) == ("ana@example.com", "out", "q1@example.com")
    assert list((tmp_path / "Outbox" / "tmp").iterdir()) == []


def test_N37_a_mail_that_is_sent_again_is_delivered_once(tmp_path: Path) -> None:
    answer = called(mail.acknowledge, ASKED, IDENTITY)
    called(mail.send, answer, OUTBOX, home=tmp_path)
    (first,) = delivered(tmp_path)
    first.rename(tmp_path / "Outbox" / "cur" / f"{first.name}:2,S")
    called(mail.send, answer, OUTBOX, home=tmp_path)
    assert [path.name for path in delivered(tmp_path)] == [f"{first.name}:2,S"]
    called(mail.send, called(mail.acknowledge, ASKED, IDENTITY, call="2"), OUTBOX, home=tmp_path)
    assert len(delivered(tmp_path)) == 2


def test_N37_a_draft_is_composed_and_delivered_once_in_one_step(tmp_path: Path) -> None:
    draft = element("draft", "Look.", to="a@example.com", subject="Full", auto="auto-generated")
    signature = element("signature", "The office")
    for call in ("1", "1", "2"):
        sent = called(mail.write, draft, IDENTITY, OUTBOX, signature, call=call, home=tmp_path).attributes
        assert (sent["to"], sent["outbox"]) == ("a@example.com", "out")
    first, second = (parsed(file.read_bytes()) for file in delivered(tmp_path))
    assert first["Message-ID"] != second["Message-ID"]
    assert f"<{sent['message-id']}>" in (first["Message-ID"], second["Message-ID"])
    assert (first["Subject"], first["Auto-Submitted"]) == ("Full", "auto-generated")
    assert first.get_content() == "Look.\n\n-- \nThe office\n"
    with pytest.raises(ActionError, match="expected one address in from, and at least one in to"):
        called(mail.write, element("draft", "x"), IDENTITY, OUTBOX, home=tmp_path)


def test_N37_a_mail_without_id_gets_one_from_the_call(tmp_path: Path) -> None:
    hand_made = element("email", "x", kind="new", to="a@example.com", **{"from": "assistant@example.org"})
    for call in ("1", "1", "2"):
        called(mail.send, hand_made, OUTBOX, home=tmp_path, call=call)
    assert len(delivered(tmp_path)) == 2


@pytest.mark.parametrize("at", ["fsync", "replace", "after"])
def test_N35_a_delivery_cut_short_is_made_whole_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    class KilledError(Exception):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    answer = called(mail.acknowledge, ASKED, IDENTITY)
    with monkeypatch.context() as patch:
        patch.setattr(
            *{"fsync": (os, "fsync"), "replace": (Path, "replace"), "after": (os, "close")}[at], kill
        )
        with pytest.raises(KilledError):
            mail_writing.put(tmp_path / "Outbox", mail_writing.outgoing(answer, "call-1"))
    assert len(delivered(tmp_path)) == (1 if at == "after" else 0)
    called(mail.send, answer, OUTBOX, home=tmp_path)
    (file,) = delivered(tmp_path)
    assert parsed(file.read_bytes())["In-Reply-To"] == "<q1@example.com>"


# --- by SMTP ----------------------------------------------------------------------------------------------


class SmtpServer:
    """As much of RFC 5321 as a sender needs; what it took is kept in `taken`."""

    def __init__(self, *, refuse: str = "", password: bool = False) -> None:
        self.taken: list[tuple[str, list[str], bytes]] = []
        self.logins: list[str] = []
        self._refuse, self._password = refuse, password

    async def __aenter__(self) -> SmtpServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mx.example.org ESMTP\r\n")
        sender, to = "", []
        while line := (await reader.readline()).decode().strip():
            command, _, rest = line.partition(" ")
            answer = "250 ok"
            if command == "EHLO":
                answer = "250-mx.example.org\r\n250 AUTH PLAIN" if self._password else "250 mx.example.org"
            elif command == "AUTH":
                self.logins.append(rest)
                answer = "235 welcome"
            elif command == "MAIL":
                sender = rest
            elif command == "RCPT" and self._refuse and self._refuse in rest:
                answer = "550 5.1.1 no such user"
            elif command == "RCPT":
                to.append(rest)
            elif command == "DATA":
                writer.write(b"354 go on\r\n")
                self.taken.append((sender, to, await reader.readuntil(b"\r\n.\r\n")))
            elif command == "QUIT":
                answer = "221 bye"
            writer.write(answer.encode() + b"\r\n")
            if command == "QUIT":
                break
        writer.close()


def submitted(server: SmtpServer, letter: Element, home: Path, **given: str) -> Element:
    async def play() -> bytes:
        async with server:
            facts = {"kind": "smtp", "host": "127.0.0.1", "port": str(server.port), "tls": "none"} | given
            context = CallContext("call-1", 7, "send", home).context()
            return await asyncio.create_task(mail.send(letter, element("outbox", **facts)), context=context)

    return Element(3, asyncio.run(play()))


def test_a_mail_is_sent_by_smtp_dots_and_all(tmp_path: Path) -> None:
    server = SmtpServer()
    letter = element(
        "email", "one\n.\n..two", kind="new", to="a@example.com", **{"from": "assistant@example.org"}
    )
    sent = submitted(server, letter, tmp_path).attributes
    ((sender, to, data),) = server.taken
    assert sender.startswith("FROM:<assistant@example.org>")
    assert to == ["TO:<a@example.com>"]
    assert b"\r\none\r\n..\r\n...two\r\n.\r\n" in data
    assert f"Message-ID: <{sent['message-id']}>".encode() in data
    assert sent["outbox"] == "127.0.0.1"


def test_smtp_says_who_was_refused_and_fails_when_all_were(tmp_path: Path) -> None:
    letter = element(
        "email", "x", kind="new", to="a@example.com b@example.com", **{"from": "assistant@example.org"}
    )
    server = SmtpServer(refuse="b@example.com")
    assert submitted(server, letter, tmp_path).attributes["refused"] == "b@example.com"
    with pytest.raises(ActionError, match="no such user") as caught:
        submitted(SmtpServer(refuse="@example.com"), letter, tmp_path)
    assert caught.value.kind == "not-sent"


def test_smtp_logs_in_with_the_secret_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "smtp").write_text("pass word\n")
    (tmp_path / "etc" / "smtp").chmod(0o600)
    server = SmtpServer(password=True)
    letter = element("email", "x", kind="new", to="a@example.com", **{"from": "assistant@example.org"})
    submitted(server, letter, tmp_path, user="you", secret="smtp")
    assert server.logins == ["PLAIN AHlvdQBwYXNzIHdvcmQ="]


def test_a_server_out_of_reach_fails_the_step_and_says_which(tmp_path: Path) -> None:
    letter = element("email", "x", kind="new", to="a@example.com", **{"from": "assistant@example.org"})
    with pytest.raises(ActionError, match=r"127\.0\.0\.1") as caught:
        submitted(SmtpServer(), letter, tmp_path, port="1")
    assert caught.value.kind == "not-sent"


def test_an_outbox_of_another_kind_is_refused(tmp_path: Path) -> None:
    letter = element("email", "x", kind="new", to="a@example.com", **{"from": "assistant@example.org"})
    with pytest.raises(ActionError, match="one of maildir, smtp"):
        called(mail.send, letter, element("outbox", kind="uucp", path="x"), home=tmp_path)


@pytest.mark.parametrize(
    ("tls", "port", "implicit", "starttls"),
    [({}, 465, True, False), ({"tls": "starttls"}, 587, False, True)],
)
def test_smtp_is_protected_unless_it_stays_on_this_machine(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tls: dict[str, str],
    port: int,
    implicit: bool,
    starttls: bool,
) -> None:
    asked: dict[str, Any] = {}

    async def send(_: bytes, **given: Any) -> tuple[dict[str, Any], str]:
        asked.update(given)
        return {}, "taken"

    monkeypatch.setattr(aiosmtplib, "send", send)
    letter = element("email", "x", kind="new", to="a@example.com", **{"from": "assistant@example.org"})
    called(mail.send, letter, element("outbox", kind="smtp", host="smtp.example.org", **tls), home=tmp_path)
    assert (asked["port"], asked["use_tls"], asked["start_tls"]) == (port, implicit, starttls)
    assert asked.get("validate_certs", True)


def test_no_mail_and_no_password_goes_through_the_net_in_the_clear(tmp_path: Path) -> None:
    letter = element("email", "x", kind="new", to="a@example.com", **{"from": "assistant@example.org"})
    with pytest.raises(ActionError, match="in the clear"):
        submitted(SmtpServer(), letter, tmp_path, host="smtp.example.org")
