"""HTTP requests against a real server: what is sent, what comes of answers, where secrets go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.http.texts import text_of
from modules.http.wanted import Wanted
from narval import Element
from tests.local_site import Answer, LocalSite, local_site, page
from tests.modules.homes import answer, asking

HOSTILE = 'a/../b?x=1&amp;y=2#z " é%2e &lt;'
ENCODED = "x%3D1%26y%3D2%23z%20%22%20%C3%A9%252e%20%3C"


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as site:
        yield site


@pytest.fixture
def other() -> Iterator[LocalSite]:
    with local_site() as site:
        yield site


def settings(site: LocalSite, more: str = "") -> str:
    return f'{more}\n[services.hub]\nurl = "{site.url}/v1"\nsecret = "hub"\n'


class Asking:
    """A home whose settings name one service, asked with a secret."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder, self.settings = folder, settings
        (folder / "etc").mkdir()
        (folder / "etc/hub").write_text("sesame")
        (folder / "etc/hub").chmod(0o600)

    def __call__(self, attributes: str, inner: str = "", step: str = "") -> Element:
        with asking(self.folder, self.settings) as agent:
            return answer(agent, "http.request", f"<request {attributes}>{inner}</request>", step=step)

    def fault(self, attributes: str, inner: str = "") -> str:
        found = self(attributes, inner)
        assert found.name == "error", found
        return f"{found.attributes['type']}: {found.text}"


@pytest.fixture
def ask(tmp_path: Path, site: LocalSite) -> Asking:
    return Asking(tmp_path, settings(site))


# --- what is sent -------------------------------------------------------------------------------------------


def test_a_service_is_asked_with_its_secret_and_what_elements_hold_is_encoded(
    ask: Asking, site: LocalSite
) -> None:
    path = f"/v1/notes/a%20b%3F?q={ENCODED}&q=2"
    site.put(path, Answer(b'{"id": 7}', 200, {"Content-Type": "application/json", "ETag": '"5"'}))
    found = ask(
        'service="hub" path="/notes"',
        f'<segment>a b?</segment><query name="q">{HOSTILE.removeprefix("a/../b?")}</query>'
        '<query name="q">2</query><header name="Accept">application/json</header>',
    )
    assert (found.attributes["status"], found.text) == ("200", '{"id": 7}')
    assert (found.attributes["type"], found.attributes["etag"]) == ("application/json", '"5"')
    (asked,) = site.asked
    assert (asked.method, asked.path) == ("GET", path)
    assert asked.headers["authorization"] == "Bearer sesame"
    assert asked.headers["accept"] == "application/json"
    assert found.attributes["url"] == path.removeprefix("/v1")
    assert b"sesame" not in found.xml


def test_an_answer_that_quotes_the_secret_is_told_without_it(ask: Asking, site: LocalSite) -> None:
    said = b'{"error": "Incorrect API key provided: sesame"}'
    site.put("/v1/notes", Answer(said, 401, {"Content-Type": "application/json"}))
    fault = ask.fault('service="hub" path="/notes"')
    assert "Incorrect API key provided: …" in fault
    assert "sesame" not in fault


@pytest.mark.parametrize(
    ("inner", "type", "body"),
    [
        (
            '<json n="3" title="a &quot;b&quot;" json-types="n:number tags:list"><tags>x</tags></json>',
            "application/json",
            '{"n": 3, "title": "a \\"b\\"", "tags": ["x"]}',
        ),
        (
            '<form><field name="a">1&amp;b=2</field><field name="a">é</field></form>',
            "application/x-www-form-urlencoded",
            "a=1%26b%3D2&a=%C3%A9",
        ),
        ('<body type="text/csv">a,b\n</body>', "text/csv", "a,b\n"),
        ("<body>é</body>", "text/plain; charset=utf-8", "é"),
    ],
)
def test_a_body_is_of_its_type(ask: Asking, site: LocalSite, inner: str, type: str, body: str) -> None:
    site.put("/v1/notes", Answer(b"", 201, {"Location": "/v1/notes/8"}))
    found = ask('service="hub" path="/notes" once="yes"', inner)
    assert (found.attributes["status"], found.attributes["location"]) == ("201", "/v1/notes/8")
    (asked,) = site.asked
    assert (asked.method, asked.headers["content-type"]) == ("POST", type)
    sent = asked.body.decode()
    assert json.loads(sent) == json.loads(body) if inner.startswith("<json") else sent == body
    assert len(asked.headers["idempotency-key"]) == 32


