"""The command `work`, and the acts below it: items listed, shown and answered at a terminal (P44, P46)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from narval.ask.text import Row, clean, clean_lines, counted, moment_in_zone
from narval.core.errors import WorkRefusedError
from narval.kinds.work.cli.tables import ITEMS, LOG, vote
from narval.kinds.work.engine import table
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Command, Pair, Pairs, asking, command, command_group, reason_option
from narval.surfaces.cli.paging import ALL, limit_option
from narval.surfaces.cli.render.tables import fields, listing
from narval.surfaces.cli.session import Connection, Session

_EXAMPLE = """\
narval work
narval work show 57
narval work answer 57 approve --set comment="fine"
narval work delegate 57 ben --reason "you know them"
narval work --follow"""


@command_group("work", example=_EXAMPLE, alters=True)
@click.option("--all", "every", is_flag=True, help="All that you may see, not only what waits for you.")
@click.option("--answered", is_flag=True, help="What you have answered, and waits for others.")
@click.option("--person", metavar="P", shell_complete=completion.people, help="What this person is asked.")
@click.option("--state", metavar="S", help="Only items in this state: offered, claimed, done, refused, …")
@limit_option("first")
@click.option("--follow", is_flag=True, help="Write a line for each item that is offered, until interrupted.")
def work(session: Session, most: int | None, follow: bool, **query: Any) -> None:
    """List what you are asked, and answer it.

    Your login says who you are (etc/people.toml); without that file you are the only person. `answer` without
    --set asks for each field at a terminal. `claim` reserves an item for you, `release` gives it back, `save`
    keeps a draft, `move` moves the task that asks to another of its states, `delegate` hands the item to
    another person, `refuse` takes you out for good, `take-back` undoes a vote. Administrators may `reassign`
    an item to others, or `renew` it: withdraw it, and offer it again by its present definition. `log` shows
    who did what, `folder PERSON` makes the folder in which a person answers by files, and `forget --person P`
    erases the ended items in which P did something.
    """
    _follow(session, query) if follow else _list(session, query, most)


# --- acts on items, as their table has them ---------------------------------------------------------------


def _items(context: click.Context, incomplete: str) -> completion.Choices:
    for row in completion.asked(context, "worklist"):
        yield str(row["item"]), f"{row['work']} {row['state']}"


def _outcomes(context: click.Context, incomplete: str) -> completion.Choices:
    """The outcomes of the item on the command line."""
    for outcome in completion.asked(context, "work_item", item=context.params["item"])["outcomes"]:
        yield outcome["name"], ""


def _states(context: click.Context, incomplete: str) -> completion.Choices:
    """The states that the asking task of the item on the command line may be moved to."""
    states = completion.asked(context, "work_item", item=context.params["item"])["states"]
    for state in states["moves"] if states else ():
        yield state, f"from {states['now']}"


def _values(_context: click.Context, _option: click.Parameter, pairs: Pairs) -> dict[str, list[str]]:
    """The values by field; a field given twice has two."""
    values: dict[str, list[str]] = {}
    for name, text in pairs:
        values.setdefault(name, []).append(text)
    return values


def _no_reason(_context: click.Context, _option: click.Parameter, reason: str | None) -> None:
    if reason is not None:
        raise click.UsageError("it takes no --reason; the fields of an answer are given by --set NAME=VALUE")


_reason_option = partial(reason_option, "Why; kept in the log of the item.", default="")


def _values_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option --set; a stray reason beside it is reported."""
    refused = click.option("--reason", hidden=True, expose_value=False, callback=_no_reason)
    help = "A field of the answer; may be repeated."
    asked = click.option("--set", "fields", type=Pair(), multiple=True, callback=_values, help=help)
    return asked(refused(function))


item_argument = click.argument("item", type=int, shell_complete=completion.source(_items))
_person_argument = partial(click.argument, required=True, shell_complete=completion.people)

_GIVEN: Mapping[table.Field, tuple[Callable[..., Any], str]] = {
    table.TO: (_person_argument("to", metavar="PERSON"), "ben"),
    table.ALL_TO: (_person_argument("to", metavar="PERSON...", nargs=-1), "ben eva"),
    table.OUTCOME: (
        click.argument("outcome", default="", shell_complete=completion.source(_outcomes)),
        "approve",
    ),
    table.STATE: (click.argument("state", shell_complete=completion.source(_states)), "checking"),
    table.VALUES: (_values_option, "--set comment=fine"),
    table.REASON: (_reason_option("reason"), "--reason 'no time'"),
    table.WORD: (_reason_option("word"), "--reason 'you know them'"),
}
"""The option or argument of each field that is typed, and an example."""


