"""The command `task`, which lists the tasks at work (K61), and the commands below it for people.

People intervene with some (K16), and ask with others (K62, K66, K67). Those for programs are in `programs`.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from narval.ask.text import Row, clean, moment_in_zone
from narval.core.errors import RequestError
from narval.kinds.task.cli import programs
from narval.kinds.task.cli.programs import type_argument, types
from narval.kinds.task.cli.tables import CASES, EVENTS, PASSED, QUEUE, TASKS, TIMES, TYPES, record
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command, command_group, reason_option
from narval.surfaces.cli.paging import Page, limit_option, paged
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Connection, Session

_EXAMPLE = """\
narval task
narval task put bank.scan cheque.xml
NARVAL_TASK=$(narval task init bank.scan) narval task get
narval task events bank.update"""


@command_group("task", example=_EXAMPLE)
@paged
@click.option(
    "--follow", is_flag=True, help="Write a line for each that comes, moves or goes, until interrupted."
)
def task(session: Session, page: Page, follow: bool) -> None:
    """List the active tasks, or act on them.

    A task type of a `.task` file has a queue of objects, and instances that work on them. `put` starts an
    object on its way. A program works as a task with `init`, `get`, `assert`, `raise`, `wait` and `down`; it
    keeps the handle that `init` prints in NARVAL_TASK. People `move` a task that asks them. `stop`, `finish`
    and `retry` are for people who intervene; the other commands answer questions.
    """
    if follow:
        _follow(session)
        return
    rows = page.ask(session, "tasks")
    page.give(session, rows, lambda tasks: listing(TASKS, tasks, "no task is at work"))


def _follow(session: Session) -> None:
    before: dict[int, Row] = {}

    def news(connection: Connection, wait: float) -> list[Row]:
        nonlocal before
        states = [[row["eid"], row["state"], row["object"]] for row in before.values()]
        rows = {row["eid"]: row for row in connection.ask("tasks", known=states, wait=wait)}
        moved = [row for eid, row in rows.items() if _has_moved(before.get(eid), row)]
        gone = [row for eid, row in before.items() if eid not in rows]
        before = rows
        return moved + [{**row, "state": None, "object": None, "over": True} for row in gone]

    session.follow(_line, news)


def _has_moved(before: Row | None, row: Row) -> bool:
    return before is None or (before["state"], before["object"]) != (row["state"], row["object"])


def _line(row: Row) -> str:
    object = f" with object {row['object']}" if row["object"] else ""
    where = "is over" if row.get("over") else f"is in {row['state']}{object}" if row["state"] else "waits"
    return clean(f"task {row['eid']} of {row['type']} {where}")


# --- people who intervene ---------------------------------------------------------------------------------


def _at_work(context: click.Context, incomplete: str) -> completion.Choices:
    for row in completion.asked(context, "tasks"):
        yield str(row["eid"]), f"{row['type']} {row['state'] or ''}"


run_argument = click.argument("run", type=int, metavar="TASK", shell_complete=completion.source(_at_work))
_reason_option = reason_option("Kept in its history.", "reason", default="")


@asking("stop", "task_stop", example="narval task stop 57 --reason 'wrong scanner'", alters=True)
@run_argument
@_reason_option
def stop(answer: Row) -> None:
    """Stop one task, whatever it is doing.

    Its object goes back to the queue as it was when the task took it. Only the person responsible for the
    task, administrators, the home's owner and root may do this.
    """
    click.echo(clean(f"task {answer['task']} is {answer['state']}"))


@asking("finish", "task_finish", example="narval task finish 57 FORWARD --reason 'done by hand'", alters=True)
@run_argument
@click.argument("state")
@_reason_option
def finish(answer: Row) -> None:
    """End one task in a terminal state, regardless of edges.

    Its object is routed from that state. Only the person responsible for the task, administrators, the home's
    owner and root may do this.
    """
    click.echo(clean(f"task {answer['task']} is in {answer['state']}"))


def _moves(context: click.Context, incomplete: str) -> completion.Choices:
    """The states to which the named task may be moved."""
    item = _item_of(completion.asked(context, "tasks"), context.params["run"])
    for state in completion.asked(context, "work_item", item=item)["states"]["moves"]:
        yield state, ""


def _item_of(rows: list[Row], task: int) -> int:
    """The work item of a task for people. Raises RequestError if it has none."""
    at_work = next((row for row in rows if row["eid"] == task), None)
    if at_work is None:
        raise RequestError(f"no task {task} is at work; `narval task` lists those that are")
    if not at_work["item"]:
        who = f"{at_work['code']} does" if at_work["code"] else "a program or its scripts do"
        raise RequestError(f"task {task} of {at_work['type']} has no work item: {who} the work, and move it")
    return int(at_work["item"])


@command("move", example="narval task move 57 checking", alters=True)
@run_argument
@click.argument("state", shell_complete=completion.source(_moves))
def move(session: Session, run: int, state: str) -> None:
    """Move a task for people to another of its states, along an edge.

    This claims its work item, as `narval work claim` does, so you must be allowed to claim it. To move it to
    a state in which the task ends, answer the item instead: `narval work answer`.
    """
    item = _item_of(session.ask("tasks"), run)
    answer = {"task": run, **session.ask("move", item=item, state=state)}
    session.give(answer, lambda moved: click.echo(clean(f"task {run} goes to {moved['to']}")))


@asking(
    "retry",
    "task_retry",
    example="narval task retry 57 --object 31 --to bank.verify",
    alters=True,
    well=lambda answer: not answer["again"],
)
@click.argument("case", type=int, shell_complete=completion.source(completion.of_runs, kind="task-case"))
@click.option("--object", type=int, default=0, metavar="EID", help="Only this object, rather than all held.")
@click.option(
    "--to",
    default="",
    metavar="TYPE",
    shell_complete=types,
    help="Where it goes, rather than to its task again.",
)
def retry(answer: Row) -> None:
    """Let a case continue that cannot continue by itself.

    A failed compensator runs again, and a held object goes to its task again, in its present version, which
    `narval add FILE --replace OBJECT` can make. For an object that no script has routed, say where it goes.
    The exit status is 1 if one of them stops again at once.
    """
    click.echo(clean(f"case {answer['case']} is {answer['state']}"))
    for stop in answer["again"]:
        click.echo(clean(f"object {stop['object']} cannot go on again: {stop['why']}"))


# --- questions --------------------------------------------------------------------------------------------

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
    page.give(session, rows, lambda waiting: listing(EVENTS, waiting, "no event waits"))


@command("queue", example="narval task queue bank.scan --limit 10")
@type_argument
@limit_option("first")
@click.option("--after", type=int, metavar="OBJECT", help="Only those behind this one.")
def queue(session: Session, name: str, most: int | None, after: int | None) -> None:
    """List the objects in the queue of a type, the next one first."""
    rows = session.ask("task_queue", name=name, limit=most + 1 if most is not None else None, after=after)
    _give_page(session, rows, most, QUEUE, "object", "the queue is empty")


def _give_page(
    session: Session, rows: list[Row], most: int | None, table: Sequence[Column], key: str, nothing: str
) -> None:
    """Show the first rows of a list; if there are more, say after which one the next page begins."""
    visible = rows[:most]
    session.give(visible, lambda listed: listing(table, listed, nothing))
    if len(visible) < len(rows) and not session.as_json:
        click.echo(f"{len(visible)} shown; --after {visible[-1][key]} has the next", err=True)


@asking("where", "task_where", example="narval task where 31")
@object_argument
def where(answer: Row) -> None:
    """Show where an object is, by the eid of any version of it.

    The object of a case keeps its first eid, whatever replaces it; `now` is its present eid. For a split
    object the parts are shown too.
    """
    _place(answer)


def _place(row: Row, depth: int = 0) -> None:
    now = f" (now {row['now']})" if row["now"] != row["object"] else ""
    task = f" (task {row['task']})" if row["task"] else ""
    since = f" since {moment_in_zone(row['since'])}" if row["since"] else ""
    why = f": {row['why']}" if row["why"] else ""
    place = "in parts" if row["parts"] and row["where"] == "parts" else row["where"]
    click.echo("  " * depth + clean(f"object {row['object']}{now} is {place}{task}{since}{why}"))
    for part in row["parts"]:
        _place(part, depth + 1)
    if not depth:
        click.echo(f"its case is {row['case']}")


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
    _give_page(session, rows, most, TYPES, "type", "there is no task type")


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
    ordered = rows if most is None else rows[::-1]
    session.give(
        ordered,
        lambda records: click.echo("\n".join(map(record, records)) or "nothing is logged", err=not records),
    )
    if len(rows) == most and not session.as_json:
        click.echo(f"{most} shown; those before: --before {rows[-1]['seq']}", err=True)


for _below in (
    *programs.COMMANDS,
    *(move, stop, finish, retry),
    *(task_types, cases, events, queue, where, passed, time, log),
):
    task.add_command(_below)
