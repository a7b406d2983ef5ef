"""The commands about grants: what definitions need outside the home, and who granted it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from narval.ask.text import Row, clean, moment_in_zone, of_others
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.status import confining
from narval.surfaces.cli.render.tables import Column, listing

_MEANING = {
    "asked": "asked for, and starts nothing until it is granted",
    "granted": "granted",
    "rejected": "rejected, so it starts nothing, and the question is not asked again",
    "ships": "ships with narval",
    "inside": "reaches nothing outside the home",
    "trusted": "trusted, because this home does not ask",
}
_SIGN = {"added": "+", "taken away": "-", None: " "}

_COLUMNS = (
    Column("definition", lambda row: row["definition"]),
    Column("standing", lambda row: row["standing"]),
    Column("needs", lambda row: ", ".join(need["need"] for need in _outside(row)) or "nothing outside"),
)

_GRANTS = """\
narval grants
narval grants post.send"""


@asking("grants", "grants", example=_GRANTS)
@click.argument("name", required=False, shell_complete=completion.definitions)
def grants(answer: Row) -> None:
    """Show what definitions need outside, and what is granted.

    With the NAME of one: its needs, each with the step and code, as a difference from what was granted, and
    how its effects have changed since then. Nothing is run.
    """
    rows = answer["definitions"]
    if answer["name"] is None:
        listing(_COLUMNS, rows, "there is no definition that can be run")
        asks = "this home asks before" if answer["asks"] else "this home does not ask whether"
        click.echo(f"\n{asks} a definition reaches outside; {confining(answer)}")
        for row in answer["of_others"]:
            click.echo(clean(f"{of_others(row)} to be granted: narval grants --agent {row['agent']}"))
    else:
        click.echo("\n\n".join("\n".join(_lines(row)) for row in rows))


@asking("grant", "grant", example="narval grant post.send\nnarval grant --folder recipes", alters=True)
@click.argument("name", required=False, shell_complete=completion.definitions)
@click.option("--folder", metavar="DIR", help="Grant whatever the definitions in a folder of the home need.")
@click.option("--all", is_flag=True, help="Grant what all need that are asked for now.")
def grant(names: list[str]) -> None:
    """Grant what a definition needs now.

    `narval grants NAME` shows it first. narval asks again for a need that is added later, not for one that is
    removed. With --folder, the needs of all definitions in it are granted, now and later.
    """
    click.echo(f"granted: {', '.join(map(clean, names))}" if names else "no definition waits to be granted")


@asking("revoke", "revoke", example="narval revoke post.send", alters=True)
@click.argument("name", required=False, shell_complete=completion.definitions)
@click.option("--folder", metavar="DIR", help="Take back what was granted to a folder of the home.")
def revoke(gone: list[str]) -> None:
    """Revoke what was granted.

    Runs under way keep it; no other run starts if the home asks for grants.
    """
    click.echo(f"revoked: {', '.join(map(clean, gone))}")


def _outside(row: Row) -> list[Any]:
    return [need for need in row["needs"] if need["outside"] and need["change"] != "taken away"]


def _lines(row: Row) -> Iterator[str]:
    yield f"{row['kind']} {clean(row['definition'])}, in {clean(row['file'])}: {_MEANING[row['standing']]}"
    if row["foreign"]:
        yield "  it came from a collection, not from the owner of this home"
    if row["at"]:
        changed = "; its definition has changed since" if row["changed"] else ""
        did = "rejected" if row["standing"] == "rejected" else "granted"
        yield f"  {did} by {clean(row['by'])} at {moment_in_zone(row['at'])}{changed}"
    yield "needs outside the home:"
    outside = [need for need in row["needs"] if need["outside"]]
    yield from map(_need, outside) if outside else ("  nothing",)
    if len(outside) < len(row["needs"]):
        yield "within:"
        yield from map(_need, (need for need in row["needs"] if not need["outside"]))
    if row["told"]:
        yield "does otherwise than when it was granted:"
        yield from (f"{_SIGN[line['change']]} {clean(line['text'])}" for line in row["told"])


def _need(need: Row) -> str:
    code = f" ({clean(need['code'])})" if need["code"] else ""
    where = f"  {clean(need['part'])}{code}, line {need['line']}" if need["part"] else ""
    return f"{_SIGN[need['change']]} {clean(need['need'])}{where}"
