"""The command hooks: the webhooks by which programs elsewhere add elements."""

from __future__ import annotations

from narval.surfaces.cli.command import command
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Session

_HOOKS = (
    Column("hook", lambda row: row["hook"]),
    Column("element", lambda row: row["element"]),
    Column("bytes", lambda row: f"{row['bytes']:,}", right=True),
    Column("calls a minute", lambda row: row["calls"], right=True),
)


_NONE = "no webhooks: the table [hooks] of etc/narval.toml names them"


@command("hooks", example="narval hooks")
def hooks(session: Session) -> None:
    """List the webhooks of etc/narval.toml.

    `narval web` takes what is sent to /hook/NAME.
    """
    session.give(session.ask("hooks"), lambda rows: listing(_HOOKS, rows, _NONE))
