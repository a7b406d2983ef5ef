"""The command that alters the file of a definition, after a check, and takes that back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from narval.ask.text import Row, clean, clean_lines, fault_line
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, command
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Session
from narval.system.regular_file import read_regular

_VERSIONS = (
    Column("version", lambda row: row["version"]),
    Column("edited", lambda row: row["at"]),
    Column("by", lambda row: row["by"]),
)

_EXAMPLE = """\
narval edit mail.triage
narval edit mail.triage new.xml --check
narval edit mail.triage new.xml
narval edit mail.triage --take-back e7"""


@command("edit", example=_EXAMPLE, alters=True)
@click.argument("name", shell_complete=completion.definitions)
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@click.option("--kind", metavar="K", help="The kind of NAME, where several kinds have one of that name.")
@click.option("--check", is_flag=True, help="Say what FILE would do, and save nothing.")
@click.option(
    "--take-back",
    "version",
    metavar="VERSION",
    shell_complete=completion.edits,
    help="Give the file the text of this version.",
)
@click.pass_context
def edit(
    context: click.Context,
    /,
    session: Session,
    name: str,
    file: str | None,
    kind: str | None,
    check: bool,
    version: str | None,
) -> None:
    """Edit the file of a definition, or take an edit back.

    FILE has the new text of the whole file in which NAME is; - is standard input. A text with faults is
    refused. It is written whole or not at all, and exactly what its definitions need outside is granted.
    Without FILE it lists the versions from before each edit; --take-back restores one of them. --check
    reports faults, the change in behaviour and the difference. Only files in recipes/ can be edited this way.
    The last twenty versions of a file are kept.
    """
    if version is not None:
        if file is not None or check:
            raise click.UsageError("--take-back goes with NAME alone")
        answer = session.ask("take_back_edit", name=name, kind=kind, version=version)
        session.give(answer, lambda row: click.echo("\n".join(_saved(row, "taken back"))))
        return
    if file is None:
        if check:
            raise click.UsageError("--check goes with FILE")
        session.give(session.ask("edit", name=name, kind=kind), _print_versions)
        return
    text = _read(file)
    if check:
        row = session.ask("check_edit", name=name, kind=kind, text=text)
        session.give(row, lambda form: click.echo("\n".join(_judged(form))))
        if not all(fault["warning"] for fault in row["faults"]):
            context.exit(NOT_WELL)
        return
    digest = session.ask("edit", name=name, kind=kind)["digest"]
    answer = session.ask("save_edit", name=name, kind=kind, text=text, digest=digest)
    session.give(answer, lambda row: click.echo("\n".join(_saved(row, "saved"))))


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else read_regular(Path(file))
        return data.decode("utf-8")
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RequestError(f"expected UTF-8 in {file}, found other bytes") from None


def _print_versions(row: Row) -> None:
    click.echo(clean(f"{row['kind']} {row['name']} in {row['path']}"))
    listing(_VERSIONS, row["versions"], "no versions: it was not edited so, or too long ago")


def _judged(row: Row) -> Iterator[str]:
    for fault in row["faults"]:
        yield clean(("warning: " if fault["warning"] else "") + fault_line(fault))
    for line in row["changes"]:
        sign = "+" if line["change"] == "added" else "-"
        yield clean(f"{sign} {'  ' * line['depth']}{line['text']}")
    for need in row["needs"]:
        yield clean(f"needs outside: {need}")
    yield clean_lines(row["diff"]) or "no difference"


def _saved(row: Row, act: str) -> Iterator[str]:
    yield clean(f"{act}: {row['path']}")
    if row["granted"]:
        yield clean(f"  granted: {', '.join(row['granted'])}")
    for name in row["asked"]:
        yield clean(f"  {name} needs more because of it, and waits: narval grants {name}")
    yield clean(f"  version {row['version']} is from before: --take-back {row['version']}")
