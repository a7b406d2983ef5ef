"""The command trust: the rules of the home, labels, and the owner's word that an element needs none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from narval.ask.text import Row, clean, moment
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command
from narval.surfaces.cli.session import Session

_TRUST = """\
narval trust
narval trust mail.send
narval trust 12
narval trust 12 --endorse --why 'I have read it, it is the invoice of the plumber'"""


@command("trust", example=_TRUST, alters=True)
@click.argument("what", metavar="[EID|RUN|NAME]", default="", shell_complete=completion.trusted)
@click.option("--endorse", is_flag=True, help="Put the same element without labels in its place.")
@click.option("--why", metavar="TEXT", help="Why it needs no labels; kept with the new element.")
def trust(session: Session, what: str, endorse: bool, why: str | None) -> None:
    """Show the rules about what may go where.

    These are those of etc/trust.toml, with how often each counted since the agent became active. With the
    NAME of an action or a definition, those that may be about its calls.

    With the number of an element or a run, by which ways came what is in it.

    With --endorse the owner of the home vouches for what an element says: the same element takes its place,
    without labels.
    """
    if endorse != (why is not None):
        raise click.UsageError("expected --endorse and --why TEXT together")
    is_number = what.isdecimal() and what.isascii()
    if endorse:
        if not is_number:
            raise click.UsageError("expected the number of the element that is to be endorsed")
        endorsed: Any = session.ask("endorse", eid=int(what), why=why)
        session.give(endorsed, lambda row: click.echo(f"element {row['eid']} takes the place of {what}"))
    elif is_number:
        session.give(session.ask("trust", eid=int(what)), lambda row: click.echo("\n".join(_lines(row))))
    else:
        session.give(session.ask("rules", name=what), lambda row: click.echo("\n".join(_rules(row))))


def _rules(answer: Row) -> Iterator[str]:
    if answer["file"] is None:
        yield "no rules: there is no etc/trust.toml; only a language model's answer asks first"
        yield "take those that ship: narval take etc/trust.toml && narval take recipes/trust.xml"
        return
    for word, key in (("secret", "match"), ("known", "values")):
        yield from (clean(f"{word} {row['name']}: {row[key]}") for row in answer[word])
    for rule in answer["rules"]:
        yield from map(clean, _rule(rule))
    if not answer["rules"]:
        yield f"no rule of {answer['file']} is about it"


def _rule(rule: Row) -> Iterator[str]:
    said = [f"from {', '.join(rule['from'])}" if rule["from"] else ""]
    said += [f"secret {', '.join(rule['secret'])}" if rule["secret"] else ""]
    said += [f"part {rule['part']}" if rule["part"] != "any" else ""]
    for key in ("action", "recipe", "holds"):
        said += [f"{key} {', '.join(rule[key])}" if rule[key] else ""]
    said += [f"to {rule['to']}" if rule["to"] else ""]
    yield f"line {rule['line']}: {rule['then']} {'; '.join(filter(None, said))}"
    if rule["why"]:
        yield f"  {rule['why']}"
    if rule["calls"]:
        times = "once" if rule["calls"] == 1 else f"{rule['calls']:,} times"
        yield f"  counted {times}, last {moment(rule['last'])}"


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
