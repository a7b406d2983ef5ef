"""The first schema."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Spelled out and never altered: the tables of `narval.runtime.store.tables` move on, this step does not.


def upgrade() -> None:
    """From nothing to the first schema."""
    for name, columns in _TABLES.items():
        op.create_table(name, *map(_column, columns.split(", ")), sqlite_with_rowid=name not in _CLUSTERED)
    op.create_index("journal_of_run", "journal", ["run"])


def _column(described: str) -> sa.Column[Any]:
    """The column of a name, a type, and perhaps `key` or `null`."""
    name, kind, *more = described.split()
    key, null = "key" in more, "null" in more
    return sa.Column(name, _TYPES[kind], primary_key=key, autoincrement=False, nullable=null)


_TYPES: dict[str, Any] = {
    "number": sa.BigInteger().with_variant(sa.Integer, "sqlite"),
    "text": sa.Text,
    "bytes": sa.LargeBinary,
    "moment": sa.Double,
    "flag": sa.Boolean,
}
_CLUSTERED = ("meta", "contexts", "marks", "keys")
_TABLES = {
    "meta": "key text key, value text",
    "elements": "eid number key, name text, xml bytes, added moment, origin bytes null, declared text, "
    "outdated flag, held_by number null",
    "contexts": "run number key, eid number key",
    "marks": "eid number key, definition text key, place text key, slot text key",
    "keys": "name text key, expression text key, value text key",
    "runs": "eid number key, kind text, name text, digest text, state text, phase text, started moment, "
    "ended moment null, parent_run number null, parent_step text, parent_call text, attempt number, "
    "error number null, by text",
    "journal": "run number, seq number key, at moment, data bytes",
    "snapshots": "run number key, seq number, data bytes",
    "queue": "id number key, run number, data bytes",
    "moments": "id text key, at moment, data bytes",
    "definitions": "digest text key, kind text key, name text key, path text, source bytes, loaded moment, "
    "current flag",
}
