"""Messages on their way, the numbers of those that were taken, and those that could not be."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Spelled out and never altered, as the steps before.


def upgrade() -> None:
    """Three tables more; nothing is in them yet."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "messages",
        sa.Column("agent", number, autoincrement=False, nullable=False),
        sa.Column("sender", number, autoincrement=False, nullable=False),
        sa.Column("number", number, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=True),
        sa.Column("origin", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("agent", "sender", "number"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "taken",
        sa.Column("agent", number, autoincrement=False, nullable=False),
        sa.Column("sender", number, autoincrement=False, nullable=False),
        sa.Column("number", number, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("agent", "sender"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "dead_letters",
        sa.Column("line", number, autoincrement=True, nullable=False),
        sa.Column("agent", number, autoincrement=False, nullable=False),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("number", number, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=True),
        sa.Column("origin", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("line"),
    )
    op.create_index("dead_letters_by_agent", "dead_letters", ["agent"])
