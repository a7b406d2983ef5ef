"""The command migrate: runs under way continue with another version of their definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import Row, clean, counted
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, Pair, Pairs, command
from narval.surfaces.cli.definitions import changed_lines
from narval.surfaces.cli.session import Session
from narval.surfaces.cli.trials.forked import fates_told, simulated
from narval.surfaces.cli.trials.simulate import read_moment

if TYPE_CHECKING:
    from narval.trials.simulate.scenario import When

CURRENT = "current"
"""The word for the version that is loaded."""

MOST_LISTED = 20
"""The most runs that are listed one by one; beyond that, only those that were refused."""

_EXAMPLE = """\
narval migrate 12 --dry-run
narval migrate 12 --simulate --until 90d
narval migrate 12 --names ask=approve
narval migrate 'shop.*' --to order-2.xml
narval migrate 12 --undo"""


@command("migrate", example=_EXAMPLE, alters=True)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=completion.active_runs)
@click.option(
    "--to",
    "to",
    metavar="FILE|current",
    default=CURRENT,
    shell_complete=completion.version_or_file,
    help="The version: of a file, or the loaded one.",
)
@click.option(
    "--names", type=Pair("OLD=NEW"), multiple=True, help="A part that was renamed; may be repeated."
)
@click.option("--undo", is_flag=True, help="Go back to the version before, if nothing came to the run since.")
@click.option("--dry-run", "dry", is_flag=True, help="Tell what would become of their parts; do nothing.")
@click.option(
    "--simulate",
    "simulates",
    is_flag=True,
    help="Tell also what would happen then, and what if they stayed as they are; do nothing.",
)
@click.option(
    "--until", callback=read_moment, metavar="WHEN", help="With --simulate: how long, 30d unless said."
)
@click.option(
    "--scenario",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --simulate: what comes meanwhile, and how calls are answered.",
)
@click.pass_context
def migrate(
    context: click.Context,
    /,
    session: Session,
    runs: tuple[str, ...],
    to: str,
    names: Pairs,
    undo: bool,
    dry: bool,
    simulates: bool,
    until: When | None,
    scenario: Path | None,
) -> None:
    """Move runs to another version of their file.

    They continue from where they are. RUN is the number of a run, or a pattern of the names of definitions
    ('shop.*'), which stands for all their active runs. What a run has done is not done again. What has not
    changed keeps waiting; what has changed is decided again. A run whose state has no place in the version is
    left unchanged: the place is printed, and the exit status is 1.

    --names gives a part its new name. With --undo a run returns to its previous version and state, as long as
    nothing has happened to it since.

    With --simulate the home continues twice from its present state, on copies, with simulated clocks: once
    with the runs as they are and once with them migrated. It reports what happens in only one of the two:
    calls, questions, moments, ends, and what is waited for at the end.
    """
    if simulates and undo:
        raise click.UsageError("--simulate shows the version to go on with: it does not go with --undo")
    if not simulates and (until is not None or scenario is not None):
        raise click.UsageError("--until and --scenario go with --simulate")
    dry = dry or simulates
    if undo and (to != CURRENT or names):
        raise click.UsageError("--undo goes back to the version before: it takes neither --to nor --names")
    arguments: dict[str, Any] = {"runs": [*runs], "names": dict(names), "undo": undo, "dry": dry}
    if to != CURRENT:
        arguments |= _file(to)
    answer = session.ask("migrate", **arguments)
    meant = [row["run"] for row in answer["runs"] if row["outcome"] == "would migrate"]
    if simulates and meant:
        how = {name: value for name, value in arguments.items() if name in ("text", "path", "names")}
        answer |= {"simulated": simulated(session, meant, how, until, scenario)}
    session.give(answer, lambda reply: click.echo("\n".join(_lines(reply, undo=undo))))
    if any(row["outcome"] in _AMISS for row in answer["runs"]):
        context.exit(NOT_WELL)


def _file(to: str) -> dict[str, str]:
    """The text of a file, and its path. Raises RequestError."""
    try:
        return {"text": Path(to).read_text("utf-8"), "path": to}
    except OSError as error:
        raise RequestError(f"{to}: {error.strerror}; give a file, or --to {CURRENT}") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"{to}: expected text in UTF-8: {error}") from None


def _lines(answer: Row, *, undo: bool) -> Iterator[str]:
    """The lines about runs, and the sentences in which the versions differ."""
    rows = answer["runs"]
    few = len(rows) <= MOST_LISTED
    for row in rows:
        if few or row["outcome"] in _AMISS:
            yield from _of_run(row, undo=undo)
    if not few:
        for outcome in ("migrated", "would migrate", "same version", *_AMISS):
            if of_them := sum(row["outcome"] == outcome for row in rows):
                yield f"{counted(of_them, 'run')}: {outcome}"
    for pair in answer["differences"]:
        yield f"From version {pair['before'][:12]} to {pair['version'][:12]}:"
        yield from changed_lines(pair["sentences"]) if pair["sentences"] else ["no sentence differs"]
    if "simulated" in answer:
        yield from fates_told(answer["simulated"])


_SAYS = {
    "migrated": "goes on with version {version} in place of {before}",
    "would migrate": "would go on with version {version} in place of {before}",
    "same version": "follows version {version} already",
}

_AMISS = {"refused": "stays as it is", "failed": "has failed"}
"""The outcomes of runs that were not migrated, with words for them."""


def _of_run(row: Row, *, undo: bool) -> Iterator[str]:
    """The lines about one run."""
    named = f"run {row['run']} of {clean(row['name'])}"
    if row["outcome"] in _AMISS:
        yield f"{named} {_AMISS[row['outcome']]}:"
        yield from (f"  {_reason(place)}" for place in row["refused"])
        return
    says = _SAYS[row["outcome"]].format(version=row["version"][:12], before=row["before"][:12])
    yield f"{named} {says.replace('on with', 'back to') if undo else says}"
    if row["outcome"] == "same version" or undo:
        return
    yield from _listed("keeps", (_kept(part) for part in row["kept"]))
    for word, key in (("has no more", "gone"), ("has new", "new"), ("begins", "begins")):
        yield from _listed(word, map(clean, row[key]))


def _reason(place: Row) -> str:
    """The reason why a run is left unchanged, with the place if there is one."""
    where = f"{place['file']}:{place['line']}:{place['column']}: " if "file" in place else ""
    return clean(f"{where}{place['why']}")


def _kept(part: Row) -> str:
    """A part that keeps its state."""
    name = part["part"] if part["part"] == part["name"] else f"{part['part']} as {part['name']}"
    return clean(f"{name} ({part['state']})")


def _listed(word: str, parts: Iterable[str]) -> Iterator[str]:
    if listed := list(parts):
        yield f"  {word}: {', '.join(listed)}"
