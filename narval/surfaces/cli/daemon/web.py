"""The command web: the pages of a home in a browser, and their logins (M2, M65)."""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import clean, moment
from narval.core.errors import NarvalError, OperatorError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command, command_group
from narval.surfaces.cli.render.tables import Column, listing, plain
from narval.surfaces.cli.session import Session
from narval.system.logins import login
from narval.system.startup_gc import resume

if TYPE_CHECKING:
    import socket

    from narval.surfaces.http.place import WebPlace
    from narval.surfaces.http.sessions import Sessions

_ELSEWHERE = (
    "expected a port of this machine: the pages are served to it alone. For others have a proxy that speaks "
    "TLS serve them: --socket PATH --behind https://NAME"
)

_EXAMPLE = """\
narval web
narval web --port 8080 --open
narval web --socket /run/narval/web.sock --behind https://narval.example.org
narval web login ann
narval web sessions"""


class _Port(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """A port; an address is refused with advice on what to do instead."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails for anything else."""
        text = str(value)
        if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 65_536):
            self.fail(f"{_ELSEWHERE}; got {text!r:.80}", param, ctx)
        return int(text)


@command_group("web", example=_EXAMPLE)
@click.option("--port", type=_Port(), metavar="N", help="The port, of this machine alone.")
@click.option("--socket", "path", type=click.Path(path_type=Path), metavar="PATH", help="A Unix socket.")
@click.option("--behind", metavar="URL", help="With --socket: the https address of a proxy that serves it.")
@click.option("--open", "opens", is_flag=True, help="Open the login link in a browser.")
@click.option("--kept", is_flag=True, hidden=True)  # by `narval run --web`: ends when its input does
def web(
    session: Session, port: int | None, path: Path | None, behind: str | None, opens: bool, kept: bool
) -> None:
    """Serve the pages of this home to a browser.

    It is a program beside the daemon, which it asks; you can stop and start it while the daemon runs. By
    default it listens only on this machine, at its previous port, and prints the address with a login link,
    which is valid once and for ten minutes. `login` makes another link, `sessions` lists who is logged in,
    and ends a session.
    """
    if behind and path is None:
        raise click.UsageError("--behind goes with --socket: nobody else may reach what the proxy forwards")
    if path is not None and port is not None:
        raise click.UsageError("expected --port or --socket, got both")
    gc.disable()  # until it is ready
    import asyncio

    from narval.files.settings import Settings
    from narval.surfaces.cli.daemon import serving
    from narval.surfaces.cli.mcp_clients import needs_extra
    from narval.surfaces.http.place import note, port_of
    from narval.surfaces.http.place import serving as holding

    sessions, has_link = _sessions(session), not kept and _may_show_link(session)
    with ExitStack() as stack:
        noted, former = stack.enter_context(holding(_folder(session)))
        place, sockets = _place(stack, port, path, behind, before=port_of(former))
        settings = Settings.load(session.home.path)
        of_web = settings.web
        pages = serving.pages(session.home, _folder(session), place, sessions, of_web.metrics_sha256 or "")
        beside: dict[str, serving.Beside] = {}
        if of_web.mcp is not None:
            needs_extra()
            beside["mcp"] = serving.mcp(session.home, of_web)
        if settings.link.listen is not None:
            beside["link"] = serving.link(session.home, settings.link)

        def ready() -> None:
            note(noted, place.address)
            link = place.login(sessions.new_link("", login(os.getuid()))) if has_link else ""
            summary = {"address": place.address or str(path), "login": link}
            summary |= {name: other.address for name, other in beside.items()}
            session.give(summary, lambda answer: click.echo(_login_text(answer)))
            resume()
            if link and opens:
                import webbrowser

                asyncio.get_running_loop().run_in_executor(None, webbrowser.open, link)

        links = serving.asking(session.home)
        asyncio.run(
            serving.serve(pages, sockets, ready, ends_with_input=kept, beside=[*beside.values()], links=links)
        )


