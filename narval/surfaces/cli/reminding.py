"""The commands on moments to come: remind, reminders, and calendar.

Reminders are set, listed, forgotten and put off. The calendar shows for each day what is to come, and what
came late.
"""

from __future__ import annotations

import click

from narval.ask.text import Row, clean, moment_there, reminder_line, when_reminded
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command, command_group
from narval.surfaces.cli.render.tables import Column, listing, plain, table
from narval.surfaces.cli.session import Session

_REMIND = """\
narval remind at 17:30: call Ben
narval remind in 2h: the oven
narval remind tomorrow 9:00: the dentist
narval remind every monday 8:00: the bins
narval remind on 2026-12-24: gifts"""


@command("remind", example=_REMIND, alters=True)
@click.argument("words", metavar="TIME: TEXT", nargs=-1, required=True)
def remind(session: Session, words: tuple[str, ...]) -> None:
    """Set a reminder for a time.

    TIME is a clock time (at 17:30), a length (in 2h), a day (tomorrow 9:00, monday 8:00, on 2026-12-24), or
    recurring (every day 8:00, every monday 8:00, every 2h). A day without a time means 9:00. You are reminded
    in the ways that data/memory.xml names with `notify` elements.
    """
    answer = session.ask("remind", text=" ".join(words))
    session.give(answer, _told)
    for warning in answer.get("warnings", ()):
        click.echo(f"warning: {clean(warning)}", err=True)


def _told(answer: Row) -> None:
    click.echo(clean(f"reminder {reminder_line(answer)}"))


_COLUMNS = (
    Column("reminder", lambda row: row["reminder"], right=True),
    Column("when", when_reminded),
    *plain("text", "chat", "person"),
)

_REMINDERS = """\
narval reminders
narval reminders forget 12
narval reminders snooze 12 1h"""


@command_group("reminders", example=_REMINDERS)
@click.option("--all", "of_all", is_flag=True, help="Those of all people; for operators.")
def reminders(session: Session, of_all: bool) -> None:
    """List your coming reminders, the next one first.

    `forget` removes one, and `snooze` puts one off, even after it was told.
    """
    rows = session.ask("reminders", of_all=of_all)
    session.give(rows, lambda listed: listing(_COLUMNS, listed, "no reminders to come"))


_reminder_argument = click.argument("reminder", type=int, shell_complete=completion.reminders)


@asking("forget", "forget_reminder", example="narval reminders forget 12", alters=True)
@_reminder_argument
def forget(answer: Row) -> None:
    """Remove a reminder; a recurring one does not come again."""
    click.echo(clean(f"reminder {answer['reminder']} is forgotten: {answer['text']}"))


@asking("snooze", "snooze", example="narval reminders snooze 12 1h", alters=True)
@_reminder_argument
@click.argument("length")
def snooze(answer: Row) -> None:
    """Put a reminder off by a length of time, such as 1h.

    One that was told comes again after that time; a pending one is told that much later.
    """
    _told(answer)


reminders.add_command(forget)
reminders.add_command(snooze)


# --- the calendar -------------------------------------------------------------------------------------------


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
