"""The command `attention`: what needs attention (M13)."""

from __future__ import annotations

from collections.abc import Sequence

from narval.ask.text import Row
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.status import attention as shown


@asking("attention", "attention", example="narval attention")
def attention(items: Sequence[Row]) -> None:
    """List what needs attention, what waits for people first.

    `narval status` begins with the same list.
    """
    shown(items)
