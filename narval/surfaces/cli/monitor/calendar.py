"""The command `calendar`: for each day, what is to come, and what came late (M48)."""

from __future__ import annotations

import click

from narval.ask.text import Row, clean, moment_there
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.tables import Column, table


def _where(row: Row) -> str:
    run = f"run {row['run']}" if row["run"] else ""
    return " ".join(filter(None, (run, row["name"], row["part"])))


def _text(row: Row) -> str:
    late = f", {moment_there(row['came'])}: {row['why']}" if row["came"] else ""
    return f"{row['text']}{late}{' (expected)' if row['expected'] else ''}"


ENTRIES = (
    Column("at", lambda row: moment_there(row["at"])[11:]),
    Column("what", lambda row: row["what"]),
    Column("of", _where),
    Column("text", _text),
    Column("about", lambda row: row["about"], most=100),
)


@asking("calendar", "calendar", example="narval calendar\nnarval calendar --from 2026-11-01 --to 2026-12-01")
@click.option("--from", "start", metavar="DATE", help="The first day, or a moment; today if none is named.")
@click.option("--to", "end", metavar="DATE", help="The day or moment at which it ends; else two weeks on.")
def calendar(answer: Row) -> None:
    """List by day what is due, and what came late.

    Moments are in the zone of the home. Expected moments are later dates of a recurring text that is waited
    for.
    """
    click.echo(f"moments of {clean(answer['zone'])}")
    for day in answer["days"]:
        click.echo(f"\n{day['day']}")
        if day["clock"]:
            click.echo(clean(day["clock"]))
        table(ENTRIES, day["entries"])
    if not answer["days"]:
        click.echo("nothing is set, and nothing came late", err=True)
    if answer["more"]:
        click.echo("there is more: name a shorter time with --from and --to", err=True)
