"""Commands about the tokens of a process: complete, backtrack, rerun, tokens, environment."""

from __future__ import annotations

from typing import Any

import click

from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Pair, Pairs, command
from narval.surfaces.cli.render.tables import ARC_TOKENS, ATTRIBUTES, TOKENS, WALKED, listing, table
from narval.surfaces.cli.runs import at_option
from narval.surfaces.cli.session import Session


def _nodes(context: click.Context, _: str, states: tuple[str, ...]) -> completion.Choices:
    """The nodes of the named process that have a token in one of the states, newest token first."""
    for token in _newest_tokens(context):
        if token["state"] in states:
            yield token["node"], f"token {token['id']} {token['state']}"


def _tokens_by_id(context: click.Context, _: str) -> completion.Choices:
    for token in _newest_tokens(context):
        yield str(token["id"]), f"{token['node']} {token['state']}"


def _attributes(context: click.Context, _: str) -> completion.Choices:
    """The attributes of the named process."""
    answer = completion.asked(context, "environment", run=completion.named_run(context))
    yield from answer["environment"].items()


def _newest_tokens(context: click.Context) -> list[dict[str, Any]]:
    tokens = completion.asked(context, "tokens", run=completion.named_run(context))["tokens"]
    return list(reversed(tokens))


_processes = completion.source(completion.of_runs, kind="process")
_active_processes = completion.source(completion.of_runs, kind="process", state="active")

_active_nodes = completion.source(_nodes, states=("active", "failed", "held", "delayed"))
_failed_nodes = completion.source(_nodes, states=("failed", "held"))
_complete_nodes = completion.source(_nodes, states=("complete", "skipped"))

process_argument = click.argument("run", type=int, shell_complete=_processes)
active_process_argument = click.argument("run", type=int, shell_complete=_active_processes)
token_option = click.option(
    "--token",
    type=int,
    metavar="ID",
    shell_complete=completion.source(_tokens_by_id),
    help="The token of this id (`narval tokens`).",
)


@command(
    "complete",
    example="narval complete 12 bill\nnarval complete 12 review --arc reject --token 31",
    alters=True,
)
@active_process_argument
@click.argument("node", required=False, shell_complete=_active_nodes)
@click.option("--arc", "arcs", multiple=True, metavar="NAME", help="Leave on the arcs of this name.")
@token_option
@click.option("--asynchronous", is_flag=True, help="Leave what follows for later (--queued).")
@click.option("--token-set", metavar="NAME", help="Leave as a new set of tokens of this name,")
@click.option("--count", type=click.IntRange(0), metavar="N", help="… of so many members,")
@click.option(
    "--set", "--env", "shared", metavar="NAME=VALUE", multiple=True, help="… with an attribute they share,"
)
@click.option(
    "--member",
    "members",
    type=Pair("NAME=A,B,…"),
    multiple=True,
    help="… with an attribute that differs: one value for each.",
)
@click.option("--queued", is_flag=True, help="Complete nothing: go on with what waits.")
def complete(
    session: Session,
    run: int,
    node: str | None,
    arcs: tuple[str, ...],
    token: int | None,
    asynchronous: bool,
    token_set: str | None,
    count: int | None,
    shared: tuple[str, ...],
    members: Pairs,
    queued: bool,
) -> None:
    """Complete a token of a process, which then moves on.

    NODE is the node with the active token; if it has several, --token names one.
    """
    if queued:
        answer = session.ask("execute_queued", run=run)
        session.give(answer, lambda answer: click.echo(f"run {answer['run']} is {answer['state']}"))
        return
    if node is None and token is None:
        raise click.UsageError("expected a NODE, or --token ID")
    names = [text for text in shared if "=" not in text]  # `--set NAME` named the set before `--token-set`
    if token_set is None and len(names) == 1:
        token_set = names.pop()
    environment = [Pair()(text) for text in shared if "=" in text]
    if names:
        raise click.UsageError(f"--set: expected NAME=VALUE, found {names[0]!r:.80}")
    if token_set is None and (count is not None or environment or members):
        raise click.UsageError("--count, --set NAME=VALUE and --member go with --token-set NAME")
    if token_set is not None and count is None:
        raise click.UsageError("--token-set NAME needs --count N")
    made = None
    if token_set is not None:
        lists = {name: values.split(",") for name, values in members}
        made = {"name": token_set, "count": count, "environment": dict(environment), "members": lists}
    asked = {"arcs": list(arcs) or None, "asynchronous": asynchronous, "set": made}
    session.give(session.ask("complete", run=run, node=node, token=token, **asked), _completed)


def _completed(answer: dict[str, Any]) -> None:
    click.echo(f"token {answer['token']} is complete; run {answer['run']} is {answer['state']}")


