"""The command agents: those that the daemon of a home works for."""

from __future__ import annotations

from typing import BinaryIO

import click

from narval.ask.text import clean_lines
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.render import status
from narval.surfaces.cli.render.fleet import SHARED_AGENTS
from narval.surfaces.cli.render.tables import AGENTS, listing
from narval.surfaces.cli.session import Session

ACTS = ("add", "show", "settings", "suspend", "resume", "passivate", "remove")
"""The words for one agent; all but show change which there are, or the state of one."""

_EXAMPLE = """\
narval agents
narval agents add ada
narval agents add bob --collection office
narval agents show bob
narval agents settings bob bob.toml
narval start greet.door --agent ada
narval agents suspend ada --reason 'on leave'
narval agents remove ada --now"""


@command("agents", example=_EXAMPLE, alters=True)
@click.argument("act", metavar=f"[{'|'.join(ACTS)}]", required=False, type=click.Choice(ACTS))
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion.agents)
@click.argument("file", metavar="[FILE]", required=False, type=click.File("rb"))
@click.option("--reason", default="", metavar="TEXT", help="With suspend: shown until it is resumed.")
@click.option("--now", is_flag=True, help="With remove: although runs of it are under way.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Of the list, only the first N.")
@click.option(
    "--after",
    metavar="NAME",
    shell_complete=completion.agents,
    help="Of the list, only what follows this agent.",
)
@click.option("--collection", "collections", multiple=True, metavar="C", help="With add: what it follows.")
def agents(
    session: Session,
    act: str | None,
    name: str | None,
    file: BinaryIO | None,
    reason: str,
    now: bool,
    collections: tuple[str, ...],
    limit: int | None,
    after: str | None,
) -> None:
    """List the agents of the home, or change which there are.

    Each has a memory and runs of its own. One with a folder agents/NAME/ has files of its own there, the
    others follow the home's definitions. `add` makes one, and with --collection a folder, in which agent.toml
    says that it follows those and its own; `show` tells what counts for one, and what it has of all that is
    limited. Where homes share their store an agent without a folder may be at work at any of them, and what
    --collection says is kept in the store: `settings` writes that text, or lets FILE (- is standard input)
    be it, with all that an agent.toml may say. `suspend` lets one do nothing until `resume`: what it is asked
    waits; `passivate` takes one out of memory until it has something to do, as happens by itself; `remove`
    lets one go with all that it has.
    The home's own agent is always active. Any other command asks another with --agent NAME.
    """
    if act is None:
        rows = session.ask("agents", limit=limit, after=after)
        columns = SHARED_AGENTS if any("epoch" in row for row in rows) else AGENTS
        session.give(rows, lambda found: listing(columns, found, "no more agents"))
        return
    if name is None:
        raise click.UsageError(f"{act} needs the NAME of an agent")
    if (reason and act != "suspend") or (now and act != "remove") or (collections and act != "add"):
        raise click.UsageError("--reason goes with suspend, --now with remove, --collection with add")
    if file is not None and act != "settings":
        raise click.UsageError("FILE goes with settings")
    if act == "settings":
        _settings(session, name, file)
        return
    if act == "show":
        session.give(session.ask("show_agent", name=name), status.agent)
        return
    if act == "suspend":
        answer = session.ask("suspend", name=name, reason=reason)
    elif act == "remove":
        answer = session.ask("remove_agent", name=name, now=now)
    elif act == "add":
        more = {"collections": list(collections)} if collections else {}
        answer = session.ask("add_agent", name=name, **more)
    else:
        answer = session.ask("resume" if act == "resume" else "passivate", name=name)
    said = "removed" if act == "remove" else answer["state"]
    session.give(answer, lambda _: click.echo(f"{name} is {said}"))


def _settings(session: Session, name: str, file: BinaryIO | None) -> None:
    """Write the settings that the store has of an agent, or let a file be them."""
    if file is not None:
        shown = session.ask("set_agent_settings", name=name, text=file.read().decode("utf-8", "replace"))
        session.give(shown, status.agent)
        return
    shown = session.ask("show_agent", name=name)
    text, folder = shown["text"], shown["folder"]
    if text is None:
        where = f"{folder}/agent.toml" if folder else "etc/narval.toml, for all without a folder"
        raise RequestError(f"the settings of {name} are not in the store but in {where}")
    session.give({"name": name, "text": text}, lambda _: click.echo(clean_lines(text)))
