"""Transform: a prototype and a stylesheet (§2.1.4, table 2.18, N21, N32)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from narval.definitions.library import Reference
from narval.definitions.prototype import EMPTY, Prototype


@dataclass(frozen=True, eq=False)
class Transform:
    """An XSLT stylesheet that can be called. `xml` is the stylesheet (UTF-8), `digest` names the version."""

    kind: ClassVar[str] = "transform"
    references: ClassVar[tuple[Reference, ...]] = ()

    group: str
    name: str
    prototype: Prototype = EMPTY
    descriptions: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    xml: bytes = b""
    path: str = ""
    line: int = 1

    @property
    def full_name(self) -> str:
        """`group.name`, by which steps and people call it."""
        return f"{self.group}.{self.name}"
