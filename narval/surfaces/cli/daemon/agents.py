"""The command agents: the agents of the daemon of a home."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import click

from narval.ask.text import Row, clean, clean_lines, counted, moment
from narval.core.errors import NarvalError, RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command, command_group, reason_option
from narval.surfaces.cli.render import status
from narval.surfaces.cli.render.tables import AGENTS, Column, listing, of
from narval.surfaces.cli.session import Session

_EXAMPLE = """\
narval agents
narval agents add ada
narval agents add bob --collection office
narval agents add --from desk --count 200
narval agents show bob
narval agents messages
narval agents settings bob bob.toml
narval start greet.door --agent ada
narval agents suspend ada --reason 'on leave'
narval agents move ada barn
narval agents remove ada --now"""


@command_group("agents", example=_EXAMPLE)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Of the list, only the first N.")
@click.option(
    "--after",
    metavar="NAME",
    shell_complete=completion.agents,
    help="Of the list, only what follows this agent.",
)
@click.option("--text", metavar="TEXT", help="Of the list, only those whose names have this text.")
def agents(session: Session, limit: int | None, after: str | None, text: str | None) -> None:
    """List the agents of the home, or add and remove some.

    Each has its own memory and runs. One with a folder agents/NAME/ has files of its own there; the others
    follow the home's definitions. `add` makes one; with --collection it also makes a folder, whose agent.toml
    says that the agent follows those collections and its own files. `show` prints an agent's settings, and
    its use of each limit; `messages` prints who sends to whom. Where homes share their store, any of them may
    run an agent without a folder, and its --collection is kept in the store: `settings` prints these
    settings, or replaces them by FILE (- is standard input), which may contain everything that agent.toml
    may. `suspend` stops an agent until `resume`: requests to it wait. `passivate` takes one out of memory
    until it has something to do, which also happens automatically; `move` moves one to the daemon of another
    home that shares the store; `remove` removes one with everything it has. The home's own agent is always
    active. Any other command asks another agent with --agent NAME.
    """
    rows = session.ask("agents", limit=limit, after=after, text=text)
    session.give(rows, lambda listed: listing(AGENTS, listed, "no more agents"))


GONE = "(gone)"
"""The name shown for a removed agent."""

name_argument = click.argument("name", shell_complete=completion.agents)


def _became(answer: Row) -> None:
    click.echo(f"{answer['name']} is {answer['state']}")


_ADDED = """\
narval agents add bob --collection office
narval agents add --from desk --count 200
narval agents add --from desk --csv desks.csv"""


@command("add", example=_ADDED, alters=True)
@click.argument("name", required=False)
@click.option("--collection", "collections", multiple=True, metavar="C", help="What it follows.")
@click.option(
    "--from",
    "template",
    metavar="TEMPLATE",
    shell_complete=completion.templates,
    help="Make agents from agents/TEMPLATE.toml.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="How many to make.")
@click.option("--csv", "file", type=click.File("rb"), metavar="FILE", help="One for each row of FILE.")
def add(
    session: Session,
    name: str | None,
    collections: tuple[str, ...],
    template: str | None,
    count: int | None,
    file: BinaryIO | None,
) -> None:
    """Make an agent, or many from a template.

    The columns of FILE (- is standard input) are parameters of the template; its first row names them.
    """
    if template is None:
        if name is None or count is not None or file is not None:
            raise click.UsageError("expected NAME; or --from TEMPLATE with --count N or --csv FILE")
        answer = session.ask("add_agent", name=name, collections=list(collections))
        session.give(answer, _became)
        return
    if name is not None or collections or (count is None) == (file is None):
        raise click.UsageError("--from takes --count N or --csv FILE, and neither NAME nor --collection")
    made: list[Row] = []
    with session.connect("record") as connection:
        for part in _parts(count or 0) if file is None else _portions(rows_of(file)):
            first = made[-1]["number"] + 1 if made else 1
            try:
                made += connection.ask("add_agents", template=template, first=first, **part)
            except NarvalError:
                if made:
                    click.echo(f"made {counted(len(made), 'agent')}{_span(made)}, and none after", err=True)
                raise
    session.give(made, lambda rows: click.echo(f"made {counted(len(rows), 'agent')}{_span(rows)}"))


_AT_ONCE = 200
"""The agents that one request makes; the daemon answers other requests between two of them."""


def _parts(count: int) -> Iterator[dict[str, Any]]:
    for begun in range(0, count, _AT_ONCE):
        yield {"count": min(_AT_ONCE, count - begun)}


def _portions(rows: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    for begun in range(0, len(rows), _AT_ONCE):
        yield {"rows": rows[begun : begun + _AT_ONCE]}


def _span(rows: Sequence[Row]) -> str:
    names = [clean(row["name"]) for row in rows]
    return f": {names[0]}" if len(names) == 1 else f": {names[0]} to {names[-1]}"


def rows_of(file: BinaryIO) -> list[dict[str, str]]:
    """The rows of a CSV file, whose first row names the columns. Raises RequestError with the line."""
    import csv

    try:
        lines = csv.reader(io.StringIO(file.read().decode("utf-8-sig"), newline=""), strict=True)
        head = [name.strip() for name in next(lines, [])]
        if not head or len(set(head)) < len(head) or "" in head:
            raise RequestError("line 1: expected the names of parameters, each once")
        rows = list[dict[str, str]]()
        for cells in lines:
            if cells and len(cells) != len(head):
                raise RequestError(f"line {lines.line_num}: expected {len(head)} cells, found {len(cells)}")
            if cells:
                rows.append(dict(zip(head, cells, strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise RequestError(f"expected CSV in UTF-8: {error}") from None
    if not rows:
        raise RequestError("expected a row for each agent below the names, found none")
    return rows


@asking("show", "show_agent", example="narval agents show bob")
@name_argument
def show(answer: Row) -> None:
    """Print the settings of an agent, and its use of each limit."""
    status.agent(answer)


_PAIRS = (
    Column("from", lambda row: row["from"] or GONE),
    Column("to", lambda row: row["to"] or GONE),
    Column("sent", of("sent"), right=True),
    Column("taken", of("taken"), right=True),
    Column("waiting", lambda row: row["open"] or "", right=True),
    Column("since", lambda row: moment(row["oldest"]), is_moment=True),
)


@asking("messages", "message_counts", example="narval agents messages\nnarval agents messages shop --json")
@click.argument("name", required=False, shell_complete=completion.agents)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=200, metavar="N", help="Only the first N pairs (200)."
)
def messages(answer: Row) -> None:
    """Print who sends to whom, how much, and what waits to be taken.

    One line for each pair: the messages sent since its first, those taken, those that wait, and since when
    the oldest waits. Pairs with the most waiting messages come first. `narval letters` lists the waiting
    messages of an agent.
    """
    listing(_PAIRS, answer["pairs"], "no agent has sent anything")
    if answer["more"]:
        click.echo("more pairs are left out", err=True)


@command("settings", example="narval agents settings bob\nnarval agents settings bob bob.toml", alters=True)
@name_argument
@click.argument("file", metavar="[FILE]", required=False, type=click.File("rb"))
def settings(session: Session, name: str, file: BinaryIO | None) -> None:
    """Print the settings of an agent in the store, or replace them by FILE (- is standard input)."""
    if file is not None:
        answer = session.ask("set_agent_settings", name=name, text=file.read().decode("utf-8", "replace"))
        session.give(answer, status.agent)
        return
    answer = session.ask("show_agent", name=name)
    text, folder = answer["text"], answer["folder"]
    if text is None:
        where = f"{folder}/agent.toml" if folder else "etc/narval.toml, for all without a folder"
        raise RequestError(f"the settings of {name} are not in the store but in {where}")
    session.give({"name": name, "text": text}, lambda _: click.echo(clean_lines(text)))


@asking("suspend", "suspend", example="narval agents suspend ada --reason 'on leave'", alters=True)
@name_argument
@reason_option("Shown until it is resumed.", "reason", default="")
def suspend(answer: Row) -> None:
    """Suspend an agent until it is resumed: requests to it wait."""
    _became(answer)


@asking("resume", "resume", example="narval agents resume ada", alters=True)
@name_argument
def resume(answer: Row) -> None:
    """Let a suspended agent continue."""
    _became(answer)


@asking("passivate", "passivate", example="narval agents passivate ada", alters=True)
@name_argument
def passivate(answer: Row) -> None:
    """Take an agent out of memory until it has something to do."""
    _became(answer)


@command("move", example="narval agents move ada barn", alters=True)
@name_argument
@click.argument("daemon", metavar="DAEMON", default="", shell_complete=completion.daemons)
@click.option("--to", metavar="DAEMON", default="", shell_complete=completion.daemons, help="As DAEMON.")
@click.option("--grace", type=float, default=10.0, metavar="S", help="How long its calls may go on (10 s).")
def move(session: Session, name: str, daemon: str, to: str, grace: float) -> None:
    """Move an agent to another daemon of the store, named by its home.

    It leaves at the end of a turn, as soon as its calls have ended. Calls that still run after S seconds are
    ended, and repeated there or interrupted, as after a crash.
    """
    if bool(to) == bool(daemon):
        raise click.UsageError("expected one DAEMON of the store, by its home")
    session.give(session.ask("move_agent", name=name, to=to or daemon, grace=grace), _moved)


def _moved(answer: Row) -> None:
    if answer["from"] == answer["to"]:
        click.echo(f"{answer['name']} is at {answer['to']} already")
    else:
        click.echo(f"{answer['name']} goes on at {answer['to']}")


@asking("remove", "remove_agent", example="narval agents remove ada --now", alters=True)
@name_argument
@click.option("--now", is_flag=True, help="Although runs of it are under way.")
def remove(answer: Row) -> None:
    """Remove an agent with everything it has.

    A backup of it is written first, into var/removed/ of the home, and stays there: delete it when you no
    longer need it.
    """
    name = clean(answer["name"])
    click.echo(f"{name} is removed")
    if file := answer.get("backup"):
        how = f"narval restore {shlex.quote(file)} --agent {name}"
        click.echo(f"to put it back, while no daemon runs: {how}")


for _below in (add, show, messages, settings, suspend, resume, passivate, move, remove):
    agents.add_command(_below)
