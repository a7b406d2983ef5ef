"""The agent host: one active agent in a daemon, whose turns are made in rounds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from narval.agent.agent import AgentState
from narval.agent.incidents import error_of, remedy_of
from narval.agent.loop import Delivery, Intake, Loop, Request, Settle
from narval.agent.recovery import blank
from narval.agent.run import Run
from narval.agent.turn import Turn
from narval.agent.view import HostApi
from narval.calls.book import AgentCalls
from narval.calls.dispatcher import Dispatcher
from narval.calls.edge import Edge
from narval.calls.of_kinds import CallsOfAgent, Questions, preparer
from narval.calls.targets import CallTargets
from narval.core.agent_name import stands_for_peer
from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import GRANTING
from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines.commands import SEND
from narval.core.engines.story import part_word_of
from narval.core.errors import NarvalError
from narval.core.source.secrets import without_secrets
from narval.daemon.main_loop import MainLoop
from narval.daemon.messages.agent_mail import AgentMail, send_elements, send_outputs
from narval.daemon.messages.post_office import PostOffice
from narval.daemon.waiters import Waiters, future, settle
from narval.files.agents.settings import AgentSettings
from narval.files.schemas import Schemas
from narval.files.settings import CurrentSettings
from narval.people.chat.boxes import ChatBoxes
from narval.people.chat.notices import ChatNotices
from narval.people.chat.outbox import ChatOutbox
from narval.people.mail.channel import MailChannel
from narval.store.batch import AgentRow
from narval.store.store import Store

log = logging.getLogger("narval.daemon")

MOST_LOGGED = 1_000
"""The most characters of an error's message that are logged."""

Work = Callable[[Turn], Any]

ASKER_CONTEXT: ContextVar[Callable[[Work], Work] | None] = ContextVar("ASKER_CONTEXT", default=None)
"""A function that wraps work submitted in its context: it may make the turn record more, or refuse."""


@contextmanager
def outside_context() -> Iterator[None]:
    """Submit work outside the asker's context: it is not altered."""
    token = ASKER_CONTEXT.set(None)
    try:
        yield
    finally:
        ASKER_CONTEXT.reset(token)


class Listing(Protocol):
    """An index of runs of one kind."""

    def put(self, eid: int, definition: Any, state: Any, /) -> None:
        """Record the present state of a run."""

    def drop(self, eid: int, /) -> None:
        """Forget a run."""


Made = TypeVar("Made", bound=Listing)
Part = TypeVar("Part")


class Listings:
    """The indexes of an agent's runs, by kind, and other parts created once for the agent."""

    def __init__(self, agent: AgentState) -> None:
        self._agent = agent
        self._made: dict[Hashable, Any] = {}

    def of(self, kind: str, make: Callable[[], Made]) -> Made:
        """The up-to-date index of a kind: first of all runs, then updated with those that have changed."""
        runs, watches = self._agent.runs, self._agent.watches
        index: Made | None = self._made.get(kind)
        if index is None or kind not in watches.altered:
            index = self._made[kind] = make()
            watches.follow(kind).update((eid, None) for eid, run in runs.active.items() if run.kind == kind)
        altered = watches.follow(kind)
        for eid in altered:
            run = runs.active.get(eid)
            if run is None or run.state is None:
                index.drop(eid)
            else:
                index.put(eid, run.definition, run.state)
        altered.clear()
        return index

    def once(self, make: Callable[[AgentState], Part]) -> Part:
        """The part that `make` makes of the agent, created when it is first asked for."""
        if make not in self._made:
            self._made[make] = make(self._agent)
        part: Part = self._made[make]
        return part


class Environment(NamedTuple):
    """The parts and settings that the hosts of a daemon's agents share."""

    store: Store
    folder: Path | None
    """The home whose files are followed; None if there are none."""
    main_loop: MainLoop
    office: PostOffice
    settings: CurrentSettings
    zone: str
    """The time zone of agents whose settings name none."""
    record_only: bool
    """True if requests are only recorded, and no agent advances anything."""


def _blank(
    environment: Environment, number: int, library: Library, own: AgentSettings, since: float
) -> AgentState:
    """The state of an agent, before anything is read from the store. Raises StoreError."""
    return blank(
        library,
        environment.store.of(number),
        home=environment.settings,
        folder=environment.folder,
        zone=own.timezone or environment.zone,
        since=since,
        forget_after=own.forget_after,
    )


def _mail_of(
    environment: Environment,
    agent: AgentState,
    identity: AgentRow,
    post: Callable[[Delivery | Request], None],
    own: AgentSettings,
) -> AgentMail:
    """The mail of an agent, or of a row that represents a peer."""
    if not stands_for_peer(identity.name):
        return AgentMail(agent, identity, environment.office, post, own)
    from narval.daemon.links.link_mail import LinkMail  # here: a home without peers does not import it

    home = environment.settings.now.name
    return LinkMail(agent, identity, environment.office, post, own, environment.store.agents, home)


