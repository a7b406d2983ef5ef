"""Commands on one element: what it came from, its labels, and whether it still counts.

These are element, trust, withdraw, undo and confirm. `trust` also shows the rules of the home, and records
the owner's endorsement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from narval.ask.text import Row, article, clean, counted, fault_line, moment, moment_in_zone, xml_text
from narval.core.errors import SettingsError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Number, asking, command, reason_option
from narval.surfaces.cli.render.tables import Column, came_from, listing
from narval.surfaces.cli.session import Session


@asking("element", "element", example="narval element 14\nnarval element 14 --json")
@click.argument("eid", type=Number("an element"), shell_complete=completion.elements)
def element(answer: Row) -> None:
    """Show an element, what it came from, and what was made from it.

    Besides its XML: the runs that hold it, when it will be forgotten, its versions, and, with the runs and
    calls that made them, the elements before and after it, 6 steps and 200 elements each way. `narval why
    EID` says what prevents a run from taking it.
    """
    click.echo("\n".join(_element_lines(answer)))


def _element_lines(answer: Row) -> Iterator[str]:
    yield f"element {answer['eid']}, {article(answer['name'])} {clean(answer['name'])}: {_made(answer)}"
    yield xml_text(answer["xml"])
    if answer["labels"]:
        yield f"  labels {clean(', '.join(answer['labels']))}"
    if answer["decided_by"]:
        yield f"  decided by {clean(', '.join(answer['decided_by']))}"
    if answer["declared"]:
        yield f"  declared by {clean(answer['declared'])}: it is not forgotten"
    if answer["forgotten"]:
        run, at = answer["forgotten"]["run"], moment_in_zone(answer["forgotten"]["at"])
        yield f"  forgotten at {at}{f', with run {run}' if run else ', if nothing uses it until then'}"
    if answer["withdrawn"] is not None:
        yield f"  withdrawn: {clean(answer['withdrawn'])}"
    elif answer["doubtful"]:
        yield f"  doubtful: made from what was withdrawn; `narval confirm {answer['eid']}` lets it count"
    elif answer["outdated"]:
        yield "  outdated: a newer version has replaced it, or none"
    if answer["before"] or answer["after"]:
        versions = [*reversed(answer["before"]), answer["eid"], *answer["after"]]
        yield f"  versions {' → '.join(map(str, versions))}"
    if answer["used_by"]:
        yield f"  used {counted(len(answer['used_by']), 'time')}: see `narval why {answer['eid']}`"
    for held in answer["held_by"]:
        yield f"  held by run {held['run']} of {clean(held['run_of'])} ({held['state']})"
    if (others := answer["holders"] - len(answer["held_by"])) > 0:
        yield f"  and by {counted(others, 'run')} more"
    for way, title in (("back", "made from"), ("on", "made of it")):
        if answer[way]:
            yield f"{title}:"
        for node in answer[way]:
            yield f"{'  ' * node['depth']}{node['eid']} {_name(node)}{_of(node)}"
        if answer["more"][way]:
            yield "  and more, that is not shown"


def _name(node: Row) -> str:
    return f"{clean(node['name'])}: {_made(node)}" if node["name"] else "(forgotten)"


def _made(row: Row) -> str:
    """The maker of an element, in words, and the moment."""
    call = f" by {clean(row['target'])}" if row["target"] else ""
    run = f" of {clean(row['run_of'])} ({row['state']})" if row["run_of"] else ""
    return ", ".join(filter(None, (f"{clean(came_from(row))}{run}{call}", moment_in_zone(row["added"]))))


def _of(node: Row) -> str:
    """The elements that one was made from, if they are shown."""
    more = f" and {node['more']} more" if node["more"] else ""
    return f", from {', '.join(map(str, node['from']))}{more}" if node["from"] or more else ""


# --- trust --------------------------------------------------------------------------------------------------


TRUST_FILE = "etc/trust.toml"

_TRUST = """\
narval trust
narval trust mail.send
narval trust 12
narval trust 12 --endorse --reason 'I have read it, it is the invoice of the plumber'"""


@command("trust", example=_TRUST, alters=True)
@click.argument("what", metavar="[EID|RUN|NAME]", default="", shell_complete=completion.trusted)
@click.option("--endorse", is_flag=True, help="Put the same element without labels in its place.")
@reason_option("Why it needs no labels; kept with the new element.")
def trust(session: Session, what: str, endorse: bool, why: str | None) -> None:
    """Show the rules about what may go where.

    They are those of etc/trust.toml, each with its number of uses since the agent became active. With the
    NAME of an action or a definition, only those that may apply to its calls are shown.

    With the number of an element or a run, it shows the ways by which its content came.

    With --endorse the owner of the home vouches for what an element says: the same element replaces it,
    without labels.
    """
    if endorse != (why is not None):
        raise click.UsageError("expected --endorse and --reason TEXT together")
    is_number = what.isdecimal() and what.isascii()
    if endorse:
        if not is_number:
            raise click.UsageError("expected the number of the element that is to be endorsed")
        endorsed: Any = session.ask("endorse", eid=int(what), why=why)
        session.give(endorsed, lambda row: click.echo(f"element {row['eid']} takes the place of {what}"))
    elif is_number:
        session.give(
            session.ask("trust", eid=int(what)), lambda row: click.echo("\n".join(_label_lines(row)))
        )
    else:
        session.give(_rules(session, what), _print_rules)


def _rules(session: Session, name: str) -> Any:
    """The rules of the home. Raises SettingsError if their file is broken and no daemon has loaded rules."""
    try:
        return session.ask("rules", name=name)
    except SettingsError as error:
        if TRUST_FILE not in str(error):
            raise
        why = f"{TRUST_FILE} has faults, so there are no rules to show, and no daemon starts on it"
        raise SettingsError(f"{why}; correct it, and check: narval check\n{error}") from None


def _print_rules(answer: Row) -> None:
    if answer["file"] is None:
        click.echo("no rules: there is no etc/trust.toml; only a language model's answer asks first")
        click.echo("take those that ship: narval take etc/trust.toml && narval take recipes/trust.xml")
        return
    for word, key in (("secret", "match"), ("known", "values")):
        for row in answer[word]:
            click.echo(clean(f"{word} {row['name']}: {row[key]}"))
    rules = [{**rule, "place": f"{answer['file']}:{rule['line']}"} for rule in answer["rules"]]
    listing(_COLUMNS, rules, f"no rule of {answer['file']} is about it")
    if rules and answer.get("since"):
        click.echo(f"calls are counted since {moment_in_zone(answer['since'])}, when the agent became active")
    elif rules:
        click.echo("calls are counted only while a daemon runs")
    if answer["faults"]:
        click.echo(f"\n{answer['file']} has faults; the rules above stay active until they are corrected:")
        for fault in answer["faults"]:
            click.echo(clean(fault_line(fault)))


def _about(rule: Row) -> str:
    """The labels that a rule is about."""
    secrets = [f"secret:{name}" for name in rule["secret"]]
    return ", ".join((*rule["from"], *secrets))


def _only(rule: Row) -> str:
    """The calls that a rule is about, if not all."""
    words = [f"{key} {', '.join(rule[key])}" for key in ("action", "recipe", "holds") if rule[key]]
    return "; ".join((*words, *([f"to {rule['to']}"] if rule["to"] else ())))


_COLOURS = {"allow": "green", "ask": "yellow", "refuse": "red"}

_COLUMNS = (
    Column("rule", lambda rule: rule["place"]),
    Column("decides", lambda rule: rule["then"], style=lambda rule: _COLOURS[rule["then"]]),
    Column("label", _about),
    Column("part", lambda rule: rule["part"]),
    Column("calls", lambda rule: rule["calls"] or "", right=True),
    Column("last", lambda rule: moment(rule["last"]), is_moment=True),
    Column("why", lambda rule: rule["why"]),
    Column("only for", _only),
)


def _label_lines(answer: Row) -> Iterator[str]:
    yield f"{answer['eid']} {clean(answer['name'])}: {_labels(answer)}"
    for path, labels in answer["parts"].items():
        yield f"  {clean(path or '(the rest)')}: {clean(', '.join(labels)) or 'no labels'}"
    if answer["endorsed"]:
        yield f"  endorsed: {clean(answer['endorsed'])}"
    for before in answer["by"]:
        yield f"  by {before['eid']} {clean(before['name'] or '(forgotten)')}: {_labels(before)}"


def _labels(row: Row) -> str:
    deciding = f"decided by {', '.join(row['decided_by'])}" if row["decided_by"] else ""
    return clean("; ".join(filter(None, (", ".join(row["labels"]), deciding)))) or "no labels"


# --- withdraw, undo, confirm --------------------------------------------------------------------------------


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
    if not dry_run and why is None:
        raise click.UsageError("expected --reason TEXT, or --dry-run")
    if dry_run:
        answer = session.ask("withdrawal", eid=eid, cascade=cascade)
    else:
        answer = session.ask("withdraw", eid=eid, why=why, cascade=cascade)
    session.give(answer, lambda row: click.echo("\n".join(_withdrawal_lines(row, dry_run))))


def _withdrawal_lines(answer: Row, dry_run: bool) -> Iterator[str]:
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
    yield from (f"  {line}" for line in _undone_lines(run["undo"]))
    for call in run["outside"]:
        did = "did" if call["state"] == "done" else "may have done"
        yield "  " + clean(f"step {call['step']} {did} something outside, by {call['target']}")


def _undone_lines(calls: list[Row]) -> Iterator[str]:
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
    click.echo("\n".join(_undone_lines(calls)) or _NOTHING)
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
