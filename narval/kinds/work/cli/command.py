"""The command work: items listed, shown and answered at a terminal (P44, P46)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from narval.ask.text import Row, clean, clean_lines, counted, moment, zone
from narval.core.errors import WorkRefusedError
from narval.kinds.work.cli.tables import ITEMS, LOG
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Pair, Pairs, command
from narval.surfaces.cli.paging import ALL, PAGE, Limit
from narval.surfaces.cli.render.tables import fields, listing
from narval.surfaces.cli.session import Session

ACTS = (
    "show", "claim", "release", "save", "delegate", "answer", "take-back", "refuse", "reassign", "log",
    "renew", "forget", "folder",
)  # fmt: skip

_EXAMPLE = """\
narval work
narval work show 57
narval work answer 57 approve --set comment="fine"
narval work delegate 57 ben --reason "you know them"
narval work --follow"""

SLICE = 3600.0
"""Seconds that a daemon is asked to wait for something new at a time: nothing is polled."""


def _items(context: click.Context, incomplete: str) -> completion.Choices:
    """The items there are; for `folder`, the people."""
    if context.params.get("act") == "folder":
        yield from completion.of_people(context, incomplete)
        return
    for row in completion.asked(context, "worklist"):
        yield str(row["item"]), f"{row['work']} {row['state']}"


def _words(context: click.Context, incomplete: str) -> completion.Choices:
    """The outcomes of the item that was named before, or the people to whom it may go."""
    if context.params.get("act") in ("delegate", "reassign"):
        yield from completion.of_people(context, incomplete)
    if context.params.get("act") == "answer" and context.params.get("item") is not None:
        for outcome in completion.asked(context, "work_item", item=context.params["item"])["outcomes"]:
            yield outcome["name"], ""


class _Item(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """The number of an item; of `folder`, the name of a person."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value as what it is."""
        is_name = ctx is not None and ctx.params.get("act") == "folder"
        return value if is_name else click.INT.convert(value, param, ctx)


@command("work", example=_EXAMPLE, alters=True)
@click.argument("act", metavar=f"[{'|'.join(ACTS)}]", required=False, type=click.Choice(ACTS))
@click.argument(
    "item", type=_Item(), metavar="[ITEM]", required=False, shell_complete=completion.source(_items)
)
@click.argument("words", metavar="[OUTCOME|PERSON]...", nargs=-1, shell_complete=completion.source(_words))
@click.option("--set", "pairs", type=Pair(), multiple=True, help="A field of the answer; may be repeated.")
@click.option("--reason", default="", metavar="TEXT", help="With release, delegate, refuse, reassign, renew.")
@click.option("--all", "every", is_flag=True, help="All that you may see, not only what waits for you.")
@click.option(
    "--person", metavar="P", shell_complete=completion.people, help="What this person is asked, or did (log)."
)
@click.option("--state", metavar="S", help="Only items in this state: offered, claimed, done, refused, …")
@click.option("--since", metavar="MOMENT", help="With log: from this moment on.")
@click.option("--limit", type=Limit(), help=f"Only the first N, or all, rather than {PAGE}.")
@click.option("--follow", is_flag=True, help="Write a line for each item that is offered, until interrupted.")
def work(
    session: Session,
    act: str | None,
    item: Any,
    words: tuple[str, ...],
    pairs: Pairs,
    reason: str,
    every: bool,
    person: str | None,
    state: str | None,
    since: str | None,
    limit: int | str | None,
    follow: bool,
) -> None:
    """List what you are asked, and answer it.

    You are who your login says (etc/people.toml); without that file there is nobody but you. `answer` without
    --set asks for each field at a terminal. `claim` keeps others from doing it meanwhile, `release` gives it
    back, `save` keeps a draft, `delegate` hands it to another, `refuse` takes you out for good, `take-back`
    undoes a vote. Administrators may `reassign` it to others, or `renew` it: withdraw it, and offer it anew
    as its definition is now. `log` tells who did what, `folder PERSON` makes the folder by whose files a
    person answers, and `forget --person P` erases the items that are over in which P did something.
    """
    if act is None:
        most = None if limit == ALL else PAGE if limit is None else int(limit)
        query = {"every": every, "person": person, "state": state}
        _follow(session, query) if follow else _list(session, query, most)
    elif act == "log":
        rows = session.ask("work_log", item=item, person=person, since=since)
        session.give(rows, lambda found: listing(LOG, found, "nothing is recorded"))
    elif act == "forget":
        if person is None or item is not None:
            raise click.UsageError("forget needs --person P, and no ITEM")
        session.give(session.ask("forget_person", person=person), _forgotten)
    elif act == "folder":
        if item is None:
            raise click.UsageError("folder needs the name of a PERSON")
        session.give(session.ask("work_folder", person=item), lambda found: click.echo(clean(found["path"])))
    elif act == "renew" and item is not None:
        renewed = session.ask("renew", run=item, reason=reason)
        answer = {"item": renewed["run"], "instead_of": item, "work": renewed["name"]}
        session.give(answer, lambda found: click.echo(f"item {found['item']} is offered in its place"))
    elif item is None:
        raise click.UsageError(f"{act} needs the number of an ITEM (`narval work` lists them)")
    elif act == "show":
        session.give(session.ask("work_item", item=item), _shown)
    else:
        session.give(_done(session, act, item, words, pairs, reason), _told)


