"""Commands with which any program works as a task (K48–K57), and the command that puts an object."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, BinaryIO

import click

from narval.ask.text import Row, clean, clean_lines, xml_text
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, asking, command
from narval.surfaces.cli.documents import DocumentFile, documents_of, naming
from narval.surfaces.cli.session import Session
from narval.surfaces.control.task_handle import FOR_GOOD, SLICE, TASK, handle_in


def _types(context: click.Context, incomplete: str) -> completion.Choices:
    for row in completion.asked(context, "definitions")["definitions"]:
        if row["kind"] == "task":
            yield row["name"], row["description"]


def _states(context: click.Context, incomplete: str) -> completion.Choices:
    """The states to which edges lead from the task's state."""
    handle = context.params.get("task") or handle_in(os.environ)
    for state in completion.asked(context, "task_state", task=handle)["next"]:
        yield state, ""


types = completion.source(_types)
type_argument = click.argument("name", metavar="TYPE", shell_complete=types)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="Wait S seconds at most."
)


def _needed(handle: str) -> str:
    """A handle. Raises UsageError if it is empty."""
    if not handle:
        raise click.UsageError(f"{TASK} is not set: `export {TASK}=$(narval task init TYPE)` begins a task")
    return handle


def _handle_option(check: Callable[[str], str]) -> Callable[..., Any]:
    """The option --task: the given handle, or that of the environment."""

    def handle(_context: click.Context, _option: click.Parameter, handle_text: str) -> str:
        return check(handle_text or handle_in(os.environ))

    return click.option(
        "--task", metavar="HANDLE", default="", callback=handle, help=f"The handle, rather than {TASK}."
    )


handle_option = _handle_option(_needed)


_PUT = """\
narval task put bank.scan cheque.xml
echo '<cheque amount="120"/>' | narval task put bank.scan -"""


@command("put", example=_PUT, alters=True)
@type_argument
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DocumentFile())
def put(session: Session, name: str, files: tuple[BinaryIO, ...]) -> None:
    """Put objects into the queue of a task type.

    Each FILE (- is standard input) is one document: its root is put, or each child of a root `memory`. A case
    begins for each object and follows it; the eids of the cases are printed.
    """
    documents = documents_of(files)
    with naming(files, documents):
        answer = session.ask("task_put", name=name, elements=documents)
    session.give(answer, lambda put_in: click.echo("\n".join(str(row["case"]) for row in put_in["cases"])))


_INIT = """\
narval task init bank.scan
narval task init bank.verify --role clerk --as ann"""


@command("init", example=_INIT, alters=True)
@type_argument
@click.option("--role", default="", metavar="R", help="The role in which you work.")
@click.option(
    "--lease",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Dead after S seconds without a call.",
)
def init(session: Session, name: str, role: str, lease: float | None) -> None:
    """Begin a task, as a program.

    Prints the handle with which all other calls name the task: keep it in NARVAL_TASK. If the type names
    users or roles, you must be one of them. After an hour without a call, or --lease seconds, the task counts
    as dead, and its object goes back to the queue.
    """
    limits = {} if lease is None else {"lease": lease}
    answer = session.ask("task_init", name=name, role=role, **limits)
    session.give(answer, lambda begun: click.echo(begun["task"]))


@command(
    "get", example="narval task get > object.xml\nnarval task get --timeout 60", alters=True, repeats=True
)
@handle_option
@timeout_option
@click.pass_context
def get(context: click.Context, /, session: Session, task: str, timeout: float | None) -> None:
    """Take the next object of the queue, and print it.

    Waits until there is one; the task is then in its initial state. With --timeout, the exit status is 1 if
    none has come. A task that still has an object gets that one.
    """
    left = timeout
    with session.connect("record") as connection:
        while True:
            wait = SLICE if left is None else min(SLICE, left)
            answer = connection.ask("task_get", task=task, wait=wait)
            left = None if left is None else left - wait
            if answer["object"] is not None or (left is not None and left <= 0):
                break
    session.give(answer, lambda taken: click.echo(xml_text(taken["xml"])) if taken["object"] else None)
    if answer["object"] is None:
        if not session.as_json:
            click.echo("no object has come", err=True)
        context.exit(NOT_WELL)


@command("assert", example="narval task assert verifying\nnarval task assert FORWARD", alters=True)
@click.argument("state", shell_complete=completion.source(_states))
@handle_option
def assert_(session: Session, state: str, task: str) -> None:
    """Move the task to a state, along an edge.

    In a terminal state, such as FORWARD, COMMIT, ABORT or EXCEPTION, the object is routed, and `get` takes
    the next one.
    """
    answer = session.ask("task_assert", task=task, state=state, wait=FOR_GOOD)
    session.give(answer, _moved)


