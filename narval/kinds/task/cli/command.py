"""The command `task`, which lists the tasks at work, and its subcommands (K61)."""

from __future__ import annotations

import click

from narval.ask.text import Row, clean
from narval.kinds.task.cli import administration, programs, queries
from narval.kinds.task.cli.tables import TASKS
from narval.surfaces.cli.command import command_group
from narval.surfaces.cli.paging import Page, paged
from narval.surfaces.cli.render.tables import listing
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
    page.give(session, rows, lambda shown: listing(TASKS, shown, "no task is at work"))


def _follow(session: Session) -> None:
    before: dict[int, Row] = {}

    def news(connection: Connection, wait: float) -> list[Row]:
        nonlocal before
        known = [[row["eid"], row["state"], row["object"]] for row in before.values()]
        rows = {row["eid"]: row for row in connection.ask("tasks", known=known, wait=wait)}
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


for _below in (*programs.COMMANDS, *administration.COMMANDS, *queries.COMMANDS):
    task.add_command(_below)
