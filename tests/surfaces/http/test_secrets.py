"""Secrets of a home, planted and looked for in all their encodings on all that the pages answer (M75)."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from urllib.parse import quote

from narval.surfaces.http.sessions import form_token
from tests.surfaces.cli.command_line import daemon, make_home, narval, well
from tests.surfaces.http.served_pages import Browsing, served

OUTBOX, HOOK = "0utb<x&Sentinel%1", "h00kSentinel3"


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


def test_M75_no_answer_has_a_secret_of_the_home(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "etc" / "box").write_text(OUTBOX)
    (home / "etc" / "box").chmod(0o600)
    (home / "etc" / "narval.toml").write_text(
        "[mail]\nfrom = 'narval@example.org'\nhost = 'localhost'\nuser = 'narval'\nsecret = 'box'\n"
        f"[hooks.build]\nsha256 = '{hashlib.sha256(HOOK.encode()).hexdigest()}'\nelement = 'build'\n"
    )
    (home / "etc" / "people.toml").write_text("[people.ann]\nlogin = 'root'\nweb = 'operator'\n")
    url = "https://me:urlSentinel4@example.org/"
    with daemon(home), served(home) as port:
        well(home, "add", "-", given=f"<error type='x' password='attributeSentinel5'>{url}</error>")
        narval(home, "start", "demo.fail")
        browsing = Browsing(home, port, "ann")
        answers = browsing.crawl("/a/narval/", "/sessions")
        for odd in (
            "/nothing",
            "/a/narval/runs/x",
            "/static/x/y",
            "/a/narval/memory?xpath=%5B",
            "/hook/build",
        ):
            answers[odd] = browsing.get(odd)
        texts = {address: f"{one.headers} {one.text}".lower() for address, one in answers.items()}
        secrets = [OUTBOX, HOOK, *browsing.secrets]
        for address, text in texts.items():
            for secret in secrets:
                assert not any(form in text for form in encoded(secret)), (address, secret)
            if answers[address].is_page and "/memory/add" not in address:
                assert not any(one in text for one in ("urlsentinel4", "attributesentinel5")), address
        token = form_token(browsing.secrets[0]).lower()
        assert not any(token in text for address, text in texts.items() if address.endswith(".json"))
        browsing.close()
    written = "".join(file.read_text() for file in (home / "var").glob("**/*.log*"))
    assert not any(form in written.lower() for secret in secrets for form in encoded(secret))
