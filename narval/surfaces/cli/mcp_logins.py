"""The commands `mcp login` and `mcp logout`: the home's owner logs in to a server, or out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from narval.ask.text import Row, clean, counted
from narval.core.definitions.suggestions import closest
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.mcp_clients import needs_extra
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.files.outside.mcp_servers import McpServer


def servers_of(session: Session) -> Iterable[McpServer]:
    """The servers of the settings of a home."""
    from narval.files.settings import Settings

    return Settings.load(session.home.path).mcp


def server_named(session: Session, name: str) -> McpServer:
    """A server of the settings. Raises RequestError."""
    servers = {server.name: server for server in servers_of(session)}
    if name not in servers:
        hint = closest(name, servers) or "; write one: narval mcp add FILE"
        raise RequestError(f"expected an MCP server of etc/narval.toml, got {name!r:.80}{hint}")
    return servers[name]


def _names(context: click.Context, _: str) -> completion.Choices:
    """The servers of the home."""
    for server in servers_of(context.ensure_object(Session)):
        yield server.name, "server"


SERVER_NAME = click.argument("name", metavar="NAME", shell_complete=completion.source(_names))
"""The argument that names a server."""


@command("login", example="narval mcp login tracker\nnarval mcp login tracker --no-browser --port 8400")
@SERVER_NAME
@click.option("--no-browser", is_flag=True, help="Print the address to open, and open nothing.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="The port of 127.0.0.1 that the browser comes back to.",
)
def login(session: Session, name: str, no_browser: bool, port: int | None) -> None:
    """Log in at an MCP server of the settings (OAuth).

    You agree in a browser, which returns to this command. The tokens are kept in var/mcp/NAME.login, which
    only you may read, and are renewed until you log out or the server withdraws them. Over ssh, choose a port
    and forward it: ssh -L 8400:127.0.0.1:8400.
    """
    needs_extra()
    from narval.calls.mcp.logging_in import log_in
    from narval.files.outside.kept_tools import kept_tools, write_tools

    server, home = _reached_by_address(session, name), session.home.path

    def show(url: str) -> None:
        click.echo(f"open this to log in: {clean(url)}", err=True)
        if not no_browser and _has_browser():
            import webbrowser

            webbrowser.open(url)

    came = log_in(server, home, show, port or 0)
    if kept_tools(home, name) is None:
        write_tools(home, name, list(came.offered.tools.values()))
    expires = came.login.expires
    answer = {
        "server": name,
        "issuer": came.login.issuer,
        "scopes": came.login.scopes,
        "expires": None if expires is None else datetime.fromtimestamp(expires, UTC).isoformat(),
        "renews": "refresh_token" in came.login.token,
        "tools": len(came.offered.tools),
    }
    session.give(answer, _print_login)


@command("logout", example="narval mcp logout tracker")
@SERVER_NAME
def logout(session: Session, name: str) -> None:
    """Log out at an MCP server.

    Its login is deleted, and the server that gave the tokens is asked to revoke them, if it supports that.
    """
    needs_extra()
    from narval.calls.mcp.logging_in import log_out

    done = log_out(_reached_by_address(session, name), session.home.path)
    answer = {"server": name, "was_logged_in": done.was_there, "revoked": done.is_revoked}
    session.give(answer, _print_logout)


def _reached_by_address(session: Session, name: str) -> McpServer:
    """A server at which one can log in. Raises RequestError."""
    server = server_named(session, name)
    if not server.url:
        raise RequestError(f"{server} is a program: one logs in at a server that has a url")
    if server.secret:
        raise RequestError(f"{server} has a secret, {server.secret}: remove that line to log in instead")
    return server


def _has_browser() -> bool:
    """True if a browser can open on a screen."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _print_login(answer: Row) -> None:
    scopes = f" for {' '.join(answer['scopes'])}" if answer["scopes"] else ""
    click.echo(
        clean(f"logged in at {answer['server']}{scopes}; it offers {counted(answer['tools'], 'tool')}")
    )
    if answer["expires"] is not None and not answer["renews"]:
        click.echo(f"the login ends at {answer['expires']}, and cannot be renewed")


def _print_logout(answer: Row) -> None:
    if not answer["was_logged_in"]:
        click.echo(clean(f"there was no login at {answer['server']}"))
    elif answer["revoked"]:
        click.echo(clean(f"logged out at {answer['server']}; its tokens are no longer valid"))
    else:
        click.echo(clean(f"logged out at {answer['server']}; its tokens may be valid until they expire"))
