"""Tokens with which programs elsewhere authenticate: the files of a home have only the SHA-256 of each."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping


def new_token() -> str:
    """A token of 256 bits, which is not stored."""
    return secrets.token_urlsafe(32)


def token_digest(token: str) -> str:
    """The digest of a token, in the form for files."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_digest(value: object, made: str = ": `printf %s TOKEN | sha256sum`") -> str:
    """Read the digest of a token; `made` says how to make one. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError(f"the SHA-256 of a token, 64 hex digits{made}")
    return value.lower()


def is_token(token: str, digest: str | None) -> bool:
    """True if a digest is that of a token, compared in constant time; an empty token has none."""
    return bool(token) and hmac.compare_digest(token_digest(token), digest or "")


def owner_of(token: str, digests: Mapping[str, str | None]) -> str | None:
    """The name of the owner of a token, by the digests of all; None if there is none."""
    owners = [name for name, digest in digests.items() if is_token(token, digest)]  # always compares all
    return owners[0] if owners else None


def same_tokens(digests: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """The names that share a token with another, each with that one: they cannot be distinguished."""
    names: dict[str, str] = {}
    for name, digest in digests.items():
        if digest and (other := names.setdefault(digest, name)) != name:
            yield name, other