def _done(
    session: Session, act: str, item: int, words: tuple[str, ...], pairs: Pairs, reason: str
) -> dict[str, Any]:
    """The answer to an act."""
    if pairs and act not in ("answer", "save"):
        raise click.UsageError("--set goes with answer and save")
    if reason and act not in ("release", "delegate", "refuse", "reassign"):
        fields = (
            ": the fields of an answer are given by --set NAME=VALUE" if act in ("answer", "save") else ""
        )
        raise click.UsageError(f"--reason goes with release, delegate, refuse, reassign and renew{fields}")
    if words and act not in ("answer", "delegate", "reassign"):
        raise click.UsageError(f"{act} takes no {words[0]!r}")
    if len(words) > 1 and act != "reassign":
        raise click.UsageError(f"{act} takes one word after the item, got {' '.join(words)!r}")
    if not words and act in ("delegate", "reassign"):
        raise click.UsageError(f"{act} needs the name of a PERSON")
    answer: dict[str, Any]
    if act == "answer":
        answer = _answered(session, item, words[0] if words else "", pairs)
    elif act == "save":
        answer = session.ask("save", item=item, fields=_values(pairs))
    elif act == "delegate":
        answer = session.ask("delegate", item=item, to=words[0], word=reason)
    elif act == "reassign":
        answer = session.ask("reassign", item=item, to=list(words), reason=reason)
    elif act == "release":
        answer = session.ask("release", item=item, reason=reason)
    elif act == "refuse":
        answer = session.ask("refuse", item=item, reason=reason)
    else:
        answer = session.ask("claim" if act == "claim" else "take_back", item=item)
    return answer


def _values(pairs: Pairs) -> dict[str, list[str]]:
    """The values by field: one that is given twice has two."""
    values: dict[str, list[str]] = {}
    for name, text in pairs:
        values.setdefault(name, []).append(text)
    return values


# --- answering ----------------------------------------------------------------------------------------------


def _answered(session: Session, item: int, outcome: str, pairs: Pairs) -> dict[str, Any]:
    """The answer to an answer; at a terminal, what was not given is asked for, until it is right (P44)."""
    values = _values(pairs)
    asks = not pairs and not session.as_json and sys.stdin.isatty()
    shown = session.ask("work_item", item=item) if asks else None
    if shown is not None:
        _shown(shown)
        outcome = outcome or _chosen([found["name"] for found in shown["outcomes"]])
        values = {field["name"]: _asked(field, outcome, shown) for field in shown["fields"]}
    while True:
        try:
            text = shown["shown"] if shown is not None else None
            found: dict[str, Any] = session.ask(
                "answer", item=item, outcome=outcome, fields=values, shown=text
            )
            return found
        except WorkRefusedError as error:
            if error.kind != "bad-field":
                raise
            wrong = _misfits(error)
            if shown is None:
                lacking = " ".join(
                    f"--set {name}=TEXT" for name, value in wrong.items() if name and not value
                )
                said = f"{error}; give it by {lacking}" if lacking else str(error)
                raise WorkRefusedError(error.kind, said, error.detail) from None
            click.echo(clean_lines(str(error)), err=True)
            for field in shown["fields"]:
                if field["name"] in wrong:
                    values[field["name"]] = _asked(field, outcome, shown, values[field["name"]])


def _misfits(error: WorkRefusedError) -> dict[str, str]:
    """The fields whose values are not right, each with what was typed."""
    import json

    return {str(row.get("field")): str(row.get("value")) for row in json.loads(error.detail or "[]")}


