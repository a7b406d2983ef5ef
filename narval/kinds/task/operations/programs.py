"""Operations of programs that work as tasks (K48–K60): begin, take an object, move, raise, wait, end.

A program has a handle, `RUN.SECRET`, which each operation requires. Only a hash of the secret that
`task_init` gives is kept. A program that is the code of a task has the id of its call as the secret, while
that call lasts.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

from narval.agent.run import Run
from narval.agent.runs import cannot_take
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.daemon.requests import turn as next_turn
from narval.ask.documents import raise_if_over_limit
from narval.ask.lookup import command
from narval.ask.people import onlooker
from narval.ask.registry import operation
from narval.core.engines.events import Plain
from narval.core.errors import RequestError, TaskRefusedError, WorkRefusedError
from narval.core.memory.lineage import current
from narval.daemon.daemon import Daemon
from narval.kinds.task.engine.state import InstanceState
from narval.kinds.task.language.definition import TaskDefinition
from narval.kinds.task.operations.administration import begin_with_event
from narval.kinds.task.operations.signals import KIND, renew, server_of, told, type_of

LEASE = 3600.0
"""Seconds without a call after which a program counts as dead."""

MODES = ("", "sync", "async")


@operation("write")
async def task_init(
    daemon: Daemon, name: str, role: str = "", lease: float = LEASE, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Begin an instance of a task type for a program (K48); the returned `task` is the handle for all further
    operations.

    The asker must be among the users of the type, and hold one of its roles, if it names any (KA23). `role`
    is the role in which they work, by default the first that fits. After `lease` seconds without a call the
    program counts as dead.
    """
    definition = type_of(daemon, name)
    if (refused := cannot_take(daemon.agent, definition)) is not None:
        raise TaskRefusedError(*refused)
    if not lease > 0:
        raise RequestError(f"expected a lease of some seconds, got {lease:g}")
    user, role = _right(daemon, asker, definition, role)
    secret = secrets.token_hex(16)
    environment = {
        "user": user,
        "role": role,
        "program": "yes",
        "handle": _hash_of(secret),
        "lease": f"{lease:g}",
    }

    def work(turn: Turn) -> Run:
        raise_if_over_limit(turn, (), runs=1)
        origin = asker.origin()
        begun = turn.start(
            definition.full_name, kind=KIND, run_kind=KIND, environment=environment, origin=origin
        )
        assert begun is not None, definition.full_name
        return begun

    run: Run = await daemon.host.submit(work)
    while not daemon.record_only and run.active and run.status == "ready":
        await next_turn(daemon)
    return {"task": f"{run.eid}.{secret}", "run": run.eid, "type": run.name, "user": user, "role": role}


def _right(daemon: Daemon, asker: Asker, definition: TaskDefinition, role: str) -> tuple[str, str]:
    """The person who works, and their role. Raises TaskRefusedError."""
    people, name = daemon.agent.lookup.people, definition.full_name
    try:
        person = onlooker(daemon, asker) or ""
    except WorkRefusedError as error:
        raise TaskRefusedError(error.kind, str(error)) from None
    receivers = ", ".join([*definition.users, *definition.roles])
    if not person:
        if receivers or role:
            who = f"is for {receivers}" if receivers else f"is asked for in the role {role}"
            raise TaskRefusedError("not-eligible", f"{name} {who}; name a person of etc/people.toml (--as)")
        return "", ""
    if definition.users and person not in definition.users:
        raise TaskRefusedError("not-eligible", f"{name} is for {receivers}, not for {person}")
    if role and people.role_of(person, (role,)) is None:
        held = ", ".join(people.roles_of(person))
        others = f", but {held}" if held else ", nor any other"
        raise TaskRefusedError("no-role", f"{person} does not hold the role {role}{others}")
    if role and definition.roles and role not in definition.roles:
        raise TaskRefusedError(
            "no-role", f"{name} is done in the role {' or '.join(definition.roles)}, not {role}"
        )
    role_held = role or people.role_of(person, definition.roles) or ""
    if definition.roles and not role_held:
        held = ", ".join(people.roles_of(person)) or "none"
        receivers = " or ".join(definition.roles)
        raise TaskRefusedError(
            "not-eligible", f"{name} is done in the role {receivers}; {person} holds {held}"
        )
    return person, role_held


