"""The commands attention and errors: what needs attention, and the incidents to acknowledge or retry."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from narval.ask.text import Row, clean, counted, moment, moment_in_zone, person
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command, command_group, reason_option
from narval.surfaces.cli.render.status import attention as shown
from narval.surfaces.cli.render.tables import Column, fields, listing
from narval.surfaces.cli.session import Session


@asking("attention", "attention", example="narval attention")
def attention(items: Sequence[Row]) -> None:
    """List what needs attention, what waits for people first.

    `narval status` begins with the same list.
    """
    shown(items)


# --- errors -------------------------------------------------------------------------------------------------


_BARS = "·▁▂▃▄▅▆▇█"


def _bars(row: Row) -> str:
    """The counts of the days as a line of bars."""
    counts = [day["count"] for day in row["days"]]
    most = max(counts)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in counts)


INCIDENTS = (
    Column("incident", lambda row: row["incident"]),
    Column("is", lambda row: "" if row["state"] == "open" else row["state"]),
    Column("count", lambda row: row["count"], right=True),
    Column("last", lambda row: moment(row["last"]), is_moment=True),
    Column("14 days", _bars),
    Column("newest", lambda row: row["newest"][0], right=True),
    Column("where", lambda row: " ".join(filter(None, (row["definition"], row["part"])))),
    Column("place", lambda row: row["place"] or ""),
    Column("type", lambda row: row["type"]),
    Column("message", lambda row: row["message"], most=200),
)


RUNS_OF_ONE = (
    Column("run", lambda row: row["run"], right=True),
    Column("failed", lambda row: moment(row["at"]), is_moment=True),
    Column("was given", lambda row: ", ".join(one["title"] or str(one["eid"]) for one in row["inputs"])),
)


@command_group("errors", example="narval errors\nnarval errors --all\nnarval errors show 3f9c01ab")
@click.option("--all", "every", is_flag=True, help="Those that were dealt with too.")
def errors(session: Session, every: bool) -> None:
    """List errors that no one has dealt with.

    They are failed runs, failed nodes of processes, errors outside runs, and files with faults. Similar ones
    share a row. They are listed until a retry succeeds, they are acknowledged, or their file has no faults.
    Below them are sources that cannot work now, and what will be tried again: these disappear with their
    cause.
    """
    rows = session.ask("incidents", every=every)
    now = [] if session.as_json else [row for row in session.ask("attention") if row["what"] == "source"]
    session.give(rows, lambda listed: _listed(listed, now, every))


def _listed(rows: list[Row], now: list[Row], every: bool) -> None:
    if rows or not now:
        listing(INCIDENTS, rows, "no errors are known" if every else "no errors are open")
    if now:
        click.echo("in trouble now:")
    for row in now:
        click.echo(f"  {clean(row['text'])}")


@command("show", example="narval errors show 3f9c01ab")
@click.argument("incident", shell_complete=completion.incidents)
def show(session: Session, incident: str) -> None:
    """Show one row: its full message, its runs or elements, who acknowledged it.

    For the newest 100 runs it shows the inputs of the part that failed.
    """
    (row,) = session.ask("incidents", incident=incident)
    session.give(row, _print_row)


def _print_row(row: Row) -> None:
    acknowledged = row["acknowledged"]
    of_runs = row["what"] == "run"
    who = (
        f"{person(acknowledged) or 'a program'}, {moment_in_zone(acknowledged['at'])}" if acknowledged else ""
    )
    fields(
        [
            ("incident", row["incident"]),
            ("is", row["state"]),
            ("acknowledged", who and f"{who}: {clean(acknowledged['reason'])}"),
            ("of", row["definition"]),
            ("part", row["part"]),
            ("place", row["place"]),
            ("type", row["type"]),
            ("message", row["message"]),
            ("count", row["count"]),
            ("first", moment_in_zone(row["first"])),
            ("last", moment(row["last"])),
            ("runs" if of_runs else "elements", ", ".join(map(str, row["newest"]))),
        ]
    )
    if row["runs"]:
        listing(RUNS_OF_ONE, row["runs"], "")
    if row["type"] == "interrupted" and row["state"] == "open":
        acknowledge_one = f"narval errors acknowledge {row['incident']} --run RUN --reason TEXT"
        click.echo("of each run: it was done, go on: narval retry RUN --done; it was not: narval retry RUN;")
        click.echo(f"nothing more is to be done, also not what would follow: {acknowledge_one}")


@asking(
    "acknowledge",
    "acknowledge",
    example="narval errors acknowledge 3f9c01ab --reason 'the printer was off'",
    alters=True,
)
@click.argument("incident", shell_complete=completion.incidents)
@click.option("--run", type=int, metavar="RUN", shell_complete=completion.runs, help="Only that of this run.")
@reason_option("Why nothing more needs to be done.", "reason", required=True)
def acknowledge(answer: Row) -> None:
    """Acknowledge a row, or that of one run, with the reason why nothing more is to be done.

    An element `acknowledged` records it, and who did it. A new incident of the same kind opens the row again.
    """
    count = answer["count"]
    are = "is" if count == 1 else "are"
    click.echo(f"{counted(count, 'incident')} {are} acknowledged; element {answer['element']} records it")


def _retry(session: Session, incident: str, limit: int, every: bool) -> list[Row]:
    """Begin the runs of a row again; ask first if several were interrupted."""
    (row,) = session.ask("incidents", incident=incident)
    many = min(limit, row["count"])
    if row["type"] == "interrupted" and many > 1 and not every and sys.stdin.isatty() and not session.as_json:
        _print_row(row)
        every = click.confirm(f"Begin all {many} again? Those that were done are done twice.", default=False)
    again: list[Row] = session.ask("retry_incident", incident=incident, limit=limit, every=every)
    return again


@asking(
    "retry",
    "retry_incident",
    ask=_retry,
    example="narval errors retry 3f9c01ab",
    alters=True,
    well=lambda rows: not any(row["error"] for row in rows),
)
@click.argument("incident", shell_complete=completion.incidents)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=1000, metavar="N", help="The newest N of them."
)
@click.option("--all", "every", is_flag=True, help="Do not ask, also for several interrupted runs.")
def retry(rows: list[Row]) -> None:
    """Begin the runs of a row again, each from the part that failed.

    If several were interrupted, some may have been done already: it shows them and asks first.
    The exit status is 1 if one of them cannot be begun again.
    """
    for row in rows:
        became = f"begins again as {row['retry']}" if row["retry"] else f"is not begun again: {row['error']}"
        click.echo(clean(f"run {row['run']} {became}"))


for _below in (show, acknowledge, retry):
    errors.add_command(_below)
