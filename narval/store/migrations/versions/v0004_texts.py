"""The bytes of definitions stand once, whatever the number of agents; versions and elements name them."""

import hashlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Spelled out and never altered, as the steps before.


def upgrade() -> None:
    """Put into a table of texts what versions and the library's elements have each of their own."""
    op.create_table(
        "texts",
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    known: set[bytes] = set()
    _alter_definitions(known)
    _alter_elements(known)


def _alter_definitions(known: set[bytes]) -> None:
    op.rename_table("definitions", "old_definitions")
    made = op.create_table(
        "definitions",
        sa.Column("agent", _number(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("digest", "kind", "name", "path")),
        sa.Column("text", sa.LargeBinary, nullable=False),
        sa.Column("loaded", sa.Double, nullable=False),
        sa.Column("current", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("agent", "digest", "kind", "name"),
        sqlite_with_rowid=False,
    )
    names = ("agent", "digest", "kind", "name")
    others = (*names, "path", "loaded", "current")
    old = sa.table(
        "old_definitions", *(sa.column(name) for name in others), sa.column("source", sa.LargeBinary)
    )
    bind = op.get_bind()
    for key in bind.execute(sa.select(*(old.c[name] for name in names))).all():
        same = (old.c[name] == value for name, value in zip(names, key, strict=True))
        row: dict[str, Any] = dict(bind.execute(sa.select(old).where(*same)).mappings().one())
        row["text"] = _keep(row.pop("source"), known)
        bind.execute(made.insert().values(**{**row, "current": bool(row["current"])}))
    op.drop_table("old_definitions")


def _alter_elements(known: set[bytes]) -> None:
    """A server adds a column; a file has the table anew, to be as that of a new store."""
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        op.add_column("elements", sa.Column("text", sa.LargeBinary, nullable=True))
    else:
        op.drop_index("elements_by_eid")
        op.rename_table("elements", "old_elements")
        op.create_table(
            "elements",
            sa.Column("line", _number(), autoincrement=True, nullable=False),
            sa.Column("agent", _number(), autoincrement=False, nullable=False),
            sa.Column("eid", _number(), autoincrement=False, nullable=False),
            sa.Column("name", sa.Text, nullable=False),
            sa.Column("xml", sa.LargeBinary, nullable=False),
            sa.Column("added", sa.Double, nullable=False),
            sa.Column("origin", sa.LargeBinary, nullable=True),
            sa.Column("declared", sa.Text, nullable=False),
            sa.Column("outdated", sa.Boolean, nullable=False),
            sa.Column("held_by", _number(), autoincrement=False, nullable=True),
            sa.Column("text", sa.LargeBinary, nullable=True),
            sa.PrimaryKeyConstraint("line"),
        )
        op.execute("INSERT INTO elements SELECT *, NULL FROM old_elements")
        op.drop_table("old_elements")
        op.create_index("elements_by_eid", "elements", ["agent", "eid"], unique=True)
    named = sa.column("text").is_not(None)
    op.create_index("elements_by_text", "elements", ["text"], sqlite_where=named, postgresql_where=named)
    data = (sa.column(name, sa.LargeBinary) for name in ("xml", "text"))
    elements = sa.table("elements", sa.column("line"), sa.column("declared"), *data)
    line, declared = elements.c.line, elements.c.declared
    shared = declared.like("library:%"), declared.not_like("library:fault:%")
    for (one,) in bind.execute(sa.select(line).where(*shared)).all():
        text = _keep(bind.execute(sa.select(elements.c.xml).where(line == one)).scalar_one(), known)
        bind.execute(elements.update().where(line == one).values(xml=b"", text=text))


def _keep(data: bytes, known: set[bytes]) -> bytes:
    """Keep a text once; its digest."""
    digest = hashlib.sha256(data).digest()
    if digest not in known:
        known.add(digest)
        texts = sa.table("texts", sa.column("digest", sa.LargeBinary), sa.column("data", sa.LargeBinary))
        op.get_bind().execute(texts.insert().values(digest=digest, data=data))
    return digest


def _number() -> Any:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")
