"""The commands chat, chats and people: the program that runs the chats, and the people who write there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from narval.ask.text import Row, clean, moment
from narval.core.errors import DaemonGoneError, OperatorError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command, command_group
from narval.surfaces.cli.render.tables import Column, listing, plain
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from pathlib import Path

_EXAMPLE = """\
narval chat
narval chat link ann --write
narval chat unlink ann"""

NO_DAEMON = "no daemon is running on this home, and the code is sent to one: narval run"


@command_group("chat", example=_EXAMPLE)
@click.option(
    "ends_with_input", "--kept", is_flag=True, hidden=True
)  # by `narval run`: ends when its input does
def chat(session: Session, ends_with_input: bool) -> None:
    """Run the chats of etc/narval.toml, in the foreground.

    `narval run` keeps this program running while [chats] names one, so you need not start it. You can also
    run it as a unit of its own; only one of a home runs at a time. You can end it at any moment: the daemon
    keeps what has arrived and what is still to be sent. `link` finds out the account of a person, and
    `unlink` removes one.
    """
    import asyncio

    home = session.home
    home.prepare()
    from narval.surfaces.chat.program import alone

    with alone(home.path, waits=ends_with_input):
        asyncio.run(_serve(home.path, session, ends_with_input=ends_with_input))


async def _serve(home: Path, session: Session, *, ends_with_input: bool) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; with `ends_with_input` also until the end of the input."""
    import asyncio
    import logging

    from narval.surfaces.chat.program import serve
    from narval.surfaces.cli.daemon.kept import on_end
    from narval.surfaces.control.async_client import AsyncClient

    level = logging.WARNING if ends_with_input else logging.INFO
    logging.basicConfig(format="%(levelname)s: %(message)s", level=level)
    client = AsyncClient(session.home.known_socket)
    work = asyncio.create_task(serve(home, client, (lambda _: None) if ends_with_input else _say))
    on_end(work.cancel, ends_with_input=ends_with_input)
    try:
        await work
    except asyncio.CancelledError:
        pass
    finally:
        await client.close()


def _say(names: list[str]) -> None:
    click.echo(f"narval chat is at work: {', '.join(names)}")


@command("link", example="narval chat link ann\nnarval chat link ann --write", alters=True)
@click.argument("person", metavar="PERSON", shell_complete=completion.people)
@click.option("--write", is_flag=True, help="Add the address to etc/people.toml.")
def link(session: Session, person: str, write: bool) -> None:
    """Find out the address of a person at a chat.

    Print a code, and wait until the person has sent it to the assistant from their account: once, and within
    ten minutes. Then print the line to add to etc/people.toml, or add it.
    """
    from narval.files.people_file import line_of, read_people_text, with_address, write_people_text

    text = read_people_text(session.home.path)
    with session.connect("record") as connection:
        if connection.record_only:
            raise DaemonGoneError(NO_DAEMON)
        made = connection.ask("chat_link", person=person)
        to = ", ".join(made["chats"])
        click.echo(f"{made['code']}  (to be sent to {clean(to)} by {person} within ten minutes)", err=True)
        answer = connection.ask("chat_linked", person=person, wait=made["seconds"])
    if not (address := answer["address"]):
        raise OperatorError("the code was not used in time and has expired; ask for another")
    rows = session.ask("people")
    before = next(row["chat"] for row in rows if row["person"] == person)
    if write:
        text = read_people_text(session.home.path)
        write_people_text(session.home.path, with_address(text, person, address))
        session.reload()
    reply = {"person": person, "address": address, "line": line_of([*before, address]), "written": write}
    session.give(reply, _linked)


def _linked(reply: Row) -> None:
    if reply["written"]:
        click.echo(f"etc/people.toml: {reply['person']} writes from {clean(reply['address'])}")
    else:
        click.echo(f"add below [people.{reply['person']}] of etc/people.toml:\n{clean(reply['line'])}")


@command("unlink", example="narval chat unlink ann\nnarval chat unlink ann xmpp:ann@example.org")
@click.argument("person", metavar="PERSON", shell_complete=completion.people)
@click.argument("address", metavar="[ADDRESS]", required=False)
def unlink(session: Session, person: str, address: str | None) -> None:
    """Take the addresses of a person at chats out of etc/people.toml, or one of them.

    Do this when a telephone is lost: the account is then linked to no person, and its pending messages have
    no effect.
    """
    from narval.files.people_file import read_people_text, without_addresses, write_people_text

    text, gone = without_addresses(read_people_text(session.home.path), person, address or "")
    write_people_text(session.home.path, text)
    session.reload()
    session.give({"person": person, "addresses": gone}, _unlinked)


def _unlinked(reply: Row) -> None:
    for address in reply["addresses"]:
        click.echo(f"etc/people.toml: {clean(address)} belongs to no person now")


chat.add_command(link)
chat.add_command(unlink)


def _state(row: Row) -> str:
    why = row["fault"] or row["warning"]
    return f"{row['state']}: {why}" if why else str(row["state"])


_CHATS = (
    *plain("chat", "kind", "user"),
    Column("state", _state),
    Column("since", lambda row: moment(row["since"]) if row["since"] else "", is_moment=True),
    Column("came", lambda row: row["inbox"] + row["owed"], right=True),
    Column("to send", lambda row: row["outbox"], right=True),
)


@asking("chats", "chats", example="narval chats")
def chats(rows: list[Row]) -> None:
    """List the chats of etc/narval.toml.

    For each: whether it is connected, how many messages wait to be handled, and how many to be sent.
    """
    listing(_CHATS, rows, "no chats: the tables [chats.NAME] of etc/narval.toml name them")


# --- people -------------------------------------------------------------------------------------------------


_PEOPLE = (
    Column("person", lambda row: row["person"]),
    Column("name", lambda row: row["name"], most=60),
    *plain("login", "web"),
    Column("roles", lambda row: ", ".join([*row["roles"], *(["administrator"] if row["admin"] else [])])),
    Column("away", lambda row: _away(row["away"]) if row.get("away") else "", most=60),
)


def _away(away: Row) -> str:
    """The days of an absence, and the substitute."""
    first = f"from {away['from']}" if away["from"] and not away["now"] else ""
    last = f"to {away['to']}" if away["to"] else ""
    days = " ".join(filter(None, (first, last))) or "always"
    return f"{days}, {away['instead']} instead" if away["instead"] else days


@asking("people", "people", example="narval people\nnarval people --json")
def people(rows: list[Row]) -> None:
    """List the people of the home, and what they may do on the web.

    etc/people.toml lists them; without that file, the only person is the owner of the home.
    """
    listing(_PEOPLE, rows, "no people")
