"""Commands with which people intervene in tasks (K16)."""

from __future__ import annotations

import click

from narval.ask.text import Row, clean
from narval.core.errors import RequestError
from narval.kinds.task.cli.programs import types
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command
from narval.surfaces.cli.session import Session


def _at_work(context: click.Context, incomplete: str) -> completion.Choices:
    for row in completion.asked(context, "tasks"):
        yield str(row["eid"]), f"{row['type']} {row['state'] or ''}"


run_argument = click.argument("run", type=int, metavar="TASK", shell_complete=completion.source(_at_work))
reason_option = click.option("--reason", default="", metavar="TEXT", help="Kept in its history.")


@asking("stop", "task_stop", example="narval task stop 57 --reason 'wrong scanner'", alters=True)
@run_argument
@reason_option
def stop(answer: Row) -> None:
    """Stop one task, whatever it is doing.

    Its object goes back to the queue as it was when the task took it. Only the person responsible for the
    task, administrators, the home's owner and root may do this.
    """
    click.echo(clean(f"task {answer['task']} is {answer['state']}"))


@asking("finish", "task_finish", example="narval task finish 57 FORWARD --reason 'done by hand'", alters=True)
@run_argument
@click.argument("state")
@reason_option
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
    session.give(answer, lambda found: click.echo(clean(f"task {run} goes to {found['to']}")))


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


COMMANDS = (move, stop, finish, retry)
