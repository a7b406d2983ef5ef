"""The channel of mail: sends notices to people, and receives their answers; the engine has the rules.

An answer is recognised, and given to its item, in the turn that brings the mail. A mail without a valid token
gets no answer and leaves no trace (P64). A mail that is not an answer, or comes from another person, is
recorded with the item as turned away (P66). A person whose mail is not an answer is told once how to answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree
from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.core.elements.canonical import canonical
from narval.core.elements.element import local_name, parse
from narval.core.engines.events import PersonsAct, Produced, Returned, Signalled
from narval.core.errors import StoreError
from narval.people.mail.answers import ACTS, is_authentic, read_answer
from narval.people.mail.notices import Notices
from narval.people.mail.tokens import KEY, NOTICE_ID, TOKEN, blanked, hash_of, last_token, notice_of

if TYPE_CHECKING:
    from narval.agent.run import Run
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
            if answer is not None:
                turn.tell(*answer)
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
        item = turn.agent.runs.active.get(int(token.partition("-")[0]))
        if not key or item is None or item.engine.kind != WORK or item.state is None:
            continue
        call = notice_of(key, agent, item.state, token)
        if call is not None:
            return item.eid, _read(turn, item, mail, hash_of(token), call)
    log.info("a mail from %s has no valid token", mail.get("from", "nobody"))
    return None


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


def _read(turn: Turn, item: Run, mail: etree._Element, token: str, call: str) -> Signalled:
    person, people = item.state.notices[call].to, turn.agent.lookup.people
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
        outcomes = [outcome.name for outcome in item.definition.outcomes]
        try:
            name, arguments = read_answer(mail.findtext("body") or "", outcomes)
        except ValueError as error:
            line = blanked(str(error).encode()).decode()
            said = f"found {line!r:.80}" if line else "found nothing of your own there"
            arguments = {"kind": "not-understood", "message": f"{_expected_answer(item.definition)}; {said}"}
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
