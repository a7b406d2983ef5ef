"""The commands edit, grants, grant and revoke: the file of a definition, and what it needs outside the home.

An edit alters the file after a check, and is taken back. Grants say who granted what.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from narval.ask.text import Row, clean, clean_lines, fault_line, moment_in_zone, of_others
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, asking, command
from narval.surfaces.cli.render.status import confining
from narval.surfaces.cli.render.tables import Column, listing, plain
from narval.surfaces.cli.session import Session
from narval.system.regular_file import read_regular

_MEANING = {
    "asked": "asked for, and starts nothing until it is granted",
    "granted": "granted",
    "rejected": "rejected, so it starts nothing, and the question is not asked again",
    "ships": "ships with narval",
    "inside": "reaches nothing outside the home",
    "trusted": "trusted, because this home does not ask",
}
_SIGN = {"added": "+", "taken away": "-", None: " "}

_COLUMNS = (
    *plain("definition", "standing"),
    Column("needs", lambda row: ", ".join(need["need"] for need in _outside(row)) or "nothing outside"),
)

_GRANTS = """\
narval grants
narval grants post.send"""


@asking("grants", "grants", example=_GRANTS)
@click.argument("name", required=False, shell_complete=completion.definitions)
def grants(answer: Row) -> None:
    """Show what definitions need outside, and what is granted.

    With the NAME of one: its needs, each with the step and code, as a difference from what was granted, and
    how its effects have changed since then. Nothing is run.
    """
    rows = answer["definitions"]
    if answer["name"] is None:
        listing(_COLUMNS, rows, "there is no definition that can be run")
        asks = "this home asks before" if answer["asks"] else "this home does not ask whether"
        click.echo(f"\n{asks} a definition reaches outside; {confining(answer)}")
        for row in answer["of_others"]:
            click.echo(clean(f"{of_others(row)} to be granted: narval grants --agent {row['agent']}"))
    else:
        click.echo("\n\n".join("\n".join(_lines(row)) for row in rows))


@asking("grant", "grant", example="narval grant post.send\nnarval grant --folder recipes", alters=True)
@click.argument("name", required=False, shell_complete=completion.definitions)
@click.option("--folder", metavar="DIR", help="Grant whatever the definitions in a folder of the home need.")
@click.option("--all", is_flag=True, help="Grant what all need that are asked for now.")
def grant(names: list[str]) -> None:
    """Grant what a definition needs now.

    `narval grants NAME` shows it first. narval asks again for a need that is added later, not for one that is
    removed. With --folder, the needs of all definitions in it are granted, now and later.
    """
    click.echo(f"granted: {', '.join(map(clean, names))}" if names else "no definition waits to be granted")


@asking("revoke", "revoke", example="narval revoke post.send", alters=True)
@click.argument("name", required=False, shell_complete=completion.definitions)
@click.option("--folder", metavar="DIR", help="Take back what was granted to a folder of the home.")
def revoke(gone: list[str]) -> None:
    """Revoke what was granted.

    Runs under way keep it; no other run starts if the home asks for grants.
    """
    click.echo(f"revoked: {', '.join(map(clean, gone))}")


def _outside(row: Row) -> list[Any]:
    return [need for need in row["needs"] if need["outside"] and need["change"] != "taken away"]


def _lines(row: Row) -> Iterator[str]:
    yield f"{row['kind']} {clean(row['definition'])}, in {clean(row['file'])}: {_MEANING[row['standing']]}"
    if row["foreign"]:
        yield "  it came from a collection, not from the owner of this home"
    if row["at"]:
        changed = "; its definition has changed since" if row["changed"] else ""
        did = "rejected" if row["standing"] == "rejected" else "granted"
        yield f"  {did} by {clean(row['by'])} at {moment_in_zone(row['at'])}{changed}"
    yield "needs outside the home:"
    outside = [need for need in row["needs"] if need["outside"]]
    yield from map(_need, outside) if outside else ("  nothing",)
    if len(outside) < len(row["needs"]):
        yield "within:"
        yield from map(_need, (need for need in row["needs"] if not need["outside"]))
    if row["told"]:
        yield "changed since it was granted:"
        yield from (f"{_SIGN[line['change']]} {clean(line['text'])}" for line in row["told"])


def _need(need: Row) -> str:
    code = f" ({clean(need['code'])})" if need["code"] else ""
    where = f"  {clean(need['part'])}{code}, line {need['line']}" if need["part"] else ""
    return f"{_SIGN[need['change']]} {clean(need['need'])}{where}"


# --- edit ---------------------------------------------------------------------------------------------------


_VERSIONS = tuple(plain("version", edited="at", by="by"))

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
