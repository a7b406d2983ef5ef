"""`make demo`: the assistant running in a scratch home, with reports for people."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from narval.ask.asker import Asker, user
from narval.ask.memory.listing import matching
from narval.core.elements.element import Element
from narval.core.errors import HomeHeldError, NarvalError, RequestError, WorkRefusedError
from narval.daemon.daemon import Daemon
from narval.files.home import Home
from narval.files.new_home import HomeChoices, create_home, is_maildir, read_mail
from narval.kinds.work.operations.acts import answer
from narval.kinds.work.operations.items import work_item, worklist
from narval.surfaces.cli.without_daemon import serving

SCRATCH = Path(".demo")
NOTHING_MORE = 3600.0

PACE = 0.4
"""Seconds between two mails of the demo, slow enough to watch."""


@click.command()
@click.option("--once", is_flag=True, help="End when nothing is left to do, as without a terminal.")
@click.option("--maildir", metavar="DIR", help="A Maildir of yours; it is only read, and nothing is sent.")
@click.option(
    "--scratch", type=click.Path(path_type=Path), default=SCRATCH, help="Where the copy of the home goes."
)
@click.option("--pace", default=PACE, show_default=True, help="Seconds between two mails; 0: all at once.")
def main(once: bool, maildir: str | None, scratch: Path, pace: float) -> None:
    """Answer the demo mail, or (sending nothing outside) what is in a Maildir of yours.

    Unless it ends as soon as nothing is left to do (--once, or without a terminal), it serves its pages to a
    browser, and the demo mail comes in slowly enough to watch.
    """
    once = once or not (sys.stdin.isatty() and sys.stdout.isatty())
    try:
        home = _scratch_home(scratch, _choices(maildir) if maildir else None)
        asyncio.run(_demo(home, once=once, pace=0.0 if maildir else pace))
    except KeyboardInterrupt:
        click.echo("\nstopped; the scratch home stays where it is")
    except NarvalError as error:
        raise click.ClickException(str(error)) from None


def _choices(maildir: str) -> HomeChoices:
    """The choices for a home that reads the user's Maildir. Raises RequestError if it is not one."""
    if not is_maildir(Path(maildir).expanduser()):
        raise RequestError(f"expected a Maildir, a folder with new/ or cur/ in it, got {maildir}")
    return HomeChoices(mailbox=read_mail(maildir))


def _scratch_home(scratch: Path, choices: HomeChoices | None) -> Home:
    """A new home, with the demo's mailbox or the user's own. Raises HomeHeldError."""
    holder = Home(scratch).holder()
    if holder is not None:
        raise HomeHeldError(
            f"a demo is at work in {scratch} already: {holder}; end it, or give SCRATCH=folder"
        )
    shutil.rmtree(scratch, ignore_errors=True)
    return create_home(scratch, choices=choices)


async def _demo(home: Home, *, once: bool, pace: float) -> None:
    console = Console(highlight=False)
    console.print(f"narval is at work in [bold]{home.path}[/]\n")
    held = [] if once or not pace else _held_back(home)
    async with serving(home) as daemon, _pages(console, home, wanted=not once):
        await daemon.main_loop.run(until_idle=True)
        for number, mail in enumerate(held):
            console.print(f"\r{number + 1} of {len(held)} files have come in", end="")
            mail.rename(mail.parent.parent / "new" / mail.name)
            await daemon.main_loop.run(timeout=pace)
        if held:
            console.print()
            await daemon.main_loop.run(until_idle=True)
        _report(console, home, daemon)
        owner = user(os.geteuid(), "terminal")
        asked = await worklist(daemon, asker=owner)
        if once:
            _list_questions(console, home, asked)
        else:
            _say_what_next(console, home, daemon)
            beside = [
                asyncio.create_task(_follow(console, daemon)),
                asyncio.create_task(_ask(console, home, daemon, owner)),
            ]
            await daemon.main_loop.run()
            for task in beside:
                task.cancel()


