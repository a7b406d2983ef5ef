"""The commands withdraw, undo and confirm: what should never have counted, and what counts after all."""

from __future__ import annotations

from collections.abc import Iterator

import click

from narval.ask.text import Row, clean, counted
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Number, asking, command, reason_option
from narval.surfaces.cli.session import Session

_WITHDRAW = """\
narval withdraw 12 --dry-run
narval withdraw 12 --reason 'the mail was forged'
narval withdraw 12 --reason 'the mail was forged' --cascade"""


@command("withdraw", example=_WITHDRAW, alters=True)
@click.argument("eid", type=Number("an element"), shell_complete=completion.elements)
@reason_option("Why it should never have counted; kept with it.")
@click.option("--cascade", is_flag=True, help="Withdraw what was made from it alone, too.")
@click.option("--dry-run", is_flag=True, help="Tell what would follow, and change nothing.")
def withdraw(session: Session, eid: int, why: str | None, cascade: bool, dry_run: bool) -> None:
    """Withdraw an element that was wrong from the start.

    No step or condition gets it from then on. What was made only from it is doubtful, and matched only by
    patterns that ask for doubtful elements, until narval confirm makes it valid. If it was right until now,
    mark it as outdated instead (narval outdate).
    """
    if dry_run == (why is not None):
        raise click.UsageError("expected one of --reason TEXT and --dry-run")
    if dry_run:
        answer = session.ask("withdrawal", eid=eid, cascade=cascade)
    else:
        answer = session.ask("withdraw", eid=eid, why=why, cascade=cascade)
    session.give(answer, lambda row: click.echo("\n".join(_lines(row, dry_run))))


def _lines(answer: Row, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    if answer["withdrawn"] or answer["doubtful"]:
        yield _summary(answer, dry_run)
    if not answer["withdrawn"]:
        yield f"element {answer['element']} was withdrawn before"
    for key in ("withdrawn", "doubtful"):
        yield from (f"{would}{key}: {_element(row)}" for row in answer[key])
    stays = "would not be doubtful" if dry_run else "not doubtful"
    for row in answer["also_made_from"]:
        yield f"{stays}, for it was made from other elements too: {_element(row)}"
    for run in answer["runs"]:
        yield from _relied(run, dry_run)
    if answer["sent_to"]:
        is_told = _would("are" if len(answer["sent_to"]) > 1 else "is", dry_run)
        yield f"{clean(', '.join(answer['sent_to']))} {is_told} told, as it was sent there"


def _would(be: str, dry_run: bool) -> str:
    return "would be" if dry_run else be


def _summary(answer: Row, dry_run: bool) -> str:
    """The first line: what is withdrawn, doubtful and undone, and what was done outside."""
    counts = [
        (len(answer["withdrawn"]), "element", "withdrawn"),
        (len(answer["doubtful"]), "element", "doubtful"),
        (sum(run["how"] == "undo" for run in answer["runs"]), "run", "undone"),
    ]
    said = [
        f"{counted(count, thing)} {_would('is' if count == 1 else 'are', dry_run)} {what}"
        for count, thing, what in counts
        if count
    ]
    outside = sum(bool(run["outside"]) for run in answer["runs"])
    stays = "would stay" if dry_run else "stays"
    done = [f"what {counted(outside, 'run')} did outside {stays}"] if outside else []
    return f"{'nothing was changed; ' if dry_run else ''}{'; '.join([', '.join(said), *done])}"


_THEN = {
    "signal": ("is told by a signal", "would be told by a signal"),
    "fail": ("fails", "would fail"),
    "undo": ("is undone", "would be undone"),
    "ignore": ("is not told", "would not be told"),
    None: ("stays as it is", "would stay as it is"),
}
"""The effect on a run that relied on what is withdrawn, in words for a withdrawal and for a preview."""


def _relied(run: Row, dry_run: bool) -> Iterator[str]:
    """A run that relied on it, its fate, and what it has done outside."""
    then = _THEN[run["how"]][dry_run]
    yield clean(f"run {run['run']} of {run['run_of']} ({run['state']}) relied on it, and {then}")
    yield from (f"  {line}" for line in _calls(run["undo"]))
    for call in run["outside"]:
        did = "did" if call["state"] == "done" else "may have done"
        yield "  " + clean(f"step {call['step']} {did} something outside, by {call['target']}")


def _calls(calls: list[Row]) -> Iterator[str]:
    for call in calls:
        undone = f"{call['undo']} undoes it" if call["undo"] else "nothing undoes it"
        open_is = ", though it may have done nothing" if call["state"] == "unknown" and call["undo"] else ""
        yield clean(f"step {call['step']}, {call['target']}: {undone}{open_is}")


_NOTHING = "there is nothing to undo: no call of it did something outside, or has an action that undoes it"
_UNDO = "narval undo 12 --reason 'the order was a mistake'"


@asking("undo", "undo", example=_UNDO, alters=True)
@click.argument("run", type=Number("a run"), shell_complete=completion.runs)
@reason_option("Why it is undone; kept with the run.", required=True)
def undo(answer: Row) -> None:
    """Undo what a run has done.

    A run that is under way is cancelled. Then a separate run calls what undoes each of its calls, the last
    first. A run is undone once.
    """
    calls = answer["undo"]
    click.echo("\n".join(_calls(calls)) or _NOTHING)
    for call in answer["stays"]:
        click.echo(clean(f"step {call['step']}, {call['target']}: stays done; no action undoes it"))
    if answer["undoing"]:
        undone = sum(bool(call["undo"]) for call in calls)
        what = "it" if undone == len(calls) else "what can be undone" if undone else "nothing, and records it"
        click.echo(f"run {answer['undoing']} undoes {what}")


def _element(row: Row) -> str:
    of = f" of {row['run_of']}" if row["run_of"] else ""
    made = f", made by run {row['run']}{of}" if row["run"] else ""
    return clean(f"{row['eid']} {row['name'] or '(forgotten)'}{made}")


@asking("confirm", "confirm", example="narval confirm 14 --reason 'I have asked her'", alters=True)
@click.argument("eid", type=Number("an element"), shell_complete=completion.elements)
@reason_option("Why it is valid after all; kept with it.", default="")
def confirm(answer: Row) -> None:
    """Confirm a doubtful element: it is valid again.

    Everything that is doubtful only because of it is valid again, too.
    """
    click.echo("\n".join(f"valid again: {_element(row)}" for row in answer["confirmed"]))