def _moved(answer: Row) -> None:
    click.echo(clean(f"task {answer['task']} is in {answer['state']}"))


_RAISE = """\
narval task raise scanned
narval task raise bank.update ev.update 10:00:00 10:30:00 --sync
narval task raise bank.compose arrived --with-object
narval task raise fax.NIGHT"""


@command("raise", example=_RAISE, alters=True)
@click.argument("words", metavar="[TYPE] EVENT [ARG]...", nargs=-1, required=True, shell_complete=types)
@click.option(
    "--sync/--async", "sync", default=None, help="Wait for the action, or not, whatever the rule says."
)
@click.option("--object", "file", type=DocumentFile(), metavar="FILE", help="Carry this element.")
@click.option("--with-object", is_flag=True, help="Carry the object of the task, which no longer has it.")
@click.option(
    "--user", "users", multiple=True, metavar="U", help="Only instances of this user; may be repeated."
)
@click.option(
    "--role", "roles", multiple=True, metavar="R", help="Only instances in this role; may be repeated."
)
@_handle_option(str)
@click.pass_context
def raise_(
    context: click.Context,
    /,
    session: Session,
    words: tuple[str, ...],
    sync: bool | None,
    file: BinaryIO | None,
    with_object: bool,
    users: tuple[str, ...],
    roles: tuple[str, ...],
    task: str,
) -> None:
    """Raise an event.

    EVENT alone is an event within the task of NARVAL_TASK, which leads along an edge, or a global event by
    its full name. With a TYPE it goes to an instance of that type, with an ARG for each parameter of its
    rule. For a synchronous event the result is printed, and the exit status is 1 unless it is done.
    """
    name, event, arguments = (words[0], words[1], list(words[2:])) if len(words) > 1 else ("", words[0], [])
    files = [file] if file is not None else []
    documents = documents_of(files)
    if with_object:
        _needed(task)
    more = {"elements": documents, "with_object": with_object, "users": list(users), "roles": list(roles)}
    mode = "" if sync is None else "sync" if sync else "async"
    with naming(files, documents):
        answer = session.ask(
            "task_raise",
            event=event,
            name=name,
            parameters=arguments,
            mode=mode,
            task=task,
            wait=FOR_GOOD,
            **more,
        )
    session.give(answer, _raised)
    if answer.get("result") not in (None, "done"):
        context.exit(NOT_WELL)


def _raised(answer: Row) -> None:
    if "task" in answer:
        _moved(answer)
    else:
        result = f"event {answer['event']} of {answer['type']} is {answer['result'] or 'registered'}"
        click.echo(clean(result))


@command(
    "wait",
    example="narval task wait ev.update\nnarval task wait ev.update --end --timeout 600",
    alters=True,
    repeats=True,
)
@click.argument("event")
@click.option("--end", is_flag=True, help="Wait until its action was done.")
@timeout_option
@handle_option
@click.pass_context
def wait(
    context: click.Context, /, session: Session, event: str, end: bool, timeout: float | None, task: str
) -> None:
    """Wait until an event is raised for the task.

    An earlier event counts if no wait has taken it yet. Prints the parameters, one a line, or with --end the
    result. The exit status is 1 if none has come within --timeout.
    """
    heard = session.ask("task_wait", task=task, event=event, end=end, timeout=timeout, wait=FOR_GOOD)
    session.give(heard, _heard)
    if heard["timed_out"] or heard["event"] is None:
        context.exit(NOT_WELL)


def _heard(answer: Row) -> None:
    if answer["event"] is None:
        click.echo("no such event has come", err=True)
    elif answer["result"]:
        click.echo(clean(answer["result"]))
    for text in answer["parameters"]:
        click.echo(clean_lines(text))


@asking("state", "task_state", example="narval task state")
@handle_option
def state(answer: Row) -> None:
    """Print the state of the task."""
    if answer["state"] is None:
        click.echo("it has no object yet: `narval task get`", err=True)
    else:
        click.echo(clean(answer["state"]))


@asking("down", "task_down", example="narval task down", alters=True)
@handle_option
def down(answer: Row) -> None:
    """End the task.

    An object that it still has goes back to the queue.
    """
    click.echo(f"task {answer['task']} is down")


COMMANDS = (put, init, get, assert_, raise_, wait, state, down)
