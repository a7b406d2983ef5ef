"""The command `remembered`: what dataflows have seen (T49)."""

from __future__ import annotations

import json
from typing import Any

import click

from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.render.tables import REMEMBERED, REMEMBERED_NAMES, listing
from narval.surfaces.cli.session import Session


def _names(context: click.Context, _: str) -> completion.Choices:
    for row in completion.asked(context, "remembered"):
        yield row["name"], f"{row['items']} items"


_EXAMPLE = """narval remembered
narval remembered flats --limit 10
narval remembered flats https://homes.example/f/1 --forget
narval remembered flats --forget-all"""


@command("remembered", example=_EXAMPLE, alters=True)
@click.argument("name", default="", shell_complete=completion.source(_names))
@click.argument("key", nargs=-1)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="List so many at most.")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Leave out the first N.")
@click.option("--forget", is_flag=True, help="Forget the item of KEY: it will be new again.")
@click.option("--forget-all", is_flag=True, help="Forget all items of NAME.")
def remembered(
    session: Session,
    name: str,
    key: tuple[str, ...],
    limit: int | None,
    skip: int,
    forget: bool,
    forget_all: bool,
) -> None:
    """List what dataflows remember.

    Without NAME, these are the names given to the operator `remember`; with NAME, its items, latest first.
    KEY is the values of the key attributes of one item, in order.
    """
    wanted = list(key) or None
    if forget or forget_all:
        if not name or forget == forget_all or forget == (wanted is None):
            raise click.UsageError("expected NAME KEY --forget, or NAME --forget-all")
        answer = session.ask("forget_remembered", name=name, key=wanted)
        session.give(answer, lambda found: click.echo(f"forgotten: {found['forgotten']:,} of {name}"))
        return
    rows = session.ask("remembered", name=name, key=wanted, limit=limit, skip=skip)
    session.give(rows, lambda found: _listed(found, name))


def _listed(rows: list[dict[str, Any]], name: str) -> None:
    if name:
        shown = [
            {**row, "key": " ".join(row["key"]), "tuple": json.dumps(row["tuple"], ensure_ascii=False)}
            for row in rows
        ]
        listing(REMEMBERED, shown, f"nothing is remembered as {name}")
    else:
        listing(REMEMBERED_NAMES, rows, "no dataflow remembers anything (the operator remember)")
