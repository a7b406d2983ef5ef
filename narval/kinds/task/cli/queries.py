"""Commands that ask about tasks (K61, K62, K66, K67)."""

from __future__ import annotations

import click

from narval.ask.text import Row, clean, moment_in_zone
from narval.kinds.task.cli.programs import type_argument, types
from narval.kinds.task.cli.tables import CASES, EVENTS, PASSED, QUEUE, TIMES, TYPES, record
from narval.surfaces.cli.command import asking, command
from narval.surfaces.cli.paging import Page, limit_option, paged
from narval.surfaces.cli.render.tables import listing
from narval.surfaces.cli.session import Session

object_argument = click.argument("object", type=int, metavar="OBJECT")


@command("events", example="narval task events\nnarval task events bank.update --json")
@click.argument("name", metavar="[TYPE]", required=False, shell_complete=types)
@click.option("--object", "object", type=int, metavar="OBJECT", help="Only what concerns this object.")
@paged
def events(session: Session, name: str | None, object: int | None, page: Page) -> None:
    """List the events that have not ended, of a type or of all.

    Each is registered, awaiting its condition, or awaiting its action; an event that several rules may answer
    has a line for each. Its window is open, or shut until the next moment.
    """
    rows = page.ask(session, "task_events", name=name, object=object)
    page.give(session, rows, lambda found: listing(EVENTS, found, "no event waits"))


@command("queue", example="narval task queue bank.scan --limit 10")
@type_argument
@limit_option("first")
@click.option("--after", type=int, metavar="OBJECT", help="Only those behind this one.")
def queue(session: Session, name: str, most: int | None, after: int | None) -> None:
    """List the objects in the queue of a type, the next one first."""
    rows = session.ask("task_queue", name=name, limit=most + 1 if most is not None else None, after=after)
    shown = rows[:most]
    session.give(shown, lambda found: listing(QUEUE, found, "the queue is empty"))
    if len(shown) < len(rows) and not session.as_json:
        click.echo(f"{len(shown)} shown; --after {shown[-1]['object']} has the next", err=True)


@asking("where", "task_where", example="narval task where 31")
@object_argument
def where(answer: Row) -> None:
    """Show where an object is, by the eid of any version of it.

    The object of a case keeps its first eid, whatever replaces it; `now` is its present eid. For a split
    object the parts are shown too.
    """
    _place(answer)


def _place(found: Row, depth: int = 0) -> None:
    now = f" (now {found['now']})" if found["now"] != found["object"] else ""
    task = f" (task {found['task']})" if found["task"] else ""
    since = f" since {moment_in_zone(found['since'])}" if found["since"] else ""
    why = f": {found['why']}" if found["why"] else ""
    place = "in parts" if found["parts"] and found["where"] == "parts" else found["where"]
    click.echo("  " * depth + clean(f"object {found['object']}{now} is {place}{task}{since}{why}"))
    for part in found["parts"]:
        _place(part, depth + 1)
    if not depth:
        click.echo(f"its case is {found['case']}")


@asking("passed", "task_passed", example="narval task passed 31")
@object_argument
def passed(rows: list[Row]) -> None:
    """List the tasks that an object has passed, in order, including those before it was split off."""
    listing(PASSED, rows, "it has passed none yet")


@command("types", example="narval task types\nnarval task types --json")
@limit_option("first")
@click.option("--after", metavar="TYPE", shell_complete=types, help="Only those behind this one.")
def task_types(session: Session, most: int | None, after: str | None) -> None:
    """List the task types and global events, and what waits at each one.

    For each: the objects in its queue and since when the first waits, who takes them, the tasks at work, the
    events that have not ended, and how many of their windows are open or shut.
    """
    rows = session.ask("task_types", limit=most + 1 if most is not None else None, after=after)
    visible = rows[:most]
    session.give(visible, lambda listed: listing(TYPES, listed, "there is no task type"))
    if len(visible) < len(rows) and not session.as_json:
        click.echo(f"{len(visible)} shown; --after {visible[-1]['type']} has the next", err=True)


@command("cases", example="narval task cases\nnarval task cases --state held")
@click.option(
    "--state",
    type=click.Choice(("active", "held", "aborting", "blocked")),
    help="Only those in this state.",
)
@paged
def cases(session: Session, state: str | None, page: Page) -> None:
    """List the cases that have not ended, and where their objects are.

    A case is held while an object of it cannot continue by itself, and blocked after a compensator failed.
    """
    rows = page.ask(session, "task_cases", state=state)
    page.give(session, rows, lambda listed: listing(CASES, listed, "no case is under way"), "case")


@command(
    "time", example="narval task time bank.scan scanning\nnarval task time 31 bank.scan\nnarval task time 31"
)
@click.argument("what", metavar="TYPE|OBJECT", shell_complete=types)
@click.argument("of", metavar="[STATE|TYPE]", required=False)
def time(session: Session, what: str, of: str | None) -> None:
    """Show how long tasks of a TYPE were in a STATE, or how long an OBJECT was at a TYPE.

    An object is at a task from when it is taken until the task enters a terminal state. With an OBJECT alone,
    there is a line for each type, and for each state there.
    """
    if of is None:
        if not what.isdecimal():
            raise click.UsageError(f"expected a state of {what}, or the number of an object")
        rows = session.ask("task_times", object=int(what))
        session.give(rows, lambda listed: listing(TIMES, listed, "it has come to no task yet"))
        return
    if what.isdecimal():
        answer = session.ask("task_time", name=of, object=int(what))
    else:
        answer = session.ask("task_time", name=what, state=of)
    session.give(answer, _long)


def _long(answer: Row) -> None:
    count = f"{answer['times']} times" if answer["times"] != 1 else "once"
    still = f", {answer['open']} of them now" if answer["open"] else ""
    waited = f", after {answer['waited']:g} s in its queue" if answer.get("waited") else ""
    click.echo(f"{answer['seconds']:g} s ({count}{still}){waited}")


@command(
    "log", example="narval task log\nnarval task log --object 31\nnarval task log --type bank.scan --json"
)
@click.option("--object", "object", type=int, metavar="OBJECT", help="Only what concerns this object.")
@click.option("--type", "name", metavar="TYPE", shell_complete=types, help="Only tasks of this type.")
@limit_option("newest")
@click.option("--before", type=int, metavar="SEQ", help="Only those with a lower `seq`.")
def log(session: Session, object: int | None, name: str | None, most: int | None, before: int | None) -> None:
    """Show the records of the two logs.

    They say which object came to which task, which states tasks entered, which events they raised, and the
    results of conditions and actions. The newest are shown, in order.
    """
    rows = session.ask("task_log", object=object, name=name, limit=most, before=before)
    shown = rows if most is None else rows[::-1]
    session.give(
        shown, lambda found: click.echo("\n".join(map(record, found)) if found else "nothing is logged")
    )
    if len(rows) == most and not session.as_json:
        click.echo(f"{most} shown; those before: --before {rows[-1]['seq']}", err=True)


COMMANDS = (task_types, cases, events, queue, where, passed, time, log)
