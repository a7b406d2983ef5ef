"""Acts on runs of any kind: start, cancel, retry, signal, wait for the end.

A signal sends a name, elements and attributes to a run, and returns its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from lxml import etree
from msgspec.structs import replace

from narval.agent.effects import drop_starts
from narval.agent.loop import Delivery
from narval.agent.request_keys import check_key
from narval.agent.run import Run
from narval.agent.runs import cannot_start
from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import PROGRAM, Asker
from narval.ask.daemon.requests import turn as next_turn
from narval.ask.documents import add_all, admitted, elements_in, raise_if_over_limit
from narval.ask.labels import signal_in
from narval.ask.lookup import active_run, active_run_of, fault_of_file, files_of, find_run, no_definition
from narval.ask.registry import operation
from narval.ask.runs.retrying import planner, refuse_second_retry
from narval.ask.text import article
from narval.core.definitions.library import Definition
from narval.core.elements.canonical import check_started
from narval.core.engines.commands import Answer
from narval.core.engines.engine import HasEnvironment
from narval.core.engines.events import Cancelled, OutputElement, Plain, Signalled
from narval.core.engines.registry import engine_of, listed_kinds, runnable, runnable_kinds
from narval.core.errors import RequestError, TokenError
from narval.daemon.daemon import Daemon

START_KEYS = "key/start"
"""The prefix of the facts that record the keys with which runs were started."""

SAVED = 1.0
"""The most seconds that a start waits for files that have just been saved to be read."""


@operation("write")
async def start(
    daemon: Daemon,
    name: str,
    elements: list[bytes] | None = None,
    wait: bool = False,
    timeout: float | None = None,
    each: bool = False,
    environment: dict[str, Any] | None = None,
    key: str = "",
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Start a run of `group.name` with the elements as its first context, or one run for each element.

    A process may be given attributes: its first `environment`. A `key` used before for this definition starts
    nothing and returns the run of then, in the state `forgotten` if it has ended and is forgotten. The last
    1,024 keys are remembered. If the file has faults, `fault` says that its last good version runs.
    """
    check_key(key)
    if key and each:
        raise RequestError("a key is for one run: leave it or each out")
    parsed = await admitted(files_of(daemon).schemas, elements or ())
    if each:
        check_started(len(parsed))
    await saved_files_read(daemon)
    if runnable(daemon.agent.library, name) is None and daemon.follows_files:
        await daemon.reloader.reload()
    contexts = [[element] for element in parsed] if each else [parsed]

    def work(turn: Turn) -> list[Run] | int:
        if not key:
            return start_in_turn(turn, daemon, name, contexts, environment, asker)
        keys, of_definition = turn.agent.request_keys, f"{name} {key}"
        if (before := keys.eid(START_KEYS, of_definition)) is not None:
            run = daemon.agent.runs.get(before)
            return [run] if run is not None else before
        started = start_in_turn(turn, daemon, name, contexts, environment, asker)
        keys.record(turn.transaction.batch.meta, START_KEYS, of_definition, started[0].eid)
        return started

    runs: list[Run] | int = await daemon.host.submit(work)
    if isinstance(runs, int):
        return json_forms.forgotten_run(runs, name)
    if each:
        return {"runs": [run.eid for run in runs]}
    if wait:
        await daemon.host.ended(runs[0], timeout)
    started = runnable(daemon.agent.library, name)
    fault = fault_of_file(daemon, started) if started is not None else ""
    return {**json_forms.run(daemon.agent, runs[0]), **({"fault": fault} if fault else {})}


async def saved_files_read(daemon: Daemon) -> None:
    """Wait, for at most a second, until files are read that have just been saved."""
    if daemon.watcher is not None:
        await daemon.watcher.read(within=SAVED)


def start_in_turn(
    turn: Turn,
    daemon: Daemon,
    name: str,
    contexts: list[list[bytes]],
    environment: dict[str, Any] | None,
    asker: Asker,
) -> list[Run]:
    """Start a run for each context, whose elements are added. Raises RequestError, ElementError."""
    definition = runnable(turn.agent.library, name)
    if definition is None:
        raise no_definition(daemon, name)
    if (refused := cannot_start(turn.agent, definition)) is not None:
        raise TokenError(*refused)
    attributes = _attributes(definition, environment) if environment else {}
    elements = [element for context in contexts for element in context]
    raise_if_over_limit(turn, elements, runs=len(contexts))
    origin = asker.origin()
    admitted = [tuple(add_all(turn, context, origin)) for context in contexts]
    started = [turn.start(name, each, environment=attributes, origin=origin) for each in admitted]
    return [run for run in started if run is not None]


def _attributes(definition: Definition, environment: dict[str, Any]) -> dict[str, str]:
    """A first environment in the form of its engine. Raises RequestError if the kind has none."""
    engine = engine_of(definition.kind)
    if not isinstance(engine, HasEnvironment):
        having = [kind for kind in runnable_kinds() if isinstance(engine_of(kind), HasEnvironment)]
        *others, last = [f"{article(kind)} {kind}" for kind in having]
        alternatives = f"{', '.join(others)} or {last}" if others else last
        is_a = f"{definition.full_name} is {article(definition.kind)} {definition.kind}"
        raise RequestError(f"{is_a}: only {alternatives} has an environment")
    if not isinstance(environment, dict):
        raise RequestError(f"expected an environment as values by name, got {environment!r:.80}")
    try:
        return engine.read_environment(environment)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from None


