"""Agents have a state, the reason for it, and the moment at which a passive one is activated."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Spelled out and never altered, as the step before.


def upgrade() -> None:
    """All agents there are count as active. The table is made anew, to be as that of a new store."""
    bind = op.get_bind()
    known = sa.table("agents", sa.column("agent"), sa.column("id"), sa.column("name"))
    rows = [dict(row) for row in bind.execute(sa.select(known)).mappings()]
    op.drop_table("agents")
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    made = op.create_table(
        "agents",
        sa.Column("agent", number, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("wake_at", sa.Double, nullable=True),
        sa.PrimaryKeyConstraint("agent"),
        sqlite_with_rowid=False,
    )
    op.create_index("agents_by_name", "agents", ["name"], unique=True)
    op.bulk_insert(made, [{**row, "state": "active", "why": "", "wake_at": None} for row in rows])