def _chosen(outcomes: list[str]) -> str:
    if len(outcomes) == 1:
        return outcomes[0]
    return str(click.prompt("outcome", type=click.Choice(outcomes)))


def _asked(field: Row, outcome: str, shown: Mapping[str, Any], typed: list[str] | None = None) -> list[str]:
    """The values that somebody types for a field; an empty line takes what stands in brackets."""
    before = typed or shown["draft"].get(field["name"]) or field["default"]
    needed = " (required)" if outcome in field["required"] else ""
    options = f" [{', '.join(field['options'])}]" if field["options"] else ""
    given = " ".join(before)
    label = clean(f"{field['label']}{options}{needed}{f' [{given}]' if given else ''}")
    text = str(click.prompt(label, default=given, show_default=False))
    return text.split() if field["list"] else [text] if text else []


# --- listing ------------------------------------------------------------------------------------------------


def _list(session: Session, query: dict[str, Any], most: int | None) -> None:
    rows = session.ask("worklist", **query, limit=most + 1 if most is not None else None)
    shown = rows[:most]
    session.give(shown, lambda found: listing(ITEMS, found, _nothing(query)))
    if len(shown) < len(rows) and not session.as_json:
        click.echo(f"{len(shown)} shown, the most urgent ones; --limit {ALL} has all", err=True)


def _nothing(query: Mapping[str, Any]) -> str:
    """The words for an empty list, by what was asked for."""
    if query["every"] or query["state"]:
        return "there is no such item that you may see"
    return f"nothing is asked of {clean(query['person'] or 'you')}"


def _follow(session: Session, query: dict[str, Any]) -> None:
    with session.connect("look") as connection, session.lines(_line) as write:
        known, number, wait = list[int](), 0, 0.0
        while True:
            rows = connection.ask("worklist", **query, known=known, wait=wait)
            new = [row for row in rows if row["item"] not in known]
            known, wait = [row["item"] for row in rows], SLICE
            if new:
                number = write([{"seq": number + at, **row} for at, row in enumerate(new, 1)])
            if connection.record_only:
                click.echo("no daemon runs: nothing more will come", err=True)
                return


def _line(row: Row) -> str:
    due = f", until {moment(row['deadline'])} {zone()}" if row["deadline"] else ""
    return clean(f"{row['item']} {row['work']}: {row['title']}{due}")


# --- one item -----------------------------------------------------------------------------------------------


def _shown(item: Row) -> None:
    """Write one item: its text as it was recorded, and what may be answered."""
    claimed, asked = item["claimed"], item["run"]
    until = f" until {moment(claimed['until'])}" if claimed and claimed["until"] else ""
    fields(
        [
            ("item", f"{item['item']}, {item['work']}"),
            ("state", f"{item['state']}{', overdue' if item['overdue'] else ''}"),
            ("for", item["for"]),
            ("claimed", f"by {claimed['by']} since {moment(claimed['since'])}{until}" if claimed else None),
            ("asked by", f"step {asked['step']} of run {asked['run']}" if asked else None),
            ("deadline", moment(item["deadline"])),
            ("outcome", item["outcome"]),
            ("requested by", ", ".join(item["requesters"])),
            ("you may", f"{', '.join(item['may'])}{_by_right(item['right'])}" if item["may"] else None),
        ]
    )
    if item["text"]:
        click.echo(f"\n{clean_lines(item['text'])}\n")
    for name, values in item["draft"].items():
        click.echo(clean(f"draft: {name} = {' '.join(values)}"))


def _by_right(right: Row | None) -> str:
    """The role that counts, and who is away and for whom one answers."""
    given = right or {}
    role = f"as {given['role']}" if given.get("role") else ""
    absent = f"for {given['for']}" if given.get("for") else ""
    return f" ({' '.join(filter(None, (role, absent)))})" if role or absent else ""


def _told(answer: Row) -> None:
    """Tell what became of an act."""
    outcome = f": {answer['outcome']}" if answer.get("outcome") else ""
    to = answer.get("to")
    whom = f" to {to if isinstance(to, str) else ', '.join(to)}" if to else ""
    click.echo(clean(f"item {answer['item']} is {answer['state']}{whom}{outcome}"))


def _forgotten(answer: Row) -> None:
    """Tell how many items were erased."""
    click.echo(f"{counted(len(answer['forgotten']), 'item')} forgotten")
