"""The table of the daemons that share a store."""

from __future__ import annotations

from narval.ask.text import moment
from narval.surfaces.cli.render.tables import Column

DAEMONS = (
    Column("home", lambda row: row["home"] + (" (this)" if row["self"] else "")),
    Column("address", lambda row: row["address"]),
    Column("agents", lambda row: f"{row['agents']:,}", right=True),
    Column("until", lambda row: moment(row["until"]), is_moment=True),
    Column("", lambda row: "drains" if row["draining"] else ""),
)
