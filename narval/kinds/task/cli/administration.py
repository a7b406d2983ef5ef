"""Commands by which people interfere with tasks (K16)."""

from __future__ import annotations

import click

from narval.ask.text import Row, clean
from narval.kinds.task.cli.programs import types
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking


def _at_work(context: click.Context, incomplete: str) -> completion.Choices:
    for row in completion.asked(context, "tasks"):
        yield str(row["eid"]), f"{row['type']} {row['state'] or ''}"


run_argument = click.argument("run", type=int, metavar="TASK", shell_complete=completion.source(_at_work))
reason_option = click.option("--reason", default="", metavar="TEXT", help="Kept in its history.")


@asking("stop", "task_stop", example="narval task stop 57 --reason 'wrong scanner'", alters=True)
@run_argument
@reason_option
def stop(answer: Row) -> None:
    """Stop one task, whatever it does.

    Its object goes back to the queue as it was when it came. For whoever is responsible for the task,
    administrators, the home's owner and root.
    """
    click.echo(clean(f"task {answer['task']} is {answer['state']}"))


@asking("finish", "task_finish", example="narval task finish 57 FORWARD --reason 'done by hand'", alters=True)
@run_argument
@click.argument("state")
@reason_option
def finish(answer: Row) -> None:
    """Have one task end in a terminal state, whatever edges there are.

    Its object goes on from there. For whoever is responsible for the task, administrators, the home's owner
    and root.
    """
    click.echo(clean(f"task {answer['task']} is in {answer['state']}"))


@asking("retry", "task_retry", example="narval task retry 57 --object 31 --to bank.verify", alters=True)
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
    """Let a case go on that cannot by itself.

    A compensator that failed is tried again, and an object that is held goes to its task again. One that no
    script has routed needs to be told where it goes.
    """
    click.echo(clean(f"case {answer['case']} is {answer['state']}"))


COMMANDS = (stop, finish, retry)
