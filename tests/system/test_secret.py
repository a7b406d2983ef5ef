"""What a program was given as a secret is hidden in texts from outside, however it is written there."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pytest

from narval.system.secret import GIVEN, secret_named, without_given

SECRETS = ("open-sesame", "ab12", 'x<&>"y\\/z ?+~é', "\u00ff\u00fe>?>?~~", "sixteen letters!")
WAYS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "quoted": lambda secret: quote(secret, safe=""),
    "quoted path": quote,
    "quoted form": quote_plus,
    "quoted in lower case": lambda secret: re.sub("%..", lambda one: one[0].lower(), quote(secret)),
    "json": lambda secret: json.dumps({"token": secret}),
    "json as it is": lambda secret: json.dumps([secret], ensure_ascii=False),
    "xml": escape,
    "repr": lambda secret: repr({"token": secret}),
}


@pytest.fixture(params=SECRETS)
def secret(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    GIVEN.clear()
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc" / "token"
    file.write_text(request.param)
    file.chmod(0o600)
    return secret_named("token", tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_hidden_as_texts_write_it(secret: str, way: str) -> None:
    text = WAYS[way](secret)
    told = without_given(f"refused: {text}, sorry")
    assert "…" in told
    assert told.startswith("refused: ")
    assert told.endswith(", sorry")
    assert secret not in told
    assert all(form not in told for form in GIVEN)


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "ann:"])
@pytest.mark.parametrize("after", ["", "\n", "zz", " and more"])
def test_it_is_hidden_in_base64_wherever_it_begins(
    secret: str, encode: Callable[[bytes], bytes], before: str, after: str
) -> None:
    text = encode(f"{before}{secret}{after}".encode()).decode()
    told = without_given(f"Authorization: {text}")
    left = told.removeprefix("Authorization: ").split("…")
    assert len(left) == 2, told
    assert len("".join(left)) <= 4 + len(encode(f"{before}{after}".encode())), "nothing of it is left"


def test_a_secret_of_three_letters_hides_nothing(tmp_path: Path) -> None:
    GIVEN.clear()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "token").write_text("abc")
    (tmp_path / "etc" / "token").chmod(0o600)
    assert secret_named("token", tmp_path) == "abc"
    assert without_given("abc YWJj 616263") == "abc YWJj 616263"
    assert GIVEN == []
