"""Operations on processes: complete, backtrack and show their tokens (sections 2, 8 and 11)."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import msgspec

from narval.agent.run import Run
from narval.ask.asker import PROGRAM, Asker
from narval.ask.labels import signal_in
from narval.ask.lookup import definition_and_state, find_run
from narval.ask.registry import operation
from narval.ask.text import article
from narval.core.engines.commands import Answer
from narval.core.engines.events import Signalled
from narval.core.errors import (
    NotBacktrackableError,
    NotExecutingError,
    NoTokenError,
    RequestError,
    TokenCompleteError,
    TokenError,
)
from narval.daemon.daemon import Daemon
from narval.kinds.process.calls.token import MOST_MEMBERS
from narval.kinds.process.engine.explain import arc_row, node_row
from narval.kinds.process.engine.state import NodeToken
from narval.kinds.process.engine.tokens.views import Direction, Order, walk
from narval.kinds.process.language.attribute_types import kept

_REFUSALS: dict[str, type[TokenError]] = {
    "token-complete": TokenCompleteError,
    "no-token": NoTokenError,
    "ambiguous": NoTokenError,
    "cancelled": NotExecutingError,
    "not-executing": NotExecutingError,
    "not-backtrackable": NotBacktrackableError,
    "already-backtracked": NotBacktrackableError,
    "not-complete": NotBacktrackableError,
}
"""The class of error for each kind of refusal; any other is a TokenError."""


@operation("write")
async def complete(
    daemon: Daemon,
    run: int,
    node: str | None = None,
    token: int | None = None,
    arcs: list[str] | None = None,
    asynchronous: bool = False,
    set: dict[str, Any] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Complete a token, by its id or as the active one on a node. It leaves on the arcs of these names, on
    the default ones if none are given, on none if the list is empty. A name that no arc has is refused.

    With `set` (name, count, environment, members) it leaves as a new set of tokens. If asynchronous, the
    tokens that leave wait until `execute_queued`.
    """
    made = new_set(set) if set is not None else None
    arguments = _of_token(node, token, arcs=arcs, asynchronous=asynchronous, set=made)
    return await _ask_run(daemon, asker, run, "complete", arguments)


