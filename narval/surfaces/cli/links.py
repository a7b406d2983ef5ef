"""The commands link and hooks: connections with other homes, and webhooks by which programs add elements."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import click

from narval.ask.text import Row, clean, moment
from narval.core.agent_name import NAME
from narval.core.errors import OperatorError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command, command_group
from narval.surfaces.cli.render.tables import Column, listing, plain
from narval.surfaces.cli.session import Session

_EXAMPLE = """\
narval link
narval link add office https://office.example.org:8766 --ca etc/office-ca.pem
narval link accept CODE laptop --agent shop
narval link remove office"""

_LINKS = (
    Column("peer", lambda row: row["peer"]),
    Column("asked at", lambda row: clean(row["url"] or "") or "asks this home"),
    Column("state", lambda row: row["state"]),
    Column("waiting", lambda row: f"{row['messages']:,}", right=True),
    Column("oldest", lambda row: moment(row["oldest"]), is_moment=True),
    Column("sent", lambda row: f"{row['sent']:,}", right=True),
    Column("taken", lambda row: f"{row['taken']:,}", right=True),
    Column("heard", lambda row: moment(row["heard"]), is_moment=True),
    Column("why nothing comes", lambda row: clean(row["why"] or "")),
)

_AGENTS = click.option(
    "--agent",
    "agents",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.agents,
    help="An agent of this home that may write to the peer, and be written to; * is all.",
)

NOT_AT_WORK = "narval web, which keeps the connections, does not run here: start it, narval web"


@command_group("link", example=_EXAMPLE)
def link(session: Session) -> None:
    """List the links with other homes, or make and end one.

    For each: its address, what waits for it here, how many messages were sent and taken, and why nothing
    arrives. The home that can reach the other adds the link and prints a code; the other accepts it. Then the
    agents of both can write to one another, as far as each side allows.
    """
    rows: list[Row] = session.ask("links")
    session.give(rows, lambda listed: listing(_LINKS, listed, "no links: narval link add NAME URL"))
    if rows and not session.peer and not _is_served(session):
        click.echo(NOT_AT_WORK, err=True)


@command("add", example="narval link add office https://office.example.org:8766 --agent shop", local=True)
@click.argument("name")
@click.argument("url")
@click.option("--ca", metavar="FILE", help="The certificates (PEM) against which that of URL is checked.")
@_AGENTS
def add(session: Session, name: str, url: str, ca: str | None, agents: tuple[str, ...]) -> None:
    """Make the home at URL a peer under NAME, and print a code for it.

    The code is valid for ten minutes, and once: `narval link accept CODE` at the other home. It contains only
    the digest of a token, so reading it gives no access.
    """
    from narval.files.outside.peers import NewPeer, add_link

    session.vouch()
    _warn_of_unknown(session, agents)
    home = session.home
    path = str(Path(ca).absolute()) if ca is not None and not (home.path / ca).exists() else ca
    if path is not None and not (home.path / path).is_file():
        raise OperatorError(f"there is no file {ca}")
    code = add_link(home.path, NewPeer(name, url, path, agents), _own_name(session), time.time())
    session.reload()
    session.give({"peer": name, "code": code}, _print_code)


def _print_code(answer: Row) -> None:
    click.echo(answer["code"])
    click.echo("within ten minutes, at the other home: narval link accept CODE", err=True)


@command("accept", example="narval link accept CODE\nnarval link accept CODE laptop --agent shop", local=True)
@click.argument("code")
@click.argument("name", required=False)
@_AGENTS
def accept(session: Session, code: str, name: str | None, agents: tuple[str, ...]) -> None:
    """Make the home that has printed CODE a peer.

    It is called NAME here, by default the name that it gives itself.
    """
    from narval.files.outside.peers import PEERS_FILE, accept_link

    session.vouch()
    _warn_of_unknown(session, agents)
    home = session.home
    home.prepare()
    named = accept_link(home.path, code, name, agents, time.time())
    session.reload()
    done = f"{named} is a peer; {PEERS_FILE} says what it may"
    session.give({"peer": named}, lambda _: click.echo(done))


def _warn_of_unknown(session: Session, agents: tuple[str, ...]) -> None:
    """Warn of agents that may use a link and do not exist yet."""
    from narval.core.definitions.suggestions import closest

    named = [name for name in agents if name != "*"]
    there = [row["name"] for row in session.ask("agents")] if named else []
    for name in named:
        if name not in there:
            why = f"there is no agent {name!r} here yet{closest(name, there)}"
            click.echo(clean(f"warning: {why}; `narval agents add {name}` makes one"), err=True)


@command("remove", example="narval link remove office", local=True)
@click.argument("name", shell_complete=completion.all_peers)
def remove(session: Session, name: str) -> None:
    """Remove a peer: its requests are refused from now on.

    Messages that wait for it go back to their senders: `narval letters --dead` lists them.
    """
    from narval.files.outside.peers import remove_link

    remove_link(session.home.path, name)
    session.reload()
    session.give({"removed": name}, lambda _: click.echo(f"{name} is no longer a peer"))


def _is_served(session: Session) -> bool:
    """True while `narval web` serves the home."""
    from narval.surfaces.http.place import known
    from narval.surfaces.http.sessions import FOLDER

    try:
        known(session.home.var / FOLDER)
    except (OperatorError, OSError):
        return False
    return True


def _own_name(session: Session) -> str:
    """The name that this home gives itself: that of its own agent, or of its machine."""
    from narval.files.settings import Settings

    name = Settings.load(session.home.path).name
    machine = socket.gethostname().partition(".")[0].lower()
    return machine if name == Settings().name and NAME.fullmatch(machine) else name


for _below in (add, accept, remove):
    link.add_command(_below)


# --- webhooks -----------------------------------------------------------------------------------------------


def _refused(row: Row) -> str:
    return ", ".join(f"{count:,} × {status}" for status, count in row["refused"].items())


_HOOKS = (
    *plain("hook", "element"),
    Column("bytes", lambda row: f"{row['bytes']:,}", right=True),
    Column("calls a minute", lambda row: row["calls"], right=True),
    Column("taken", lambda row: f"{row['taken']:,}", right=True),
    Column("last", lambda row: moment(row["last"]), is_moment=True),
    Column("refused", _refused),
)


@asking("hooks", "hooks", example="narval hooks")
def hooks(rows: list[Row]) -> None:
    """List the webhooks of etc/narval.toml.

    `narval web` accepts requests to /hook/NAME. For each: the calls that were accepted, the last one, and how
    many were refused since the daemon started, by response status.
    """
    listing(_HOOKS, rows, "no webhooks: the table [hooks] of etc/narval.toml names them")
