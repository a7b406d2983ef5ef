"""The command people: the people of the home, their logins, and what they may do."""

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

    They are listed in etc/people.toml; without it there is only the owner of the home.
    """
    listing(_PEOPLE, rows, "no people")
