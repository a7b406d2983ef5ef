"""Tables of work: the items that people are asked, and the log of what they did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.ask.text import Row, moment, shortened
from narval.surfaces.cli.render.tables import Column, of, plain

_NOT_LISTED = frozenset(
    {"seq", "at", "item", "work", "did", "by", "actor", "way", "role", "for", "session", "shown", "directory"}
)
"""The keys that have a column of their own, and digests."""


def _who(row: Row) -> str:
    claimed = row["claimed"]
    return f"{claimed['by']} has it" if claimed else f"for {row['for']}"


def _outcome(row: Row) -> str:
    return f": {row['outcome']}" if row["outcome"] else ""


ITEMS = (
    Column("item", of("item"), right=True),
    Column("work", of("work")),
    Column("state", lambda row: f"{row['state']}{_outcome(row)}{', overdue' if row['overdue'] else ''}"),
    Column("who", _who, most=60),
    Column("deadline", lambda row: moment(row["deadline"]), is_moment=True),
    Column("title", of("title"), most=200),
)
LOG = (
    Column("at", lambda row: moment(row["at"]), is_moment=True),
    Column("item", of("item"), right=True),
    Column("by", lambda row: f"{row['by']} ({row['actor']})" if row.get("actor") else row["by"] or ""),
    *plain("did", "way"),
    Column("right", lambda row: ", ".join(filter(None, (row.get("role"), _for(row))))),
    Column("what", lambda row: shortened(_more(row), 200), most=200),
)


def _for(row: Row) -> str:
    return f"for {row['for']}" if row.get("for") else ""


def _more(row: Row) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in row.items() if name not in _NOT_LISTED)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}={_plain(part)}" for name, part in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
