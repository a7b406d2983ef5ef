"""The first schema."""

import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Spelled out and never altered: the tables of `narval.store.tables` move on, this step does not.


def upgrade() -> None:
    """From nothing to the first schema, with the home's own agent."""
    for name, (key, columns) in _TABLES.items():
        rows = sa.PrimaryKeyConstraint(*key.split(", "))
        op.create_table(name, *map(_column, columns.split(", ")), rows, sqlite_with_rowid=key == "line")
    op.create_index("agents_by_name", "agents", ["name"], unique=True)
    op.create_index("elements_by_eid", "elements", ["agent", "eid"], unique=True)
    op.create_index("journal_by_run", "journal", ["agent", "run"])
    own = sa.table("agents", sa.column("agent"), sa.column("id"), sa.column("name"))
    op.execute(own.insert().values(agent=1, id=secrets.token_hex(16), name="narval"))


def _column(described: str) -> sa.Column[Any]:
    """The column of a name, a type, and perhaps `null`."""
    name, kind, *more = described.split()
    return sa.Column(name, _TYPES[kind], autoincrement=name == "line", nullable="null" in more)


_TYPES: dict[str, Any] = {
    "number": sa.BigInteger().with_variant(sa.Integer, "sqlite"),
    "text": sa.Text,
    "bytes": sa.LargeBinary,
    "moment": sa.Double,
    "flag": sa.Boolean,
}
_TABLES = {
    "agents": ("agent", "agent number, id text, name text"),
    "meta": ("agent, key", "agent number, key text, value text"),
    "elements": (
        "line",
        "line number, agent number, eid number, name text, xml bytes, added moment, origin bytes null, "
        "declared text, outdated flag, held_by number null",
    ),
    "contexts": ("agent, run, eid", "agent number, run number, eid number"),
    "marks": (
        "agent, eid, definition, place, slot",
        "agent number, definition text, place text, slot text, eid number, run number",
    ),
    "keys": ("agent, name, expression, value", "agent number, name text, expression text, value text"),
    "runs": (
        "agent, eid",
        "agent number, eid number, kind text, name text, digest text, state text, phase text, "
        "started moment, ended moment null, parent_run number null, parent_step text, parent_call text, "
        "attempt number, error number null, by text, actor text",
    ),
    "journal": ("line", "line number, agent number, run number, seq number, at moment, data bytes"),
    "snapshots": ("agent, run", "agent number, run number, seq number, data bytes"),
    "queue": ("agent, id", "agent number, id number, run number, data bytes"),
    "moments": ("agent, id", "agent number, id text, at moment, data bytes"),
    "definitions": (
        "agent, digest, kind, name",
        "agent number, digest text, kind text, name text, path text, source bytes, loaded moment, "
        "current flag",
    ),
}
"""The key of each table, and its columns."""
