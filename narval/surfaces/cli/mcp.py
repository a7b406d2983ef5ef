"""The command mcp: the MCP servers of the home, and the accepted tools of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import Row, clean, clean_lines
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command, command_group
from narval.surfaces.cli.mcp_clients import client as clients
from narval.surfaces.cli.mcp_clients import serve_client
from narval.surfaces.cli.mcp_logins import SERVER_NAME, login, logout, server_named, servers_of
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.files.outside.kept_tools import KeptTool

_EXAMPLE = """\
narval mcp
narval mcp tools time
narval mcp login tracker
narval mcp client add desk
narval mcp --client desk"""

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
    from narval.core.errors import NarvalError
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


mcp.add_command(add)
mcp.add_command(tools)
mcp.add_command(clients)
mcp.add_command(login)
mcp.add_command(logout)


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
