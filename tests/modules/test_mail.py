"""What is made of a mail: the demo mails one by one, hostile ones, and anything at all (issue 2, item 6)."""

from __future__ import annotations

import base64
import hashlib
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from modules import mail
from modules.mail import boxes as mail_boxes
from modules.mail import letters, mailbox
from modules.mail import reading as mail_reading
from modules.mail import texts as mail_texts
from modules.mail.mailbox import Mailbox
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element
from narval.people.mail.writing import MAX_VALUE
from tests.examples import examples
from tests.places import ROOT

DEMO = ROOT / "data" / "demo" / "Maildir" / "new"
FILES = {path.name.partition("-")[2].partition(".")[0]: path for path in sorted(DEMO.iterdir())}
MEGABYTE = 1 << 20


@pytest.fixture
def box(tmp_path: Path) -> Mailbox:
    return Mailbox({"name": "demo", "account": "you"}, tmp_path)


def read(box: Mailbox, raw: bytes | str) -> etree._Element:
    """The element made of a mail, after it was shown to be one that memory accepts."""
    xml = mail_reading.read_mail(raw.encode() if isinstance(raw, str) else raw, box)
    assert canonical(xml) == xml
    return etree.fromstring(xml)


def problems(element: etree._Element) -> set[str]:
    return {problem.get("type", "") for problem in element.iter("problem")}


def names(element: etree._Element) -> list[str]:
    return [attachment.get("name", "") for attachment in element.iter("attachment")]


# --- the demo mails: what each is there to show ---------------------------------------------------------

