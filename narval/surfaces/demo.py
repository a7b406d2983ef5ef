"""`make demo`: the assistant at work on a scratch copy of the shipped home, told as a person wants it."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from pathlib import Path

import click
from lxml import etree
from rich.console import Console
from rich.table import Table

from narval.errors import NarvalError
from narval.memory.element import Element
from narval.runtime.daemon import Daemon
from narval.runtime.home import PARTS, Home, shipped
from narval.surfaces.cli.alone import serving

SCRATCH = Path(".demo")
EXISTING = click.Path(exists=True, file_okay=False, path_type=Path)
NOTHING_MORE = 3600.0


@click.command()
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@click.option(
    "--maildir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A Maildir of yours."
)
@click.option(
    "--scratch", type=click.Path(path_type=Path), default=SCRATCH, help="Where the copy of the home goes."
)
def main(once: bool, maildir: Path | None, scratch: Path) -> None:
    """Answer the demo mail, or (sending nothing outside) what is in a Maildir of yours."""
    try:
        asyncio.run(_demo(_scratch_home(scratch, maildir), once=once))
    except KeyboardInterrupt:
        click.echo("\nstopped; the scratch home stays where it is")
    except NarvalError as error:
        raise click.ClickException(str(error)) from None


def _scratch_home(scratch: Path, maildir: Path | None) -> Home:
    """A fresh copy of the shipped home, whose mailbox is the demo's or the user's own."""
    shutil.rmtree(scratch, ignore_errors=True)
    for part in PARTS:
        shutil.copytree(shipped() / part, scratch / part)
    home = Home(scratch)
    if maildir is not None:
        _use_maildir(home.memory, maildir.resolve())
    return home


def _use_maildir(memory: Path, maildir: Path) -> None:
    tree = etree.parse(str(memory))
    for mailbox in tree.getroot().iterfind("mailbox"):
        mailbox.attrib.clear()
        mailbox.attrib.update({"name": "yours", "kind": "maildir", "path": str(maildir)})
    tree.write(str(memory), encoding="utf-8", xml_declaration=True)


async def _demo(home: Home, *, once: bool) -> None:
    console = Console(highlight=False)
    console.print(f"narval is at work in [bold]{home.path}[/]\n")
    async with serving(home) as daemon:
        await daemon.run(until_idle=True)
        _report(console, home, daemon)
        if not once:
            _say_what_next(console, home, daemon)
            work = asyncio.create_task(daemon.run())
            await asyncio.wait(
                [work, asyncio.create_task(_follow(console, daemon))], return_when="FIRST_COMPLETED"
            )
    sys.stdout.flush()


# --- what is told ---------------------------------------------------------------------------------------


def _report(console: Console, home: Home, daemon: Daemon) -> None:
    mails, verdicts, sent = _of(daemon, "email[@mailbox]"), _of(daemon, "triage"), _of(daemon, "sent")
    items, troubles = _of(daemon, "item"), _of(daemon, "error")
    left = Counter(
        each.attributes.get("why", "") for each in verdicts if each.attributes["verdict"] == "leave"
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="bold")
    table.add_column()
    table.add_row(str(len(mails)), "mails came in")
    table.add_row(str(len(sent)), "were acknowledged")
    table.add_row(str(sum(left.values())), "were left alone")
    for why, count in left.most_common():
        table.add_row("", f"[dim]{count:>3}  {why}[/]")
    unread = [each for each in troubles if each.attributes.get("mailbox")]
    if unread:
        table.add_row(str(len(unread)), "could not be read, and were kept as files")
    feeds = Counter(each.attributes["feed"] for each in items)
    by_feed = ", ".join(f"{count} {name}" for name, count in feeds.items())
    table.add_row(str(len(items)), f"feed items came in [dim]({by_feed})[/]")
    others = [each for each in troubles if each not in unread]
    if others:
        table.add_row(str(len(others)), "errors [dim](narval memory error)[/]")
    console.print(table)
    console.print(f"\n  outbox  {home.path / 'var' / 'outbox' / 'new'}")
    console.print(f"  digest  {(home.path / 'var' / 'digest.html').as_uri()}\n")


def _say_what_next(console: Console, home: Home, daemon: Daemon) -> None:
    mailbox = _of(daemon, "mailbox")[-1].attributes["path"]
    new = home.path / mailbox / "new"
    console.print("It goes on: a mail dropped into this folder is answered at once. Ctrl-C ends it.")
    console.print(f"  {new}")
    console.print(f"Ask it from another terminal:  narval --home {home.path} status | runs | why RUN\n")


async def _follow(console: Console, daemon: Daemon) -> None:
    """A line for each mail that is judged or answered from now on."""
    seen = daemon.agent.memory.next_eid
    while True:
        await daemon.turned(NOTHING_MORE)
        for element in _of(daemon, "triage | sent"):
            if element.eid >= seen:
                console.print(_line(element), soft_wrap=True)
        seen = daemon.agent.memory.next_eid


def _line(element: Element) -> str:
    said = element.attributes
    if element.name == "sent":
        return f"  answered   {said.get('to', '')}"
    if said["verdict"] == "leave":
        return f"  left alone {said.get('from', '?')}: {said.get('subject', '')} [dim]({said['why']})[/]"
    return f"  came in    {said.get('from', '?')}: {said.get('subject', '')}"


def _of(daemon: Daemon, pattern: str) -> list[Element]:
    from narval.surfaces.operations import Operations

    return Operations(daemon).elements(pattern)


if __name__ == "__main__":
    main()
