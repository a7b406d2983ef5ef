"""Callers: the tables `[callers.NAME]` of the settings, each a program elsewhere that calls by HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec

from narval.core.agent_name import CALLER
from narval.files.agents.webhooks import body_size, digest, name_of_sender
from narval.files.toml import Reader, TomlFile, count, readers_of

CALLERS = "callers"
"""The table of the settings that has them."""

ORIGIN = "call/"
"""The start of the facts of a store about calls by HTTP, before the name of the caller."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A program that calls by HTTP what an agent offers to it."""

    name: str
    sha256: Annotated[str, digest]
    """The SHA-256 of its token, in hex."""
    bytes: Annotated[int, body_size] = 64 * 1024
    """The most bytes of a body."""
    calls: Annotated[int, count(6_000)] = 60
    """The calls that are taken in a minute."""

    @property
    def person(self) -> str:
        """The name in `offers`, under which what it does is recorded, and the label of what it gives."""
        return f"{CALLER}{self.name}"


CALLER_READERS: Mapping[str, Reader] = readers_of(Caller)
"""The readers of a caller."""


def read_callers(file: TomlFile) -> Mapping[str, Caller]:
    """The callers of a file of settings; what is wrong is noted there."""
    callers: dict[str, Caller] = {}
    for name, values in file.named(CALLERS, CALLER_READERS, "shop", name_of_sender):
        if "sha256" not in values:
            file.note((CALLERS, name), f"callers.{name}: expected sha256 (of its token)")
        elif any(other.sha256 == values["sha256"] for other in callers.values()):
            file.note((CALLERS, name, "sha256"), f"callers.{name}.sha256: expected a token of its own")
        else:
            callers[name] = Caller(name=name, **values)
    return MappingProxyType(callers)
