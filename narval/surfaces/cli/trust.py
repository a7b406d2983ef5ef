"""The command trust: the rules of the home, labels, and the owner's endorsement of an element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from narval.ask.text import Row, clean, fault_line, moment
from narval.core.errors import SettingsError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command, reason_option
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.session import Session

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
        session.give(session.ask("trust", eid=int(what)), lambda row: click.echo("\n".join(_lines(row))))
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
        raise SettingsError(f"{why}; set it right, and look again: narval check\n{error}") from None


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


def _lines(answer: Row) -> Iterator[str]:
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