BOAT = "boat-1@example.com"
OPENING = "3f1d0e6a-7a55-4a3c-9a1a-0c2d8a1f7b20@example.com"
EXPECTED: dict[str, dict[str, Any]] = {
    "plain": {
        "message-id": OPENING,
        "thread": OPENING,
        "from": "ana@example.com",
        "from-name": "Ana",
        "to": "assistant@example.org",
        "subject": "Opening hours on Friday",
        "date": "2026-11-02T13:15:35Z",
        "received": "2026-11-02T13:15:38Z",
        "return-path": "ana@example.com",
        "mailbox": "demo",
        "account": "you",
        "body": "Hello,\n\nare you open on Friday afternoon? I would bring the two printers then.\n\n"
        "Best wishes\nAna",
    },
    "alternative": {
        "cc": "office@example.net north.site@example.net",
        "body": "Could you send me a quote for 40 metres of fence? *1.80 m* high would be fine, "
        "and I don’t need a gate.",
    },
    "html-only": {
        "body": "Dear all,\n\nplease bring:\n\n- the keys\n- a torch & batteries\n- Café money\n\n"
        "The map is here <https://www.example.com/map?id=7&z=12>.\n\nMon 9:00\nTue 10:30\n\nour logo"
    },
    "alternative-html-only": {
        "body": "Hello!\n\nThe photos of the garden are ready — have a look when you find the time.\n\nDina"
    },
    "nested": {
        "body": "The plan is attached. The wall in the middle goes.\n\nSent from the train.",
        "names": ["dot.png", "ground floor.pdf"],
    },
    "encoded-q": {
        "from-name": "Françoise",
        "subject": "Déjà vu: la clé du garage",
        "body": "Bonjour,\n\nla clé du garage est chez le gérant. « Merci » d'avance !\n\nFrançoise",
    },
    "encoded-b": {
        "from-name": "ゴロー",
        "subject": "会議の予定",
        "body": "金曜日の会議は十時に始まります。",
    },
    "encoded-split": {
        "subject": "Grüße aus dem Süden – nächste Woche können wir über die Lieferung sprechen"
    },
    "encoded-mixed": {
        "from-name": "Inês (loja)",
        "to": "assistant@example.org",
        "subject": "Pedido nº 17: € 12,50 e pãozinho (café)",
        "body": "O pedido custa € 12,50 – obrigada!",
        "problems": {"bad-charset"},
    },
    "gb2312": {
        "subject": "关于报价的问题",
        "body": "您好，朱镕先生：\n请问报价何时可以发来？谢谢。",
    },
    "iso-2022-jp": {
        "from-name": "圭",
        "subject": "お見積りの件",
        "body": "お世話になっております。\nお見積りをお願いいたします。",
    },
    "koi8-r": {"subject": "Вопрос о доставке", "body": "Здравствуйте! Когда придёт посылка?"},
    "undeclared-8bit": {
        "subject": "Gebühr für die Müllabfuhr",
        "body": "Die Gebühr ist schon wieder höher. Warum?",
        "problems": {"bad-charset"},
    },
    "latin1-as-utf8": {
        "body": "La facture n'est pas arrivée. À bientôt, Noël",
        "problems": {"bad-charset"},
    },
    "utf8-as-latin1": {"body": "Vi tar smörgåsbord för åtta, går det?", "problems": {"bad-charset"}},
    "unknown-charset": {
        "subject": "A and café",
        "body": "Un café, s'il vous plaît.",
        "problems": {"bad-charset"},
    },
    "utf8-header": {
        "from-name": "Quentin Œuvré",
        "subject": "Où êtes-vous ? 🚲",
        "body": "Le vélo est prêt. 🚲",
    },
    "no-date": {"date": None, "received": "2026-11-06T02:05:09Z", "problems": {"no-date"}},
    "no-message-id": {"message-id": None, "problems": {"no-message-id"}},
    "no-from": {"from": None, "from-name": None, "problems": {"no-from"}},
    "no-subject": {"subject": None, "body": "running 10 min late"},
    "same-id-1": {"message-id": "broken-client@localhost", "body": "The meeting is at nine."},
    "same-id-2": {"message-id": "broken-client@localhost", "body": "Correction: the meeting is at ten."},
    "copy": {"message-id": OPENING, "received": "2026-11-07T08:46:27Z"},
    "list": {
        "list": "garden.lists.example.net",
        "auto": None,
        "reply-to": "vera@example.com",
        "body": "Three crates of Boskoop are at the gate. Take what you like.\n\n"
        "_______________________________________________\nGarden mailing list -- garden@lists.example.net\n"
        "To unsubscribe send an email to garden-leave@lists.example.net",
    },
    "bulk": {"list": "bulk", "auto": None},
    "vacation": {
        "auto": "auto-replied",
        "return-path": None,
        "in-reply-to": "offer-1@example.org",
        "thread": "offer-1@example.org",
    },
    "bounce": {"auto": "auto-replied", "names": ["attachment.txt", "attachment.txt"]},
    "newsletter": {
        "list": "list-unsubscribe",
        "subject": "☕ Five reads for the weekend",
        "body": "Five reads\n\n- On slowness <https://news.example.com/1>\n- On rain <https://news.example.com/2>",
    },
    "robot": {"auto": "robot", "list": None},
    "invitation": {
        "body": "You have been invited to an inspection of the roof.",
        "names": ["attachment.ics", "invite.ics"],
    },
    "name-rfc2231": {"names": ["contrat signé € n° 7.pdf"]},
    "name-encoded": {"names": ["Protokoll März 2026.odt"]},
    "hostile-names": {
        "names": [
            "evil",
            "evil.exe",
            "attachment.bin",
            "_CON.txt",
            "up.sh",
            "_-rf",
            "invoicefdp.exe",
            "long" * 49 + ".txt",
            "null",
            "bashrc",
        ]
    },
    "forwarded": {"body": "See below, what do you think?", "names": ["Old correspondence.eml"]},
    "thread-1": {"thread": BOAT, "in-reply-to": None},
    "thread-2": {"thread": BOAT, "in-reply-to": BOAT, "references": BOAT},
    "thread-3": {
        "thread": BOAT,
        "in-reply-to": "boat-2@example.net",
        "references": f"{BOAT} boat-2@example.net",
        "body": "Cake it is. 11 o'clock at the jetty, then.",
    },
    "pgp-signed": {
        "body": "My key has a new fingerprint, please check it by phone. ",
        "names": ["OpenPGP_signature.asc"],
    },
    "smime-encrypted": {"body": "", "names": ["smime.p7m"]},
    "flowed": {
        "thread": "ladder-1@example.org",
        "body": "> May we borrow the ladder for the weekend? We would bring it back on Monday.\n\n"
        "Of course. It stands behind the shed, next to the rain barrel; the key hangs where it "
        "always hangs.\nFrom here it looks dry.\n\n-- \nGita",
    },
    "crlf": {"body": "Saved by a Windows program.\nTwo lines.", "names": ["table.csv"]},
    "long-header": {"body": "Short text."},
    "empty-body": {"body": "", "subject": "Can you call me? (no text)"},
    "control-characters": {
        "subject": "Bell \ufffd and \ufffd nothing",
        "body": "A\ufffdB\ufffd[31mred\ufffd[0m\ufffd end\ufffd",
        "problems": {"control-characters"},
    },
    "bad-boundary": {
        "body": "--quite another one\nContent-Type: text/plain\n\nDo you see this text?\n"
        "--quite another one--",
        "problems": {"bad-boundary"},
    },
    "cut-short": {
        "body": "Here comes the drawing.",
        "names": ["drawing.pdf"],
        "problems": {"cut-short"},
    },
    "from-line": {
        "from": "nora@example.com",
        "body": "This one was moved by hand.\n>From here on nothing is quoted.",
    },
    "own-answer": {"auto": "auto-replied", "from": "assistant@example.org", "thread": OPENING},
    "odd-addresses": {
        "from": "otto@example.com",
        "from-name": "Otto (sales, north)",
        "to": None,
        "cc": "assistant@example.org",
        "reply-to": "orders@example.com",
        "date": None,
        "problems": {"bad-address", "bad-date"},
    },
    "suppressed": {"auto": "suppress", "body": ""},
}


