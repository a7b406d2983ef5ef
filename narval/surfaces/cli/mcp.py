"""The command mcp: the MCP servers of the home, the accepted tools of each, and logins there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import Row, clean, clean_lines, counted
from narval.core.definitions.suggestions import closest
from narval.core.errors import NarvalError, RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command, command_group
from narval.surfaces.cli.mcp_clients import client as clients
from narval.surfaces.cli.mcp_clients import needs_extra, serve_client
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.files.outside.kept_tools import KeptTool
    from narval.files.outside.mcp_servers import McpServer

_EXAMPLE = """\
narval mcp
narval mcp tools time
narval mcp login tracker
narval mcp client add desk
narval mcp --client desk"""


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

_SERVERS = (
    Column("server", lambda row: row["server"]),
    Column("reached by", lambda row: clean(row["reached_by"])),
    Column("tools", lambda row: "not asked yet" if row["tools"] is None else str(row["tools"]), right=True),
    Column("login", lambda row: "yes" if row["login"] else ""),
)

_TOOLS = (
    Column("action", lambda row: clean(row["action"])),
    Column("is", lambda row: row["state"]),
    Column("destroys", lambda row: "yes" if row["destroys"] else ""),
    Column("does", lambda row: clean(row["description"].strip().partition("\n")[0])[:100]),
)


@command_group("mcp", example=_EXAMPLE)
@click.option("--client", metavar="NAME", help="Serve this client.", shell_complete=completion.mcp_clients)
def mcp(session: Session, client: str | None) -> None:
    """List the MCP servers of the home, or serve a client.

    For each server: how it is reached, how many of its tools were accepted, and whether somebody has logged
    in there. Each tool of a server is an action, NAME.TOOL, which recipes call like any other. With --client
    narval is itself a server, for an assistant that starts it: it speaks over standard input and output until
    the input ends. The file etc/mcp/NAME.toml says what the client may do.
    """
    if client is None:
        _list(session)
    else:
        serve_client(session, client)


def _list(session: Session) -> None:
    from narval.files.outside.kept_tools import kept_tools
    from narval.files.outside.mcp_servers import login_file

    rows = []
    for server in servers_of(session):
        accepted = kept_tools(session.home.path, server.name)
        rows.append(
            {
                "server": server.name,
                "reached_by": server.url or " ".join(server.command),
                "tools": None if accepted is None else len(accepted),
                "login": login_file(session.home.path, server.name).exists(),
            }
        )
    session.give(rows, lambda rows: listing(_SERVERS, rows, "no MCP servers: narval mcp add FILE adds some"))


@command(
    "tools",
    example="narval mcp tools time\nnarval mcp tools time --refresh\n"
    "narval mcp tools time --accept convert_time",
)
@SERVER_NAME
@click.option("--refresh", is_flag=True, help="Ask the server, and take over tools that are new.")
@click.option(
    "--accept", metavar="TOOL", multiple=True, help="Ask the server, and take over what changed of TOOL."
)
def tools(session: Session, name: str, refresh: bool, accept: tuple[str, ...]) -> None:
    """List the tools of an MCP server.

    They are kept in recipes/mcp/NAME.tools, so that recipes can be checked and tried without the server.
    narval asks the server for them the first time, and with --refresh; otherwise the list shows them as they
    were accepted. A tool whose description has changed is not called until you accept it; the list shows the
    difference: - before what was accepted, + before what the server says now.
    """
    from narval.calls.mcp.connection import Offered, offered_by
    from narval.files.outside.kept_tools import compared, kept_tools, taken_over, write_tools

    server, home = server_named(session, name), session.home.path
    accepted = kept_tools(home, name)
    if accepted is not None and not refresh and not accept:
        rows = compared(accepted, accepted)
        offered = Offered(accepted, {})
    else:
        offered = offered_by(server, home)
        rows = taken_over(compared(accepted or {}, offered.tools), accept, server.tools)
        write_tools(home, name, [row.before for row in rows if row.before is not None])
    answer = {
        "server": name,
        "tools": [_row(name, row) for row in rows],
        "left_out": dict(sorted(offered.left_out.items())),
    }
    session.give(answer, _print_tools)
    if accepted is not None and not refresh and not accept:
        again = f"narval mcp tools {name} --refresh"
        click.echo(f"as they were accepted; the server was not asked: {again} asks it", err=True)


def _print_tools(answer: Row) -> None:
    listing(_TOOLS, answer["tools"], "no tools")
    for name, why in answer["left_out"].items():
        click.echo(clean(f"{name} is no action: {why}"))
    for row in answer["tools"]:
        if row["differs"]:
            click.echo(clean(f"{row['action']}, as it was accepted (-) and as it is (+):"))
            click.echo(clean_lines("\n".join(f"  {line}" for line in row["differs"])))
    changed = [row["tool"] for row in answer["tools"] if row["state"] in ("changed", "gone")]
    if changed:
        options = " ".join(f"--accept {clean(tool)}" for tool in changed)
        click.echo(f"accept what changed: narval mcp tools {answer['server']} {options}")


def _row(server: str, row: KeptTool) -> dict[str, Any]:
    tool = row.shown
    return {
        "action": f"{server}.{tool.action}",
        "tool": tool.name,
        "state": row.state,
        "destroys": tool.destroys,
        "description": tool.description,
        "differs": [*row.differs()],
        "digest": tool.digest,
    }


@command(
    "add",
    example="narval mcp add ~/.config/assistant/mcp.json\n"
    """echo '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}' | narval mcp add -""",
)
@click.argument("file", metavar="FILE|-", type=click.File(encoding="utf-8"))
@click.option("--offline", is_flag=True, help="Do not ask the servers for their tools.")
def add(session: Session, file: Any, offline: bool) -> None:
    """Add the MCP servers of a JSON file that another program has.

    Its mcpServers become tables of etc/narval.toml. Variables and tokens become files of etc/ that only you
    may read, since any of them may be secret. Each server is asked for its tools. Servers that are disabled
    in the file are left out.
    """
    from narval.files.outside.mcp_config import MOST_BYTES, add_servers, read_config

    config, home = read_config(file.read(MOST_BYTES + 1)), session.home.path
    add_servers(home, config.servers)
    rows = []
    for server in config.servers:
        why = "" if offline or server.asked else _first_tools(session, server.name)
        files = [f"etc/{name}" for name in server.secrets]
        asked = [f"etc/{name}" for name in server.asked]
        row = {"server": server.name, "files": files, "to_write": asked, "ignored": [*server.ignored]}
        rows.append({**row, "not_asked": why})
    session.give(rows, _print_added)
    for name in config.disabled:
        click.echo(clean(f"left out {name}, which is switched off in the file"), err=True)


def _first_tools(session: Session, name: str) -> str:
    """Ask an added server for its tools; the reason why it gave none, or ""."""
    from narval.calls.mcp.connection import offered_by
    from narval.files.outside.kept_tools import write_tools

    try:
        server = server_named(session, name)
        write_tools(session.home.path, name, list(offered_by(server, session.home.path).tools.values()))
    except NarvalError as error:
        return str(error)
    return ""


def _print_added(rows: list[Row]) -> None:
    for row in rows:
        click.echo(clean(f"added [mcp.{row['server']}]"))
        for path in row["files"]:
            click.echo(f"  wrote {clean(path)}")
        for path in row["to_write"]:
            click.echo(f"  write its secret into {clean(path)}, with mode 600: the other program asks for it")
        if row["ignored"]:
            click.echo(f"  passed over: {clean(', '.join(row['ignored']))}")
        if row["not_asked"]:
            click.echo(f"  {clean(row['not_asked'])}")
            click.echo(f"  its tools are not known yet: narval mcp tools {row['server']}")


# --- logins -------------------------------------------------------------------------------------------------


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


mcp.add_command(add)
mcp.add_command(tools)
mcp.add_command(clients)
mcp.add_command(login)
mcp.add_command(logout)
