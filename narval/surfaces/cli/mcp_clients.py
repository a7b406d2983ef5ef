"""The clients of MCP: one is served over standard input and output, and all are listed."""

from __future__ import annotations

from importlib.util import find_spec

import click

from narval.ask.text import Row
from narval.core.errors import OperatorError
from narval.surfaces.cli.command import command
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Session
from narval.system.extras import install_command


def needs_extra() -> None:
    """Raise OperatorError if the packages of the extra `mcp` are missing."""
    if find_spec("mcp") is None:
        raise OperatorError(f"MCP needs the extra mcp: {install_command('mcp')}")


def serve_client(session: Session, name: str) -> None:
    """Serve a client over standard input and output, until the input ends."""
    needs_extra()
    import asyncio

    from narval.calls.mcp.session import import_server_alone

    import_server_alone(over_http=False)
    from narval.surfaces.mcp.stdio import serve

    session.home.prepare()
    asyncio.run(serve(session.home.known_socket, name))


_CLIENTS = (
    Column("client", lambda row: row["client"]),
    Column("tools", lambda row: ", ".join(row["tools"] or ()) or "none"),
    Column("recipes", lambda row: ", ".join(row["recipes"] or ())),
    Column("agents", lambda row: ", ".join(row["agents"] or ()) or "none"),
    Column("calls a minute", lambda row: row["calls"] or "", right=True),
    Column("", lambda row: row["faults"][0]["message"] if row["faults"] else ""),
)


@command("client", example="narval mcp client\nnarval mcp client add desk")
@click.argument("act", required=False, type=click.Choice(["add"]))
@click.argument("name", metavar="[NAME]", required=False)
def client(session: Session, act: str | None, name: str | None) -> None:
    """List the clients of MCP, and what each may do.

    `client add NAME` makes the file of a client that has no rights yet, and prints its token once, for
    clients that connect over HTTP.
    """
    if act is None:
        _list(session)
        return
    if name is None:
        raise click.UsageError("expected the name of the client: narval mcp client add NAME")
    from narval.files.mcp_clients import CLIENTS, make_client
    from narval.files.settings import Settings, read_settings

    session.vouch()
    settings = read_settings(session.home.path)[0] or Settings()
    token = make_client(session.home.path, name, settings.name)
    session.give({"client": name, "file": f"{CLIENTS}/{name}.toml", "token": token}, _made)


def _list(session: Session) -> None:
    rows: list[Row] = session.ask("mcp_clients")
    session.give(rows, lambda listed: listing(_CLIENTS, listed, "no clients: narval mcp client add NAME"))


def _made(answer: Row) -> None:
    click.echo(answer["token"])
    click.echo(f"{answer['file']} says what {answer['client']} may do: nothing yet", err=True)
