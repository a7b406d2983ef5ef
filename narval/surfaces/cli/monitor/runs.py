"""Commands that look closer at one run: part, timeline."""

from __future__ import annotations

from collections.abc import Iterator

import click

from narval.ask.text import Row, clean, counted, lasted, moment_exactly, zone
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render import reasons
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.runs import run_argument


def _waited_for(row: Row) -> str:
    if row["target"]:
        return f"{row['kind']} {row['target']}" + (f" of {row['agent']}" if row["agent"] else "")
    return str(row["for"])


def _came_of(row: Row) -> str:
    error = f": {row['error']['type']}: {row['error']['message']}" if row["error"] else ""
    place = f", waits for {row['place']}" if row.get("place") else ""
    return f"{row['outcome']}{error}{place}"


_ROWS = (
    Column("part", lambda row: row["part"]),
    Column("what", _waited_for),
    Column("try", lambda row: row["try"] or "", right=True),
    Column("asked", lambda row: moment_exactly(row["asked"]), is_moment=True),
    Column("begun", lambda row: moment_exactly(row["begun"])),
    Column("ended", lambda row: moment_exactly(row["ended"])),
    Column("run", lambda row: row["child"] or "", right=True),
    Column("outcome", _came_of, most=200),
)


@asking("timeline", "timeline", example="narval timeline 12\nnarval timeline 12 --limit 20 --json")
@run_argument
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the newest N.")
def timeline(answer: Row) -> None:
    """Show the calls of a run over time, and its waits.

    A row is a try of a call, or a wait for an element or a moment, in the order in which they began.
    """
    listing(_ROWS, answer["rows"], "no calls and no waits")
    if answer["ended"]:
        click.echo(
            f"it lasted {lasted(answer)}, with calls of its own under way for {duration(answer['at_work'])}"
        )
    if answer["left_out"]:
        click.echo(f"{counted(answer['left_out'], 'older row')} left out", err=True)


@asking("part", "part", example="narval part 12 send\nnarval part 12 'send>wait' --json")
@run_argument
@click.argument("id", metavar="ID", shell_complete=completion.parts)
def part(answer: Row) -> None:
    """Show everything about one part of a run, or about an arc.

    Besides what `narval why RUN ID` reports: each try of its calls, with its time, inputs, results and error,
    and the run that answered. An arc is named by the parts at both ends: send>wait.
    """
    click.echo("\n".join(_lines(answer)))


def _lines(graph: Row) -> Iterator[str]:
    if "arc" in graph:
        arc = graph["arc"]
        details = ", ".join(filter(None, (arc["text"], arc["state"], arc["badge"])))
        yield f"arc {clean(arc['id'])}: {clean(details)}"
        yield from (f"  {clean(end['id'])} is {end['state']}" for end in graph["ends"])
        return
    yield from reasons.why(graph)
    for row in graph["calls"]:
        times = f"{moment_exactly(row['asked'])} to {moment_exactly(row['ended'])[11:] or 'now'} {zone()}"
        tried = f", try {row['try']}" if (row["try"] or 1) > 1 else ""
        yield f"{clean(_waited_for(row))}{tried}: {clean(_came_of(row))}, {times}"
        for slot in row["inputs"]:
            elements = ", ".join(map(_element, slot["elements"]))
            yield f"  {clean(slot['input'] or 'elements')}: {elements}"
        if row["gave"]:
            yield f"  gave {', '.join(map(_element, row['gave']))}"
        if row["child"]:
            yield f"  run {row['child']} answered it"


def _element(row: Row) -> str:
    """An element by its number and title."""
    return f"{row['eid']} {clean(row['title'])}".rstrip()