def test_every_demo_mail_has_its_expectation() -> None:
    assert len(FILES) >= 45
    assert set(EXPECTED) == set(FILES) - {"no-mail"}
    assert sum(path.stat().st_size for path in FILES.values()) < 300_000


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_demo_mail_becomes_the_element_it_should(box: Mailbox, name: str) -> None:
    raw = FILES[name].read_bytes()
    element = read(box, raw)
    wanted = EXPECTED[name]
    found: dict[str, Any] = {key: element.get(key) for key in wanted}
    found |= {"body": element.findtext("body"), "names": names(element), "problems": problems(element)}
    assert {key: found[key] for key in wanted} == wanted
    assert found["names"] == wanted.get("names", [])
    assert found["problems"] == wanted.get("problems", set())
    assert element.get("size") == str(len(raw))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_files_are_kept_under_the_home_and_are_what_the_element_says(box: Mailbox, name: str) -> None:
    raw = FILES[name].read_bytes()
    element = read(box, raw)
    assert box.home
    for kept in (*element.iter("attachment"), *element.iter("raw")):
        path = (box.home / kept.get("file", "")).resolve()
        assert path.is_relative_to(box.home / "var" / "mail")
        content = path.read_bytes()
        assert kept.get("sha256") == hashlib.sha256(content).hexdigest()
        assert path.stat().st_mode & 0o077 == 0
        if kept.tag == "raw":
            assert content == raw
        else:
            assert kept.get("size") == str(len(content))
    assert list((box.home / "var").rglob(".new-*")) == []


def test_an_attachment_is_decoded_and_the_attached_mail_is_kept_whole(box: Mailbox) -> None:
    assert box.home
    drawing = read(box, FILES["nested"].read_bytes()).findall("attachment")[1]
    assert (box.home / drawing.get("file", "")).read_bytes().startswith(b"%PDF-1.4")
    forwarded = read(box, FILES["forwarded"].read_bytes()).find("attachment")
    assert forwarded is not None
    inner = read(box, (box.home / forwarded.get("file", "")).read_bytes())
    assert (inner.get("subject"), inner.findtext("body")) == ("Old correspondence", "The inner text.")
    assert names(inner) == ["dot.png"]


