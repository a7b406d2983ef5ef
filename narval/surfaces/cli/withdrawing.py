"""The commands withdraw and confirm: what should never have counted, and what counts after all."""

from __future__ import annotations

from collections.abc import Iterator

import click

from narval.ask.text import Row, clean, counted
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Number, asking, command
from narval.surfaces.cli.session import Session

_WITHDRAW = """\
narval withdraw 12 --dry-run
narval withdraw 12 --why 'the mail was forged'
narval withdraw 12 --why 'the mail was forged' --cascade"""

_WORDS = {
    "withdrawn": "withdrawn",
    "doubtful": "doubtful",
    "also_made_from": "not doubtful, for other sources hold",
}


@command("withdraw", example=_WITHDRAW, alters=True)
@click.argument("eid", type=Number("an element"), shell_complete=completion.elements)
@click.option("--why", metavar="TEXT", help="Why it should never have counted; kept with it.")
@click.option("--cascade", is_flag=True, help="Withdraw what was made from it alone, too.")
@click.option("--dry-run", is_flag=True, help="Tell what would follow, and change nothing.")
def withdraw(session: Session, eid: int, why: str | None, cascade: bool, dry_run: bool) -> None:
    """Withdraw an element that should never have counted.

    No step or condition gets it from then on. What was made from it alone is doubtful, and matched only by
    patterns that ask for doubtful elements, until narval confirm says that it counts. What was right until
    now, and counts no more, is outdated (narval outdate).
    """
    if dry_run == (why is not None):
        raise click.UsageError("expected one of --why TEXT and --dry-run")
    if dry_run:
        answer = session.ask("withdrawal", eid=eid, cascade=cascade)
    else:
        answer = session.ask("withdraw", eid=eid, why=why, cascade=cascade)
    session.give(answer, lambda row: click.echo("\n".join(_lines(row, dry_run))))


def _lines(answer: Row, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    if answer["withdrawn"] or answer["doubtful"]:
        yield _summary(answer, would)
    if not answer["withdrawn"]:
        yield f"element {answer['element']} was withdrawn before"
    for key, words in _WORDS.items():
        for row in answer[key]:
            yield f"{would if key != 'also_made_from' else ''}{words}: {_element(row)}"
    for run in answer["runs"]:
        yield from _relied(run, dry_run)
    if answer["sent_to"]:
        yield f"{would}told: {clean(', '.join(answer['sent_to']))}, which it was sent to"


def _summary(answer: Row, would: str) -> str:
    """The line before all others: what is doubtful, undone, and done outside and left."""
    undone = counted(sum(run["how"] == "undo" for run in answer["runs"]), "run")
    outside = sum(bool(run["outside"]) for run in answer["runs"])
    has = "has" if outside == 1 else "have"
    counts = f"{len(answer['withdrawn'])} withdrawn, {len(answer['doubtful'])} doubtful, {undone} undone"
    return f"{would}{counts}; {counted(outside, 'run')} {has} done something outside that stays"


_THEN = {"signal": "told by a signal", "fail": "failed", "undo": "undone", "ignore": "not told"}


def _relied(run: Row, dry_run: bool) -> Iterator[str]:
    """A run that relied on it, what becomes of it, and what it has done outside."""
    then = _THEN.get(run["how"], "left as it is")
    would = "would be " if dry_run and then != "left as it is" else ""
    yield clean(f"run {run['run']} of {run['run_of']} ({run['state']}) relied on it: {would}{then}")
    yield from (f"  {line}" for line in _calls(run["undo"]))
    for call in run["outside"]:
        yield "  " + clean(f"step {call['step']} {_has(call)} something outside: {call['target']}")


def _calls(calls: list[Row]) -> Iterator[str]:
    for call in calls:
        by = f"undone by {call['undo']}" if call["undo"] else "has no undo"
        open_is = ", and may not have done anything" if call["state"] == "unknown" else ""
        yield clean(f"step {call['step']}, {call['target']}: {by}{open_is}")


def _has(call: Row) -> str:
    return "has done" if call["state"] == "done" else "may have done"


_UNDO = "narval undo 12 --why 'the order was a mistake'"


@asking("undo", "undo", example=_UNDO, alters=True)
@click.argument("run", type=Number("a run"), shell_complete=completion.runs)
@click.option("--why", required=True, metavar="TEXT", help="Why it is undone; kept with the run.")
def undo(answer: Row) -> None:
    """Undo what a run has done.

    A run that is under way is cancelled. Then what undoes each of its calls is called, the last first, in a
    run of its own. A run is undone once.
    """
    click.echo("\n".join(_calls(answer["undo"])) or "there is nothing to undo")
    if answer["undoing"]:
        click.echo(f"run {answer['undoing']} undoes it")


def _element(row: Row) -> str:
    made = f", of {row['run_of']}" if row["run_of"] else ""
    run = f", run {row['run']}" if row["run"] else ""
    return clean(f"{row['eid']} {row['name'] or '(forgotten)'}{made}{run}")


@asking("confirm", "confirm", example="narval confirm 14 --why 'I have asked her'", alters=True)
@click.argument("eid", type=Number("an element"), shell_complete=completion.elements)
@click.option("--why", default="", metavar="TEXT", help="Why it counts after all; kept with it.")
def confirm(answer: Row) -> None:
    """Confirm a doubtful element: it counts again.

    So does what is doubtful because of it alone.
    """
    count = counted(len(answer["confirmed"]), "element")
    click.echo(f"{count} confirmed: {', '.join(_element(row) for row in answer['confirmed'])}")
