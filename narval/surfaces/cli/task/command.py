"""The command task: the tasks that are at work, and all that is below it (K61)."""

from __future__ import annotations

from typing import Any

from narval.operations.text import clean
from narval.surfaces.cli.command import command_group
from narval.surfaces.cli.paging import Page, paged
from narval.surfaces.cli.render.tables import table
from narval.surfaces.cli.session import Session
from narval.surfaces.cli.task import administration, programs, queries
from narval.surfaces.cli.task.tables import TASKS

_EXAMPLE = """\
narval task
narval task put bank.scan cheque.xml
NARVAL_TASK=$(narval task init bank.scan) narval task get
narval task events bank.update"""


@command_group("task", example=_EXAMPLE)
@paged
def task(session: Session, page: Page) -> None:
    """List the tasks that are at work, or do something about them.

    A task type of a `.task` file has a queue of objects, and instances that work on them. `put` begins the
    way of an object. A program works as a task by `init`, `get`, `assert`, `raise`, `wait` and `down`; the
    handle that `init` prints is kept in NARVAL_TASK. `stop`, `finish` and `retry` are for people who
    interfere; the others answer questions.
    """
    rows = page.ask(session, "tasks")
    page.give(session, rows, _listed)


def _listed(rows: list[dict[str, Any]]) -> None:
    import click

    table(TASKS, rows) if rows else click.echo(clean("no task is at work"))


for _below in (*programs.COMMANDS, *administration.COMMANDS, *queries.COMMANDS):
    task.add_command(_below)
