"""Commands about what is loaded: definitions, actions."""

from __future__ import annotations

from typing import Any

import click

from narval.operations.text import clean, fault_line
from narval.surfaces.cli.command import command
from narval.surfaces.cli.render.tables import ACTIONS, DEFINITIONS, SHIPPED_ACTIONS, table
from narval.surfaces.cli.session import Session


@command("definitions", example="narval definitions")
def definitions(session: Session) -> None:
    """List what is loaded, from which file, and what did not load.

    A file with faults does not alter what is loaded from its last good version; its faults are listed.
    """
    session.give(session.ask("definitions"), _definitions)


def _definitions(answer: dict[str, Any]) -> None:
    table(DEFINITIONS, answer["definitions"])
    if answer["faults"]:
        click.echo("\nfaults of what did not load:")
    for fault in answer["faults"]:
        click.echo(clean(fault_line(fault)))


@command("actions", example="narval actions\nnarval actions --shipped")
@click.option("--shipped", is_flag=True, help="List all that ships, loaded or not.")
def actions(session: Session, shipped: bool) -> None:
    """List the actions there are, with their inputs and outputs.

    An input in [brackets] is optional; one with … takes a list. "asks first" is the work by which the home
    has somebody agree before a call (etc/people.toml). A module that ships is loaded when something
    in the home names it; --shipped lists the actions of all of them, and the module of the home that has
    taken the place of theirs, if one has.
    """
    columns = SHIPPED_ACTIONS if shipped else ACTIONS
    session.give(session.ask("actions", shipped=shipped), lambda rows: table(columns, rows))
