"""The command `attention`: what somebody should see to (M13)."""

from __future__ import annotations

from narval.surfaces.cli.command import command
from narval.surfaces.cli.render.status import attention as shown
from narval.surfaces.cli.session import Session


@command("attention", example="narval attention")
def attention(session: Session) -> None:
    """Tell what needs attention, gravest first.

    `narval status` begins with the same.
    """
    session.give(session.ask("attention"), shown)
