"""Host maker: puts together what one agent needs to be at work in a daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from narval.agent.agent import AgentState
from narval.agent.loop import Loop
from narval.agent.recovery import blank
from narval.agent.run import Run
from narval.agent.view import IsUpToDate, Surroundings
from narval.calls.approvals import BECAUSE, comes_of_a_model
from narval.calls.dispatcher import Dispatcher, Prepare
from narval.calls.in_flight import CallsInFlight, Post
from narval.calls.targets import CallTargets, PreparedCall
from narval.core.definitions.library import Library
from narval.core.engines.commands import FLOW, NOTICE, SEND, Call
from narval.core.errors import ActionError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.main_loop import MainLoop
from narval.daemon.messages.agent_mail import AgentMail
from narval.daemon.messages.post_office import PostOffice
from narval.daemon.messages.sending import send_elements, send_outputs
from narval.files.agents.settings import AgentSettings
from narval.files.home import Home
from narval.files.outside.sources import FlowSource
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.kinds.process.calls.questions import QuestionAnswerer
from narval.kinds.process.calls.tasks import NodeCalls
from narval.people.mail.way import MailWay
from narval.store.store import Store
from narval.system.zone import machine_zone

_NOBODY_AGREES = (
    "and nobody can agree to what a dataflow does outside; run it before the model is asked, or trust the "
    "model: asks = false in etc/narval.toml"
)


class HostMaker:
    """Makes the hosts of a daemon's agents.

    `home` is the home whose files are followed, None where there are none; `settings` gives those that count.
    With `record_only` no agent advances anything.
    """

    def __init__(
        self,
        store: Store,
        home: Home | None,
        main_loop: MainLoop,
        office: PostOffice,
        settings: Callable[[], Settings],
        is_up_to_date: IsUpToDate | None,
        *,
        record_only: bool,
    ) -> None:
        self.store, self.record_only, self._office = store, record_only, office
        self._folder = home.path if home is not None else None
        self._main_loop, self._settings, self._is_up_to_date = main_loop, settings, is_up_to_date

    def make(
        self,
        number: int,
        name: str,
        library: Library,
        schemas: Schemas,
        own: AgentSettings,
        *,
        since: float,
        calls: CallsInFlight | None = None,
        record_only: bool = False,
    ) -> AgentHost:
        """The host of an agent, at work without a break `since` a moment.

        `own` are its settings, `calls` those under way, which `Dispatcher.resume` attaches. It is
        blank: nothing is restored yet. With `record_only` it records what it is asked and does nothing else.
        Raises StoreError.
        """
        settings, main_loop = self._settings(), self._main_loop
        agent: AgentState = blank(
            library,
            self.store.of(number),
            zone=own.timezone or machine_zone(),
            since=since,
            forget_after=own.forget_after,
            work_kept=settings.work_kept,
            history_entries=settings.history_entries,
        )
        agent.runs.families.limit(settings.run_depth, settings.run_family)
        agent.lookup.use_mail(settings.mail)
        agent.lookup.trust_models(settings.trusted_models)
        targets, identity = CallTargets(agent, self._folder), agent.store.identity()._replace(name=name)
        mail = AgentMail(agent, identity, self._office, lambda item: host.post(item), lambda: host.settings)
        way = MailWay(agent, identity.id, self._folder, lambda item: host.post(item))
        flows = _flow_preparer(
            agent, identity.id, targets, lambda item: host.post(item), lambda: self._settings().sources
        )
        prepares = {"node": NodeCalls(agent, targets).prepare, NOTICE: way.out.prepare, FLOW: flows}
        dispatcher = Dispatcher(
            agent,
            main_loop.executor,
            CallsInFlight(main_loop.executor) if calls is None else calls,
            targets,
            lambda item: host.post(item),
            identity=identity,
            timeout=settings.call_timeout,
            preparers=prepares,
            in_turn={SEND: partial(send_elements, mail)},
        )
        questions = QuestionAnswerer(targets.function_of)
        loop = Loop(
            agent,
            Surroundings(
                schemas,
                partial(questions.ask, agent),
                self._is_up_to_date,
                partial(send_outputs, mail),
                mail.calls.correspond,
                way.hear,
            ),
            dispatcher.dispatch,
            dispatcher.answer,
            limit=settings.turn_limit,
            record_only=self.record_only or record_only,
            is_volatile=self.store.is_volatile,
        )
        host = AgentHost(own, loop, dispatcher, questions, mail, main_loop)
        if calls is None:
            dispatcher.attach()
        return host


def _flow_preparer(
    agent: AgentState,
    id: str,
    targets: CallTargets,
    post: Post,
    sources: Callable[[], Mapping[str, FlowSource]],
) -> Prepare:
    """The preparer of sessions of dataflows, imported with the first of them."""

    @cache
    def calls() -> Any:
        from narval.kinds.dataflow.calls.calls import FlowCalls

        return FlowCalls(agent, id, targets, post, sources)

    def prepare(run: Run, call: Call, timeout: float | None) -> PreparedCall:
        if comes_of_a_model(agent, run, call):
            raise ActionError(f"{run.name}: {BECAUSE}, {_NOBODY_AGREES}", "asks-first", final=True)
        prepared: PreparedCall = calls().prepare(run, call, timeout)
        return prepared

    return prepare
