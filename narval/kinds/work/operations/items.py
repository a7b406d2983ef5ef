"""The operations `worklist` and `work_item`: the items of people, as they may see them (P35, P44, P47)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask.asker import CHAT, PROGRAM, Asker
from narval.ask.json_forms import moment
from narval.ask.paging import gathered
from narval.ask.people import no_such_person, onlooker, who_acts, why_not_administering
from narval.ask.registry import Form, operation
from narval.ask.titles import title
from narval.core.agreeing import Who, refusal
from narval.core.definitions.people.directory import Right, day_of, known_as
from narval.core.definitions.suggestions import closest
from narval.core.errors import NotFoundError, RequestError, UnreadableError, WorkRefusedError
from narval.core.patterns.pattern import Bound
from narval.daemon.daemon import Daemon
from narval.kinds.work.engine.acts import answered
from narval.kinds.work.engine.explain import urged
from narval.kinds.work.engine.listing import (
    Worklist,
    acts_open_to,
    could_have,
    is_withheld,
    may_see,
    right_to_answer,
    shows_votes,
)
from narval.kinds.work.engine.state import WorkState, asked, task_ways
from narval.kinds.work.engine.table import MOVES, PHASES
from narval.kinds.work.language.definition import WorkDefinition
from narval.kinds.work.language.fields import FormField
from narval.people.item_text import is_untold, look_at, secrets_shown, text_shown

WORK = WorkDefinition.kind

MOST_CHOICES = 50
"""The most elements that are named as possible values of a field."""

TRIED = 500
"""The most elements that are tested for that, the newest of their names."""


def _no_item(item: int) -> WorkRefusedError:
    """The error for an item that does not exist or may not be seen: both get the same words, so that numbers
    reveal nothing.
    """
    return WorkRefusedError("no-item", f"there is no item {item} that you may see; `narval work` lists yours")


class WorkView:
    """The items of an agent as a person may see them now.

    The person comes as `who`, by default by their name alone. None is an asker who may see everything.
    """

    def __init__(self, daemon: Daemon, person: str | None, who: Who | None = None) -> None:
        self.agent, self.person = daemon.agent, person
        self.view, self.at = daemon.host.loop.view, daemon.rounds.clock.now()
        self._daemon, self._who = daemon, who or known_as(self.view.people, person or "")

    def item(self, eid: int, shown: object = None) -> tuple[Run, WorkDefinition, WorkState]:
        """An item. Raises WorkRefusedError for one that does not exist, or may not be seen.

        A person who gives the digest of its text, `shown`, has seen it.
        """
        run = self.agent.runs.get(eid)
        if run is None or run.engine.definition_kind != WORK:
            raise _no_item(eid)
        try:
            definition, state = definition_of(self.agent, run), state_of(self.agent, run)
        except UnreadableError:
            raise _no_item(eid) from None
        if not self._sees(definition, state) and (not shown or shown != state.shown):
            raise _no_item(eid)
        return run, definition, state

    def _sees(self, definition: WorkDefinition, state: WorkState) -> bool:
        if self.person is None:
            return True
        is_seen = may_see(definition, state, self.person, self.at, self.view)
        return is_seen and not is_withheld(definition, state, self._who)

    @property
    def version(self) -> int:
        """A number that changes whenever an open item does."""
        return self._listed.version

    @property
    def _listed(self) -> Worklist:
        return self._daemon.host.listings.of(WORK, Worklist)

    def open_items(self) -> Iterator[tuple[Run, WorkDefinition, WorkState]]:
        """The open items that the person may see, in order."""
        listed = self._listed
        if self.person is None or self.view.people.is_admin(self.person):
            eids = listed.all()
        else:
            eids = listed.of(self.person, self.view.people, day_of(self.at, self.view.zone))
        for eid in eids:
            run = self.agent.runs[eid]
            if self._sees(run.definition, run.state):
                yield run, run.definition, run.state

    def items_over(self) -> Iterator[tuple[Run, WorkDefinition, WorkState]]:
        """The ended items that the person may see, newest first."""
        for eid in self.agent.memory.index.newest_named([WORK]):
            run = self.agent.runs.get(eid)
            if run is not None and not run.active and run.engine.definition_kind == WORK:
                try:
                    yield self.item(eid)
                except WorkRefusedError:
                    continue

    def acts(self, definition: WorkDefinition, state: WorkState) -> list[str]:
        """The acts that are open to the person."""
        if self.person is None:
            return []
        return list(acts_open_to(definition, state, self.person, self.at, self.view, self._who))

    def delegates(self, definition: WorkDefinition, state: WorkState) -> list[str]:
        """The people that the person may hand an item to."""
        return list(could_have(definition, state, self.person, self.at, self.view)) if self.person else []

    async def choices(self, field: FormField) -> dict[str, str]:
        """The possible values of a field, with their titles: the people, or the newest elements that fit.

        Only people who may read the home get any.
        """
        if self.person and refusal("read", self._who):
            return {}
        if field.type == "person":
            return {person.name: person.full_name for person in self.view.people.people}
        if field.match is None or not field.match.names:
            return {}
        newest = [*islice(self.agent.memory.index.newest_named(sorted(field.match.names)), TRIED)]
        return dict(await gathered(self._fitting(newest, field.match.bind({})), MOST_CHOICES))

    def _fitting(self, eids: Iterable[int], bound: Bound) -> Iterator[tuple[str, str] | None]:
        """Each of these elements with its title; None for one that does not fit."""
        for eid in eids:
            fits = any(self.view.among((eid,), bound, None))
            yield (str(eid), title(self.agent, eid)) if fits else None

    def right(self, definition: WorkDefinition, state: WorkState) -> Right | None:
        """The right by which the person may answer; None if there is none."""
        return right_to_answer(definition, state, self.person or "", self.at, self.view)


# --- listing ----------------------------------------------------------------------------------------------


@operation("read")
async def worklist(
    daemon: Daemon,
    every: bool = False,
    answered: bool = False,
    person: str | None = None,
    state: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    after: int | None = None,
    known: list[int] | None = None,
    wait: float = 0.0,
    secrets: list[str] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> list[dict[str, Any]]:
    """The items offered to the asker, and those they have: overdue first, then by deadline, oldest first.

    Items that the asker has answered and that wait for others are left out: `answered` lists those, `every`
    lists all that the asker may see. `person` is for the home's owner and administrators. A `state` of ended
    items lists those, newest first; an unknown state raises RequestError. `limit` and `after`, an item,
    select a page. With `wait`, the operation waits up to `wait` seconds until the list differs from the
    `known` items. With `secrets`, items that show any other secret are left out; a chat does not get the
    title of an item that shows a secret.
    """
    if state is not None and state not in (*MOVES, *PHASES):
        raise RequestError(f"no item is ever {state!r}{closest(state, (*MOVES, *PHASES))}")
    may = None if secrets is None else frozenset(secrets)
    page = _Shown(every, answered, _listed(daemon, asker, person), state, name, limit, after, may)
    while True:
        version = WorkView(daemon, None).version
        rows = await page.rows(daemon)
        if asker.way == CHAT:
            rows = [_as_by_chat(daemon, row) for row in rows]
        if known is None or [row["item"] for row in rows] != known:
            return rows
        while wait > 0 and version == WorkView(daemon, None).version:
            wait = await daemon.host.turned(wait)
        if wait <= 0:
            return rows


class _Shown(NamedTuple):
    """The items to list: of a person, in a state, of a name, one page."""

    every: bool
    answered: bool
    viewer: tuple[str | None, Who | None]
    state: str | None
    name: str | None
    limit: int | None
    after: int | None
    secrets: frozenset[str] | None

    async def rows(self, daemon: Daemon) -> list[Form]:
        """Their rows, in order."""
        look = WorkView(daemon, *self.viewer)
        items = look.items_over() if self.state in PHASES else look.open_items()
        return await gathered(self._found(look, items), self.limit)

    def _found(
        self, look: WorkView, items: Iterator[tuple[Run, WorkDefinition, WorkState]]
    ) -> Iterator[Form | None]:
        passed = self.after is None
        for run, definition, state in items:
            if not passed:
                passed = run.eid == self.after
            elif not self._is_listed(look, run, state):
                yield None
            else:
                row = _row(run, definition, state, look)
                if self.answered:
                    is_wanted = look.person in state.votes if look.person else bool(state.votes)
                else:
                    is_wanted = self.every or state.over or _is_mine(state, row, look.person)
                yield row if is_wanted else None

    def _is_listed(self, look: WorkView, run: Run, state: WorkState) -> bool:
        """True for an item of the requested name and state that shows no secret except these."""
        if self.state not in (None, state.status) or self.name not in (None, run.name):
            return False
        return self.secrets is None or secrets_shown(look.agent, run.eid) <= self.secrets


def _as_by_chat(daemon: Daemon, row: Form) -> Form:
    """A row of the list, without a title that chats may not show."""
    return row | {"title": row["work"]} if is_untold(daemon.agent, row["item"]) else row


def _listed(daemon: Daemon, asker: Asker, person: str | None) -> tuple[str | None, Who | None]:
    """The person whose items are listed, and how they come if they ask for themselves. Raises RequestError.

    None stands for all items, if a program of the home's owner asks.
    """
    own, people = onlooker(daemon, asker), daemon.agent.lookup.people
    if person in (None, own):
        return own, who_acts(daemon, asker)
    if people.person(person) is None:
        raise NotFoundError(no_such_person(person, people))
    if own != person and why_not_administering(daemon, asker):
        raise RequestError(f"only administrators see what {person} is asked")
    return person, None


def _is_mine(state: WorkState, row: Form, person: str | None) -> bool:
    """True if an item waits for a person, or is theirs; without a person, always."""
    mine = person is None or (state.claim is not None and state.claim.by == person)
    return mine or ("answer" in row["may"] and person not in state.votes)


def _row(run: Run, definition: WorkDefinition, state: WorkState, look: WorkView) -> Form:
    """An item in a list; `answered` is the viewer's own answer, if the item needs several."""
    caller, claim = run.caller, state.claim
    return {
        "item": run.eid,
        "work": run.name,
        "state": state.status,
        "phase": run.phase,
        "title": state.title,
        "run": {"run": caller.run, "step": caller.step} if caller is not None else None,
        "for": asked(definition, state),
        "claimed": None
        if claim is None
        else {"by": claim.by, "since": moment(claim.since), "until": moment(claim.until)},
        "offered": moment(run.started),
        "deadline": moment(state.ends_at),
        "overdue": bool(urged(state)),
        "urged": urged(state) or None,
        "level": state.level,
        "outcome": state.outcome or None,
        "answered": answered(definition, state, look.person or ""),
        "may": look.acts(definition, state),
        "right": _right(look.right(definition, state)),
    }


