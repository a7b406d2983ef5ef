"""Webhooks: the tables `[hooks.NAME]` of the settings, each a place to which programs elsewhere send."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec

from narval.core.elements.control_elements import CONTROLS
from narval.core.elements.reserved import check_name
from narval.core.errors import ElementError
from narval.files.toml import Reader, TomlFile, count, readers_of, size

HOOKS = "hooks"
"""The table of the settings that has them."""

ORIGIN = "hook/"
"""The start of the origin of an element that came by a webhook, before the name of that."""

MOST_BYTES = 1024 * 1024

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook."""

    name: str
    sha256: Annotated[str, digest]
    """The SHA-256 of its token, in hex."""
    element: Annotated[str, _element]
    """The name of the elements that it gives."""
    bytes: Annotated[int, body_size] = 64 * 1024
    """The most bytes of a body."""
    calls: Annotated[int, count(6_000)] = 60
    """The calls that are taken in a minute."""


def name_of_sender(value: object) -> str:
    """Read the name of a webhook or a caller. Raises ValueError."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("a name of a to z, digits and -, a letter first")
    return value


def digest(value: object) -> str:
    """Read the digest of a token. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("the SHA-256 of a token, 64 hex digits: `printf %s TOKEN | sha256sum`")
    return value.lower()


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


def body_size(value: object) -> int:
    """Read the most bytes of a body. Raises ValueError."""
    found = size(value)
    if found > MOST_BYTES:
        raise ValueError('at most "1M"')
    return found


HOOK_READERS: Mapping[str, Reader] = readers_of(Webhook)
"""The readers of a webhook."""


def read_hooks(file: TomlFile) -> Mapping[str, Webhook]:
    """The webhooks of a file of settings; what is wrong is noted there."""
    hooks: dict[str, Webhook] = {}
    for name, values in file.named(HOOKS, HOOK_READERS, "build", name_of_sender):
        if not {"sha256", "element"} <= values.keys():
            file.note((HOOKS, name), f"hooks.{name}: expected sha256 (of its token) and element")
        else:
            hooks[name] = Webhook(name=name, **values)
    return MappingProxyType(hooks)
