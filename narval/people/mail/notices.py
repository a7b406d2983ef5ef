"""Notices to people, written and sent (P60, P62, P68)."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.calls.context import Target, now
from narval.calls.context import call as call_of
from narval.calls.targets import PreparedCall
from narval.core.definitions.wall import in_zone
from narval.core.engines.commands import Call
from narval.core.engines.engine import Lookup
from narval.core.errors import ActionError
from narval.people.item_text import is_untold, look_at, text_shown
from narval.people.mail.account import MailAccount
from narval.people.mail.tokens import KEY, token_of
from narval.people.mail.writing import send_text

if TYPE_CHECKING:
    from narval.kinds.work.language.definition import WorkDefinition

MOST_AN_HOUR = 20
"""The most notices sent to a person in an hour; the rest are sent as a list."""

HOUR = 3600.0

SENT = "mails_sent:"
"""The prefix of the facts of the store that record, per person, when the mails of the last hour were sent."""

_SUBJECTS = {
    "offered": "",
    "claimed": "You have this: ",
    "handed": "Handed to you: ",
    "reminder": "Reminder: ",
    "escalated": "Escalated: ",
    "refused": "Not taken: ",
    "token-spent": "Not taken: ",
    "not-understood": "Not understood: ",
}
"""The beginnings of subjects, by the reason for a notice; for an item that has ended, its state."""


class _PutOffError(Exception):
    """A notice must wait for the next list, until a moment."""

    def __init__(self, until: float) -> None:
        super().__init__(f"{MOST_AN_HOUR} mails went there within an hour")
        self.until = until


class _Pace:
    """The notices to one person: when they were sent, which wait for a list, which were listed."""

    def __init__(self, sent: str) -> None:
        self.sent = deque(map(float, sent.split()))
        self.waiting: dict[str, tuple[int, str]] = {}
        self.listed: dict[str, asyncio.Task[str]] = {}

    def is_full(self, now: float) -> bool:
        """True if the limit of an hour is reached."""
        while self.sent and self.sent[0] <= now - HOUR:
            self.sent.popleft()
        return len(self.sent) >= MOST_AN_HOUR


class Notices:
    """The notices of one agent, whose `id` is in its tokens; `post` leaves requests for its next turn."""

    def __init__(
        self, agent: AgentState, id: str, home: Path | None, post: Callable[[Request], None]
    ) -> None:
        self._agent, self._id, self._home, self._post = agent, id, home, post
        self._paces: dict[str, _Pace] = {}
        self._making = asyncio.Lock()

    def prepare(self, run: Run, call: Call, timeout: float | None) -> PreparedCall:
        """Prepare the call that writes to a person. Raises ActionError without a server or an address."""
        account, person = self._agent.home.now.mail, self._agent.lookup.people.person(call.step)
        if account is None:
            remedy = "add [mail] to etc/narval.toml"
            raise ActionError(f"there is no server to send mail by; {remedy}", "no-server", final=True)
        if person is None or not person.mail:
            raise ActionError(f"{call.step} has no address in etc/people.toml", "no-address", final=True)
        result: dict[str, Any] = {}
        work = partial(self._carry, run, call, MailAccount(account, self._home), person.mail[0], result)
        target = Target(action=f"notice to {call.step}", where="async", function=work)
        return PreparedCall(target, {}, timeout, partial(replace, value=result))

    async def _carry(
        self, run: Run, call: Call, account: MailAccount, to: str, result: dict[str, Any]
    ) -> None:
        """Send a notice, or add it to the list of this hour, or let it wait for the list."""
        pace, at = self._pace(call.step), now().timestamp()
        payload: dict[str, Any] = call.payload or {}
        try:
            if call.call in pace.waiting and not pace.is_full(at):
                active = self._agent.runs.active
                lines = [
                    f"{eid}  {self._title(active[eid], title)}"
                    for eid, title in pace.waiting.values()
                    if eid in active
                ]
                pace.sent.append(at)
                sending = asyncio.get_running_loop().create_task(
                    self._send_list(account, call.step, to, lines)
                )
                pace.listed.update(dict.fromkeys(pace.waiting, sending))
                pace.waiting.clear()
            if call.call in pace.listed:
                result["message"] = await pace.listed.pop(call.call)
                return
            if pace.is_full(at):
                pace.waiting[call.call] = (run.eid, payload["title"])
                raise _PutOffError(pace.sent[0] + HOUR)
            pace.sent.append(at)
            await self._record_pace(call.step)
            result["message"] = await self._send(run, call, account, to, payload)
        except _PutOffError as later:
            result["until"] = later.until
            raise ActionError(str(later), "put-off") from None

    async def _send(
        self, run: Run, call: Call, account: MailAccount, to: str, payload: dict[str, Any]
    ) -> str:
        why, until, title = payload["why"], payload["until"], self._title(run, payload["title"])
        subject = f"{_SUBJECTS.get(why, f'Over ({why}): ')}{title}"
        if is_untold(self._agent, run.eid):
            return await send_text(account, to, subject, look_at(run.eid), about=f"work.{run.eid}.")
        if until is None:
            text = f"{run.name} {run.eid}: {title}\n\n{payload['text']}"
            return await send_text(account, to, subject, text, about=f"work.{run.eid}.")
        key = await self._key()
        token = token_of(key, self._id, run.eid, call.step, call_of().id, payload["shown"], until)
        first = f"{payload['text']}\n\n" if payload["text"] else ""
        person = self._agent.lookup.people.person(call.step)
        zone = (person.zone if person is not None else "") or self._agent.clockwork.zone
        how = _how(run, token, until, zone, self._agent.memory.element)
        text = f"{first}{text_shown(self._agent.store, run.eid)}\n{how}"
        return await send_text(account, to, f"{subject} [{token}]", text, about=f"work.{run.eid}.")

    def _title(self, run: Run, title: str) -> str:
        """The title of an item; only its number and the name of the work if the rules keep it out of mail."""
        return f"{run.name} {run.eid}" if is_untold(self._agent, run.eid) else title

    async def _send_list(self, account: MailAccount, person: str, to: str, lines: list[str]) -> str:
        await self._record_pace(person)
        text = "More was asked of you than is sent one by one. `narval work` has all of it:\n\n"
        subject = f"{len(lines)} items wait for you"
        return await send_text(account, to, subject, text + "\n".join(lines), about="work.0.")

    async def _key(self) -> bytes:
        """The key of the agent's tokens, made on first use and kept in the store."""
        async with self._making:
            key = self._agent.facts.get(KEY)
            if key is None:
                key = secrets.token_hex(32)
                await self._record(KEY, key)
        return bytes.fromhex(key)

    def _pace(self, person: str) -> _Pace:
        if person not in self._paces:
            self._paces[person] = _Pace(self._agent.facts.get(f"{SENT}{person}", ""))
        return self._paces[person]

    async def _record_pace(self, person: str) -> None:
        """Record when mails were sent to a person, before the next is sent: the limit survives a restart."""
        await self._record(f"{SENT}{person}", " ".join(map(str, self._pace(person).sent)))

    async def _record(self, name: str, fact: str) -> None:
        """Record a fact of the store in the next turn, and wait for its commit."""
        done = asyncio.get_running_loop().create_future()
        self._post(Request(partial(_keep, name, fact), partial(_settle, done)))
        await done