# --- by handle --------------------------------------------------------------------------------------------


def instance_of(daemon: Daemon, task: str) -> Run:
    """The instance that a handle names. Raises TaskRefusedError."""
    number, _, secret = task.partition(".")
    run = daemon.agent.runs.get(int(number)) if number.isdecimal() else None
    if run is None or run.engine.definition_kind != KIND or not secret:
        expectation = f"the handle that `{command(daemon, 'task init TYPE')}` prints (NARVAL_TASK)"
        raise TaskRefusedError(
            "no-task", f"expected {expectation}, got {number + '.…' if secret else task!r:.40}"
        )
    if not run.active:
        told_by = f"see `{command(daemon, f'why {run.eid}')}`"
        raise TaskRefusedError("over", f"task {run.eid} of {run.name} is over: it is {run.status}; {told_by}")
    state = run.state
    if run.status == "ready":
        raise RequestError("no daemon runs: the task has not begun; start one with `narval run`")
    ours = isinstance(state, InstanceState) and hmac.compare_digest(state.handle, _hash_of(secret))
    calls = (daemon.host.dispatcher.external_id(call) for call in run.calls)
    if not ours and not any(hmac.compare_digest(call.encode(), secret.encode()) for call in calls):
        raise TaskRefusedError("no-task", f"that is not the handle of task {run.eid} of {run.name}")
    return run