@operation("read")
async def work_item(daemon: Daemon, item: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """One item: its text, who asked, its outcomes and fields, the asker's draft, what they may do, and by
    which right.
    """
    look = WorkView(daemon, onlooker(daemon, asker), who_acts(daemon, asker))
    run, definition, state = look.item(item)
    fields = {} if state.over else definition.fields
    choices = {name: await look.choices(field) for name, field in fields.items()}
    run, definition, state = look.item(item)  # it may have changed meanwhile
    if asker.way == CHAT and is_untold(daemon.agent, item):
        agent = "" if daemon.agent.store.is_own else daemon.name
        raise WorkRefusedError("way-not-allowed", f"{item} {run.name}: {look_at(item, agent)}")
    person = look.person or ""
    sees_votes = look.person is None or shows_votes(definition, state, person)
    return {
        **_row(run, definition, state, look),
        "requesters": list(state.requesters),
        "text": text_shown(daemon.agent.store, run.eid) or None,
        "shown": state.shown,
        "outcomes": [
            {
                "name": outcome.name,
                "needs": outcome.needs,
                "has": len(state.voters(outcome.name)) if sees_votes or not definition.is_voted else None,
                "by": state.voters(outcome.name) if sees_votes else None,
            }
            for outcome in definition.outcomes
        ],
        "fields": [_field(definition, state, name, choices.get(name, {})) for name in definition.fields],
        "delegates": look.delegates(definition, state),
        "states": _states(state, look),
        "draft": {name: list(values) for name, values in state.drafts.get(person, {}).items()},
        "voters": list(state.votes),
        "answers": [_vote(vote) for vote in state.votes.values()] if sees_votes else None,
        "answer": state.answer or None,
        "ended_by": state.ended_by.split(),
        "ways": list(definition.ways_of(look.view.people)),
    }


def _states(state: WorkState, look: WorkView) -> Form | None:
    """The state of the asking task, and the states that a person may move it to, or that it may end in."""
    ways = None if state.over else task_ways(state, look.view.element)
    return None if ways is None else {"now": ways.at or None, "moves": [*ways.moves], "ends": [*ways.ends]}


def _field(definition: WorkDefinition, state: WorkState, name: str, choices: Mapping[str, str]) -> Form:
    field = definition.fields[name]
    limits = {limit: getattr(field, limit) for limit in ("least", "most", "length", "pattern")}
    return {
        "name": field.name,
        "type": field.type,
        "label": field.label,
        "list": field.list,
        "required": sorted(field.required),
        "default": list(state.defaults.get(name, ())),
        "options": list(state.options.get(name, ())),
        "choices": choices,
        **{limit: value for limit, value in limits.items() if value},
    }


def _vote(vote: Any) -> Form:
    return {"by": vote.by, "outcome": vote.outcome, "at": moment(vote.at), "for": vote.instead_of or None}


def _right(right: Right | None) -> Form | None:
    return None if right is None else {"role": right.role or None, "for": right.instead_of or None}
