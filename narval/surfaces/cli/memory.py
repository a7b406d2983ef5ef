"""Commands that add, send and show elements: start, add, send, memory."""

from __future__ import annotations

import math
import shlex
import time
from contextlib import suppress
from typing import Any, BinaryIO

import click

from narval.ask.text import Row, clean, lasted, xml_text
from narval.core.definitions.reading.durations import read_duration
from narval.core.errors import NarvalError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, Pair, Pairs, asking, command, command_group, reason_option
from narval.surfaces.cli.documents import DocumentFile, Progress, batches, documents_of, naming
from narval.surfaces.cli.limits import asked_limits, limit_options
from narval.surfaces.cli.paging import Page, limit_option, paged
from narval.surfaces.cli.render.answers import fault_of
from narval.surfaces.cli.render.tables import DEAD_LETTERS, FACETS, LETTERS, elements, listing, table
from narval.surfaces.cli.session import Connection, Purpose, Session

SLICE = 20.0
"""Seconds that one request waits for the end of a run."""

FORGOTTEN = "forgotten"
"""The phase of a run that was started with the same key, and has ended and been forgotten."""

_START = """\
narval start mail.triage
echo "<guest name='Ada'/>" | narval start greet.guest - --wait"""


key_option = click.option(
    "--key",
    default="",
    metavar="TEXT",
    help="Of this request: if it was done before, under this key, it is not done again.",
)


@command("start", example=_START, alters=True)
@click.argument("name", shell_complete=completion.definitions)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=DocumentFile())
@click.option(
    "--wait", is_flag=True, help="Wait until it ended; the exit status is 1 if it did not end well."
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="With --wait: at most S seconds.")
@click.option("--each", is_flag=True, help="Start a run for each element, all at once.")
@click.option(
    "--env",
    "--set",
    "environment",
    type=Pair(),
    multiple=True,
    help="An attribute of a process to begin with, or the value of an input of a dataflow.",
)
@limit_options
@key_option
@click.option(
    "--open", "is_open", is_flag=True, help="Of a dataflow: more sessions follow, by the signal `session`."
)
@click.pass_context
def start(
    context: click.Context,
    /,
    session: Session,
    name: str,
    files: tuple[BinaryIO, ...],
    wait: bool,
    timeout: float | None,
    each: bool,
    environment: Pairs,
    key: str,
    is_open: bool,
    **limits: Any,
) -> None:
    """Start a run of the definition NAME and print its eid.

    NAME is that of a group and a definition in it, such as mail.triage. The elements in FILEs (- is standard
    input) become its first context. If no daemon runs, the next one performs the run; with --wait this
    command does.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait")
    if each and (wait or not files):
        raise click.UsageError("--each takes the elements of FILEs, and does not go with --wait")
    documents = documents_of(files)
    attributes = {
        **dict(environment),
        **asked_limits(limits),
        **({":open": "yes"} if is_open else {}),
    }
    arguments: dict[str, Any] = {"environment": attributes} if attributes else {}
    if each:
        arguments["each"] = True
    if key:
        arguments["key"] = key
    purpose: Purpose = "work" if wait else "record"
    with session.connect(purpose) as connection:
        with naming(files, documents):
            run = connection.ask("start", name=name, elements=documents, **arguments)
        if not session.as_json:
            click.echo("\n".join(map(str, run["runs"])) if each else run["eid"])
        if fault := run.get("fault"):
            click.echo(f"warning: {clean(fault)}", err=True)
        if run.get("waits_for") == "moment" and not (documents or attributes or key or session.as_json):
            _tell_of_another(session, connection, run)
        if wait:
            run = _ended(connection, run, timeout)
    if session.as_json:
        session.give(run, click.echo)
    elif wait or run.get("phase") == FORGOTTEN:
        click.echo(_outcome(run), err=True)
    context.exit(NOT_WELL if wait and run["phase"] != "done" else 0)


def _tell_of_another(session: Session, connection: Connection, run: dict[str, Any]) -> None:
    """Say that another run of the same definition waits for a moment: each acts when it comes. The start is
    made: if this cannot be asked, nothing is said.
    """
    waiting: list[Row] = []
    with suppress(NarvalError):
        waiting = connection.ask("runs", name=run["name"], waiting_for="moment", limit=2)
    for other in [row["eid"] for row in waiting if row["eid"] != run["eid"]][:1]:
        cancel = shlex.join([*session.words, "cancel", str(other)])
        click.echo(f"run {other} of it waits for its moment too; `{cancel}` ends that one", err=True)


def _ended(connection: Connection, run: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    """The run when it has ended, or its state when the time is up."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    while run["phase"] == "active" and (left := deadline - time.monotonic()) >= 0:
        run = connection.ask("wait", run=run["eid"], timeout=min(SLICE, left))
    return run


