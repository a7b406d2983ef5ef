"""The first schema."""

from collections.abc import Callable
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
        op.create_table(name, *columns(), sqlite_with_rowid=name not in _CLUSTERED)
    op.create_index("journal_of_run", "journal", ["run"])


_CLUSTERED = ("meta", "contexts", "marks", "keys")


def _number(name: str, *, key: bool = False, null: bool = False) -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Column(name, kind, primary_key=key, autoincrement=False, nullable=null)


def _text(name: str, *, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=key, nullable=False)


def _bytes(name: str, *, null: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=null)


def _moment(name: str, *, null: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=null)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


_TABLES: dict[str, Callable[[], list[sa.Column[Any]]]] = {
    "meta": lambda: [_text("key", key=True), _text("value")],
    "elements": lambda: [
        _number("eid", key=True),
        _text("name"),
        _bytes("xml"),
        _moment("added"),
        _bytes("origin", null=True),
        _text("declared"),
        _flag("outdated"),
        _number("held_by", null=True),
    ],
    "contexts": lambda: [_number("run", key=True), _number("eid", key=True)],
    "marks": lambda: [
        _number("eid", key=True),
        _text("definition", key=True),
        _text("place", key=True),
        _text("slot", key=True),
    ],
    "keys": lambda: [_text("name", key=True), _text("expression", key=True), _text("value", key=True)],
    "runs": lambda: [
        _number("eid", key=True),
        _text("kind"),
        _text("name"),
        _text("digest"),
        _text("state"),
        _text("phase"),
        _moment("started"),
        _moment("ended", null=True),
        _number("parent_run", null=True),
        _text("parent_step"),
        _text("parent_call"),
        _number("attempt"),
        _number("error", null=True),
    ],
    "journal": lambda: [_number("run"), _number("seq", key=True), _moment("at"), _bytes("data")],
    "snapshots": lambda: [_number("run", key=True), _number("seq"), _bytes("data")],
    "queue": lambda: [_number("id", key=True), _number("run"), _bytes("data")],
    "moments": lambda: [_text("id", key=True), _moment("at"), _bytes("data")],
    "definitions": lambda: [
        _text("digest", key=True),
        _text("kind", key=True),
        _text("name", key=True),
        _text("path"),
        _bytes("source"),
        _moment("loaded"),
        _flag("current"),
    ],
}