def _act(name: str) -> Command:
    """The command of an act, with the fields of its row."""
    row = table.ACTS_ON_ITEMS[name]
    parameters = [_GIVEN[field] for field in row.fields if field in _GIVEN]

    def people(answer: Row) -> None:
        outcome = f": {answer['outcome']}" if answer.get("outcome") else ""
        if answer.get("answered"):
            outcome = f", answered {vote(answer['answered'])}"
        to = answer.get("to")
        goes = ", and its task goes" if table.STATE in row.fields else ""
        whom = f"{goes} to {to if isinstance(to, str) else ', '.join(to)}" if to else ""
        click.echo(clean(f"item {answer['item']} is {answer['state']}{whom}{outcome}"))

    people.__doc__ = row.does
    for add, _ in reversed(parameters):
        add(people)
    example = " ".join([f"narval work {name} 57", *(typed for _, typed in parameters)])
    ask = _answered if name == "answer" else None
    return asking(name, name.replace("-", "_"), example=example, alters=True, ask=ask)(item_argument(people))


# --- answering ----------------------------------------------------------------------------------------------


def _answered(session: Session, item: int, outcome: str, fields: dict[str, list[str]]) -> dict[str, Any]:
    """The response to an answer; at a terminal, missing values are asked for until they are right."""
    asks = not fields and not session.as_json and sys.stdin.isatty()
    form = session.ask("work_item", item=item) if asks else None
    if form is not None:
        _print_item(form)
        outcome = outcome or _chosen([answer["name"] for answer in form["outcomes"]])
        fields = {field["name"]: _asked(field, outcome, form) for field in form["fields"]}
    while True:
        try:
            text = form["shown"] if form is not None else None
            answer: dict[str, Any] = session.ask(
                "answer", item=item, outcome=outcome, fields=fields, shown=text
            )
            return answer
        except WorkRefusedError as error:
            if error.kind != "bad-field":
                raise
            wrong = _misfits(error)
            if form is None:
                lacking = " ".join(
                    f"--set {name}=TEXT" for name, value in wrong.items() if name and not value
                )
                said = f"{error}; give it by {lacking}" if lacking else str(error)
                raise WorkRefusedError(error.kind, said, error.detail) from None
            click.echo(clean_lines(str(error)), err=True)
            for field in form["fields"]:
                if field["name"] in wrong:
                    fields[field["name"]] = _asked(field, outcome, form, fields[field["name"]])


def _misfits(error: WorkRefusedError) -> dict[str, str]:
    """The fields with wrong values, each with what was typed."""
    import json

    return {str(row.get("field")): str(row.get("value")) for row in json.loads(error.detail or "[]")}


def _chosen(outcomes: list[str]) -> str:
    if len(outcomes) == 1:
        return outcomes[0]
    return str(click.prompt("outcome", type=click.Choice(outcomes)))


def _asked(field: Row, outcome: str, form: Mapping[str, Any], typed: list[str] | None = None) -> list[str]:
    """The values typed for a field; an empty line takes those in brackets."""
    before = typed or form["draft"].get(field["name"]) or field["default"]
    needed = " (required)" if outcome in field["required"] else ""
    options = f" [{', '.join(field['options'])}]" if field["options"] else ""
    default = " ".join(before)
    label = clean(f"{field['label']}{options}{needed}{f' [{default}]' if default else ''}")
    text = str(click.prompt(label, default=default, show_default=False))
    return text.split() if field["list"] else [text] if text else []


# --- listing ------------------------------------------------------------------------------------------------


def _list(session: Session, query: dict[str, Any], most: int | None) -> None:
    rows = session.ask("worklist", **query, limit=most + 1 if most is not None else None)
    visible = rows[:most]
    session.give(visible, lambda listed: listing(ITEMS, listed, _nothing(query)))
    if len(visible) < len(rows) and not session.as_json:
        click.echo(f"{len(visible)} shown, the most urgent ones; --limit {ALL} has all", err=True)


def _nothing(query: Mapping[str, Any]) -> str:
    """The words for an empty list, depending on the query."""
    if query["every"] or query["answered"] or query["state"]:
        return "there is no such item that you may see"
    return f"nothing is asked of {clean(query['person'] or 'you')}"


def _follow(session: Session, query: dict[str, Any]) -> None:
    items: list[int] = []

    def news(connection: Connection, wait: float) -> list[Row]:
        rows = connection.ask("worklist", **query, known=items, wait=wait)
        new = [row for row in rows if row["item"] not in items]
        items[:] = [row["item"] for row in rows]
        return new

    session.follow(_line, news)