def _outcome(run: dict[str, Any]) -> str:
    if run["phase"] == "active":
        return f"still {run['state']}: see `narval why {run['eid']}`"
    if run["phase"] == FORGOTTEN:
        return f"run {run['eid']} was started with this key; it is over and forgotten"
    after = f" after {lasted(run)}" if lasted(run) else ""
    why = f": {fault_of(run['error'])}" if run["error"] else ""
    return f"{run['state']}{after}{why}"


_ADD = """\
narval add mail.xml
echo '<question>Who are you?</question>' | narval add -
echo '<rule name="quiet" when="email"/>' | narval add - --replace 12"""


@command("add", example=_ADD, alters=True)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DocumentFile())
@click.option(
    "--replace",
    type=int,
    metavar="EID",
    shell_complete=completion.elements,
    help="Add one element in place of this one.",
)
@key_option
def add(session: Session, files: tuple[BinaryIO, ...], replace: int | None, key: str) -> None:
    """Add elements to memory, and print their eids.

    Each FILE (- is standard input) is one document: its root is added, or each child of a root `memory`. If
    one element is refused, none is added. Only more than 2,000 files, or more than 24 MB together, are added
    in several parts. With --replace the new element outdates the element EID.
    """
    eids: list[int] = []
    doubts: dict[str, None] = {}
    asked: dict[str, Any] = {} if replace is None else {"replace": replace}
    with Progress() as progress:
        documents = documents_of(files, progress)
        progress.show("adding")
        acting = session.connect("record")
        with acting as connection, naming(files, documents):
            for number, batch in enumerate(batches(documents)):
                if key:
                    asked["key"] = f"{key} {number}" if number else key
                answer = connection.ask("add", elements=batch, **asked)
                added = answer["eids"]
                eids += added
                doubts |= dict.fromkeys(answer.get("warnings", ()))
                progress.clear()
                if added and not session.as_json:
                    click.echo("\n".join(map(str, added)))
    for doubt in doubts:
        click.echo(clean(f"warning: {doubt}"), err=True)
    if session.as_json:
        session.give({"eids": eids, "warnings": list(doubts)} if doubts else {"eids": eids}, click.echo)


_SEND = """\
narval send shop order.xml
echo '<order item="milk"/>' | narval send shop - --keep 7d
echo '<order item="milk"/>' | narval send shop - --agent ada"""


def _seconds(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else read_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@command("send", example=_SEND, alters=True)
@click.argument("to", metavar="AGENT", shell_complete=completion.agents)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DocumentFile())
@click.option("--keep", callback=_seconds, metavar="TIME", help="How long it may wait to be taken, as in 7d.")
def send(session: Session, to: str, files: tuple[BinaryIO, ...], keep: float | None) -> None:
    """Send elements to AGENT; print the ids of the messages.

    AGENT is another agent of the home. Each FILE (- is standard input) is one document: its root is sent, or
    each child of a root `memory`. The home's own agent sends them, or the one that --agent names. Each
    arrives in the memory of AGENT once, in the order of sending; an element that AGENT does not take comes
    back in an `error` element.
    """
    documents = documents_of(files)
    with session.connect("record") as connection, naming(files, documents):
        answer = connection.ask("send", to=to, elements=documents, keep=keep)
    session.give(answer, lambda reply: click.echo("".join(f"{id}\n" for id in reply["messages"]), nl=False))


_LETTERS = """\
narval letters
narval letters --dead
narval letters resend 3
narval letters drop 3"""


@command_group("letters", example=_LETTERS)
@click.option("--dead", is_flag=True, help="List those that could not be taken.")
@limit_option("newest")
@click.option("--before", metavar="LETTER", help="Only those older than this letter, or message.")
def letters(session: Session, dead: bool, most: int | None, before: str | None) -> None:
    """List messages, sent or received, that are not taken yet.

    With --dead, those it has sent that could not be delivered: they are kept for 30 days. `resend` sends such
    a LETTER again, to the agent that now has the name of its receiver; `drop` deletes it.
    """
    limit = most + 1 if most is not None else None
    rows = session.ask("letters", dead=dead, limit=limit, before=before)
    visible = rows[:most]
    session.give(
        visible, lambda listed: listing(DEAD_LETTERS if dead else LETTERS, listed, "no letters wait")
    )
    if len(visible) < len(rows) and not session.as_json:
        last = visible[-1]["letter" if dead else "message"]
        click.echo(f"{len(visible)} shown; --before {last} has the next", err=True)


letter_argument = click.argument("letter", type=int, shell_complete=completion.dead_letters)


@asking("resend", "resend", example="narval letters resend 3", alters=True)
@letter_argument
def resend(answer: Row) -> None:
    """Send a dead letter again, to the agent that now has the name of its receiver."""
    click.echo(f"letter {answer['letter']} is sent again")


