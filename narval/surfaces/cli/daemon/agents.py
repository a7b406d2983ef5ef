"""The command agents: those that the daemon of a home works for."""

from __future__ import annotations

import click

from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.render import status
from narval.surfaces.cli.render.tables import AGENTS, table
from narval.surfaces.cli.session import Session

ACTS = ("add", "show", "suspend", "resume", "passivate", "remove")
"""The words for one agent; all but show change which there are, or the state of one."""

_EXAMPLE = """\
narval agents
narval agents add ada
narval agents add bob --collection office
narval agents show bob
narval start greet.door --agent ada
narval agents suspend ada --reason 'on leave'
narval agents remove ada --now"""


@command("agents", example=_EXAMPLE, alters=True)
@click.argument(
    "act", metavar="[add|show|suspend|resume|passivate|remove]", required=False, type=click.Choice(ACTS)
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion.agents)
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
    limited; `suspend` lets one do nothing until `resume`: what it is asked waits; `passivate` takes one out
    of memory until it has something to do, as happens by itself; `remove` lets one go with all that it has.
    The home's own agent is always active. Any other command asks another with --agent NAME.
    """
    if act is None:
        rows = session.ask("agents", limit=limit, after=after)
        session.give(rows, lambda found: table(AGENTS, found))
        return
    if name is None:
        raise click.UsageError(f"{act} needs the NAME of an agent")
    if (reason and act != "suspend") or (now and act != "remove") or (collections and act != "add"):
        raise click.UsageError("--reason goes with suspend, --now with remove, --collection with add")
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
