"""The tables of a store that daemons share: its agents, and the daemons."""

from __future__ import annotations

from narval.ask.text import moment
from narval.surfaces.cli.render.tables import AGENTS, Column

SHARED_AGENTS = (
    *AGENTS[:-1],
    Column("owner", lambda row: row["owner"] or "nobody"),
    Column("epoch", lambda row: row["epoch"] or "", right=True),
    AGENTS[-1],
)
DAEMONS = (
    Column("home", lambda row: row["home"] + (" (this)" if row["self"] else "")),
    Column("address", lambda row: row["address"]),
    Column("agents", lambda row: f"{row['agents']:,}", right=True),
    Column("until", lambda row: moment(row["until"]), is_moment=True),
    Column("", lambda row: "drains" if row["draining"] else ""),
)