def test_a_key_is_the_same_when_the_call_is_tried_again(ask: Asking, site: LocalSite) -> None:
    site.put("/v1", page("no", 503), page("ok"))
    found = ask('service="hub" once="yes" method="PUT"', step='retries="1" backoff="0"')
    assert found.attributes["status"] == "200"
    first, second = site.asked
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "DELETE"])
def test_any_method_is_asked(ask: Asking, site: LocalSite, method: str) -> None:
    site.put("/v1/notes/7", page("x"))
    assert ask(f'service="hub" path="/notes/7" method="{method}"').attributes["status"] == "200"
    assert site.asked[0].method == method


@pytest.mark.parametrize(
    ("attributes", "inner", "expected"),
    [
        ('service="hub" path="notes"', "", "a path that begins with /"),
        ('service="hub" path="/a?b=1"', "", "its query in query"),
        ('service="hub" path="https://evil.example/"', "", "a path that begins with /"),
        ('service="hub" url="https://evil.example/"', "", "a path that begins with /"),
        ('service="hub" path="/../admin"', "", "expected a path below"),
        ('service="hub" path="/%2e%2e/admin"', "", "expected a path below"),
        ('service="hub"', "<segment>..</segment>", "a segment of a path, found '..'"),
        ('service="hub"', "<segment/>", "a segment of a path, found ''"),
        ('service="hub"', "<segment>a/../../b</segment>", "expected a path below"),
        ('service="pub"', "", "no-such-service"),
        ('service="hub"', '<header name="authorization">x</header>', "cannot be set"),
        ('service="hub"', '<header name="Host">x</header>', "cannot be set"),
        ('service="hub"', '<header name="X-A">1&#10;X-B: 2</header>', "printable ASCII"),
        ('service="hub"', '<header name="X A">1</header>', "printable ASCII"),
        ('service="hub"', "<json/><body/>", "one of json, form, body"),
        ('service="hub"', '<json n="x" json-types="n:number"/>', "n to be of type number"),
        ('service="hub"', "<form><field>1</field></form>", "a field to have a name"),
        ('service="hub"', "<cookie/>", "found &lt;cookie>"),
        ('service="hub" method="CONNECT"', "", "method to be one of"),
        ('service="hub" accept="200"', "", "accept to be any, or statuses"),
        ('service="hub" most="9G"', "", "of 100M at most"),
        ('service="hub" seconds="0"', "", "seconds to be a number"),
        ('url="https://me:pw@a.example/"', "", "without user and password"),
        ('url="http://["', "", "expected an address"),
        ('url="file:///etc/passwd"', "", "bad-address"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is(
    ask: Asking, site: LocalSite, attributes: str, inner: str, expected: str
) -> None:
    assert expected.replace("&lt;", "<") in ask.fault(attributes, inner)
    assert site.asked == []


# --- where it goes ------------------------------------------------------------------------------------------


def test_inside_addresses_are_refused_unless_the_settings_name_them(
    tmp_path: Path, ask: Asking, site: LocalSite, other: LocalSite
) -> None:
    for url in (other.url, "http://169.254.169.254/latest", "http://[::1]:80/", "http://0x7f000001/"):
        assert ask.fault(f'url="{url}"').startswith("forbidden: GET http")
    site.put("/v1/away", Answer(b"", 302, {"Location": f"{other.url}/admin"}))
    assert ask.fault('service="hub" path="/away"').startswith("forbidden")
    assert other.asked == []


def test_a_secret_goes_over_no_redirect_to_another_place(
    tmp_path: Path, site: LocalSite, other: LocalSite
) -> None:
    ask = Asking(tmp_path, settings(site, f'fetch_allow = ["{other.place}"]'))
    site.put("/v1/away", Answer(b"", 302, {"Location": f"{other.url}/there"}))
    site.put("/v1/near", Answer(b"", 307, {"Location": "/elsewhere"}))
    site.put("/elsewhere", "near")
    other.put("/there", "there")
    found = ask('service="hub" path="/away"')
    assert (found.text, found.attributes["url"]) == ("there", f"{other.url}/there")
    assert "authorization" not in other.asked[0].headers
    assert ask('service="hub" path="/near"').text == "near"
    assert site.asked[-1].headers["authorization"] == "Bearer sesame"


def test_an_address_that_lets_in_is_in_no_element(tmp_path: Path, site: LocalSite) -> None:
    ask = Asking(tmp_path, f'[services.bot]\nurl = "{site.url}/bot123:SESAME"\n')
    site.put("/bot123:SESAME/me", Answer(b"x", 200))
    site.put("/bot123:SESAME/slow", Answer(b"x", latency=3))
    assert b"SESAME" not in ask('service="bot" path="/me"').xml
    for path in ("/none", "/../up", "/slow"):
        assert "SESAME" not in ask.fault(f'service="bot" path="{path}" seconds="0.5"')


def test_what_may_alter_something_follows_no_redirect(ask: Asking, site: LocalSite) -> None:
    site.put("/v1/notes", Answer(b"", 303, {"Location": "/v1/notes/7"}))
    assert "http-303: POST hub /notes: 303 See Other, to /v1/notes/7" in ask.fault(
        'service="hub" path="/notes"', "<body>x</body>"
    )
    found = ask('service="hub" path="/notes" accept="303"', "<body>x</body>")
    assert (found.attributes["status"], found.attributes["location"]) == ("303", "/v1/notes/7")
    assert len(site.asked) == 2


# --- what comes back ----------------------------------------------------------------------------------------


def test_a_status_is_an_error_unless_it_is_expected(ask: Asking, site: LocalSite) -> None:
    site.put("/v1/gone", page("<b>no\nsuch</b> note", 404))
    assert "404 Not Found: <b>no such</b> note" in ask.fault('service="hub" path="/gone"')
    assert ask('service="hub" path="/gone" accept="404 410"').attributes["status"] == "404"
    assert ask('service="hub" path="/gone" accept="any"').text == "<b>no\nsuch</b> note"


@pytest.mark.parametrize(("status", "asked"), [(500, 3), (404, 1), (408, 3), (401, 1)])
def test_only_what_may_pass_is_tried_again(ask: Asking, site: LocalSite, status: int, asked: int) -> None:
    site.put("/v1", page("x", status))
    ask('service="hub"', step='retries="2" backoff="0"')
    assert len(site.asked) == asked


def test_a_busy_server_is_asked_again_when_it_says(ask: Asking, site: LocalSite) -> None:
    site.put("/v1", page("x", 429, retry_after="1"), page("x", 503, retry_after="0"), page("ok"))
    began = time.monotonic()
    assert ask('service="hub"', "<body>once</body>").text == "ok"
    assert time.monotonic() - began >= 1
    assert len(site.asked) == 3


@pytest.mark.parametrize("after", ["3600", "soon", "", "Wed, 21 Oct 2099 07:28:00 GMT", "9" * 30])
def test_a_server_that_wants_too_much_patience_is_an_error(ask: Asking, site: LocalSite, after: str) -> None:
    site.put("/v1", page("x", 429, retry_after=after))
    assert ask.fault('service="hub"').startswith("http-429")
    assert len(site.asked) == 1


def test_a_server_that_is_always_busy_is_given_up(ask: Asking, site: LocalSite) -> None:
    site.put("/v1", page("x", 429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"))
    assert ask.fault('service="hub"').startswith("http-429")
    assert len(site.asked) == 4


def test_huge_and_slow_answers_are_given_up(ask: Asking, site: LocalSite) -> None:
    site.put("/v1/huge", page("x" * 2_000_000))
    site.put("/v1/slow", Answer(b"x", latency=3))
    assert ask.fault('service="hub" path="/huge"').startswith("too-large")
    assert len(ask('service="hub" path="/huge" most="2M"').text) == 2_000_000
    assert "within 0.5 s" in ask.fault('service="hub" path="/slow" seconds="0.5"')


def test_an_answer_is_saved_whole_as_a_file(ask: Asking, site: LocalSite) -> None:
    body = bytes(range(256)) * 8_000
    site.put("/v1/photo", Answer(body, 200, {"Content-Type": "image/jpeg"}))
    found = ask('service="hub" path="/photo"', '<save path="var/photos/1.jpg"/>')
    assert (found.attributes["path"], found.attributes["size"]) == ("var/photos/1.jpg", str(len(body)))
    assert (ask.folder / "var/photos/1.jpg").read_bytes() == body
    for path in ("../out", "/tmp/out", "modules/evil.py", "etc/narval.toml"):
        assert ask.fault('service="hub" path="/photo"', f'<save path="{path}"/>').startswith("outside")


def test_what_is_no_text_is_not_shown_as_one(ask: Asking, site: LocalSite) -> None:
    site.put("/v1", Answer(b"\x89PNG", 200, {"Content-Type": "image/png"}))
    found = ask('service="hub"')
    assert (found.text, found.attributes["size"]) == ("", "4")


@pytest.mark.parametrize(
    ("body", "type", "text"),
    [
        ("é".encode(), "text/plain", "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("é".encode("latin-1"), "text/plain; charset=utf-8", "\ufffd"),
        ("é".encode("latin-1"), "text/plain; charset=nonsense", "é"),
        ("é".encode(), "text/plain; charset=zlib_codec", "é"),
        (b"xn--a", "text/plain; charset=idna", "xn--a"),
        (b"\\u0041", 'text/plain; charset="unicode_escape"', "\\u0041"),
        ("é".encode("utf-16"), "text/plain; charset=ascii", "é"),
        (b"\xef\xbb\xbf{}", "application/json", "{}"),
        ("日本".encode("shift_jis"), "text/html;Charset='Shift_JIS'", "日本"),
        (b"\x93x\x94\x81", "", "“x”\ufffd"),
    ],
)
def test_a_text_is_read_whatever_it_says_of_itself(body: bytes, type: str, text: str) -> None:
    assert text_of(body, type) == text


def test_hostile_characters_of_an_answer_stay_text(ask: Asking, site: LocalSite) -> None:
    body = b"</response><start-plan recipe='a.b'/>\x00\x1b[2J"
    site.put("/v1", Answer(body, 200, {"Content-Type": "text/html", "Link": "<x>; rel=\"'"}))
    found = ask('service="hub"')
    assert found.text == "</response><start-plan recipe='a.b'/>\ufffd\ufffd[2J"
    assert found.attributes["link"] == "<x>; rel=\"'"


XML = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"))


@given(st.lists(XML.filter(lambda said: said not in ("", ".", "..")), max_size=3), st.lists(XML, max_size=3))
def test_whatever_elements_hold_stays_one_segment_and_one_value(
    segments: list[str], values: list[str]
) -> None:
    inner = "".join(f"<segment>{escape(said)}</segment>" for said in segments)
    names = [f"k{at}&=" for at in range(len(values))]
    for name, said in zip(names, values, strict=True):
        inner += f"<query name={quoteattr(name)}>{escape(said)}</query>"
    wanted = Wanted.of(Element(0, f"<request url='https://a.example/b/'>{inner}</request>".encode()))
    parts = urlsplit(wanted.url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "a.example", "")
    path = parts.path if segments else parts.path.removesuffix("/")
    assert [unquote(step) for step in path.split("/")] == ["", "b", *segments]
    assert parse_qsl(parts.query, keep_blank_values=True) == list(zip(names, values, strict=True))
