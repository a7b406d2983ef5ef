"""The command hooks: the webhooks by which programs elsewhere add elements."""

from __future__ import annotations

from narval.ask.text import Row
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.tables import Column, listing, plain

_HOOKS = (
    *plain("hook", "element"),
    Column("bytes", lambda row: f"{row['bytes']:,}", right=True),
    Column("calls a minute", lambda row: row["calls"], right=True),
)


@asking("hooks", "hooks", example="narval hooks")
def hooks(rows: list[Row]) -> None:
    """List the webhooks of etc/narval.toml.

    `narval web` takes what is sent to /hook/NAME.
    """
    listing(_HOOKS, rows, "no webhooks: the table [hooks] of etc/narval.toml names them")
