"""Secrets by name: an environment variable, or a file in `etc/` that only its owner may read. Secrets that
were handed out are hidden in texts from outside.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote, quote_plus

from narval.core.source.secrets import HIDDEN

_SHORTEST = 4
"""The fewest characters of a secret that is hidden: a shorter one occurs in many words."""

GIVEN: list[str] = []
"""The secrets that this program was given, as they are and in other encodings, longest first."""


def secret_named(name: str, home: Path | None) -> str:
    """Give the secret with a name; `home` is the folder with `etc/`, None for a home in memory.

    Raises ValueError, with what to do, if there is none or others may read it.
    """
    secret = _secret_named(name, home)
    if len(secret) >= _SHORTEST and secret not in GIVEN:
        GIVEN[:] = sorted({*GIVEN, *_forms_of(secret)}, key=len, reverse=True)
    return secret


def without_given(text: str) -> str:
    """Hide the given secrets in a text from outside, such as a server's error message: as they are, and as
    written in URLs, JSON, XML, base64 and hexadecimal.
    """
    for form in (*GIVEN,):  # another thread may be given one
        if form in text:
            text = text.replace(form, HIDDEN)
    return text


def _forms_of(secret: str) -> Iterator[str]:
    """A secret, and its forms in other encodings."""
    data = secret.encode(errors="surrogateescape")
    text = escape(secret, quote=False)
    yield from (secret, text, text.replace('"', "&quot;"), escape(secret), repr(secret)[1:-1])
    yield from (json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield from (quoted, re.sub("%..", lambda escaped: escaped[0].lower(), quoted))
    yield from (data.hex(), data.hex().upper())
    for before in range(3):  # the preceding bytes, such as `user:` in a header, shift its digits
        first, last = -(-before * 4 // 3), (before + len(data)) * 4 // 3
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(before) + data).decode()[first:last]


def _secret_named(name: str, home: Path | None) -> str:
    if name in os.environ:
        return os.environ[name]
    if not name or Path(name).name != name or name.startswith("."):
        raise ValueError(f"expected the name of an environment variable or of a file in etc/, got {name!r}")
    file = (home or Path()) / "etc" / name
    if not file.is_file():
        raise ValueError(
            f"its secret is neither in the environment nor a file of etc/: {name!r}; write it to {file} and "
            f"chmod 600 that"
        )
    if file.stat().st_mode & 0o077:
        raise ValueError(f"others may read its secret: chmod 600 {file}")
    return file.read_text("utf-8").strip()
