"""The command tell, and what check says in sentences: what definitions do, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import click

from narval.ask.text import Row, clean
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, command
from narval.surfaces.cli.session import Session

_EXAMPLE = """\
narval tell mail.triage
narval tell recipes/mail.xml
narval tell notes.xml --json"""


@command("tell", example=_EXAMPLE)
@click.argument("name", metavar="NAME|FILE", shell_complete=completion.definitions)
@click.option("--kind", metavar="K", help="The kind of NAME, where several kinds have one of that name.")
@click.pass_context
def tell(context: click.Context, /, session: Session, name: str, kind: str | None) -> None:
    """Describe in plain sentences what a definition does.

    The sentences say when it begins, what it waits for, what it does and in which order, its inputs and
    outputs, whom it asks, what happens on errors and timeouts, and what it does outside the home. They are
    made only from the definition and the descriptions of what it calls.

    NAME is a loaded definition; FILE is a file or a folder, whose definitions are read as if they were in the
    home, also without a home. A word with a / or the suffix of a file is a FILE.
    """
    path = Path(name)
    if not path.exists() and ("/" in name or path.suffix in (".xml", ".plan", ".py", ".toml")):
        listed = "`narval definitions` lists those that are loaded, each with its file"
        raise RequestError(f"there is no file or folder {name}, seen from {Path.cwd()}; {listed}")
    if not (path.exists() and ("/" in name or path.suffix)):
        rows = session.ask("tell", name=name, kind=kind)
        session.give(rows, lambda _: _print(rows))
        return
    rows, faults = told_of([path], session)
    session.give(rows, lambda _: _print(rows))
    for fault in faults:
        click.echo(clean(fault), err=True)
    if faults:
        context.exit(NOT_WELL)


def told_of(paths: Iterable[Path], session: Session) -> tuple[list[Row], list[object]]:
    """The sentences about the definitions of files and folders, and the faults of unreadable ones."""
    from narval.ask.definitions.one import told
    from narval.files.reading import definitions_in

    found = definitions_in(paths, None if session.is_homeless else session.home)
    rows: list[Row] = [row for definition in found.definitions for row in told(definition, found.library)]
    return rows, list(found.faults)


def changed_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The lines that say which sentences were added and removed, by definition."""
    for (kind, name), of_one in groupby(rows, itemgetter("kind", "definition")):
        yield f"{clean(kind)} {clean(name)}"
        for row in of_one:
            sign = "+" if row["change"] == "added" else "-"
            yield f"{sign} {'  ' * row['depth']}{clean(row['text'])}"


def told_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The lines about definitions, each under its name."""
    for number, (title, of_one) in enumerate(groupby(rows, _title)):
        if number:
            yield ""
        yield title
        yield from (f"  {'  ' * row['depth']}{clean(row['text'])}" for row in of_one)


def _title(row: Row) -> str:
    return f"{clean(row['kind'])} {clean(row['definition'])}, in {clean(row['file'])}"


def _print(rows: list[Row]) -> None:
    click.echo("\n".join(told_lines(rows)))
