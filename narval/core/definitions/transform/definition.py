"""Transform: a prototype and a stylesheet (§2.1.4, table 2.18, N21, N32)."""

from __future__ import annotations

from typing import ClassVar

from narval.core.definitions.library import Definition
from narval.core.definitions.prototype import EMPTY, Prototype


class Transform(Definition, frozen=True, eq=False, kw_only=True):
    """An XSLT stylesheet that can be called; `xml` is the stylesheet (UTF-8)."""

    kind: ClassVar[str] = "transform"

    prototype: Prototype = EMPTY
