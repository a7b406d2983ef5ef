"""The inbox: an XML file moved to `inbox/` becomes elements, exactly once (N8, N35).

    inbox/FILE      -> inbox/.taken/NUMBER-FILE -> read, checked -> added, and the number noted, in one commit
                    -> removed
    inbox/NAME/FILE -> the same, but sent to the agent of that name, wherever it is (G58)

The number records how far the inbox has been read: a file in `.taken` up to that number was added, and must
only be removed; one with a higher number was not. So `kill -9` at any moment neither loses a file nor adds it
twice. A refused file goes to `inbox/refused/`, with its reason beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from narval.agent.agent import OVER_LIMIT
from narval.agent.labelling import labels_at
from narval.agent.turn import Turn
from narval.core.agent_name import NAME
from narval.core.elements.element import Origin
from narval.core.elements.own_elements import make_error
from narval.core.errors import ElementError, NarvalError, RequestError, StoreAwayError, StoreError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.agents.agents import Agents
from narval.daemon.dropped.drop_folder import (
    AGAIN,
    FOLDER,
    REFUSED,
    Claim,
    Collector,
    DropFolder,
    NotSetAsideError,
    NotTakenError,
    has_work,
    read,
)
from narval.daemon.files_in_force import FilesInForce
from narval.daemon.messages.agent_mail import send_from_outside
from narval.files.agents.collections import AGENTS
from narval.files.found_files import names_in
from narval.files.schemas import Schemas
from narval.store.batch import AgentRow
from narval.store.rows import number
from narval.system.long_work import LoneThread, TimeSlice
from narval.system.regular_file import read_regular

log = logging.getLogger("narval.inbox")

RECORDED = "inbox"
"""The fact of the store with the number of the last file added."""


class Inbox:
    """Adds the files dropped into a folder, one after another, in order of their names.

    `host` adds elements, and `schemas` are those that elements must match. With a `receiver`, the elements
    are sent to the agent of that name, which checks its own schemas. When a file can be neither added nor set
    aside, no further file is claimed: a later number would make the next start believe that this one was
    added.
    """

    def __init__(self, folder: DropFolder, host: AgentHost, schemas: Schemas, receiver: str = "") -> None:
        self._folder, self._host, self._schemas, self._receiver = folder, host, schemas, receiver
        self._noted = noted_for(receiver)

    async def add_all(self, is_left: Callable[[str], bool] = lambda name: False) -> None:
        """Add all files in the folder except those whose names `is_left` holds back.

        Raises NotSetAsideError, and NotTakenError after all others are added.
        """
        async for claim in self._folder.claims(is_left):
            await self._add(claim)

    async def _add(self, claim: Claim) -> None:
        """Add all elements of a file, or none, and remove it."""
        try:
            elements, owner = await LoneThread(partial(read, claim), "narval-inbox").done
            if not self._receiver:
                await self._check(elements, claim)
        except ElementError as refusal:
            await asyncio.to_thread(self._folder.set_aside, claim, refusal)
            return
        origin = Origin(step=claim.shown, by=owner)

        def work(turn: Turn) -> None:
            note = (self._noted, str(claim.number))
            written = labels_at(turn.agent, f"{claim.folder}/{claim.name}")
            with turn.transaction.coming_with(written):
                if self._receiver:
                    send_from_outside(self._host.mail, turn, self._receiver, elements, by=owner)
                    turn.transaction.batch.meta.append(note)
                    return
                if over := turn.agent.excess_of_elements(elements):
                    raise ElementError(OVER_LIMIT, f"{OVER_LIMIT}: {over}", 1, 1)
                turn.transaction.batch.meta.append(note)
                for xml in elements:
                    turn.add(xml, origin)

        try:
            await self._host.submit(work)
        except ElementError as refusal:
            await asyncio.to_thread(self._folder.set_aside, claim, refusal)
            return
        log.info("%s: %d elements", claim.shown, len(elements))
        await asyncio.to_thread(self._folder.remove, claim)

    async def _check(self, elements: list[bytes], claim: Claim) -> None:
        """Raise ElementError for the first element that its schema refuses, with its place."""
        schemas, time_slice = self._schemas, TimeSlice()
        for position, xml in enumerate(elements):
            refusal = schemas.refusal(xml)
            if refusal is not None:
                document = await asyncio.to_thread(read_regular, claim.path)
                fault = schemas.refusal_in(document, position)
                reason, line, column = (fault.message, fault.line, fault.column) if fault else (refusal, 1, 1)
                raise ElementError("invalid", f"refused by its schema: {reason}", line, column)
            await time_slice.yield_if_due()


def noted_for(receiver: str) -> str:
    """The fact of the store with the number of the last file sent to an agent; without a name, of the last
    file added.
    """
    return f"{RECORDED} {receiver}".rstrip()


class Inboxes(Collector):
    """The inboxes of a home, of its agents with folders, and the folders within the home's own for agents
    anywhere; scanned one after another.

    A file in its inbox activates an agent (G5). If a file cannot be set aside, that is retried from time to
    time, and an error element reports it.
    """

    def __init__(self, home: Path, host: AgentHost, files: FilesInForce, agents: Agents) -> None:
        self._durable = files.settings.durability == "power"
        self._folder = DropFolder(home, number(host.agent.facts, RECORDED, 0), durable=self._durable)
        self._home, self._files, self._agents = home, files, agents
        self._stuck: dict[str, str] = {}
        """The reasons why nothing is added at present, by the names of agents; "" is the home's own."""
        self._left_alone: set[str] = set()
        super().__init__(host, "narval-inbox")

    async def take_all(self) -> float | None:
        """Add the files in the inboxes."""
        await self._add_all("", self._of_home)
        named = await asyncio.to_thread(self._for_agents)
        for name in named:
            await self._add_all(f"{FOLDER}/{name}", partial(self._sent_to, name))
        folders = tuple(self._files.snapshot.agents)
        own = await asyncio.to_thread(self._with_work, folders) if folders else []
        for name in own:
            await self._add_all(name, partial(self._of_agent, name))
        self.forget_untaken(["", *(f"{FOLDER}/{name}" for name in named), *own])
        return AGAIN if self._stuck or self.untaken else None

    def _with_work(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if has_work(self._home / AGENTS / name / FOLDER)]

    async def _add_all(self, name: str, add: Callable[[], Awaitable[None]]) -> None:
        """Add the files in an inbox, unless it is left alone."""
        if name in self._left_alone:
            return
        untaken: list[str] = []
        try:
            try:
                await add()
            except NotTakenError as error:
                untaken = error.reasons
            self._stuck.pop(name, None)
        except (RequestError, StoreAwayError) as error:  # no such agent, or not now: retried later
            log.warning("the inbox of %s waits: %s", name or "the home", error)
            self._stuck[name] = str(error)
        except (NotSetAsideError, StoreError, OSError) as error:
            await self._tell(name, str(error))
        except Exception as error:
            is_expected = isinstance(error, NarvalError)
            whose = (f"the inbox of {name}" if "/" not in name else name) if name else "the inbox"
            left = f"{whose} is left alone until the daemon starts again"
            log.error("%s: %s", left, error, exc_info=None if is_expected else error)
            self._left_alone.add(name)
            await self._add_error(name, f"{left}: {error!r}")
        self.note_untaken(name, untaken)

    async def _of_home(self) -> None:
        await Inbox(self._folder, self._host, self._files.snapshot.own.schemas).add_all(self._is_for_agent)

    def _is_for_agent(self, name: str) -> bool:
        """True for a folder in the home's inbox whose files are sent to the agent of that name."""
        is_name = NAME.fullmatch(name) is not None and name != REFUSED
        return is_name and (self._home / FOLDER / name).is_dir() and self._find(name) is not None

    def _for_agents(self) -> list[str]:
        """The folders in the home's inbox that have something to send or remove."""
        inbox = self._home / FOLDER
        named = [name for name in names_in(inbox) if NAME.fullmatch(name) is not None and name != REFUSED]
        return [name for name in named if (inbox / name).is_dir() and has_work(inbox / name)]

    async def _sent_to(self, name: str) -> None:
        if self._find(name) is None:
            return
        recorded = number(self._host.agent.facts, noted_for(name), 0)
        where, aside = f"{FOLDER}/{name}", f"../{REFUSED}"
        folder = DropFolder(self._home, recorded, where, refused=aside, durable=self._durable)
        await Inbox(folder, self._host, self._files.snapshot.own.schemas, name).add_all()

    async def _of_agent(self, name: str) -> None:
        async with self._agents.asked(name) as host:
            recorded = number(host.agent.facts, RECORDED, 0)
            folder = DropFolder(self._home, recorded, f"{AGENTS}/{name}/{FOLDER}", durable=self._durable)
            await Inbox(folder, host, self._files.of(host).schemas).add_all()

    def _find(self, name: str) -> AgentRow | None:
        """The agent of that name, wherever it is."""
        return self._host.mail.office.addresses.find(name)

    async def _tell(self, name: str, why: str) -> None:
        """Report once that nothing more is added until the cause is corrected."""
        if why == self._stuck.get(name):
            return
        self._stuck[name] = why
        message = f"nothing is taken from the inbox until that is put right: {why}"
        log.error("%s", message)
        await self._add_error(name, message)

    async def _add_error(self, name: str, message: str) -> None:
        """Add an error element to the agent; if the agent cannot be reached, only the log has the error."""
        error = make_error("inbox-stuck", message)
        with suppress(NarvalError):
            if not name or "/" in name:
                await self._host.submit(lambda turn: turn.add(error))
                return
            async with self._agents.asked(name) as host:
                await host.submit(lambda turn: turn.add(error))
