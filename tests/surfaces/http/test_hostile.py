"""A home full of hostile texts, seen through all of its pages and their data (M71), and its secrets, looked
for in all that these answer, in all their encodings (M75).
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from urllib.parse import quote, unquote

import pytest

from narval.surfaces.http.page import name_in, segment
from narval.surfaces.http.rendering import Exact, visible
from narval.surfaces.http.sessions import form_token
from tests.surfaces.cli.command_line import daemon, well
from tests.surfaces.http.hostile_home import HOOK_TOKEN, IDS, NODES, TEXTS, begin_all, make_hostile
from tests.surfaces.http.reading_html import read
from tests.surfaces.http.served_pages import Browsing, GotPage, served

OUTBOX = "0utb<x&Sentinel%1"


@pytest.fixture(scope="module")
def browsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    """Somebody at the pages of the home."""
    home = make_hostile(tmp_path_factory.mktemp("hostile") / "home")
    (home / "etc" / "box").write_text(OUTBOX)
    (home / "etc" / "box").chmod(0o600)
    with (home / "etc" / "narval.toml").open("a") as settings:
        settings.write(
            "[mail]\nfrom = 'narval@example.org'\nhost = 'localhost'\nuser = 'narval'\nsecret = 'box'\n"
        )
    url = "https://me:urlSentinel4@example.org/"
    with daemon(home):
        assert begin_all(home) == {}
        well(home, "add", "-", given=f"<error type='x' password='attributeSentinel5'>{url}</error>")
        with served(home) as port:
            browsing = Browsing(home, port, "ann")
            yield browsing
            browsing.close()


@pytest.fixture(scope="module")
def crawled(browsing: Browsing) -> dict[str, GotPage]:
    return browsing.crawl("/a/narval/", "/sessions", all_of="/a/narval/memory/0")


def test_M71_every_page_is_made_of_our_own_elements_alone(crawled: dict[str, GotPage]) -> None:
    broken: dict[str, object] = {}
    for address, answer in crawled.items():
        if answer.status >= 500:
            broken[address] = answer.status
        elif answer.is_page and (strange := read(answer.text).strange):
            broken[address] = strange[:3]
        elif answer.headers.get("content-type") == "application/json":
            json.loads(answer.text)
    assert broken == {}


def test_M71_links_lead_to_what_they_name(crawled: dict[str, GotPage]) -> None:
    assert [address for address, answer in crawled.items() if answer.status not in (200, 303, 307)] == []


def encoded(secret: str) -> set[str]:
    """A secret as it might be written."""
    data = secret.encode()
    forms = {
        secret,
        secret[::-1],
        html.escape(secret),
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        "".join(f"\\u{ord(letter):04x}" for letter in secret),
        data.hex(),
    }
    coded = {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}
    return {form.lower() for form in forms | {one.rstrip("=") for one in coded}}


def test_M75_no_answer_has_a_secret_of_the_home(browsing: Browsing, crawled: dict[str, GotPage]) -> None:
    odd = ("/nothing", "/a/narval/runs/x", "/static/x/y", "/a/narval/memory?xpath=%5B", "/hook/build")
    answers = crawled | {address: browsing.get(address) for address in odd}
    texts = {address: f"{one.headers} {one.text}".lower() for address, one in answers.items()}
    forms = [form for secret in (OUTBOX, HOOK_TOKEN, *browsing.secrets) for form in encoded(secret)]
    assert any(
        "/memory/" in address and "https://me:…@example.org" in text for address, text in texts.items()
    )
    token = form_token(browsing.secrets[0]).lower()
    for address, text in texts.items():
        assert [form for form in forms if form in text] == [], address
        if answers[address].is_page and "/memory/add" not in address:
            assert not any(one in text for one in ("urlsentinel4", "attributesentinel5")), address
        assert not (address.endswith(".json") and token in text), address
    written = "".join(file.read_text() for file in (browsing.home / "var").glob("**/*.log*")).lower()
    assert [form for form in forms if form in written] == []


def test_M71_a_segment_of_a_path_names_the_same_thing_again() -> None:
    for text in (*IDS, *NODES, *TEXTS, "%", "%25", "%2F", "a%2Fb", "live.json", ".json", "...", "ä/ö", ""):
        part = segment(text)
        assert name_in(unquote(part)) == text
        assert unquote(part) not in (".", "..", "live")
        assert "/" not in unquote(part)
        assert not unquote(part).endswith(".json")
        assert part.isascii()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\u202eb", r"a\u202eb"),
        ("\x00\x1b[2J\r\n\t", "\\x00\\x1b[2J\\x0d\n\t"),
        ("\u200bzero\u2060\ufeff\xad\u3164", r"\u200bzero\u2060\ufeff\xad\u3164"),
        ("\ud800", r"\ud800"),
        ("password=hunter2", "password=…"),
        ("https://me:hunter2@example.org", "https://me:…@example.org"),
        ("Ä 日本 \U0001f600 \u05d0", "Ä 日本 \U0001f600 \u05d0"),
    ],
)
def test_M71_what_hides_or_turns_is_shown_as_an_escape(given: str, shown: str) -> None:
    assert visible(given) == shown


def test_M71_what_a_form_holds_is_sent_as_it_is() -> None:
    assert visible(Exact("a\u202epassword=x")) == "a\u202epassword=x"
    assert visible(Exact("a\x00\ud800")) == r"a\x00\ud800"
