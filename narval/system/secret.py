"""Secrets by name: an environment variable, or a file in `etc/` that only its owner may read. What was given
is hidden in texts that come from outside.
"""

from __future__ import annotations

import os
from pathlib import Path

from narval.core.source.secrets import HIDDEN

_SHORTEST = 4
"""The fewest characters of a secret that is hidden: a shorter one stands in many words."""

GIVEN: set[str] = set()
"""The secrets that this program was given."""


def secret_named(name: str, home: Path | None) -> str:
    """Give the secret of a name; `home` is where `etc/` is, None for a home in memory.

    Raises ValueError, with what to do, where there is none or others may read it.
    """
    secret = _secret_named(name, home)
    if len(secret) >= _SHORTEST:
        GIVEN.add(secret)
    return secret


def without_given(text: str) -> str:
    """A text from outside, such as what a server says of its error, in which secrets that were given are
    hidden.
    """
    for secret in sorted(GIVEN, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


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