@command("backtrack", example="narval backtrack 12 bill\nnarval backtrack 12 17", alters=True)
@active_process_argument
@click.argument("place", metavar="NODE|TOKEN", shell_complete=_complete_nodes)
def backtrack(session: Session, run: int, place: str) -> None:
    """Send a process back to where a token was active.

    Everything after it is undone, node by node. NODE means the last complete token on that node. A number is
    a token's id (`--token` is not needed), unless a node has that name.
    """
    token = int(place) if place.isdecimal() else None
    node = None if token is not None else place
    answer = session.ask("backtrack", run=run, node=node, token=token)
    session.give(
        answer,
        lambda answer: click.echo(f"token {answer['token']} is there now; run {run} is {answer['state']}"),
    )


@command("rerun", example="narval rerun 12 bill\nnarval rerun 12 --token 17", alters=True)
@active_process_argument
@click.argument("node", required=False, shell_complete=_failed_nodes)
@token_option
def rerun(session: Session, run: int, node: str | None, token: int | None) -> None:
    """Run the failed node of a token again.

    NODE is the node with the token; if it has several, --token names one. `narval why RUN` names the element
    that says what went wrong. To continue without running it, complete the token.
    """
    if node is None and token is None:
        raise click.UsageError("expected a NODE, or --token ID")
    answer = session.ask("rerun", run=run, node=node, token=token)
    session.give(
        answer,
        lambda answer: click.echo(f"token {answer['token']} runs again; run {run} is {answer['state']}"),
    )


@command("tokens", example="narval tokens 12\nnarval tokens 12 --from 17 --back --order breadth")
@process_argument
@click.option(
    "--from",
    "start",
    type=int,
    metavar="TOKEN",
    shell_complete=completion.source(_tokens_by_id),
    help="Only this token and those that it led to,",
)
@click.option("--back", is_flag=True, help="… or those that led to it.")
@click.option(
    "--order",
    type=click.Choice(["creation", "breadth", "depth"]),
    help="… in the order of creation (so it is without this), by breadth or by depth first.",
)
@at_option
def tokens(
    session: Session, run: int, start: int | None, back: bool, order: str | None, at: int | None
) -> None:
    """List the tokens of a process, on nodes and arcs.

    They are in the order in which they were made.
    """
    if start is None:
        if back or order is not None:
            raise click.UsageError("--back and --order go with --from TOKEN")
        session.give(session.ask("tokens", run=run, at=at), _tokens)
        return
    direction, order = "back" if back else "forward", order or "creation"
    rows = session.ask("traverse", run=run, token=start, order=order, direction=direction, at=at)
    session.give(rows, lambda answer: listing(WALKED, answer["tokens"], "no tokens there"))


def _tokens(answer: dict[str, Any]) -> None:
    listing(TOKENS, answer["tokens"], "no tokens yet")
    if answer["arc_tokens"]:
        click.echo()
        table(ARC_TOKENS, answer["arc_tokens"])


_ENVIRONMENT = """\
narval environment 12
narval environment 12 due --token 31
narval environment 12 --set paid=true --set by=ann"""


@command("environment", example=_ENVIRONMENT, alters=True)
@process_argument
@click.argument(
    "attribute",
    metavar="[NAME[=VALUE]]",
    required=False,
    shell_complete=completion.source(_attributes),
)
@click.option("--set", "pairs", type=Pair(), multiple=True, help="Set an attribute; may be repeated.")
@token_option
@click.option("--of-set", metavar="NAME", help="Those of the set of tokens of this name,")
@click.option("--index", type=click.IntRange(0), metavar="N", help="… or of one of its members.")
def environment(
    session: Session,
    run: int,
    attribute: str | None,
    pairs: Pairs,
    token: int | None,
    of_set: str | None,
    index: int | None,
) -> None:
    """Show the attributes of a process, or of a token.

    With --set NAME=VALUE, or NAME=VALUE alone, set them, all or none. Attributes of a token override those of
    its process. NAME= sets an empty text. Tokens that descend from a token inherit what is set for it.
    """
    name, sign, value = (attribute or "").partition("=")
    settings = [(name, value), *pairs] if sign else list(pairs)
    if attribute is not None and not name:
        raise click.UsageError(f"expected NAME=VALUE, got {attribute!r}")
    if pairs and name and not sign:
        raise click.UsageError(
            f"expected --set alone, or {name}=VALUE beside it, got {name}, which shows one"
        )
    values = dict(settings)
    if len(values) < len(settings):
        twice = next(key for key in values if [one for one, _ in settings].count(key) > 1)
        raise click.UsageError(f"{twice} is given twice")
    place = {"run": run, "token": token, "of_set": of_set, "index": index}
    if values:
        answer = session.ask("set_environment", values=values, **place)
    elif session.acting_as:
        raise click.UsageError("--as goes with --set NAME=VALUE: what is only shown is not recorded")
    else:
        answer = session.ask("environment", **place)
    if name and not sign:
        value_found = answer["environment"].get(name)
        if value_found is None:
            from narval.core.definitions.suggestions import closest

            raise RequestError(f"run {run} has no attribute {name}{closest(name, answer['environment'])}")
        session.give({"name": name, "value": value_found}, lambda answer: click.echo(answer["value"]))
        return
    rows = [{"name": key, "value": text} for key, text in answer["environment"].items()]
    session.give(answer, lambda _: listing(ATTRIBUTES, rows, "no attributes"))