@asking("drop", "drop_letter", example="narval letters drop 3", alters=True)
@letter_argument
def drop(answer: Row) -> None:
    """Delete a dead letter."""
    click.echo(f"letter {answer['letter']} is dropped")


letters.add_command(resend)
letters.add_command(drop)


@asking("outdate", "outdate", example="narval outdate 12 13 --reason 'not today'", alters=True)
@click.argument(
    "eids", metavar="EID...", nargs=-1, required=True, type=int, shell_complete=completion.elements
)
@reason_option("Kept with the element that tells of it.", "reason", default="")
def outdate(answer: Row) -> None:
    """Mark elements as outdated: no run takes them any more.

    No step or condition gets them from then on, and narval memory --current leaves them out. A call that was
    given one continues, except a source, which ends. The elements that were not outdated yet are printed.
    """
    click.echo("".join(f"{eid}\n" for eid in answer["eids"]), nl=False)


_MEMORY = """\
narval memory "email[@kind='ack']"
narval memory --limit 10
narval memory --count plan
narval memory --since 2026-01-31 --made-by mail.triage
narval memory "email[contains(., 'invoice')]" --look 5000
narval memory --facets"""


@command("memory", example=_MEMORY)
@click.argument("xpath", required=False)
@click.option("--xml", "as_xml", is_flag=True, help="Write the elements as one XML document.")
@click.option("--count", is_flag=True, help="Write how many there are.")
@click.option(
    "--context",
    type=int,
    metavar="RUN",
    shell_complete=completion.runs,
    help="Only what the context of this run holds.",
)
@click.option("--current", is_flag=True, help="Leave out what has been replaced by a newer version.")
@click.option("--since", metavar="MOMENT", help="Only what was added from this moment on.")
@click.option(
    "--made-by",
    "definition",
    metavar="NAME",
    shell_complete=completion.definitions,
    help="Only what runs of this definition have made.",
)
@click.option(
    "--look", type=click.IntRange(min=1), metavar="N", help="Try at most N elements, and make no index."
)
@click.option("--facets", is_flag=True, help="List the names there are, each with how many there are.")
@paged
@click.pass_context
def memory(
    context: click.Context,
    session: Session,
    /,
    page: Page,
    as_xml: bool,
    count: bool,
    look: int | None,
    facets: bool,
    **query: Any,
) -> None:
    """List the elements that match XPATH, or all.

    The newest come first. XPATH is a pattern as in a recipe, such as email[@kind='ack'], tried on each
    element by itself. The exit status is 1 if a pattern is given and nothing matched. With --xml all are
    written unless --limit is given, oldest first, in the form that `narval add` takes.

    A pattern that matches few elements may try all of its name, and index an attribute. With --look the
    answer comes soon, however large memory is: it says how many were tried, and how to look further. MOMENT
    is like 2026-01-31 or 2026-01-31T18:30.
    """
    if facets:
        if as_xml or count or look is not None or page.before is not None or any(query.values()):
            raise click.UsageError("--facets lists the names of all elements: of the rest, it takes --limit")
        rows = session.ask("facets", limit=page.limit)
        session.give(rows, lambda listed: listing(FACETS, listed, "no elements"))
        return
    if look is not None and (as_xml or count):
        raise click.UsageError("--look excludes --xml and --count, which try all")
    if as_xml + count + session.as_json > 1 and as_xml:
        raise click.UsageError("--xml excludes --json and --count")
    if count:
        if page.limit_given or page.before is not None:
            raise click.UsageError("--count counts all: it excludes --limit and --before")
        counted = session.ask("count", **query)
        session.give(counted, lambda answer: click.echo(answer["count"]))
        context.exit(NOT_WELL if query["xpath"] is not None and not counted["count"] else 0)
    if look is not None:
        answer = session.ask("elements", **query, limit=page.limit, before=page.before, look=look)
        session.give(answer["elements"], lambda rows: table(elements(session.columns), rows))
        further = f"; to look further: {page.going_on(session, older)}" if (older := answer["older"]) else ""
        click.echo(f"{len(answer['elements'])} of {answer['tried']} tried fit{further}", err=True)
        context.exit(NOT_WELL if query["xpath"] is not None and not answer["elements"] else 0)
    if as_xml and not page.limit_given:
        page = page._replace(limit=None)
    found = page.ask(session, "memory", **query)
    if as_xml:  # a document that `narval add` accepts
        found = found[: page.limit][::-1]
        for line in ("<memory>", *(xml_text(element["xml"]) for element in found), "</memory>"):
            click.echo(line.encode("utf-8"))
    else:
        page.give(session, found, lambda rows: listing(elements(session.columns), rows, "no elements"))
    context.exit(NOT_WELL if query["xpath"] is not None and not found else 0)
