"""Host maker: puts together what one agent needs to be at work in a daemon."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from narval.agent.agent import AgentState
from narval.agent.loop import Loop
from narval.agent.recovery import blank
from narval.agent.view import IsUpToDate, Surroundings
from narval.calls.dispatcher import Dispatcher
from narval.calls.in_flight import CallsInFlight
from narval.calls.of_kinds import CallsOfAgent, Questions, preparers
from narval.calls.targets import CallTargets
from narval.core.definitions.library import Library
from narval.core.engines.commands import NOTICE, SEND
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.main_loop import MainLoop
from narval.daemon.messages.agent_mail import AgentMail
from narval.daemon.messages.post_office import PostOffice
from narval.daemon.messages.sending import send_elements, send_outputs
from narval.files.agents.settings import AgentSettings
from narval.files.home import Home
from narval.files.schemas import Schemas
from narval.files.settings import Settings
from narval.people.mail.way import MailWay
from narval.store.store import Store
from narval.system.zone import machine_zone


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
        of_agent = CallsOfAgent(
            agent, identity.id, targets, lambda item: host.post(item), lambda: self._settings().sources
        )
        dispatcher = Dispatcher(
            agent,
            main_loop.executor,
            CallsInFlight(main_loop.executor) if calls is None else calls,
            targets,
            lambda item: host.post(item),
            identity=identity,
            timeout=settings.call_timeout,
            preparers={**preparers(of_agent), NOTICE: way.out.prepare},
            in_turn={SEND: partial(send_elements, mail)},
        )
        questions = Questions(targets.function_of)
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
