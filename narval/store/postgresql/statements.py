"""The statements of a server by their names, as `postgres.sql` has them (see `functions.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from narval.store.statements import named_statements

POSTGRES = Path(__file__).with_name("postgres.sql")

FENCED = "NV001"
"""The code of the error that an agent of a commit is not under the epoch and turn that it names."""


@cache
def of_postgres() -> Mapping[str, str]:
    """PostgreSQL's statements, as they are written down."""
    return named_statements(POSTGRES)