def _login_text(answer: dict[str, str]) -> str:
    """The line with the address of the pages, and one for each other address that is served."""
    where = clean(f"narval web answers at {answer['address']}")
    how = "to log in, make a link: narval web login"
    if answer["login"]:
        how = f"to log in, open this link once, within ten minutes: {answer['login']}"
    others = "".join(f"\n{said} at {clean(answer[name])}" for name, said in _BESIDE.items() if name in answer)
    return f"{where}; {how}{others}"


_BESIDE = {"mcp": "it serves MCP clients", "link": "peers ask it"}
"""The words for the other servers beside the pages."""


def _place(
    stack: ExitStack, port: int | None, path: Path | None, behind: str | None, *, before: int | None
) -> tuple[WebPlace, list[socket.socket]]:
    """The place to serve, and its listening sockets. Without a port it takes `before` if that is free, else
    another, and says so. Raises OperatorError.
    """
    from narval.surfaces.http.place import WebPlace
    from narval.surfaces.http.server import loopback, unix_socket

    if path is not None:
        place = WebPlace.behind_proxy(behind) if behind else WebPlace()
        return place, [stack.enter_context(unix_socket(path, for_group=bool(behind)))]
    sockets = loopback(port, before)
    for one in sockets:
        stack.enter_context(one)
    at: int = sockets[0].getsockname()[1]
    if port is None and before not in (None, at):
        click.echo(f"port {before}, where the pages were, is taken: they are at port {at} now", err=True)
    return WebPlace(at), sockets


def _may_show_link(session: Session) -> bool:
    """True if any reader of the output may log in: the output is not the journal of a service manager, and no
    run started this program. False if the daemon does not answer.
    """
    from narval.system.systemd import is_journal

    if is_journal(1):
        return False
    try:
        session.vouch()
    except NarvalError:
        return False
    return True


def _folder(session: Session) -> Path:
    from narval.surfaces.http.sessions import FOLDER

    return session.home.var / FOLDER


def _sessions(session: Session) -> Sessions:
    from narval.surfaces.http.sessions import Sessions

    session.home.prepare()
    return Sessions(_folder(session))


# --- who is logged in -----------------------------------------------------------------------------------


@command("login", example="narval web login\nnarval web login ann")
@click.argument("person", metavar="[PERSON]", required=False, shell_complete=completion.people)
def log_in(session: Session, person: str | None) -> None:
    """Print a link by which a person can log in, once and within ten minutes.

    Without PERSON it is for you: for the person with your login in etc/people.toml.
    """
    from narval.surfaces.http.place import known, login_address
    from narval.surfaces.http.sessions import own_person

    session.vouch()
    people = session.ask("people")
    user = person or own_person(people, login(os.getuid()))
    if user is None or user not in {row["person"] for row in people}:
        names = ", ".join(row["person"] for row in people)
        who = f"is called {person!r:.80}" if person else f"has the login {login(os.getuid())}"
        raise OperatorError(
            f"no person {who} in etc/people.toml; name one of {names}: narval web login PERSON"
        )
    address = known(_folder(session))
    link = login_address(address, _sessions(session).new_link(user))
    session.give({"person": user, "login": link}, lambda reply: click.echo(reply["login"]))


_SESSIONS = (
    Column("session", lambda row: row["session"], right=True),
    *plain("person", "role"),
    Column("begun", lambda row: moment(row["begun"]), is_moment=True),
    Column("last seen", lambda row: moment(row["seen"]), is_moment=True),
    Column("browser", lambda row: row["browser"]),
)


@command("sessions", example="narval web sessions\nnarval web sessions --end 7")
@click.option("--end", "number", type=click.IntRange(min=1), metavar="N", help="End session N.")
def sessions(session: Session, number: int | None) -> None:
    """List who is logged in to the pages, or end a session."""
    from narval.surfaces.http.sessions import session_form

    store = _sessions(session)
    if number is not None:
        if not store.end(number):
            raise OperatorError(f"there is no session {number}; see narval web sessions")
        session.give({"ended": number}, lambda _: click.echo(f"session {number} has ended"))
        return
    rows = [session_form(one) for one in store.listed()]
    session.give(rows, lambda listed: listing(_SESSIONS, listed, "no person is logged in"))


web.add_command(log_in)
web.add_command(sessions)