@operation("write")
async def cancel(
    daemon: Daemon,
    run: int | None = None,
    reason: str = "",
    name: str | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """End a run, and cancel its calls.

    It may be named by the `name` of its definition: refused if several of its runs are active. If none is,
    the runs that wait to start are dropped, and `starts` is their number.
    """
    if (run is None) == (name is None):
        raise RequestError("expected the number of a run or the name of its definition, and not both")
    if name is not None and name not in daemon.agent.runs.names:
        starts = await daemon.host.submit(lambda turn: drop_starts(turn.transaction, name))
        if starts:
            return {"name": name, "starts": starts}
    the_run = active_run(daemon, run) if run is not None else active_run_of(daemon, name or "")
    if daemon.agent.signals.standing.get(the_run.name) == the_run.eid:
        why = f"it lasts as long as {the_run.name} is loaded; to end it, remove that from its file"
        raise RequestError(f"run {the_run.eid} of {the_run.name} cannot be cancelled: {why}")
    daemon.host.post(Delivery(the_run.eid, Cancelled(0, 0.0, reason, **asker.recorded)))
    await next_turn(daemon)
    return json_forms.run(daemon.agent, the_run)


@operation("write")
async def cancel_all(
    daemon: Daemon, name: str | None = None, reason: str = "", dry: bool = False, *, asker: Asker = PROGRAM
) -> list[dict[str, Any]]:
    """End all active runs that were not called by another run, or all of the definition `name`, called or
    not; returns the runs. With `dry` nothing is ended.

    Work items and service runs are left out. `restarts` is true for a run that would have had a successor:
    a cancelled run has none.
    """
    agent, kinds = daemon.agent, set(listed_kinds())
    runs = [
        run
        for run in agent.runs.active.values()
        if run.kind in kinds and agent.signals.standing.get(run.name) != run.eid
        if (run.caller is None if name is None else run.name == name)
    ]
    if name is not None and not runs:
        active_run_of(daemon, name)  # its error lists the names
    restarting = {run.eid for run in runs if getattr(run.definition, "restart", "no") != "no"}
    if runs and not dry:
        for run in runs:
            daemon.host.post(Delivery(run.eid, Cancelled(0, 0.0, reason, **asker.recorded)))
        await next_turn(daemon)
    return [{**json_forms.run(agent, run), "restarts": run.eid in restarting} for run in runs]


@operation("write")
async def retry(
    daemon: Daemon,
    run: int,
    step: str | None = None,
    done: bool = False,
    gave: list[int] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Retry a run from a step, as a new run of the current definition that keeps the completed steps.

    Without a step, from the one that failed. With `done`, that step is taken as completed with the elements
    `gave`, and the run continues after it. Raises RequestError while an earlier retry of it, or a retry of
    such a retry, is active: work would be done twice.
    """
    the_run = find_run(daemon, run)
    planned, kind = planner(daemon, the_run, step, done, gave), the_run.engine.definition_kind

    def work(turn: Turn) -> Run:
        refuse_second_retry(turn.agent, the_run)
        _, resume = planned(turn.agent.library, turn.view.element)
        held = (eid for eid in turn.view.context(run) if eid in turn.agent.memory)
        context = tuple(dict.fromkeys((*held, *(gave or ()))))
        resume = replace(resume, context=context)
        begun = partial(turn.start, kind=kind, run_kind=the_run.kind, origin=asker.origin())
        started = begun(the_run.name, resume.elements, resume=resume)
        assert started is not None, the_run.name
        return started

    return json_forms.run(daemon.agent, await daemon.host.submit(work))


@operation("read")
async def wait(daemon: Daemon, run: int, timeout: float | None = None) -> dict[str, Any]:
    """Wait until a run has ended, at most `timeout` seconds; it may then still be `active`, which is not an
    error. Without a timeout it waits indefinitely.
    """
    the_run = find_run(daemon, run)
    await daemon.host.ended(the_run, timeout)
    return json_forms.run(daemon.agent, the_run)


OWN = frozenset({"name", "run", "eid"})
"""The attributes that the element of every signal has."""


@operation("write")
async def signal(
    daemon: Daemon,
    run: int,
    name: str,
    elements: list[bytes] | None = None,
    arguments: dict[str, str] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Send a named signal with elements and attributes to a run; returns its answer, once recorded."""
    the_run = active_run(daemon, run)
    if not (name.strip() and name.isprintable()):
        raise RequestError(f"expected the name of a signal, such as approve, got {name!r}")
    attributes = attributes_of(arguments or {})
    outputs = tuple(map(OutputElement, await elements_in(elements)))
    event = Signalled(0, 0.0, "", name, outputs, attributes, **asker.recorded)

    def work(turn: Turn) -> list[Answer]:
        raise_if_over_limit(turn, [element.xml for element in outputs])
        return signal_in(turn, the_run.eid, event)

    answers: list[Answer] = await daemon.host.submit(work)
    if not answers:
        raise RequestError(f"run {run} of {the_run.name} was not told: it is {the_run.status}")
    problem, value = answers[0].problem, answers[0].value
    if problem is not None:
        raise RequestError(f"run {run} of {the_run.name} did not take {name}: {problem.message}")
    return {"run": run, "signal": name, **(value or {})}


def attributes_of(arguments: Mapping[str, str]) -> dict[str, Plain]:
    """The arguments as attributes of the signal's element. Raises RequestError for a forbidden one."""
    root = etree.Element("signal")
    for key, value in arguments.items():
        if key in OWN:
            raise RequestError(f"a signal has an attribute {key} of its own; choose another name")
        try:
            if key.startswith(("{", "xml")):
                raise ValueError
            root.set(key, value)
        except ValueError:
            expectation = "the name and the text of an attribute, such as by=ann"
            raise RequestError(f"expected {expectation}, got {f'{key}={value}'!r:.80}") from None
    return dict(arguments)