def _keep(name: str, fact: str, turn: Turn) -> None:
    turn.transaction.batch.meta.append((name, fact))


def _settle(done: asyncio.Future[None], _: Any, error: BaseException | None) -> None:
    if not done.done():
        done.set_result(None) if error is None else done.set_exception(error)


# --- the text -------------------------------------------------------------------------------------------


def _how(run: Run, token: str, until: float, zone: str, element: Lookup) -> str:
    """The lines that say how to answer a notice; `zone` is that of its person."""
    from narval.kinds.work.engine.eligibility import task_ways  # a home without work does not load it

    work: WorkDefinition = run.definition
    ways = task_ways(run.state, element)
    moves = ", ".join(f"move {state}" for state in ways.moves) if ways is not None else ""
    outcomes = [outcome.name for outcome in work.outcomes]
    fields = [f"{name}: …" for name in work.fields]
    lines = [
        "To answer, reply to this mail. Write an outcome alone on the first line, above what is quoted"
        + (", and the fields on the lines after it:" if fields else ":"),
        "",
        outcomes[0],
        *fields,
        "",
        f"Outcomes: {', '.join(outcomes)}. Or write one of claim, release, refuse.",
        *([f"To move the task to another state, write instead: {moves}."] if moves else ()),
        f"This mail is for you alone; it can be answered until {in_zone(until, zone)}.",
        f"Token: {token}",
    ]
    return "\n".join(lines)
