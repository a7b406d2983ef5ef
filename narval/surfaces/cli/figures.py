"""Commands about many runs over time: figures, gantt."""

from __future__ import annotations

from datetime import datetime

import click

from narval.ask.text import Row, counted, lasted
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking
from narval.surfaces.cli.render.tables import Column, fields, listing, number, of, plain

SIGNS = {"done": "o", "failed": "x", "cancelled": "-"}
"""The signs of the last runs, by how they ended."""

WIDTH = 40
"""The width of a bar in characters."""

_DAYS = (
    Column("day", of("day")),
    *(Column(phase, number(phase), right=True) for phase in SIGNS),
)

_FIGURES = """\
narval figures
narval figures mail.triage
narval figures mail.triage --days 90 --json"""


@asking("figures", "figures", example=_FIGURES)
@click.argument("name", required=False, shell_complete=completion.definitions)
@click.option("--kind", metavar="K", help="The kind of NAME, where several definitions have it.")
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    metavar="N",
    default=14,
    help="So many days, today among them (14).",
)
def figures(answer: Row) -> None:
    """Show how many runs ended each day, and how long they took.

    With NAME, those of a definition. A run belongs to the day on which it ended. The time is that of runs
    that ended well: half of them took at most p50, and 95 in a hundred at most p95. Then come the last twenty
    that ended, and how. Forgotten runs are not counted.
    """
    rows = [row for row in answer["days"] if any(row[phase] for phase in SIGNS)]
    none = f"no run ended in {counted(len(answer['days']), 'day')}"
    listing(_DAYS, rows, none)
    of_runs, last = answer["took"], "".join(SIGNS[row["phase"]] for row in reversed(answer["last"]))
    fields(
        [
            ("took", _took(of_runs) if of_runs["runs"] else ""),
            ("last", f"{last} (o done, x failed, - cancelled; the newest at the right)" if last else ""),
        ]
    )
    if answer["more"]:
        click.echo("older runs are left out", err=True)


def _took(of_runs: Row) -> str:
    times = f"p50 {duration(of_runs['p50'])}, p95 {duration(of_runs['p95'])}"
    return f"{times}, of {counted(of_runs['runs'], 'run')} done"


_GANTT = (
    Column("run", of("eid"), right=True),
    *plain("name", "state"),
    Column("lasted", lasted, right=True),
    Column("calls", lambda row: len(row["calls"]) + row["calls_left_out"] or "", right=True),
    Column("", of("bar")),
)


@asking("gantt", "gantt", example="narval gantt\nnarval gantt --minutes 10 --json")
@click.option(
    "--minutes", type=click.IntRange(1, 1440), metavar="N", default=60, help="So many minutes until now (60)."
)
@click.option(
    "--limit", type=click.IntRange(1, 200), metavar="N", default=60, help="Only the newest N runs (60)."
)
@click.option("--notices", is_flag=True, help="Also those that only tell of failures.")
def gantt(answer: Row) -> None:
    """Show the runs of the last hour over time.

    One bar for each run that was under way in that time: = while it made a call, - while it made none.
    """
    rows = [{**row, "bar": _bar(row, answer["since"], answer["until"])} for row in answer["runs"]]
    listing(_GANTT, rows, "no run was under way in that time")
    if answer["left_out"]:
        click.echo(f"{counted(answer['left_out'], 'older run')} left out", err=True)
    if answer["notices"]:
        text = counted(answer["notices"], "run that only tells", "runs that only tell")
        click.echo(f"{text} of failures left out: --notices shows them", err=True)


def _bar(row: Row, since: str, until: str) -> str:
    """A bar in characters for a run over time, between two bounds."""
    first, last = (datetime.fromisoformat(text).timestamp() for text in (since, until))

    def place(text: str | None) -> int:
        at = datetime.fromisoformat(text).timestamp() if text else last
        return int(min(max(at - first, 0.0), last - first) / (last - first) * (WIDTH - 1))

    def span(begun: str, ended: str | None) -> range:
        return range(place(begun), place(ended) + 1)

    signs = ["."] * WIDTH
    for at in span(row["started"], row["ended"]):
        signs[at] = "-"
    for call in row["calls"]:
        for at in span(call["begun"] or call["asked"], call["ended"]):
            signs[at] = "="
    return "".join(signs)