def _held_back(home: Home) -> list[Path]:
    """The mails of the demo, temporarily moved out of its mailbox, the oldest first."""
    box = home.path / "data" / "demo" / "Maildir"
    mails = sorted((box / "new").iterdir())
    return [mail.rename(box / "tmp" / mail.name) for mail in mails]


@asynccontextmanager
async def _pages(console: Console, home: Home, *, wanted: bool) -> AsyncIterator[None]:
    """Serve the pages of the home inside the context, and say how to open them."""
    if not wanted:
        yield
        return
    narval = (sys.executable, "-m", "narval", "--home", str(home.path))
    pipe = asyncio.subprocess.PIPE
    web = await asyncio.create_subprocess_exec(*narval, "web", "--kept", stdin=pipe, stdout=pipe)
    try:
        assert web.stdout is not None
        await web.stdout.readline()  # it answers
        link = await asyncio.create_subprocess_exec(*narval, "web", "login", stdout=pipe)
        output, _ = await link.communicate()
        console.print(f"Watch it in a browser:  [bold]{escape(output.decode().strip())}[/]\n", soft_wrap=True)
        yield
    finally:
        with suppress(ProcessLookupError):
            web.terminate()
        await web.wait()


# --- reports --------------------------------------------------------------------------------------------


def _report(console: Console, home: Home, daemon: Daemon) -> None:
    patterns = ("email[@mailbox]", "triage", "sent", "item", "error")
    mails, verdicts, sent, items, troubles = (matching(daemon, pattern) for pattern in patterns)
    judged = [verdict.attributes for verdict in verdicts]
    left = Counter(verdict["why"] for verdict in judged if verdict["verdict"] == "leave")
    unread = [error for error in troubles if error.attributes.get("mailbox")]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="bold")
    table.add_column()
    table.add_row(str(len(mails)), "mail came in" if len(mails) == 1 else "mails came in")
    table.add_row(str(len(sent)), _were(len(sent), "acknowledged"))
    table.add_row(str(left.total()), _were(left.total(), "left alone"))
    for why, count in left.most_common():
        table.add_row("", f"[dim]{count:>3}  {why}[/]")
    if doubtful := sum(verdict["verdict"] == "ask" for verdict in judged):
        table.add_row(str(doubtful), f"{'waits' if doubtful == 1 else 'wait'} for your answer")
    if (copies := _files(home, daemon) - len(mails) - len(unread)) > 0:
        table.add_row(str(copies), f"{'is a copy' if copies == 1 else 'are copies'} of what came before")
    if unread:
        table.add_row(str(len(unread)), "could not be read: an error names its file")
    if items:
        feeds = Counter(item.attributes["feed"] for item in items)
        by_feed = ", ".join(f"{feeds[name]} {name}" for name in sorted(feeds))
        table.add_row(str(len(items)), f"feed items came in [dim]({by_feed})[/]")
    if len(troubles) > len(unread):
        table.add_row(str(len(troubles) - len(unread)), f"errors [dim]({_command(home)} memory error)[/]")
    console.print(table)
    console.print(f"\n  outbox  {home.path / 'var' / 'outbox' / 'new'}", soft_wrap=True)
    console.print(f"  digest  {(home.path / 'var' / 'digest.html').as_uri()}\n", soft_wrap=True)


def _files(home: Home, daemon: Daemon) -> int:
    """The number of files in the mailbox of the home itself; 0 with a Maildir of the user's."""
    box = home.path / matching(daemon, "mailbox")[-1].attributes["path"]
    folders = [box / "new", box / "cur"] if box.is_relative_to(home.path) else []
    return sum(1 for folder in folders for _ in folder.iterdir())


def _were(count: int, what: str) -> str:
    return f"{'was' if count == 1 else 'were'} {what}"


def _command(home: Home) -> str:
    """The command that asks this home from a shell, independent of its PATH."""
    return shlex.join([_near(Path(sys.executable).parent / "narval"), "--home", _near(home.path)])


