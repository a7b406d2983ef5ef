"""Shell completion from what only the home knows: runs, definitions, parts of a run.

Each source asks operations, as commands do. If the daemon is silent, the look takes too long, or any error
occurs, it offers no choices, and prints no message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

ANSWERED_WITHIN = 0.5
"""Seconds for a daemon to greet, and again to answer."""

LOOKED_WITHIN = 3.0
"""Seconds for the whole completion, when no daemon runs and the home must be opened."""

NEWEST, MANY = 50, 1000
"""The rows requested before anything was typed, and after."""

PARTS = ("steps", "transitions", "states", "nodes", "objects", "trail", "queue", "instances", "events")
"""The keys of an answer to `show` whose rows are parts of a run, with an id and a state."""

Choices = Iterator[tuple[str, object]]
"""The values, each with its description."""

Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


class _TooLongError(BaseException):
    """The timeout of a completion; a BaseException, so that no code handles it as its own error."""


def source(choices: Callable[..., Choices], *, or_file: bool = False, **settings: Any) -> Completing:
    """A `shell_complete` of click: the choices that begin with what was typed, or else files."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from narval.ask.text import clean

        items: dict[str, CompletionItem] = {}
        with suppress(Exception, _TooLongError), _at_most(LOOKED_WITHIN):
            for value, about in choices(context, incomplete, **settings):
                if value.startswith(incomplete):
                    items.setdefault(value, CompletionItem(value, help=clean(about)))
        if or_file and not items:
            return [CompletionItem(incomplete, type="file")]
        return list(items.values())

    return complete


