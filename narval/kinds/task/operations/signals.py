"""Signals to the runs of tasks, and their answers, which may come in a later turn (K52, K53, K57)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from msgspec.structs import replace

from narval.agent.loop import Delivery, Request
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.ask.asker import Asker
from narval.ask.labels import signal_in
from narval.ask.lookup import command, load_fault
from narval.core.definitions.suggestions import closest
from narval.core.engines.commands import Answer
from narval.core.engines.events import LABELS, Failure, PersonsAct, Plain, Signalled
from narval.core.errors import RequestError, TaskRefusedError
from narval.daemon.daemon import Daemon
from narval.daemon.waiters import settle
from narval.kinds.task.engine.state import InstanceState
from narval.kinds.task.language.definition import TaskDefinition

KIND = TaskDefinition.kind


def type_of(daemon: Daemon, name: str) -> TaskDefinition:
    """The task type, or the global event, with a full name. Raises TaskRefusedError."""
    task_type = daemon.agent.library.get(KIND, name)
    if isinstance(task_type, TaskDefinition):
        return task_type
    hint = closest(name, [definition.full_name for definition in daemon.agent.library.of(KIND).values()])
    where = hint or f"; `{command(daemon, 'definitions')}` lists what is loaded"
    raise TaskRefusedError(
        "no-type", load_fault(daemon, name) or f"there is no task type {name!r:.80}{where}"
    )


def server_of(daemon: Daemon, definition: TaskDefinition) -> Run:
    """The service run of a task type, which has its queue and its events. Raises RequestError."""
    name = definition.full_name
    server = daemon.agent.runs.get(daemon.agent.signals.standing.get(name, 0))
    if server is None:
        raise RequestError(f"{name} is not at work yet: start the daemon with `narval run`")
    return server


async def told(
    daemon: Daemon,
    asker: Asker,
    run: Run,
    name: str,
    arguments: dict[str, Plain],
    *,
    wait: float | None = 0.0,
    program: Run | None = None,
) -> dict[str, Any] | None:
    """Send a signal to a run, and return the answer that comes in this turn or within `wait` seconds (None:
    no limit); None if there is no answer by then, and the signal is given up.

    The lease of the waiting `program` does not expire meanwhile. Raises TaskRefusedError, and RequestError if
    no daemon runs.
    """
    if not run.active:
        raise TaskRefusedError("over", _over(run).message)
    act = PersonsAct(asker.way, asker.session)
    if asker.labels:
        arguments = {**arguments, LABELS: " ".join(asker.labels)}
    signalled = Signalled(0, 0.0, "", name, (), arguments, asker.person, asker.through, act)
    waiters, coming, signal = daemon.host.waiters, list[asyncio.Future[Answer]](), ""

    def tell(turn: Turn) -> None:
        nonlocal signal
        signal = str(turn.agent.numbers.last + 1)
        coming.append(waiters.answer_to(signal))
        if not run.active:  # it has ended since it was looked up
            settle(coming[0], Answer(signal, problem=_over(run)))
            return
        for answer in signal_in(turn, run.eid, signalled):
            settle(coming[0], answer)

    def give_up(turn: Turn) -> None:
        if not coming[0].done():
            turn.tell(run.eid, replace(signalled, name="gone", arguments={"signal": signal}))

    try:
        await daemon.host.submit(tell)
        if not coming[0].done() and wait != 0.0:
            await _come(daemon, coming[0], wait, program, signalled)
        if not coming[0].done() and not daemon.record_only:
            await daemon.host.submit(give_up)
    except asyncio.CancelledError:
        daemon.host.post(Request(give_up))
        raise
    finally:
        answered = bool(coming) and coming[0].done()
        if not answered and coming:
            coming[0].cancel()
    if not answered:
        if daemon.record_only:
            raise RequestError("no daemon runs to take this; start one with `narval run`")
        return None
    answer = coming[0].result()
    if answer.problem is not None:
        raise TaskRefusedError(answer.problem.kind, answer.problem.message)
    return dict(answer.value or {})


def _over(run: Run) -> Failure:
    return Failure("over", f"run {run.eid} of {run.name} is over: it is {run.status}")


async def _come(
    daemon: Daemon, coming: asyncio.Future[Answer], wait: float | None, program: Run | None, by: Signalled
) -> None:
    """Wait for an answer; the lease of the waiting program is renewed before it expires."""
    state = program.state if program is not None else None
    lease = state.lease if isinstance(state, InstanceState) else 0.0
    until = time.monotonic() + wait if wait is not None else None
    while not coming.done():
        left = until - time.monotonic() if until is not None else None
        if left is not None and left <= 0:
            return
        await daemon.main_loop.wait_for(coming, min(filter(None, (left, lease / 2)), default=None))
        if coming.done() or program is None or not lease or daemon.main_loop.is_stopped():
            return
        _renew(daemon, program, by)


FRESH = 0.98
"""The part of a lease that is left if it was just renewed."""


def renew(daemon: Daemon, asker: Asker, program: Run) -> None:
    """Renew the lease of a program whose call tells its instance nothing (K58), unless that was just done: a
    program may ask very often, and each renewal is recorded.
    """
    state = program.state
    if not isinstance(state, InstanceState) or not state.lease or daemon.record_only:
        return
    if (state.lease_until or 0.0) - daemon.rounds.clock.now() < FRESH * state.lease:
        act = PersonsAct(asker.way, asker.session)
        _renew(daemon, program, Signalled(0, 0.0, "", "", (), {}, asker.person, asker.through, act))


def _renew(daemon: Daemon, program: Run, by: Signalled) -> None:
    daemon.host.post(Delivery(program.eid, replace(by, name="renew", arguments={})))