OnFault = Callable[["AgentHost", Exception], bool]
"""Called when a turn breaks down; returns True if only this activation is lost."""


class AgentHost:
    """One active agent: its loop decides turns, its dispatcher performs them; the host answers waiters."""

    def __init__(
        self,
        environment: Environment,
        identity: AgentRow,
        library: Library,
        schemas: Schemas,
        own: AgentSettings,
        *,
        since: float,
        calls: AgentCalls | None = None,
        chat_outbox: ChatOutbox | None = None,
        on_fault: OnFault | None = None,
        record_only: bool = False,
    ) -> None:
        """Make the host of an agent that has been active without a break since a moment.

        `own` are its settings. `calls` are its calls, if not those of the book; if some are under way,
        `Dispatcher.resume` attaches them. `chat_outbox` is that of the home's own agent, for which None
        creates it. `on_fault` is called when a turn breaks down; without it the daemon ends. The agent is
        blank: nothing is restored yet. With `record_only` it only records requests. Raises StoreError.
        """
        self._main_loop = environment.main_loop
        self.wake = self._main_loop.wake
        """Check again whether there is something to do, or whether a wait has ended."""
        agent = _blank(environment, identity.agent, library, own, since)
        intake = Intake(partial(self._main_loop.rounds.has_work, self))
        self.post = intake.post
        """Post something for the next turn."""
        self.mail = _mail_of(environment, agent, identity, self.post, own)
        calls = self._main_loop.calls.of(identity.agent) if calls is None else calls
        executor, targets = self._main_loop.calls.executor, CallTargets(agent, environment.folder)
        way = MailChannel(agent, identity.id, environment.folder, self.post)
        self.chats = ChatBoxes(agent, self._main_loop.rounds.clock)
        self.chat_outbox = chat_outbox or ChatOutbox(
            agent, self.chats, self.post, environment.settings, environment.store.mentions
        )
        by_chat = ChatNotices(agent, identity.name, self.chat_outbox)
        of_agent = CallsOfAgent(agent, identity.id, targets, self.post, calls)
        self.waiters, self.questions = Waiters(), Questions(targets.function_of)
        self.dispatcher = Dispatcher(
            agent,
            calls,
            targets,
            self.post,
            identity=identity,
            preparer=partial(preparer, of_agent, by_chat.or_else(way.out.prepare)),
            in_turn={SEND: partial(send_elements, self.mail)},
            moved=self.waiters.news.note_run,
            sends_by_chat=self.chat_outbox.send,
        )
        edge = Edge(self.dispatcher.approvals, self.mail.correspond, partial(send_outputs, self.mail))
        self.loop = Loop(
            agent,
            intake,
            HostApi(
                schemas,
                partial(self.questions.ask, agent),
                None if executor.is_simulated else executor.programs.is_up_to_date,
                edge.tell_and_send,
                edge.correspond,
                way.hear,
            ),
            self.dispatcher.dispatch,
            self.dispatcher.answer,
            record_only=environment.record_only or record_only,
            is_volatile=environment.store.is_volatile,
            is_simulated=executor.is_simulated,
        )
        if not calls.records:
            self.dispatcher.attach()
        self.use_settings(own)
        self._users, self.last_used = 0, 0.0
        """The moment of its last turn, or of the end of an operation (seconds since 1970)."""
        self._on_fault = on_fault
        self.listings = Listings(agent)

    @property
    def agent(self) -> AgentState:
        """The agent that this host runs."""
        return self.loop.agent

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.dispatcher.identity.name

    @property
    def weight(self) -> int:
        """Its share of processor time relative to others (1 to 100, G12)."""
        return self.settings.weight

    def use_settings(self, settings: AgentSettings) -> None:
        """Use other settings from now on; zone and `forget_after` only from the next activation."""
        self.settings = settings
        self.agent.use_settings(settings)
        self.dispatcher.calls.limit(settings.calls)
        self.mail.use_settings(settings)

    @property
    def is_in_use(self) -> bool:
        """True while an operation uses it, or keeps it open."""
        return self._users > 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count as in use within the `with` block."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self.last_used = self._main_loop.rounds.clock.now()

    async def submit(self, work: Work, then: Settle | None = None, *, is_whole: bool = False) -> Any:
        """Do something within a turn; return its result when the turn is recorded, and pass it to `then` too.

        Raises what `work` raises; with `is_whole` the turn breaks down then.
        """
        answer, within = future(), ASKER_CONTEXT.get()
        work = within(work) if within is not None else work

        def settled(result: Any, error: BaseException | None) -> None:
            if then is not None:
                then(result, error)
            settle(answer, result, error)

        self.post(Request(work, settled, is_whole))
        if not self._main_loop.is_at_work:
            await self._main_loop.work_until(answer.done)
        return await answer

    async def record(self, *facts: tuple[str, str]) -> None:
        """Record facts about the agent, each as a name and a value."""
        await self.submit(lambda turn: turn.transaction.batch.meta.extend(facts))

    async def ended(self, run: Run, timeout: float | None = None) -> None:
        """Wait until a run has ended, at most `timeout` seconds."""
        if not run.active:
            return
        if self.loop.intake.gone is not None:
            raise self.loop.intake.gone
        with self.waiters.end_of(run.eid) as end:
            await self._main_loop.wait_for(end, timeout)
        if end.done():
            end.result()

    async def turned(self, wait: float) -> float:
        """Wait for the next turn; return the seconds that are left of `wait`."""
        began = time.monotonic()
        await self.waiters.turn(wait)
        return max(0.0, wait - (time.monotonic() - began))

    def perform(self, turn: Turn) -> None:
        """Perform a recorded turn, and answer those who waited for it."""
        self.last_used = turn.transaction.at
        rows = vars(turn.transaction.batch)  # of the slots that are filled, few in most turns
        if messages := rows.get("messages"):
            self.mail.office.hand_over(messages)
        if "forgotten_elements" in rows and self.mail.mailbox.is_held:
            self.mail.mailbox.try_again()
        self.loop.perform(turn)
        for run in turn.transaction.ended:
            if run.phase == "failed":
                _log_failure(self.agent, run, self._name_of_other)
            run.load(None)
            self._main_loop.numbers.ended[run.name, run.phase] += 1
            if run.phase == "failed" or run.name == GRANTING:
                for hear in self._main_loop.on_end:
                    hear(self, run)
            self.waiters.over(run.eid)
        for added in rows.get("elements", ()):
            if added.element.xml[:6] == b"<error":  # no call: this runs for each new element
                _log_error(self.agent, added.element, self._name_of_other)
        if self.waiters.asked:
            self.waiters.answered(turn.transaction.batch.journal)
        if self.chats.is_followed:
            self.chats.hear(turn.transaction.batch)
        self.waiters.turned(turn.transaction.batch, turn.transaction.at)

    @property
    def _name_of_other(self) -> str:
        """The name of the agent; "" for the home's own."""
        return "" if self.agent.store.is_own else self.dispatcher.identity.name

    def broke_down(self, error: Exception) -> bool:
        """Handle the breakdown of a turn; True if only this activation is lost."""
        return self._on_fault is not None and self._on_fault(self, error)

    def give_up(self, error: NarvalError) -> None:
        """Stop making turns, and answer everyone who waits for one with `error`."""
        self.dispatcher.stop()
        self.mail.mailbox.close()
        self.loop.intake.close(error)
        self.waiters.give_up(error)
        self.questions.close()


