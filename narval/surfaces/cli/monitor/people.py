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
    Column("away", lambda row: _away(row["away"]) if row.get("away") else "", most=60),
)


def _away(away: Row) -> str:
    """The days of an absence, and the substitute."""
    first = f"from {away['from']}" if away["from"] and not away["now"] else ""
    last = f"to {away['to']}" if away["to"] else ""
    days = " ".join(filter(None, (first, last))) or "always"
    return f"{days}, {away['instead']} instead" if away["instead"] else days


@asking("people", "people", example="narval people\nnarval people --json")
def people(rows: list[Row]) -> None:
    """List the people of the home, and what they may do on the web.

    etc/people.toml lists them; without that file, the only person is the owner of the home.
    """
    listing(_PEOPLE, rows, "no people")
