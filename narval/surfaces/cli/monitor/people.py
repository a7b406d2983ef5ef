"""The command people: who there is, by which login, and what they may do."""

from __future__ import annotations

from narval.ask.text import Row
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.tables import Column, listing, plain

_PEOPLE = (
    Column("person", lambda row: row["person"]),
    Column("name", lambda row: row["name"], most=60),
    *plain("login", "web"),
    Column("roles", lambda row: ", ".join([*row["roles"], *(["administrator"] if row["admin"] else [])])),
)


@asking("people", "people", example="narval people\nnarval people --json")
def people(rows: list[Row]) -> None:
    """List the people of the home, and what they may do on the web.

    They stand in etc/people.toml; without it there is the owner of the home alone.
    """
    listing(_PEOPLE, rows, "no people")
