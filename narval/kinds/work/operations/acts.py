"""Operations by which people act on items: the engine has the rules, these say who asks (P5, P20)."""

from __future__ import annotations

from typing import Any

from narval.agent.forgetting import forget_at_once
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.asking_person import onlooker, person_of
from narval.ask.registry import operation
from narval.core.engines.commands import Answer
from narval.core.engines.events import PersonsAct, Plain, Signalled
from narval.core.errors import RequestError, WorkRefusedError
from narval.daemon.daemon import Daemon
from narval.kinds.work.engine.ending import over
from narval.kinds.work.engine.listing import people_in
from narval.kinds.work.operations.items import WorkLook
from narval.people.telling import say

TERMINAL = "terminal"
"""The way of who asks at the control socket, or in this program (P45)."""


async def _act(daemon: Daemon, asker: Asker, item: int, act: str, **arguments: Plain) -> dict[str, Any]:
    """Tell an item what a person does; what became of it. Raises WorkRefusedError."""
    person = person_of(daemon, asker)
    run, _, state = WorkLook(daemon, person).item(item)
    told = Signalled(
        0,
        0.0,
        "",
        act,
        (),
        {name: value for name, value in arguments.items() if value not in (None, "")},
        person,
        asker.actor,
        PersonsAct(TERMINAL if asker.way in ("", "socket", "python") else asker.way, asker.session),
    )
    if run.active:
        answers: list[Answer] = []
        await daemon.host.submit(lambda turn: answers.extend(say(turn, run.eid, told)))
        if not answers:
            raise RequestError("no daemon runs: nobody takes this; start one with `narval run`")
        problem, value = answers[0].problem, answers[0].value
        if problem is None:
            return {"item": item, "work": run.name, "by": person, **(value or {})}
        raise WorkRefusedError(problem.kind, problem.message, problem.detail)
    raise WorkRefusedError("over", over(state))


@operation("people")
async def claim(
    daemon: Daemon, item: int, shown: str | None = None, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Take an item, so that nobody else does (P21). With `shown`, only if that is its text."""
    return await _act(daemon, asker, item, "claim", shown=shown)


@operation("people")
async def release(daemon: Daemon, item: int, reason: str = "", *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Give an item back (P23); the draft stays. An administrator may give back what another has."""
    return await _act(daemon, asker, item, "release", reason=reason)


@operation("people")
async def save(
    daemon: Daemon,
    item: int,
    fields: dict[str, str | list[str]] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Keep a draft of the fields, and take the item."""
    return await _act(daemon, asker, item, "save", fields=_plain(fields))


@operation("people")
async def delegate(
    daemon: Daemon, item: int, to: str, word: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Hand an item to another person, with a word (P25)."""
    return await _act(daemon, asker, item, "delegate", to=to, word=word)


@operation("people")
async def answer(
    daemon: Daemon,
    item: int,
    outcome: str = "",
    fields: dict[str, str | list[str]] | None = None,
    shown: str | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Answer an item with an outcome and the values of its fields; with `shown`, only if that is its text."""
    return await _act(daemon, asker, item, "answer", outcome=outcome, fields=_plain(fields), shown=shown)


@operation("people")
async def take_back(daemon: Daemon, item: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Take back what one has answered, where several answer and the item goes on (P26)."""
    return await _act(daemon, asker, item, "take-back")


@operation("people")
async def refuse(daemon: Daemon, item: int, reason: str = "", *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Take oneself out for good, with a reason (P23)."""
    return await _act(daemon, asker, item, "refuse", reason=reason)


@operation("people")
async def reassign(
    daemon: Daemon, item: int, to: list[str], reason: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Offer an item to others, as an administrator (P20)."""
    return await _act(daemon, asker, item, "reassign", to=list(to), reason=reason)


def check_may_renew(daemon: Daemon, asker: Asker, item: int) -> None:
    """Raise RequestError unless it is open and its asker may have it offered anew (P79)."""
    _check_may_administer(daemon, asker)
    run, _, state = WorkLook(daemon, None).item(item)
    if not run.active or state.status == "ready":
        raise WorkRefusedError("over", f"it is {run.status}; only what is open can be offered anew")


def _check_may_administer(daemon: Daemon, asker: Asker) -> None:
    """Raise RequestError unless it is the home's owner, root, or an administrator."""
    own = onlooker(daemon, asker)
    if own is not None and not daemon.agent.lookup.people.is_admin(own):
        raise RequestError("this is for administrators, the home's owner and root")


@operation("write")
async def forget_person(daemon: Daemon, person: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Erase what is kept of a person: items that are over in which they did something, and their journals.

    For the home's owner, root, and administrators. What others did in those items is erased as well; elements
    of memory stay, as answers are elements like any other. Items stay while their top-level run goes on:
    who answered there counts yet (P29).
    """
    _check_may_administer(daemon, asker)
    concerned = [
        run.eid
        for run, _, state in WorkLook(daemon, None).items_over()
        if person in people_in(state) and not daemon.agent.runs.families.needs(run)
    ]

    def erase(turn: Turn) -> None:
        for eid in concerned:
            if eid in turn.agent.runs:
                forget_at_once(turn.transaction, eid)

    await daemon.host.submit(erase)
    return {"person": person, "forgotten": concerned}


def _plain(fields: dict[str, str | list[str]] | None) -> Plain:
    return {**fields} if fields else None