def _line(row: Row) -> str:
    due = f", until {moment_in_zone(row['deadline'])}" if row["deadline"] else ""
    return clean(f"{row['item']} {row['work']}: {row['title']}{due}")


# --- one item -----------------------------------------------------------------------------------------------


def _print_item(item: Row) -> None:
    """Print one item: its text as it was recorded, and the possible answers."""
    claimed, asked = item["claimed"], item["run"]
    until = f" until {moment_in_zone(claimed['until'])}" if claimed and claimed["until"] else ""
    fields(
        [
            ("item", f"{item['item']}, {item['work']}"),
            ("state", ", ".join(filter(None, (item["state"], item["urged"])))),
            ("for", item["for"]),
            (
                "claimed",
                f"by {claimed['by']} since {moment_in_zone(claimed['since'])}{until}" if claimed else None,
            ),
            ("asked by", f"step {asked['step']} of run {asked['run']}" if asked else None),
            ("deadline", moment_in_zone(item["deadline"])),
            ("the task", _where(item["states"]) if item["states"] else None),
            ("outcome", item["outcome"]),
            ("answered", _votes(item) if item["voters"] else None),
            ("requested by", ", ".join(item["requesters"])),
            ("you may", f"{', '.join(item['may'])}{_by_right(item['right'])}" if item["may"] else None),
        ]
    )
    if item["text"]:
        click.echo(f"\n{clean_lines(item['text'])}\n")
    for name, values in item["draft"].items():
        click.echo(clean(f"draft: {name} = {' '.join(values)}"))


def _votes(item: Row) -> str:
    """The answers so far, where several people answer; only their names while the answers are hidden."""
    if item["answers"] is None:
        return f"by {', '.join(item['voters'])}"
    counts = (
        f"{one['name']} {one['has']} of {one['needs']}: {', '.join(one['by'])}"
        for one in item["outcomes"]
        if one["by"]
    )
    return "; ".join(counts)


def _where(states: Row) -> str:
    """The state of the asking task, and the states that it may be moved to or end in."""
    moves = f", may be moved to {' or '.join(states['moves'])}" if states["moves"] else ""
    return f"is in {states['now'] or 'no state'}{moves}, may end in {' or '.join(states['ends'])}"


def _by_right(right: Row | None) -> str:
    """The role by which a person may act, and the absent person they act for."""
    details = right or {}
    role = f"as {details['role']}" if details.get("role") else ""
    absent = f"for {details['for']}" if details.get("for") else ""
    return f" ({' '.join(filter(None, (role, absent)))})" if role or absent else ""


@asking("show", "work_item", example="narval work show 57", alters=True)
@item_argument
def show(answer: Row) -> None:
    """Show one item: its text, its outcomes and fields, its claimant, and what you may do."""
    _print_item(answer)


# --- around items -------------------------------------------------------------------------------------------


@asking("log", "work_log", example="narval work log 57\nnarval work log --person ann", alters=True)
@click.argument("item", type=int, required=False, shell_complete=completion.source(_items))
@click.option("--person", metavar="P", shell_complete=completion.people, help="What this person did.")
@click.option("--since", metavar="MOMENT", help="From this moment on.")
def log(rows: list[Row]) -> None:
    """Show who did what, by which right, in which way, and with which result.

    With ITEM, the log of that item; without it, of all items that you may see.
    """
    listing(LOG, rows, "nothing is recorded")


@command("renew", example="narval work renew 57 --reason 'the new rules hold'", alters=True)
@item_argument
@_reason_option("reason")
def renew(session: Session, item: int, reason: str) -> None:
    """Withdraw an item, and offer it again by its present definition, as an administrator.

    The run that asked keeps waiting.
    """
    renewed = session.ask("renew", run=item, reason=reason)
    answer = {"item": renewed["run"], "instead_of": item, "work": renewed["name"]}
    session.give(answer, lambda reply: click.echo(f"item {reply['item']} is offered in its place"))


@asking("forget", "forget_person", example="narval work forget --person ann", alters=True)
@click.option("--person", metavar="P", required=True, shell_complete=completion.people, help="Whose items.")
def forget(answer: Row) -> None:
    """Erase the ended items in which a person did something, with their journals.

    This is for administrators, the home's owner and root.
    """
    click.echo(f"{counted(len(answer['forgotten']), 'item')} forgotten")


@asking("folder", "work_folder", example="narval work folder ann", alters=True)
@_person_argument("person")
def folder(answer: Row) -> None:
    """Make the folder in which a person is offered items as files."""
    click.echo(clean(answer["path"]))


for _below in (show, *map(_act, table.ACTS_ON_ITEMS), log, renew, forget, folder):
    work.add_command(_below)
