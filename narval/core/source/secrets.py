"""Secrets in texts, hidden before they are shown: passwords in URLs, and values named as secrets."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

HIDDEN = "…"

_URL = r"(?<=://)([^\s/?#@:\"'<>]*:)[^\s/?#\"'<>]+(?=@)"
"""The name and the password in a URL, up to the last `@` before the path."""

_NAMED = r"""(?ix)
    ( (?<![a-z0-9])
      (?: passw(?:or)?d | passphrase | pwd | client[_-]?secret | api[_-]?key | access[_-]?key
        | (?:access|auth|api|bearer|refresh|session|id)[_-]?token )
      ["']? \s* [=:] \s* ["']? )
    (?: (?<=["']) [^"'\n]+ | [^\s"'<>&,;)\]}]+ )
    | ( \b authorization ["']? \s* [=:] \s* ["']? (?:basic|bearer)\s+ ) [^\s"'<>,;]+
    """
"""A word that names a secret, and its value: `password=…`, `"api_key": "…"`, `Authorization: Basic …`."""

_WORDS = ("pass", "pwd", "secret", "key", "token", "author")
"""Words, one of which is in each such name. Most texts have none, and need no search for names."""


def without_secrets(text: str) -> str:
    """A text with the passwords in URLs and the values of named secrets hidden."""
    if "://" in text:
        text = re.sub(_URL, rf"\1{HIDDEN}", text)
    if ("=" in text or ":" in text) and any(map(text.casefold().__contains__, _WORDS)):
        text = re.sub(_NAMED, lambda match: (match[1] or match[2]) + HIDDEN, text)
    return text


def hide_secrets(value: Any) -> Any:
    """Plain data, such as a line of history, with the secrets in its texts hidden."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {key: _of(key, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hide_secrets(inner) for inner in value]
    return value


def _of(key: object, value: Any) -> Any:
    """A value by its key: if the key names a secret, the value is hidden whatever it looks like."""
    if isinstance(value, str):
        return HIDDEN if value and _names_a_secret(str(key)) else without_secrets(value)
    return hide_secrets(value)


@lru_cache(1000)
def _names_a_secret(key: str) -> bool:
    return re.search(_NAMED, f"{key}=x") is not None