def asked(context: click.Context, operation: str, **query: Any) -> Any:
    """The answer to an operation. Raises NarvalError."""
    from narval.surfaces.control.client import Client

    session = context.ensure_object(Session)
    if session.peer:
        return session.reach_peer(patience=ANSWERED_WITHIN, answer=ANSWERED_WITHIN).ask(operation, **query)
    socket = session.home.known_socket()
    if socket is not None:
        within = ANSWERED_WITHIN
        daemon = Client.reach(socket, patience=within, answer=within, agent=session.agent)
        if daemon is not None:
            with daemon:
                return daemon.ask(operation, **query)
    return session.ask(operation, **query)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise _TooLongError in the block when the time is up."""

    import signal

    def ring(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- sources ------------------------------------------------------------------------------------------------


def of_runs(context: click.Context, incomplete: str, **query: Any) -> Choices:
    """The newest runs, or many more once digits were typed."""
    for run in asked(context, "runs", limit=MANY if incomplete else NEWEST, **query):
        yield str(run["eid"]), f"{run['name']} {run['state']}"


def _active_names(context: click.Context, _: str) -> Choices:
    """The definitions that have runs under way."""
    for run in asked(context, "runs", state="active", limit=MANY):
        yield run["name"], f"run {run['eid']} {run['state']}"


def _definitions(context: click.Context, _: str) -> Choices:
    from narval.core.kinds import KINDS

    for row in asked(context, "definitions")["definitions"]:
        if row["kind"] in KINDS and KINDS[row["kind"]].engine:
            yield row["name"], row["description"] or row["kind"]


def _actions(context: click.Context, _: str) -> Choices:
    for row in asked(context, "actions"):
        yield row["name"], row["description"]


def _to_simulate(context: click.Context, incomplete: str) -> Choices:
    """The scenarios and definitions of the home."""
    folder = context.ensure_object(Session).home.path / "scenarios"
    for path in sorted(folder.rglob("*.xml")):
        yield str(path.relative_to(folder)).removesuffix(".xml").removesuffix(".scenario"), "scenario"
    yield from _definitions(context, incomplete)


def named_run(context: click.Context) -> int:
    """The run named before; click has no argument yet if an option still lacks its value."""
    run: int | None = context.params.get("run")
    return run if run is not None else int(context.args[0])


def _parts(context: click.Context, _: str, keys: tuple[str, ...] = PARTS) -> Choices:
    """The parts of the run that was named before."""
    answer = asked(context, "show", run=named_run(context))
    for key in keys:
        for part in answer.get(key, ()):
            yield str(part["id"]), part["state"]


def _proposals(context: click.Context, _: str) -> Choices:
    for row in asked(context, "proposals"):
        yield row["name"], f"{row['state']}: {row['wish'][:60]}"


def _mcp_clients(context: click.Context, _: str) -> Choices:
    for row in asked(context, "mcp_clients"):
        yield row["client"], ", ".join(row["tools"] or ())


def _agents(context: click.Context, _: str) -> Choices:
    for row in asked(context, "agents"):
        yield row["name"], row["state"]


def _peers(context: click.Context, _: str, *, every: bool = False) -> Choices:
    """The peers that this home can ask, or all."""
    from narval.files.outside.peers import load_peers

    for peer in load_peers(context.ensure_object(Session).own_home.path).values():
        if every or peer.url is not None:
            yield peer.name, peer.url or "asks this home"


def _templates(context: click.Context, _: str) -> Choices:
    """The templates of agents of the home."""
    from narval.files.agents.folders import template_names

    for name in template_names(context.ensure_object(Session).home.path):
        yield name, "template"


def _daemons(context: click.Context, _: str) -> Choices:
    """The homes whose daemons share the store."""
    for row in asked(context, "status").get("fleet", ()):
        yield row["home"], f"{row['agents']} agents"


def of_people(context: click.Context, _: str) -> Choices:
    """The people of the home."""
    for row in asked(context, "people"):
        yield row["person"], row["name"]


def _elements(context: click.Context, incomplete: str) -> Choices:
    """The newest elements, or many more once digits were typed."""
    for row in asked(context, "memory", limit=MANY if incomplete else NEWEST):
        yield str(row["eid"]), row["name"]


def _trusted(context: click.Context, incomplete: str) -> Choices:
    """The definitions, or elements once digits were typed."""
    yield from (_elements if incomplete.isdecimal() else _definitions)(context, incomplete)


def _labels(context: click.Context, _: str) -> Choices:
    """The labels of incoming values, and those of secrets, from the files of the home."""
    from narval.core.trust.telling import who
    from narval.files.reach import read_sources

    for label in read_sources(context.ensure_object(Session).home).labels:
        yield label, who(label)


def _incidents(context: click.Context, _: str) -> Choices:
    for row in asked(context, "incidents", every=True):
        yield row["incident"], row["message"]


def _edits(context: click.Context, _: str) -> Choices:
    """The versions, from before edits, of the file of the definition that was named before."""
    for row in asked(context, "edit", name=context.params.get("name") or context.args[0])["versions"]:
        yield row["version"], f"{row['at']} {row['by']}"


def _versions(context: click.Context, _: str) -> Choices:
    """The digests of the versions of the definition that was named before."""
    for row in asked(context, "versions", name=context.params.get("name") or context.args[0]):
        yield row["digest"], row["path"]


def _loaded_version(_: click.Context, __: str) -> Choices:
    yield "current", "the version that is loaded"


def _dead_letters(context: click.Context, _: str) -> Choices:
    for row in asked(context, "letters", dead=True):
        yield str(row["letter"]), f"{row['element'] or row['kind']} for {row['to']}: {row['reason']}"


def _reminders(context: click.Context, _: str) -> Choices:
    for row in asked(context, "reminders"):
        yield str(row["reminder"]), f"{row['shown']}: {row['text']}"


agents = source(_agents)
peers = source(_peers)
all_peers = source(_peers, every=True)
templates = source(_templates)
daemons = source(_daemons)
mcp_clients = source(_mcp_clients)
proposals = source(_proposals)
dead_letters = source(_dead_letters)
reminders = source(_reminders)
people = source(of_people)
elements = source(_elements)
trusted = source(_trusted)
labels = source(_labels)
incidents = source(_incidents)
versions = source(_versions)
edits = source(_edits)
version_or_file = source(_loaded_version, or_file=True)
runs = source(of_runs)
active_runs = source(of_runs, state="active")
active_names = source(_active_names)
definitions = source(_definitions)
actions = source(_actions)
definitions_and_scenarios = source(_to_simulate, or_file=True)
parts = source(_parts)
steps = source(_parts, keys=("steps",))
