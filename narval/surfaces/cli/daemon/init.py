"""The command init: a new home, from the owner's answers or from options."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from time import time
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import clean, clean_lines, counted
from narval.core.definitions.wall import in_utc
from narval.surfaces.cli.command import INTERRUPTED, command
from narval.surfaces.cli.options import Folder
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.files.home import Home
    from narval.files.new_home import DemoAdded, HomeChoices


class Said(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """A text that a function of `files.new_home` understands; it is kept as written."""

    def __init__(self, name: str, reader: str) -> None:
        self.name, self._reader = name, reader

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text. Fails with what was expected."""
        from narval.files import new_home

        try:
            getattr(new_home, self._reader)(value)
        except ValueError as error:
            self.fail(clean(error), param, ctx)
        return value


_MAIL, _ZONE = Said("MAIL", "read_mail"), Said("ZONE", "read_zone")
_ANSWER = click.Choice(("nothing", "ask", "acknowledge"))
_MAIL_HELP = "What it reads: a Maildir, an mbox, imaps://USER@HOST, demo or none."
_ANSWER_HELP = (
    "What people are answered: nothing; ask: a word of thanks, once you agree; acknowledge: the same at once."
)

_EXAMPLE = """\
narval init
narval init ~/mine --mail ~/Maildir --zone Europe/Paris --answer ask
narval init --demo
narval init ~/mine --bare"""


@command("init", example=_EXAMPLE, local=True)
@click.argument("folder", metavar="[DIR]", required=False, type=Folder())
@click.option("--mail", type=_MAIL, help=_MAIL_HELP)
@click.option("--zone", type=_ZONE, help="The zone of its calendar, such as Europe/Paris.")
@click.option("--answer", type=_ANSWER, help=_ANSWER_HELP)
@click.option("--demo", is_flag=True, help="The mail that ships; into a home that is there, what it lacks.")
@click.option("--bare", is_flag=True, help="Leave the demo out: no recipes, and nothing in memory.")
def init(
    session: Session,
    folder: str | None,
    mail: str | None,
    zone: str | None,
    answer: str | None,
    demo: bool,
    bare: bool,
) -> None:
    """Create a home that is ready to run.

    DIR is the folder to make; without it, the home that other commands would use. On a terminal it asks which
    mail to read, which time zone to use, and what to answer, unless options say so. Elsewhere the demo fills
    in what options leave out. Answers are kept in var/outbox of the home: nothing is sent before you name a
    server.

    With --demo, an existing home gets the parts of the demo that it lacks; your files are not altered.
    """
    from narval.files.home import Home
    from narval.files.new_home import create_home, refuse_home

    if (demo and bare) or ((demo or bare) and (mail or answer)):
        raise click.UsageError("--demo and --bare exclude each other, --mail and --answer")
    home = Home(folder or session.directory or os.environ.get("NARVAL_HOME") or "~/.narval")
    if demo and home.exists():
        if zone:
            raise click.UsageError("--zone goes with a new home; of this one, etc/narval.toml says it")
        _add_demo(session, home)
        return
    refuse_home(home)
    asks = not (demo or bare or session.as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    choices = _choices(mail, zone, answer, asks=asks)
    create_home(home.path, bare=bare, choices=choices)
    summary = {"home": str(home.path), "secret": str(home.path / "etc" / choices.secret)}
    if not choices.secret:
        del summary["secret"]
    session.give(summary, lambda _: click.echo(clean_lines("\n".join(_report(home, choices)))))


def _choices(mail: str | None, zone: str | None, answer: str | None, *, asks: bool) -> HomeChoices:
    """The choices from options; questions supply the missing ones."""
    from narval.files.new_home import DEMO, NONE, HomeChoices, maildir_found, read_mail
    from narval.system.clock import machine_zone

    if mail is None and asks:
        mail = _asked(_WHICH_MAIL, "mail", _MAIL, str(maildir_found() or DEMO))
    if zone is None and asks:
        zone = _asked(_WHICH_ZONE, "zone", _ZONE, machine_zone())
    usual = "acknowledge" if mail in (None, DEMO) else "nothing"
    if answer is None and asks and mail != NONE:
        answer = _asked(_WHAT_ANSWER, "answer", _ANSWER, usual)
    mailbox = read_mail(mail or DEMO)
    if mailbox:  # existing mail is not new, and is not answered
        mailbox = {**mailbox, "since": in_utc(time())}
    return HomeChoices(mailbox=mailbox, zone=zone, answer=answer or usual)


_WHICH_MAIL = """\
Which mail is to be read? A Maildir, an mbox, imaps://USER@HOST, demo (it ships), or none. It is only read."""
_WHICH_ZONE = "In which zone are its days and hours?"
_WHAT_ANSWER = """\
What are people answered? nothing; ask: a word of thanks, once you agree; acknowledge: the same at once.
Answers are kept in a folder of the home until you name a server."""


def _asked(question: str, word: str, type: click.ParamType, usual: str) -> str:  # type: ignore[type-arg]
    """The answer to a question, asked until it is valid."""
    click.echo(question)
    try:
        return str(click.prompt(f"  {word}", type=type, default=usual))
    except click.Abort:
        click.echo("\nnarval: nothing was made", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _report(home: Home, choices: HomeChoices) -> Iterator[str]:
    """The lines on what was made, and on the next steps."""
    run = home.run_command
    narval = run.removesuffix(" run")
    if choices.mailbox and choices.answer != "nothing":
        yield f"answers come from {choices.address} and stay in {home.path}/var/outbox (data/memory.xml)"
    if choices.mailbox:
        yield "what came to its mailbox before now is not read, and not answered (since, data/memory.xml)"
        if "path" in choices.mailbox:
            path = shlex.quote(choices.mailbox["path"])
            yield f"what would become of it: {narval} simulate mail.triage --mails {path}"
    if choices.secret:
        file = shlex.quote(str(home.path / "etc" / choices.secret))
        yield f"{home.path} is a home; write the password of its mail into a file, then Enter and Ctrl-D:"
        yield f"  (umask 077; cat > {file})"
        yield f"then start it: {run}"
    else:
        yield f"{home.path} is a home; start it: {run}"


# --- the demo -----------------------------------------------------------------------------------------------


def _add_demo(session: Session, home: Home) -> None:
    """Add the parts of the demo that the home lacks, and list what was skipped."""
    from msgspec import to_builtins

    from narval.files.new_home import add_demo

    demo = add_demo(home)
    session.give({"home": str(home.path), **to_builtins(demo)}, lambda _: _added(home, demo))


def _added(home: Home, demo: DemoAdded) -> None:
    files = counted(len(demo.added), "file")
    click.echo(
        clean(f"{home.path} has the demo: {files} added or added to" if demo.added else "nothing was added")
    )
    for left in demo.left:
        click.echo(clean(f"left out: {left.what} ({left.why})"))
