"""Notices by push services: what a real server is sent, and that no stranger's text is read as markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest

from narval import Element
from tests.local_site import Answer, LocalSite, local_site, page
from tests.modules.homes import answer, asking

NOTICE = (
    '<notice subject="narval: w.r &lt;é&gt; failed&#10;X-A: 1">'
    "@everyone &lt;!channel&gt; *b* [x](y) é</notice>"
)
SUBJECT, TEXT = "narval: w.r <é> failed\nX-A: 1", "@everyone <!channel> *b* [x](y) é"


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as site:
        yield site


def told(folder: Path, site: LocalSite, way: str, more: str = "", step: str = "") -> Element:
    (folder / "etc").mkdir(exist_ok=True)
    secret = folder / "etc/phone-token"
    secret.write_text("sesame")
    secret.chmod(0o600)
    settings = f'[services.phone]\nurl = "{site.url}/base"\nsecret = "phone-token"\n{more}'
    with asking(folder, settings) as agent:
        arguments = f'{NOTICE}<notify name="phone" way="push" service="phone" {way}/>'
        return answer(agent, "notify.tell", arguments, step=step)


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        ("gotify", "/base/message", {"title": SUBJECT, "message": TEXT}),
        ("home-assistant", "/base", {"title": SUBJECT, "message": TEXT}),
        ("telegram", "/base/sendMessage", {"chat_id": "12", "text": f"{SUBJECT}\n{TEXT}"}),
        (
            "slack",
            "/base",
            {"text": f"{SUBJECT}\n{TEXT}".replace("<", "&lt;").replace(">", "&gt;")},
        ),
        ("discord", "/base", {"content": f"{SUBJECT}\n{TEXT}", "allowed_mentions": {"parse": []}}),
    ],
)
def test_each_kind_is_sent_what_it_takes(
    tmp_path: Path, site: LocalSite, kind: str, path: str, said: dict[str, Any]
) -> None:
    site.put(path, page("{}"))
    assert told(tmp_path, site, f'kind="{kind}" to="12"').attributes["way"] == "push"
    (asked,) = site.asked
    assert (asked.method, asked.path, json.loads(asked.body)) == ("POST", path, said)
    assert asked.headers["content-type"] == "application/json"


def test_a_title_of_ntfy_is_one_header_in_any_script(tmp_path: Path, site: LocalSite) -> None:
    site.put("/base", page("{}"))
    told(tmp_path, site, 'kind="ntfy"')
    (asked,) = site.asked
    assert str(make_header(decode_header(asked.headers["title"]))) == SUBJECT
    assert "x-a" not in asked.headers
    assert asked.body.decode() == TEXT
    assert asked.headers["authorization"] == "Bearer sesame"


def test_a_token_goes_in_the_header_that_the_settings_name(tmp_path: Path, site: LocalSite) -> None:
    site.put("/base/message", page("{}"))
    told(tmp_path, site, 'kind="gotify"', 'auth = "header"\nheader = "X-Gotify-Key"\n')
    assert site.asked[0].headers["x-gotify-key"] == "sesame"


@pytest.mark.parametrize(
    ("status", "type", "asked"), [(500, "not-told", 3), (429, "not-told", 3), (401, "bad-way", 1)]
)
def test_only_what_may_pass_is_tried_again(
    tmp_path: Path, site: LocalSite, status: int, type: str, asked: int
) -> None:
    site.put("/base", page("wrong <token>", status))
    found = told(tmp_path, site, 'kind="ntfy"', step='retries="2" backoff="0"')
    assert found.attributes["type"] == type
    assert f"[services.phone]: ntfy answered {status}" in found.text
    assert "wrong <token>" in found.text
    assert "sesame" not in found.text
    assert len(site.asked) == asked


def test_a_redirect_is_no_success_and_is_not_followed(tmp_path: Path, site: LocalSite) -> None:
    site.put("/base", Answer(b"", 302, {"Location": "/login"}))
    assert told(tmp_path, site, 'kind="ntfy"').attributes["type"] == "bad-way"
    assert len(site.asked) == 1


@pytest.mark.parametrize("way", ["", 'kind="pigeon"'])
def test_a_way_that_is_wrong_says_what_it_needs(tmp_path: Path, site: LocalSite, way: str) -> None:
    found = told(tmp_path, site, way)
    assert 'needs service="NAME" and kind="ntfy|gotify|home-assistant' in found.text
    assert site.asked == []
