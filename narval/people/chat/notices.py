"""Notices by chat: what a person is asked, with the text as recorded, and later news of it.

A notice enters the outbox of the home's chats, once per call id; the program of the chats sends it. A
question is the text of the item with its outcomes numbered, each a button if the chat has buttons. The news
of an end replaces the message that asked, if the chat can edit messages.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.calls.context import Target, now
from narval.calls.context import call as call_of
from narval.calls.of_kinds import Prepare
from narval.calls.targets import PreparedCall
from narval.core.definitions.people.directory import CHAT, Person
from narval.core.definitions.wall import zone_named
from narval.core.engines.commands import Call
from narval.core.engines.engine import Lookup
from narval.core.errors import ActionError
from narval.people.chat.messages import ASKED, ENDED, SENT, Reply
from narval.people.chat.outbox import ChatOutbox, waits_until
from narval.people.item_text import is_untold, look_at, text_shown
from narval.people.mail.answers import or_acts

if TYPE_CHECKING:
    from narval.kinds.work.language.definition import WorkDefinition

_BEGINNINGS = {
    "claimed": "You have this.\n\n",
    "reminder": "Reminder.\n\n",
    "escalated": "Escalated: you may answer this too.\n\n",
}
"""The first lines of messages that ask, by purpose."""


class ChatNotices:
    """The notices by chat of an agent, by its name, into an outbox."""

    def __init__(self, agent: AgentState, name: str, outbox: ChatOutbox) -> None:
        self._agent, self._name, self._outbox = agent, name, outbox

    def or_else(self, prepare: Prepare) -> Prepare:
        """Combine these notices by chat with a preparer for other ways."""
        return lambda run, call, timeout: (self.prepare if call.name == CHAT else prepare)(run, call, timeout)

    def prepare(self, run: Run, call: Call, timeout: float | None) -> PreparedCall:
        """Prepare the call that writes to a person. Raises ActionError if there is no chat or no address."""
        self._outbox.check()
        person = self._agent.lookup.people.person(call.step)
        if person is None or not person.chat:
            why = f"{call.step} has no chat address in etc/people.toml"
            raise ActionError(why, "no-address", final=True)
        result: dict[str, Any] = {}
        work = partial(self._carry, run, call, person, result)
        target = Target(action=f"notice to {call.step}", where="async", function=work)
        return PreparedCall(target, {}, timeout, partial(replace, value=result))

    async def _carry(self, run: Run, call: Call, person: Person, result: dict[str, Any]) -> None:
        payload: dict[str, Any] = call.payload or {}
        id, zone, why = call_of().id, person.zone or self._agent.clockwork.zone, payload["why"]
        asks, deadline = payload["until"] is not None, payload["deadline"]
        name = "" if self._outbox.is_of(self._agent) else self._name
        later = waits_until(
            person,
            zone,
            now().timestamp(),
            is_urgent=why == "escalated",
            deadline=deadline if asks else None,
        )
        is_hidden = is_untold(self._agent, run.eid)
        title = run.name if is_hidden else payload["title"]
        about = Reply(
            text=f"{run.eid} {title}: {look_at(run.eid, name) if is_hidden else payload['text']}",
            item=run.eid,
            agent=name,
            shown=payload["shown"],
            title=title,
            purpose=ENDED,
            not_before=later or 0.0,
        )
        if asks and is_hidden:
            about = replace(about, purpose=SENT)
        elif asks:
            whole = text_shown(self._agent.store, run.eid)
            how = _how(run, deadline, zone, self._agent.memory.element)
            first = f"{payload['text']}\n\n" if payload["text"] else _BEGINNINGS.get(why, "")
            text = f"{first}{whole}\n{how}"
            buttons = _buttons(run, payload["shown"], name)
            about = replace(about, text=text, buttons=buttons, purpose=ASKED)
        await self._outbox.tell(person, id, about)
        result["message"] = id


# --- the text -------------------------------------------------------------------------------------------


def button_of(item: int, number: int, digest: str, agent: str = "") -> str:
    """The data of the button for an outcome of an item, by its number; it also identifies the text."""
    return f"{item}.{number}.{digest[:8]}{f'@{agent}' if agent else ''}"


def _buttons(run: Run, digest: str, agent: str) -> tuple[tuple[str, str], ...]:
    outcomes = [outcome.name for outcome in run.definition.outcomes]
    return tuple((button_of(run.eid, at, digest, agent), name) for at, name in enumerate(outcomes, 1))


def _how(run: Run, deadline: float | None, zone: str, element: Lookup) -> str:
    """The lines that say how to answer a message."""
    from narval.kinds.work.engine.state import task_ways  # a home without work does not load it

    work: WorkDefinition = run.definition
    ways = task_ways(run.state, element)
    names = [outcome.name for outcome in work.outcomes]
    labels = ", ".join(field.label for field in work.fields.values())
    lines = [
        *(f"{number} {name}" for number, name in enumerate(names, 1)),
        "",
        "Answer with a number or a word." + (f" Then you are asked for: {labels}." if labels else ""),
        f"{or_acts(work.is_voted)} Anywhere else: answer {run.eid} {names[0]}",
    ]
    if ways is not None and ways.moves:
        moves = ", ".join(f"move {state}" for state in ways.moves)
        lines.append(f"To move the task to another state, write instead: {moves}.")
    if deadline is not None:
        end = datetime.fromtimestamp(deadline, zone_named(zone)).strftime("%Y-%m-%d %H:%M")
        lines.append(f"Until {end} ({zone}).")
    return "\n".join(lines)
