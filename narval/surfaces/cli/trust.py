"""The command trust: labels, and the owner's word that an element needs none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from narval.ask.text import Row, clean
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.session import Session

_TRUST = """\
narval trust 12
narval trust 12 --endorse --why 'I have read it, it is the invoice of the plumber'"""


@command("trust", example=_TRUST, alters=True)
@click.argument("eid", type=int, shell_complete=completion.elements)
@click.option("--endorse", is_flag=True, help="Put the same element without labels in its place.")
@click.option("--why", metavar="TEXT", help="Why it needs no labels; kept with the new element.")
def trust(session: Session, eid: int, endorse: bool, why: str | None) -> None:
    """Show by which ways came what is in an element or a run.

    With --endorse the owner of the home vouches for what an element says: the same element takes its place,
    without labels.
    """
    if endorse != (why is not None):
        raise click.UsageError("expected --endorse and --why TEXT together")
    if endorse:
        endorsed: Any = session.ask("endorse", eid=eid, why=why)
        session.give(endorsed, lambda row: click.echo(f"element {row['eid']} takes the place of {eid}"))
    else:
        session.give(session.ask("trust", eid=eid), lambda row: click.echo("\n".join(_lines(row))))


def _lines(answer: Row) -> Iterator[str]:
    yield f"{answer['eid']} {clean(answer['name'])}: {_labels(answer)}"
    for path, labels in answer["parts"].items():
        yield f"  {clean(path or '(the rest)')}: {clean(', '.join(labels)) or 'no labels'}"
    if answer["endorsed"]:
        yield f"  endorsed: {clean(answer['endorsed'])}"
    for before in answer["by"]:
        yield f"  by {before['eid']} {clean(before['name'] or '(forgotten)')}: {_labels(before)}"


def _labels(row: Row) -> str:
    deciding = f"decided by {', '.join(row['decided_by'])}" if row["decided_by"] else ""
    return clean("; ".join(filter(None, (", ".join(row["labels"]), deciding)))) or "no labels"
