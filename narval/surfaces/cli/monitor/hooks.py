"""The command hooks: the webhooks by which external programs add elements."""

from __future__ import annotations

from narval.ask.text import Row, moment
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.tables import Column, listing, plain


def _refused(row: Row) -> str:
    return ", ".join(f"{count:,} × {status}" for status, count in row["refused"].items())


_HOOKS = (
    *plain("hook", "element"),
    Column("bytes", lambda row: f"{row['bytes']:,}", right=True),
    Column("calls a minute", lambda row: row["calls"], right=True),
    Column("taken", lambda row: f"{row['taken']:,}", right=True),
    Column("last", lambda row: moment(row["last"]), is_moment=True),
    Column("refused", _refused),
)


@asking("hooks", "hooks", example="narval hooks")
def hooks(rows: list[Row]) -> None:
    """List the webhooks of etc/narval.toml.

    `narval web` accepts requests to /hook/NAME. For each: the calls that were accepted, the last one, and how
    many were refused since the daemon started, by response status.
    """
    listing(_HOOKS, rows, "no webhooks: the table [hooks] of etc/narval.toml names them")
