"""Senders: the tables `[hooks.NAME]` and `[callers.NAME]` of the settings, each a program elsewhere with its
own token. A webhook adds elements, a caller calls over HTTP.

The files of a home have only the SHA-256 of a token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, TypeVar

import msgspec

from narval.core.agent_name import CALLER
from narval.core.elements.names import CONTROLS, check_name
from narval.core.errors import ElementError
from narval.files import toml


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


# --- tables of the settings -----------------------------------------------------------------------------

HOOKS, CALLERS = "hooks", "callers"
"""The tables of the settings with the senders."""

HOOK_ORIGIN = "hook/"
"""The prefix, before the webhook's name, of the origin of an element from a webhook."""

CALL_ORIGIN = "call/"
"""The prefix, before the caller's name, of the store's facts about calls over HTTP."""

_name = toml.fitting(
    re.compile(r"[a-z][a-z0-9-]{0,63}").fullmatch, "a name of a to z, digits and -, a letter first"
)


def _element(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", value):
        raise ValueError("the name of an element, such as build")
    try:
        check_name(f"<{value}/>".encode())
    except ElementError as error:
        raise ValueError(f"the name of an element from outside ({error})") from None
    if value in CONTROLS:
        raise ValueError("the name of an element from outside, none that narval obeys")
    return value


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """A program elsewhere that sends something here."""

    name: str
    sha256: Annotated[str, read_digest]
    """The SHA-256 of its token, in hex."""
    bytes: Annotated[int, toml.size_up_to("1M")] = 64 * 1024
    """The most bytes of a body."""
    calls: Annotated[int, toml.count(6_000)] = 60
    """The most calls in a minute."""


class Webhook(Sender, frozen=True, kw_only=True):
    """A webhook."""

    element: Annotated[str, _element]
    """The name of the elements that it adds."""


class Caller(Sender, frozen=True, kw_only=True):
    """A program that calls over HTTP what an agent offers it."""

    secrets: Annotated[tuple[str, ...], toml.secret_names] = ()
    """The names of `[secret]` whose elements runs may return to it."""

    @property
    def person(self) -> str:
        """The name in `offers`, under which its acts are recorded, and the label of its data."""
        return f"{CALLER}{self.name}"


Kind = TypeVar("Kind", bound=Sender)


def read_hooks(file: toml.TomlFile) -> Mapping[str, Webhook]:
    """The webhooks of a file of settings; faults are noted there."""
    needed = {"sha256": "sha256 (of its token)", "element": "element"}
    return _senders(file, HOOKS, Webhook, "build", needed)


def read_callers(file: toml.TomlFile) -> Mapping[str, Caller]:
    """The callers of a file of settings; faults are noted there."""
    callers = _senders(file, CALLERS, Caller, "shop", {"sha256": "sha256 (of its token)"})
    for name, _ in same_tokens({name: caller.sha256 for name, caller in callers.items()}):
        file.note((CALLERS, name, "sha256"), f"callers.{name}.sha256: expected a token of its own")
    return callers


def _senders(
    file: toml.TomlFile,
    table: str,
    kind: type[Kind],
    example: str,
    needed: Mapping[str, str],
) -> Mapping[str, Kind]:
    """The senders of a table, by name; `needed` has the messages for required keys."""
    senders: dict[str, Kind] = {}
    for name, values in file.named(table, kind, example, _name):
        if needed.keys() <= values.keys():
            senders[name] = kind(name=name, **values)
        else:
            file.note((table, name), f"{table}.{name}: expected {' and '.join(needed.values())}")
    return MappingProxyType(senders)