def _near(path: Path) -> str:
    """The path relative to the current folder, if it is in it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _say_what_next(console: Console, home: Home, daemon: Daemon) -> None:
    mailbox = matching(daemon, "mailbox")[-1].attributes["path"]
    console.print("It goes on: a mail dropped into this folder is answered at once. Ctrl-C ends it.")
    console.print(f"  {home.path / mailbox / 'new'}", soft_wrap=True)
    console.print("Ask it from another terminal:")
    for question in ("status", "memory triage", "history RUN", "why RUN"):
        console.print(f"  {_command(home)} {question}", soft_wrap=True)
    console.print()


# --- questions ------------------------------------------------------------------------------------------


def _list_questions(console: Console, home: Home, asked: list[dict[str, Any]]) -> None:
    """The open questions, and how their answers take effect."""
    for row in asked:
        console.print(f"[bold]You are asked[/]  {escape(row['title'])}", soft_wrap=True)
        console.print(f"  {_command(home)} work answer {row['item']} approve", soft_wrap=True)
    if not asked:
        return
    console.print("It waits; nothing is sent before you agree.")
    console.print("Once you have answered, this sends what you agreed to:")
    console.print(f"  {_command(home)} run --until-idle", soft_wrap=True)
    console.print()


async def _ask(console: Console, home: Home, daemon: Daemon, owner: Asker) -> None:
    """Ask the owner each question, which takes a word as answer."""
    items: list[int] = []
    while True:
        rows = await worklist(daemon, known=items, wait=NOTHING_MORE, asker=owner)
        for row in rows:
            if row["item"] not in items:
                await _ask_one(console, home, daemon, owner, row)
        items = [row["item"] for row in await worklist(daemon, asker=owner)]


async def _ask_one(console: Console, home: Home, daemon: Daemon, owner: Asker, row: dict[str, Any]) -> None:
    """Ask one question until it has an answer, or an empty line puts it off."""
    item = await work_item(daemon, row["item"], asker=owner)
    words = [outcome["name"] for outcome in item["outcomes"]]
    choices = " or ".join(words)
    while True:
        console.print(
            f"[bold]You are asked[/]  {escape(row['title'])}  [bold]{choices}[/]? ", end="", soft_wrap=True
        )
        said = (await _line_typed()).strip().lower()
        if not said:
            console.print(
                f"  it waits, and nothing is sent before you agree: {_command(home)} work", soft_wrap=True
            )
            return
        meant = [word for word in words if word.startswith(said)]
        if len(meant) != 1:
            console.print(f"  expected {choices}, or nothing to be asked later")
            continue
        try:
            await answer(daemon, row["item"], meant[0], shown=item["shown"], asker=owner)
        except WorkRefusedError as refusal:
            console.print(f"  {escape(str(refusal))}")
        return


async def _line_typed() -> str:
    """The next line typed at the terminal; "" at its end. The daemon keeps working."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        return await typed
    finally:
        loop.remove_reader(sys.stdin)


async def _follow(console: Console, daemon: Daemon) -> None:
    """A line for each mail that is judged or answered from now on."""
    seen = daemon.agent.memory.next_eid
    while True:
        await daemon.host.turned(NOTHING_MORE)
        for element in matching(daemon, "triage | sent"):
            if element.eid >= seen:
                console.print(_line(element), soft_wrap=True)
        seen = daemon.agent.memory.next_eid


def _line(element: Element) -> str:
    attributes = element.attributes
    if element.name == "sent":
        return f"  answered   {attributes.get('to', '')}"
    mail = f"{attributes.get('from', '?')}: {attributes.get('subject', '')}"
    if attributes["verdict"] == "ask":
        return f"  doubtful   {mail} [dim]({attributes['why']})[/]"
    if attributes["verdict"] == "leave":
        return f"  left alone {mail} [dim]({attributes['why']})[/]"
    return f"  came in    {mail}"


if __name__ == "__main__":
    main()
