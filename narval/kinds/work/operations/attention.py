"""Work that needs attention: items that people were reminded of, that nobody may answer, or that wait."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.attention.lines import SHOWN, item
from narval.ask.registry import Form
from narval.ask.text import counted
from narval.core.definitions.people.directory import GRANTING, day_of
from narval.daemon.daemon import Daemon
from narval.kinds.work.engine.explain import urged
from narval.kinds.work.engine.listing import waits_for_nobody
from narval.kinds.work.engine.state import WorkState
from narval.kinds.work.language.definition import WorkDefinition
from narval.kinds.work.operations.items import WorkView
from narval.people.item_text import is_untold

TRIES = 3
"""The tries of a notice from which it needs attention that it is not sent."""

LOOKED_AT = 200
"""The most open items, in the order of lists, that are examined."""


def open_work(daemon: Daemon) -> tuple[Sequence[Form], Sequence[Form]]:
    """The items that people were reminded of or that nobody may answer, and, in one sentence, those that wait
    for people.
    """
    return daemon.host.listings.once(OpenWork).look(daemon)


class OpenWork:
    """The sentences on open items, made again when an item, the people, the rules of trust or the day
    changes.
    """

    def __init__(self, agent: AgentState) -> None:
        self._lookup, self._key = agent.lookup, tuple[Any, ...]()
        self._sentences: tuple[list[Form], list[Form]] = [], []

    def look(self, daemon: Daemon) -> tuple[list[Form], list[Form]]:
        """The sentences on items with a problem, and on those that wait for people."""
        view, lookup = WorkView(daemon, None), self._lookup
        key = (view.version, lookup.people.digest, lookup.rules, day_of(view.at, view.view.zone))
        if key != self._key:
            self._key, self._sentences = key, _sentences(view)
        return self._sentences


def _sentences(look: WorkView) -> tuple[list[Form], list[Form]]:
    wrong, waiting = list[Form](), list[Run]()
    for run, definition, state in islice(look.open_items(), LOOKED_AT):
        title, link = f"work {run.eid} of {run.name}", {"work": run.eid}
        unsent = [notice.to for notice in state.notices.values() if notice.due and notice.tries >= TRIES]
        if unsent:
            people = " and ".join(dict.fromkeys(unsent))
            log = f"narval work log {run.eid}{look.agent.option}"
            text = f"{title} could not be sent to {people} yet: `{log}` says why"
            wrong.append(item("unsent", "middle", text, link, run.started))
        if word := urged(state):
            was = "escalated" if word == "escalated" else "reminded of"
            text = f"{title} was {was}, and is not answered: {_title(look, run)}"
            wrong.append(item("overdue", "middle", text, link, _urged_since(look, definition, state)))
        elif waits_for_nobody(definition, state, look.at, look.view):
            text = f"{title} has no person who may do it: {_title(look, run)}"
            wrong.append(item("nobody", "middle", text, link, run.started))
        elif run.name != GRANTING or run.caller is not None:  # the definition's line reports it
            waiting.append(run)
    if len(wrong) > SHOWN:
        more = f"{counted(len(wrong) - SHOWN, 'more item')} of work, reminded of or without a person for it"
        text = f"{more}: `narval work --all` lists them"
        wrong[SHOWN:] = [item("overdue", "middle", text, {"page": "work"})]
    return wrong, [_waiting(look, waiting)] if waiting else []


def _urged_since(look: WorkView, definition: WorkDefinition, state: WorkState) -> float:
    """The moment of the first reminder or escalation of an item."""
    lengths = [definition.reminder.after] if state.reminded and definition.reminder else []
    lengths += [escalation.after for escalation in definition.escalations[: state.level]]
    moments = (length.moment(state.started, look.view.zone) for length in lengths)
    return min((moment for moment in moments if moment is not None), default=look.at)


def _waiting(look: WorkView, items: list[Run]) -> Form:
    """Items that wait for people, in a sentence."""
    many, first = len(items), min(items, key=lambda run: run.started)
    wait = counted(many, "item waits", "items wait")
    link = {"work": first.eid} if many == 1 else {"page": "work"}
    oldest = "" if many == 1 else " the oldest:"
    text = f"{wait} for people:{oldest} {_title(look, first)}"
    return item("person", "low", text, link, first.started)


def _title(look: WorkView, run: Run) -> str:
    """The title of an item; the name of the work if chats may not show the title."""
    return run.name if is_untold(look.agent, run.eid) else run.state.title or run.name