def _log_error(agent: AgentState, error: Element, name: str) -> None:
    """Log an error of a run that continues, if the end of no run reports it: the error of a part of the run,
    or one that a source reports about a single thing, such as a mail.
    """
    of = error.origin
    run = agent.runs.active.get(of.run) if of is not None else None
    if of is None or run is None:
        return
    remedy = remedy_of(agent, error.eid, run.eid)
    is_of_source = of.call and error.attributes.get("key")
    if remedy or (is_of_source and not agent.memory.contexts.holds(run.eid, error.eid)):
        kind, message, _ = read_error(error)
        where = f"{part_word_of(run.engine)} {of.step} in run {run.eid} of {run.name}"
        text = " ".join(without_secrets(message).split())
        said = f"{where}{' failed' if remedy else ''}: {kind}: {text[:MOST_LOGGED]}"
        log.warning("%s%s%s", f"{name}: " if name else "", said, f"; {remedy}" if remedy else "")


def _log_failure(agent: AgentState, run: Run, name: str) -> None:
    error = error_of(agent, run)
    of, option = (f"{name}: ", f" --agent {name}") if name else ("", "")
    if error is not None:
        why = f"{error.where}: {error.kind}: {error.message[:MOST_LOGGED]}"
    else:  # its definition ends it so, or its error is forgotten
        explained = run.engine.explain(run.definition, run.state, None) if run.state is not None else None
        why = f": {explained}" if explained else ""
    said = f"run {run.eid} of {run.name} failed{why}"
    if run.caller is None:
        log.warning("%s%s; see `narval why %d%s`", of, said, run.eid, option)
    else:
        log.info("%s%s", of, said)