def _hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@operation("write")
async def task_get(daemon: Daemon, task: str, wait: float = 0.0, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Take the next object of the queue (K57), in the initial state; one that the task still has is given
    again.

    It waits at most `wait` seconds for one; `object` is None if none has come.
    """
    run = instance_of(daemon, task)
    state = run.state
    if isinstance(state, InstanceState) and state.stage == "busy" and state.object:
        renew(daemon, asker, run)
        return _with_object(daemon, run, {"object": state.object, "case": state.case, "state": state.state})
    answer = await told(daemon, asker, run, "get", {}, wait=wait, program=run) or {}
    return _with_object(daemon, run, answer)


def _with_object(daemon: Daemon, run: Run, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with the present version of the object that it names."""
    memory, eid = daemon.agent.memory, answer.get("object") or 0
    eid = current(memory, eid) or eid  # its program may have replaced it
    element = memory.element(eid)
    return {
        "task": run.eid,
        "object": eid or None,
        "xml": element.xml.decode() if element is not None else None,
        "case": answer.get("case") or None,
        "state": answer.get("state") or None,
    }


@operation("write")
async def task_assert(
    daemon: Daemon, task: str, state: str, wait: float | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Move the task along an edge to a state (K49); in a terminal one it has finished its object.

    It returns when the scripts of the states have ended, or after `wait` seconds.
    """
    run = instance_of(daemon, task)
    return _moved(run, await told(daemon, asker, run, "assert", {"state": state}, wait=wait, program=run))


def _moved(run: Run, answer: dict[str, Any] | None) -> dict[str, Any]:
    """The answer to a move; in a terminal state the object no longer belongs to the task."""
    moved = answer or {}
    has = isinstance(run.state, InstanceState) and run.state.stage == "busy"
    why = {"why": moved["why"]} if "why" in moved else {}
    return {
        "task": run.eid,
        "state": moved.get("state"),
        "object": moved.get("object") or None if has else None,
        **why,
    }


@operation("read")
async def task_state(daemon: Daemon, task: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """The state of the task (K50), the present version of its object, and the states that edges lead to."""
    run = instance_of(daemon, task)
    renew(daemon, asker, run)
    state = run.state
    row = {"object": state.object, "case": state.case, "state": state.state}
    here = run.definition.states.get(state.state)
    following = sorted({*here.edges.values()}) if here is not None else []
    who = {"type": run.name, "user": state.user or None, "role": state.role or None}
    return {**_with_object(daemon, run, row), **who, "next": following}


@operation("write")
async def task_down(daemon: Daemon, task: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """End the instance (K55): an object that it still has goes back to the queue."""
    run = instance_of(daemon, task)
    await told(daemon, asker, run, "down", {}, wait=None)
    return {"task": run.eid, "down": True}


@operation("write")
async def task_raise(
    daemon: Daemon,
    event: str,
    name: str = "",
    parameters: list[str] | None = None,
    mode: str = "",
    elements: list[bytes] | None = None,
    with_object: bool = False,
    users: list[str] | None = None,
    roles: list[str] | None = None,
    task: str = "",
    wait: float | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Raise an event: within the task of a handle (K51), or at the type `name`, or a global one (K41, K52).

    `mode` is sync, async, or "" for the rule's own word. The event may carry an object: a new one, for which
    a case begins, or that of the `task`, which then no longer has it (K59). Only instances of these `users`
    and `roles` receive it. A synchronous event returns with its `result` (done, expired, failed), or with
    None after `wait` seconds.
    """
    run = instance_of(daemon, task) if task else None
    if mode not in MODES:
        raise RequestError(f"expected mode to be sync or async, got {mode!r:.40}")
    said: dict[str, Plain] = {
        "parameters": list(parameters or ()),
        "mode": mode,
        "users": list(users or ()),
        "roles": list(roles or ()),
    }
    if not name:
        target = daemon.agent.library.get(KIND, event)
        if isinstance(target, TaskDefinition) and target.rule is not None:
            name, event = event, target.rule.event
        elif run is not None:
            if with_object or elements or any(said.values()):
                raise RequestError(f"{event} is raised within task {run.eid}, with nothing else; name a TYPE")
            moved = await told(daemon, asker, run, "raise-edge", {"event": event}, wait=wait)
            return {"event": event, **_moved(run, moved)}
        else:
            how = "name the TYPE that is to hear it, or the task whose event it is (NARVAL_TASK)"
            names = [
                task_type.full_name
                for task_type in daemon.agent.library.of(KIND).values()
                if task_type.name == event
            ]
            hint = f"; did you mean {names[0]!r}?" if names else f": {how}"
            raise TaskRefusedError("no-type", f"{event} is no global event{hint}")
    definition = type_of(daemon, name)
    if with_object and (run is None or elements):
        whose = "the object of a task needs that (NARVAL_TASK)" if run is None else "one object, not two"
        raise RequestError(f"an event carries an object: expected {whose}")
    answer: dict[str, Any] = {"type": definition.full_name, "event": None, "result": None}
    if elements:
        case = await begin_with_event(daemon, asker, definition, event, said, elements)
        return {**answer, "case": case}
    if run is not None:
        carried = {"type": definition.full_name, "event": event, "carries": with_object, **said}
        outcome = await told(daemon, asker, run, "raise", carried, wait=wait, program=run)
    else:
        raised = {"event": event, "raiser": 0, "object": 0, "case": 0, **said}
        outcome = await told(daemon, asker, server_of(daemon, definition), "raise", raised, wait=wait)
    return {**answer, **(outcome or {})}


@operation("write")
async def task_wait(
    daemon: Daemon,
    task: str,
    event: str,
    end: bool = False,
    timeout: float | None = None,
    wait: float | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Wait until an event is raised for the task (K53), or with `end` until its action was done (K54).

    An earlier event counts if no wait has taken it yet (KA12). `timed_out` is True if none came within
    `timeout` seconds; a `timeout` of None is no limit. In any case it returns after `wait` seconds, with
    `event` None.
    """
    if timeout is not None and timeout < 0:
        raise RequestError(f"expected a timeout of 0 seconds or more, got {timeout:g}")
    run = instance_of(daemon, task)
    renew(daemon, asker, run)
    until = daemon.rounds.clock.now() + timeout if timeout is not None else None
    arguments: dict[str, Plain] = {"instance": run.eid, "event": event, "end": end, "until": until}
    server = server_of(daemon, type_of(daemon, run.name))
    heard = await told(daemon, asker, server, "wait", arguments, wait=wait, program=run) or {}
    return {
        "task": run.eid,
        "event": heard.get("event"),
        "parameters": heard.get("parameters") or [],
        "result": heard.get("result"),
        "timed_out": bool(heard.get("timeout")),
    }