def test_what_is_no_mail_is_refused(box: Mailbox) -> None:
    for raw in (FILES["no-mail"].read_bytes(), b"", b"\n\n", b"hello\n"):
        with pytest.raises(ValueError, match="no header"):
            mail_reading.read_mail(raw, box)


# --- who a mail is (N37) --------------------------------------------------------------------------------


def test_N37_copies_of_a_mail_have_one_key_and_mails_that_share_an_id_have_two(
    box: Mailbox,
) -> None:
    keys = {name: read(box, FILES[name].read_bytes()).get("key") for name in EXPECTED}
    assert keys["plain"] == keys["copy"]
    assert keys["same-id-1"] != keys["same-id-2"]
    assert len(set(keys.values())) == len(keys) - 1


def test_N37_line_ends_and_mailbox_formats_do_not_change_the_key(box: Mailbox) -> None:
    raw = FILES["nested"].read_bytes()
    travelled = [
        raw,
        raw.replace(b"\n", b"\r\n"),
        b"From x@example.org Mon Nov  2 08:00:00 2026\n" + raw + b"\n\n",
    ]
    assert len({read(box, each).get("key") for each in travelled}) == 1


def test_a_mail_without_id_is_its_own_thread(box: Mailbox) -> None:
    element = read(box, FILES["no-message-id"].read_bytes())
    assert element.get("thread") == element.get("key")


# --- bounds -----------------------------------------------------------------------------------------------


def test_long_headers_are_bounded_and_keep_both_ends_of_the_thread(box: Mailbox) -> None:
    element = read(box, FILES["long-header"].read_bytes())
    references = element.get("references", "").split()
    assert len(references) == 20
    assert references[0].startswith("000.")
    assert references[-1].startswith("059.")
    assert len(element.get("to", "").split()) == mail_reading.MAX_ADDRESSES
    assert len(element.get("subject", "")) == MAX_VALUE
    assert element.get("subject", "").endswith("…")


def test_a_long_text_is_cut_and_says_so(box: Mailbox) -> None:
    for kind in ("plain", "html"):
        element = read(box, f"From: a@example.org\nContent-Type: text/{kind}\n\n" + "long text\n" * 100_000)
        body = element.find("body")
        assert body is not None
        assert body.text
        assert len(body.text) == mail_reading.MAX_BODY
        assert body.get("truncated") == "yes"


