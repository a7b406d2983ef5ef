"""Operations by which people act on items: the engine has the rules, these identify the person (P5, P20).

Those who administer also forget a person, and make the folder in which a person answers.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

from narval.agent.forgetting import forget_at_once
from narval.agent.replay import state_of
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, PYTHON, Asker
from narval.ask.labels import signal_in
from narval.ask.paging import gathered
from narval.ask.people import person_of, who_acts, why_not_administering
from narval.ask.registry import Operation, operation
from narval.core.definitions.people.directory import GRANTING
from narval.core.definitions.suggestions import closest
from narval.core.engines.commands import Answer
from narval.core.engines.events import PersonsAct, Plain, Signalled
from narval.core.errors import NotFoundError, RequestError, WorkRefusedError
from narval.daemon.daemon import Daemon
from narval.kinds.work.engine.ending import over
from narval.kinds.work.engine.listing import people_in
from narval.kinds.work.engine.table import ACTS_ON_ITEMS
from narval.kinds.work.operations.items import WorkView
from narval.kinds.work.operations.log import acts_of
from narval.people.files import DONE, WORK_FOLDER

TERMINAL = "terminal"
"""The way of askers at the control socket, or in this program."""


async def _act(daemon: Daemon, asker: Asker, item: int, act: str, **arguments: Plain) -> dict[str, Any]:
    """Send a person's act to an item, and return the result. Raises WorkRefusedError."""
    person = person_of(daemon, asker)
    run, _, _ = WorkView(daemon, person, "owner").item(item, arguments.get("shown"))
    way = TERMINAL if asker.way in ("", "socket", PYTHON) else asker.way
    event = Signalled(
        0,
        0.0,
        "",
        act,
        (),
        {name: [*value] if isinstance(value, tuple) else value for name, value in arguments.items() if value},
        person,
        asker.through,
        PersonsAct(way, asker.once or asker.session, who=who_acts(daemon, asker)),
    )
    if run.active:
        answers: list[Answer] = await daemon.host.submit(partial(signal_in, run=run.eid, event=event))
        if answers:
            problem, value = answers[0].problem, answers[0].value
            if problem is None:
                if run.name == GRANTING:
                    await daemon.grant_answers.written(daemon.host, item)
                return {"item": item, "work": run.name, "by": person, **(value or {})}
            raise WorkRefusedError(problem.kind, problem.message, problem.detail)
        if run.active:
            raise RequestError("no daemon runs to take this; start one with `narval run`")
    raise WorkRefusedError(
        "over", over(state_of(daemon.agent, run), daemon.agent.clockwork.zone)
    )  # perhaps it ended in the turn before


def _operation(name: str) -> Operation[..., Coroutine[Any, Any, dict[str, Any]]]:
    """The operation of an act, with a parameter for each of its fields."""
    act = ACTS_ON_ITEMS[name]
    fields = [
        Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=Parameter.empty if field.is_required else field.default,
            annotation=field.type,
        )
        for field in act.fields
    ]

    async def asked(
        daemon: Daemon, item: int, *values: Any, asker: Asker = PROGRAM, **named: Any
    ) -> dict[str, Any]:
        arguments = Signature(fields).bind(*values, **named).arguments
        return await _act(daemon, asker, item, name, **arguments)

    own = signature(asked)
    first, second, _, last, _ = own.parameters.values()
    vars(asked)["__signature__"] = own.replace(parameters=[first, second, *fields, last])
    asked.__annotations__ |= {field.name: field.type for field in act.fields}
    asked.__name__ = name.replace("-", "_")
    asked.__doc__ = " ".join([act.does, *(field.note for field in act.fields if field.note)])
    return operation("people")(asked)


claim = _operation("claim")
release = _operation("release")
save = _operation("save")
move = _operation("move")
delegate = _operation("delegate")
answer = _operation("answer")
take_back = _operation("take-back")
refuse = _operation("refuse")
reassign = _operation("reassign")


def check_may_renew(daemon: Daemon, asker: Asker, item: int) -> None:
    """Raise RequestError unless the item is open and the asker may have it offered again (P79)."""
    if why := why_not_administering(daemon, asker):
        raise RequestError(why)
    run, _, state = WorkView(daemon, None).item(item)
    if not run.active or state.status == "ready":
        raise WorkRefusedError("over", f"it is {run.status}; only what is open can be offered again")


@operation("write")
async def forget_person(daemon: Daemon, person: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Erase what is kept of a person: the ended items in which they did something, with their journals.

    For the home's owner, root, and administrators. What others did in those items is erased as well. Elements
    of memory stay, including answers, which are elements like any other. Items stay while their top-level run
    is under way, which may still ask who answered.
    """
    if why := why_not_administering(daemon, asker):
        raise RequestError(why)
    items = [(run, person in people_in(state)) for run, _, state in WorkView(daemon, None).items_over()]
    own = (
        run if is_in_it or _is_of(row, person) else None
        for run, is_in_it in items
        for row in acts_of(daemon, run)
    )
    families = daemon.agent.runs.families
    concerned = sorted({run.eid for run in await gathered(own, None) if not families.needs(run)})

    def erase(turn: Turn) -> None:
        for eid in concerned:
            if eid in turn.agent.runs:
                forget_at_once(turn.transaction, eid)

    await daemon.host.submit(erase)
    return {"person": person, "forgotten": concerned}


def _is_of(row: dict[str, Any], person: str) -> bool:
    """True for an act of a person, or on what they had; a refused one does not count."""
    return row["did"] != "TurnedAway" and person in (row["by"], row.get("for"), row.get("of"))


@operation("write")
async def work_folder(daemon: Daemon, person: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Make the folder in which a person is offered items as files, and `done` in it."""
    people = daemon.agent.lookup.people
    recipient = people.person(person)
    if recipient is None:
        suggestion = closest(person, [other.name for other in people.people])
        raise NotFoundError(f"there is no person {person!r} in etc/people.toml{suggestion}")
    if daemon.home is None:
        raise RequestError("a home in memory has no folders; open one on a disk")
    folder = daemon.home.path / WORK_FOLDER / person
    try:
        await asyncio.to_thread(_make, folder, recipient.login)
    except OSError as error:
        raise RequestError(f"{folder} cannot be made: {error.strerror}") from None
    return {"person": person, "path": str(folder)}


def _make(folder: Path, owner: str) -> None:
    folder.parent.mkdir(exist_ok=True)
    for path in (folder, folder / DONE):
        path.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0 and owner:  # root makes it for others, who otherwise could not use it
            with suppress(KeyError):
                os.chown(path, pwd.getpwnam(owner).pw_uid, -1)
