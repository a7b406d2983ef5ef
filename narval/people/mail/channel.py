"""The channel of mail: sends notices to people, and receives their answers; the engine has the rules.

An answer is recognised, and given to its item, in the turn that brings the mail. A mail without a valid token
gets no answer and leaves no trace (P64). A mail that is not an answer, or comes from another person, is
recorded with the item as turned away (P66). A person whose mail is not an answer is told once how to answer.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.calls.context import Target, now
from narval.calls.context import call as call_of
from narval.calls.targets import PreparedCall
from narval.core.definitions.wall import in_zone
from narval.core.elements.canonical import canonical
from narval.core.elements.element import local_name, parse
from narval.core.engines.commands import Call
from narval.core.engines.engine import Lookup
from narval.core.engines.events import PersonsAct, Produced, Returned, Signalled
from narval.core.errors import ActionError, StoreError
from narval.people.item_text import is_untold, look_at, text_shown
from narval.people.mail.account import MailAccount
from narval.people.mail.answers import (
    ACTS,
    KEY,
    NOTICE_ID,
    TOKEN,
    blanked,
    hash_of,
    is_authentic,
    last_token,
    notice_of,
    or_acts,
    read_answer,
    token_of,
)
from narval.people.mail.writing import send_text

if TYPE_CHECKING:
    from narval.kinds.work.language.definition import WorkDefinition

log = logging.getLogger("narval.people")

WORK = "work"


class MailChannel:
    """The mail for the people of one agent, whose `id` is in its tokens; `out` prepares the notices."""

    def __init__(
        self, agent: AgentState, id: str, home: Path | None, post: Callable[[Request], None]
    ) -> None:
        self._id = id
        self.out = Notices(agent, id, home, post)

    def hear(self, turn: Turn, event: Returned | Produced) -> Returned | Produced:
        """Deliver the answers among the mails that a call returned; return the event without their tokens.

        A mail that replies to a notice is marked with `work`, so that no recipe takes it for an ordinary
        mail.
        """
        if not any(TOKEN.search(element.xml) or NOTICE_ID.search(element.xml) for element in event.elements):
            return event
        elements = []
        for element in event.elements:
            answer = None
            try:
                answer = _answer_in(turn, self._id, element.xml)
            except StoreError:
                raise
            except Exception:
                log.exception("a mail could not be read as an answer")
            if answer is not None and not turn.tell(*answer):
                _tell_ended(turn, *answer)
            elements.append(replace(element, xml=blanked(_marked(element.xml))))
        return replace(event, elements=tuple(elements))


def _answer_in(turn: Turn, agent: str, xml: bytes) -> tuple[int, Signalled] | None:
    """The item that the token of a mail names, and the event for it; None for any other element."""
    if TOKEN.search(xml) is None or not xml.startswith(b"<email"):
        return None
    mail = parse(xml)
    forms = _token_forms(mail)
    if local_name(mail.tag) != "email" or not forms:
        return None
    if NOTICE_ID.search(mail.get("message-id", "").encode()):
        return None  # a notice of ours that was returned to us
    if ("email", "@key", mail.get("key", "")) in turn.agent.memory.unique_values:
        return None  # this mail was read before
    key = bytes.fromhex(turn.agent.facts.get(KEY, ""))
    for token in forms:
        item = turn.agent.runs.get(int(token.partition("-")[0]))
        if not key or item is None or item.engine.kind != WORK:
            continue
        call = notice_of(key, agent, state := state_of(turn.agent, item), token)
        if call is not None:
            return item.eid, _read(turn, item, mail, hash_of(token), call, state.notices[call].to)
    log.info("a mail from %s has no valid token", mail.get("from", "nobody"))
    return None


def _tell_ended(turn: Turn, eid: int, event: Signalled) -> None:
    """Deliver an answer to an item that has ended, which records who tried and writes to that person."""
    item = turn.agent.runs[eid]
    if item.active or item.unreadable:
        return
    item.load(definition_of(turn.agent, item), state_of(turn.agent, item))
    event = replace(event, id=turn.agent.numbers.last + 1, at=turn.at)
    decision = turn.view.decision(item, event)
    try:
        item.engine.advance(decision, event)
    except StoreError:
        raise
    except Exception:  # else each start of the daemon would break down over this mail
        log.exception("an answer to item %d, which has ended, could not be refused", eid)
        item.load(None)
        return
    finally:
        turn.view.leave()
    turn.record(item, event, decision.changes, decision.commands)


def _marked(xml: bytes) -> bytes:
    """Mark a mail that has a token, or answers a notice, with the number of the item as its `work`."""
    if not xml.startswith(b"<email"):
        return xml
    mail = parse(xml)
    answered = f"{mail.get('in-reply-to', '')} {mail.get('references', '')}"
    items = [token.partition("-")[0] for token in _token_forms(mail)]
    items += [match[1].decode() for match in NOTICE_ID.finditer(answered.encode())]
    if local_name(mail.tag) != "email" or mail.get("kind") or not items:
        return xml
    mail.set("work", items[-1])
    return canonical(mail)


def _token_forms(mail: etree._Element) -> list[str]:
    """The forms of the token in a mail: the last one, as a text may have others before ours."""
    return last_token(mail.get("subject") or "") or last_token(mail.findtext("body") or "")


def _read(turn: Turn, item: Run, mail: etree._Element, token: str, call: str, person: str) -> Signalled:
    people, work = turn.agent.lookup.people, definition_of(turn.agent, item)
    name, arguments = "turned-away", dict[str, Any]()
    sender = people.by_address(mail.get("from", ""))
    if (why := _no_answer(mail)) is not None:
        arguments = {"kind": "no-answer", "message": why}
    elif sender is None or sender.name != person:
        message = f"expected a mail of {person}, got one from {mail.get('from', 'no sender')}"
        arguments = {"kind": "not-authentic", "message": message}
    elif people.mail_trust and not _is_vouched_for(mail, people.mail_trust):
        message = f"{people.mail_trust} does not vouch for {mail.get('from')}"
        arguments = {"kind": "not-authentic", "message": message}
    else:
        outcomes = [outcome.name for outcome in work.outcomes]
        try:
            name, arguments = read_answer(mail.findtext("body") or "", outcomes, work.fields)
        except ValueError as error:
            line = blanked(str(error).encode()).decode()
            said = f"found {line!r:.80}" if line else "found nothing of your own there"
            arguments = {"kind": "not-understood", "message": f"{_expected_answer(work)}; {said}"}
    by = sender.name if sender is not None else ""
    act = PersonsAct("mail", mail.get("key", ""), token)
    signal = str(turn.agent.numbers.last + 1)
    return Signalled(0, 0.0, signal, name, arguments={**arguments, "notice": call}, by=by, act=act)


def _expected_answer(work: WorkDefinition) -> str:
    """The words of a valid answer."""
    words = ", ".join([*(outcome.name for outcome in work.outcomes), *ACTS])
    fields = f", and below it a line for each field: {', '.join(f'{name}: …' for name in work.fields)}"
    expectation = f"expected one of {words}, alone on the first line above what is quoted"
    return f"{expectation}{fields if work.fields else ''}"


def _no_answer(mail: etree._Element) -> str | None:
    """The reason why a mail cannot be an answer; None if it may be one."""
    for sign in ("auto", "list"):
        if mail.get(sign):
            return f"it is no mail that a person wrote to us: {sign}={mail.get(sign)}"
    body = mail.find("body")
    if body is None or body.get("html") or body.get("truncated"):
        return "it has no plain text, or too much of it"
    return None


def _is_vouched_for(mail: etree._Element, server: str) -> bool:
    """True if the results of the trusted server confirm the writer; those of other servers are ignored."""
    results = (node for node in mail.iterchildren("authentication") if node.get("server") == server.lower())
    first = next(results, None)
    return first is not None and is_authentic(first.text or "", mail.get("from", ""))


# --- notices to people ------------------------------------------------------------------------------------

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
    "late": "Not taken: ",
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

        def settle(_: Any, error: BaseException | None) -> None:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

        self._post(Request(lambda turn: turn.transaction.batch.meta.append((name, fact)), settle))
        await done


# --- the text of a notice ---------------------------------------------------------------------------------


def _how(run: Run, token: str, until: float, zone: str, element: Lookup) -> str:
    """The lines that say how to answer a notice; `zone` is that of its person."""
    from narval.kinds.work.engine.state import task_ways  # a home without work does not load it

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
        f"Outcomes: {', '.join(outcomes)}. {or_acts(work.is_voted)}",
        *([f"To move the task to another state, write instead: {moves}."] if moves else ()),
        f"This mail is for you alone; it can be answered until {in_zone(until, zone)}.",
        f"Token: {token}",
    ]
    return "\n".join(lines)