@operation("write")
async def backtrack(
    daemon: Daemon, run: int, node: str | None = None, token: int | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Go back to where a token was active, by its id or as the last complete one on a node."""
    return await _ask_run(daemon, asker, run, "backtrack", _of_token(node, token))


@operation("write")
async def rerun(
    daemon: Daemon, run: int, node: str | None = None, token: int | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Run the failed node of a token again, by the token's id or as the active one on a node."""
    return await _ask_run(daemon, asker, run, "rerun", _of_token(node, token))


@operation("read")
async def tokens(daemon: Daemon, run: int, at: int | None = None) -> dict[str, Any]:
    """All tokens of a process, on nodes and on arcs, and its sets; with `at`, as they were after that line of
    its history.
    """
    parts = _parts(daemon, run, at)
    return {key: parts[key] for key in ("tokens", "arc_tokens", "token_sets")}


@operation("read")
async def traverse(
    daemon: Daemon,
    run: int,
    token: int,
    order: Order = "creation",
    direction: Direction = "forward",
    at: int | None = None,
) -> dict[str, Any]:
    """The tokens of a process, on nodes and on arcs, that descend from one, itself first; or, going back,
    those that it descends from. They are in the order of creation, breadth first or depth first. With `at`,
    they are as they were after that line of its history.
    """
    for value, kinds in ((order, Order), (direction, Direction)):
        if value not in get_args(kinds):
            raise RequestError(f"expected {' or '.join(get_args(kinds))}, got {value!r:.40}")
    definition, state = definition_and_state(daemon, _process(daemon, run), at)
    if token not in state.nodes and token not in state.arcs:
        raise refusal("no-token", f"process {run} has no token {token}")
    tokens = walk(state, token, order, direction)
    rows = (
        node_row(definition, state, one) if isinstance(one, NodeToken) else arc_row(definition, state, one)
        for one in tokens
    )
    return {"run": run, "tokens": list(rows)}


@operation("read")
async def environment(
    daemon: Daemon,
    run: int,
    token: int | None = None,
    of_set: str | None = None,
    index: int | None = None,
) -> dict[str, Any]:
    """The attributes of a process, of a token (over those of its process), of a set, or of one of its
    members.
    """
    answer = (
        _environment(daemon, run, token) if of_set is None else _of_set(daemon, run, token, of_set, index)
    )
    return {"run": run, "environment": answer}


@operation("write")
async def set_environment(
    daemon: Daemon,
    run: int,
    values: dict[str, Any],
    token: int | None = None,
    of_set: str | None = None,
    index: int | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Set attributes of a process, of a token, of a set or one of its members; return all of them.

    A value of None removes one.
    """
    arguments = _of_token(None, token, set=texts(values), of_set=of_set, index=index)
    return await _ask_run(daemon, asker, run, "environment", arguments)


@operation("write")
async def execute_queued(daemon: Daemon, run: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Move the tokens that asynchronous completions left in the queue."""
    return await _ask_run(daemon, asker, run, "execute", {})


@operation("write")
async def execute_token(daemon: Daemon, run: int, token: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Execute the node of a token that a listener holds back."""
    return await _ask_run(daemon, asker, run, "execute-token", {"token": token})


@operation("write")
async def reevaluate(daemon: Daemon, run: int, token: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Ask the guard of a delayed token again, before its time."""
    return await _ask_run(daemon, asker, run, "reevaluate", {"token": token})


@operation("write")
async def retry_arc_token(daemon: Daemon, run: int, token: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Retry the join at which a token on an arc waits."""
    return await _ask_run(daemon, asker, run, "retry-arc-token", {"token": token})


@operation("write")
async def finalize(daemon: Daemon, run: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End a process whose end a listener delays."""
    return await _ask_run(daemon, asker, run, "finalize", {})


@operation("write")
async def listen(
    daemon: Daemon, run: int, listener: str, events: list[str] | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Subscribe a listener to these events of a process, or to all if none are named."""
    listeners = daemon.agent.library.of("listener")
    if listener not in listeners:
        there = ", ".join(sorted(listeners)) or "none"
        raise RequestError(f"there is no listener {listener!r} in modules/; there is {there}")
    return await _ask_run(daemon, asker, run, "listen", {"listener": listener, "events": events or []})


@operation("write")
async def unlisten(
    daemon: Daemon, run: int, listener: str, events: list[str] | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Unsubscribe a listener from these events of a process, or from all if none are named."""
    return await _ask_run(daemon, asker, run, "unlisten", {"listener": listener, "events": events or []})


async def _ask_run(
    daemon: Daemon, asker: Asker, eid: int, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """The answer of a process to an operation, once it is recorded. Raises TokenError."""
    run = _process(daemon, eid)
    if not run.active:
        raise NotExecutingError(
            "cancelled" if run.phase == "cancelled" else "not-executing",
            f"run {eid} of {run.name} is over already: it is {run.status}",
        )
    try:
        msgspec.msgpack.encode(arguments)  # as the journal will encode them
    except (UnicodeEncodeError, OverflowError) as refused:
        raise RequestError(f"{name}: {refused}") from None
    event = Signalled(0, 0.0, "", name, (), arguments, **asker.recorded)
    answers: list[Answer] = await daemon.host.submit(partial(signal_in, run=eid, event=event))
    if not answers:
        error = f"run {eid} of {run.name} could not do it: it is {run.status}; narval why {eid} says more"
        raise refusal("failed", error)
    problem, value = answers[0].problem, answers[0].value
    if problem is not None:
        raise refusal(problem.kind, problem.message)
    return {"run": eid, **(value or {})}


def _process(daemon: Daemon, eid: int) -> Run:
    run = find_run(daemon, eid)
    if run.kind != "process":
        raise RequestError(
            f"run {eid} of {run.name} is {article(run.kind)} {run.kind}: only a process has tokens"
        )
    return run


def _parts(daemon: Daemon, eid: int, at: int | None = None) -> dict[str, list[dict[str, Any]]]:
    run = _process(daemon, eid)
    return run.engine.parts(*definition_and_state(daemon, run, at))


def _environment(daemon: Daemon, eid: int, token: int | None) -> dict[str, str]:
    parts = _parts(daemon, eid)
    values = {row["id"]: row["value"] for row in parts["environment"]}
    if token is None:
        return values
    for row in parts["tokens"]:
        if row["id"] == token:
            return {**values, **row["environment"]}
    raise refusal("no-token", f"process {eid} has no node token {token}")


def _of_set(daemon: Daemon, eid: int, token: int | None, name: str, index: int | None) -> dict[str, str]:
    """The attributes of the set that a token is in, or of the newest of that name; or of one member."""
    _, state = definition_and_state(daemon, _process(daemon, eid))
    if token is not None and token not in state.nodes:
        raise refusal("no-token", f"process {eid} has no node token {token}")
    sets = state.nodes[token].sets if token is not None else state.sets
    numbers = [state.sets[number] for number in sets if state.sets[number].name == name]
    if not numbers:
        raise refusal("no-set-member", f"process {eid} has no token set named {name}")
    return dict(numbers[-1].environment if index is None else numbers[-1].members.get(index, {}))


def _of_token(node: str | None, token: int | None, **others: Any) -> dict[str, Any]:
    """The arguments about a token, without those that are None."""
    arguments = {"node": node, "token": token, **others}
    return {key: value for key, value in arguments.items() if value is not None}


def texts(values: dict[str, Any]) -> dict[str, str | None]:
    """Attributes as they are stored. Raises RequestError."""
    try:
        return {name: kept(name, value) for name, value in values.items()}
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from None


def new_set(row: dict[str, Any]) -> dict[str, Any]:
    """A new set of tokens, checked: name, count, environment, members. Raises RequestError."""
    unknown = row.keys() - {"name", "count", "environment", "members"}
    if unknown:
        raise RequestError(f"a set of tokens has name, count, environment and members, not {min(unknown)!r}")
    name, count, members = row.get("name"), row.get("count"), row.get("members") or {}
    if not isinstance(name, str) or not name:
        raise RequestError(f"expected the name of the set of tokens, got {name!r:.80}")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_MEMBERS:
        raise RequestError(f"expected a count from 1 to {MOST_MEMBERS:,}, got {count!r:.80}")
    if not isinstance(members, dict) or not all(isinstance(values, list) for values in members.values()):
        raise RequestError("expected the members' attributes as lists: one value a member")
    return {
        "name": name,
        "count": count,
        "environment": texts(row.get("environment") or {}),
        "members": {
            key: [texts({key: value})[key] for value in values[:count]] for key, values in members.items()
        },
    }


def refusal(kind: str, message: str) -> TokenError:
    """The error for a refusal by a process; its class tells what to do about it."""
    return _REFUSALS.get(kind, TokenError)(kind, message)