def _attachment(size: int) -> bytes:
    encoded = base64.encodebytes(bytes(range(256)) * (size * 3 // 4 // 256))
    return (
        b"From: a@example.org\nDate: Mon, 2 Nov 2026 08:00:00 +0000\nMessage-ID: <big@example.org>\n"
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nsee attachment\n--b\n"
        b"Content-Type: application/zip; name=a.zip\nContent-Transfer-Encoding: base64\n\n"
        + encoded
        + b"--b--\n"
    )


def _measured(work: Callable[[], etree._Element]) -> tuple[etree._Element, int]:
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_mail_of_25_MB_is_read_in_little_memory(box: Mailbox) -> None:
    raw = _attachment(25 * MEGABYTE)
    element, peak = _measured(lambda: read(box, raw))
    assert len(raw) > 24 * MEGABYTE
    assert peak < 12 * MEGABYTE
    attachment = element.find("attachment")
    assert attachment is not None
    assert (
        attachment.get("sha256")
        == hashlib.sha256(bytes(range(256)) * (25 * MEGABYTE * 3 // 4 // 256)).hexdigest()
    )
    assert not problems(element)


HEAD = b"From: a@example.org\nDate: Mon, 2 Nov 2026 08:00:00 +0000\nMessage-ID: <x@example.org>\n"
MULTIPART = HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n"
HOSTILE: dict[str, tuple[Callable[[], bytes], set[str]]] = {
    "header of many lines": (lambda: HEAD + b"a:b\n" * 6_000_000 + b"\ntext", {"header-too-large"}),
    "header of one line": (
        lambda: HEAD + b"Subject: " + b"=?utf-8?q?a?= " * 1_000_000 + b"\n\ntext",
        {"header-too-large"},
    ),
    "many parts": (lambda: MULTIPART + b"--b\n\nx\n" * 3_000_000, {"too-many-parts"}),
    "near boundaries": (lambda: MULTIPART + b"--bx\n" * 4_000_000, {"bad-boundary"}),
    "empty lines": (lambda: HEAD + b"\n" * 20_000_000, set()),
    "one long line": (lambda: HEAD + b"\n" + b"x" * 20_000_000, set()),
    "escapes": (
        lambda: HEAD + b"Content-Transfer-Encoding: quoted-printable\n\n" + b"=41" * 7_000_000,
        set(),
    ),
    "tags": (lambda: HEAD + b"Content-Type: text/html\n\n" + b"<div><b>" * 2_000_000, set()),
    "a charset of square time": (
        lambda: HEAD + b"Content-Type: text/plain; charset=punycode\n\n" + b"a-" + b"z" * 2_000_000,
        {"bad-charset"},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_mail_costs_little_and_says_what_is_wrong(box: Mailbox, name: str) -> None:
    make, wrong = HOSTILE[name]
    raw = make()
    element, peak = _measured(lambda: read(box, raw))
    assert peak < 40 * MEGABYTE
    assert problems(element) == wrong
    assert element.get("from") == "a@example.org"


def test_parts_nested_ten_thousand_deep_end_at_the_bound(box: Mailbox) -> None:
    opening = "".join(
        f"--{depth}\nContent-Type: multipart/mixed; boundary={depth + 1}\n\n" for depth in range(10_000)
    )
    element = read(box, f"From: a@example.org\nContent-Type: multipart/mixed; boundary=0\n\n{opening}text")
    assert "too-deep" in problems(element)
    assert len(names(element)) == 1


def test_addresses_nested_ten_thousand_deep_are_no_addresses(box: Mailbox) -> None:
    element = read(box, "Subject: x\nFrom: " + "(" * 10_000 + "a@example.org\n\ntext")
    assert element.get("from") is None
    assert "bad-address" in problems(element)


# --- anything at all --------------------------------------------------------------------------------------

FUZZ = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A demo mail with some of its bytes cut out, doubled, swapped for others, or taken from another mail."""
    mails = [path.read_bytes() for path in FILES.values()]
    raw = draw(st.sampled_from(mails))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 200)))
        other = draw(st.sampled_from(mails))
        offset = draw(st.integers(0, len(other)))
        new = draw(
            st.sampled_from(
                (b"", raw[start:end] * 2, b"\n", b"\x00", b"\xff\xfe", other[offset : offset + 200])
            )
        )
        raw = raw[:start] + (new or draw(st.binary(max_size=8))) + raw[end:]
    return raw


def _is_told(box: Mailbox, raw: bytes) -> None:
    xml = mail_boxes.element_of(box, letters.Letter("ident", "somewhere", raw))
    assert canonical(xml) == xml
    element = Element(0, xml)
    fitting = [output.id for output in (mail.MAILS, mail.TROUBLES) if all(map(element.xpath, output.match))]
    assert fitting == (["mails"] if element.name == "email" else ["troubles"])


@FUZZ
@given(raw=st.binary(max_size=2_000))
def test_random_bytes_become_an_element_or_an_error(box: Mailbox, raw: bytes) -> None:
    _is_told(box, raw)


@FUZZ
@given(raw=mutated())
def test_a_damaged_mail_becomes_an_element_or_an_error(box: Mailbox, raw: bytes) -> None:
    _is_told(box, raw)


LABELS = [
    "",
    "utf-8",
    "us-ascii",
    "gb2312",
    "iso-2022-jp",
    "utf-16",
    "utf-7",
    "base64",
    "rot13",
    "hz",
    "idna",
    "\0",
    "é",
]


@FUZZ
@given(data=st.binary(max_size=300), label=st.one_of(st.sampled_from(LABELS), st.text(max_size=20)))
def test_every_bytes_are_some_text(data: bytes, label: str) -> None:
    assert isinstance(mail_texts.decode(data, label, {}), str)


@FUZZ
@given(text=st.text(max_size=100))
def test_text_in_a_charset_is_read_back(text: str) -> None:
    found: dict[str, str] = {}
    assert (
        mail_texts.decode(text.encode("utf-8", "replace"), "utf-8", found)
        == text.encode("utf-8", "replace").decode()
    )
    assert not found


@FUZZ
@given(asked=st.text(max_size=400), kind=st.sampled_from(("text/plain", "image/png", "x/y", "")))
def test_a_file_name_is_one_harmless_component(asked: str, kind: str) -> None:
    name = mailbox.file_name(asked, kind)
    assert name == os.path.basename(name)
    assert name.isprintable() or not name.isascii()
    assert not name.startswith((".", "-"))
    assert 0 < len(name.encode()) <= 200
    assert not mailbox.RESERVED.fullmatch(name)
    assert mailbox.file_name(name, kind) == name


@FUZZ
@given(html=st.text(alphabet="<>/abpdivtl&;#x0\"'= \n", max_size=300))
def test_any_html_is_some_text(html: str) -> None:
    assert isinstance(mail_texts.readable(html), str)


# --- signs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "auto"),
    [
        ("Auto-Submitted: no", None),
        ("Auto-Submitted: auto-generated; owner-email=x", "auto-generated"),
        ("Precedence: auto_reply", "auto-reply"),
        ("X-Autoreply: yes", "auto-reply"),
        ("X-Auto-Response-Suppress: DR, RN", None),
        ("X-Auto-Response-Suppress: All", "suppress"),
        ("Return-Path: <>", "null-return-path"),
        ("Return-Path: <a@example.org>", None),
        ("Content-Type: multipart/report; boundary=b", "report"),
        ("Sender: mailer-daemon@example.org", None),
    ],
)
def test_the_signs_of_an_automaton(box: Mailbox, field: str, auto: str | None) -> None:
    assert read(box, f"From: a@example.org\n{field}\n\ntext").get("auto") == auto


@pytest.mark.parametrize(
    ("sender", "auto"),
    [
        ("MAILER-DAEMON@example.org", "robot"),
        ("do-not-reply+17@example.org", "robot"),
        ("garden-bounces@example.org", "robot"),
        ("owner-garden@example.org", "robot"),
        ("reply@example.org", None),
        ("noreen@example.org", None),
        ("bouncer@example.org", None),
    ],
)
def test_addresses_that_nobody_reads(box: Mailbox, sender: str, auto: str | None) -> None:
    assert read(box, f"From: {sender}\n\ntext").get("auto") == auto


def test_an_html_footer_does_not_hide_the_plain_text_and_the_other_way_round(box: Mailbox) -> None:
    parts = [("html", "<p>one</p>"), ("plain", "two"), ("html", "<b>three</b>")]
    raw = "From: a@example.org\nContent-Type: multipart/mixed; boundary=b\n\n"
    raw += "".join(f"--b\nContent-Type: text/{kind}\n\n{text}\n" for kind, text in parts) + "--b--\n"
    assert read(box, raw).findtext("body") == "one\n\ntwo\n\nthree"


def test_text_after_the_padding_is_not_part_of_what_was_encoded(box: Mailbox) -> None:
    raw = b"From: a@example.org\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n-- \nfooter of a list\n"
    assert read(box, raw).findtext("body") == "hello"


@pytest.fixture(autouse=True)
def _no_file_outside(box: Mailbox) -> Iterator[None]:
    """Whatever a mail says, only var/mail of the home is written to."""
    yield
    assert box.home
    assert {path.name for path in box.home.iterdir()} <= {"var"}
