"""The command about the agents of a home: which there are, and their states."""

from __future__ import annotations

from typing import Any

import click

from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.render.tables import AGENTS, table
from narval.surfaces.cli.session import Session

ACTS = {
    "add": "add_agent",
    "suspend": "suspend",
    "resume": "resume",
    "passivate": "passivate",
    "remove": "remove_agent",
}
"""The operations by the words that ask for them."""

_EXAMPLE = """\
narval agents
narval agents add ada
narval start greet.door --agent ada
narval agents suspend ada --reason 'on leave'
narval agents remove ada --now"""


@command("agents", example=_EXAMPLE, alters=True)
@click.argument(
    "act", metavar="[add|suspend|resume|passivate|remove]", required=False, type=click.Choice([*ACTS])
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion.agents)
@click.option("--reason", default="", metavar="TEXT", help="With suspend: shown until it is resumed.")
@click.option("--now", is_flag=True, help="With remove: although runs of it are under way.")
def agents(session: Session, act: str | None, name: str | None, reason: str, now: bool) -> None:
    """List the agents of the home, or change which there are.

    Each has a memory and runs of its own, and all follow the home's definitions. `add` makes one; `suspend`
    lets one do nothing until `resume`: what it is asked waits; `passivate` takes one out of memory until it
    has something to do, as happens by itself; `remove` lets one go with all that it has. The home's own agent
    is always active. Any other command asks another with --agent NAME.
    """
    if act is None:
        rows = session.ask("agents")
        session.give(rows, lambda found: table(AGENTS, found))
        return
    if name is None:
        raise click.UsageError(f"{act} needs the NAME of an agent")
    if (reason and act != "suspend") or (now and act != "remove"):
        raise click.UsageError("--reason goes with suspend, --now with remove")
    more: dict[str, Any] = {"reason": reason} if act == "suspend" else {"now": now} if act == "remove" else {}
    answer = session.ask(ACTS[act], name=name, **more)
    said = "removed" if act == "remove" else answer["state"]
    session.give(answer, lambda _: click.echo(f"{name} is {said}"))
