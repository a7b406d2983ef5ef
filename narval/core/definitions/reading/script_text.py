"""Scripts: small programs in the text of definitions, for kinds that support them (section 10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import msgspec


class ScriptText(msgspec.Struct, frozen=True):
    """The text of a script as in the file: `name` is its property, `line` and `column` count from 1."""

    name: str
    text: str
    language: str
    path: str
    line: int
    column: int


@runtime_checkable
class HasScripts(Protocol):
    """The capability of a definition to contain scripts."""

    def scripts(self) -> Iterable[ScriptText]:
        """The scripts of the definition itself, without imported ones."""
