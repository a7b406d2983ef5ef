"""Agents with folders: one for each folder in `agents/`; none of them acts without its folder (G2).

    a folder appears         its agent is made, or resumed if it was suspended because the folder was gone
    a folder disappears      its agent is suspended; nothing of it is lost
    agent.toml has faults    the former settings stay active; if there were none, the agent is suspended

The names of agents with folders are a fact of the store, so a folder removed while no daemon ran is noticed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from narval.core.errors import RequestError
from narval.daemon.agents.agents import Agents
from narval.daemon.files_in_force import FilesInForce
from narval.files.agents.collections import AGENTS, folder_of
from narval.files.agents.settings import AGENT_FILE
from narval.store.batch import ACTIVE, SUSPENDED, AgentRow
from narval.store.store import Store

log = logging.getLogger("narval.daemon")

RECORDED = "folders"
"""The fact of the store with the names of the agents that have folders."""


class FolderAgents:
    """Keeps the agents of a home in line with its folders."""

    def __init__(self, agents: Agents, files: FilesInForce) -> None:
        self._agents, self._files = agents, files
        self._known: frozenset[str] | None = None
        """The agents that have, or had, a folder; None until that is read."""

    async def follow(self) -> None:
        """Update the agents to match their folders, now and after each change."""
        self._files.on_change.append(self._change)
        await self._follow()

    async def _change(self) -> None:
        await self._follow()
        for name in self._files.always_active:
            if name in self._agents.rows and self._agents.rows[name].state != SUSPENDED:
                self._agents.supervisor.need(name, at_once=True)

    async def _follow(self) -> None:
        folders, rows, takes = self._files.snapshot.agents, self._agents.rows, self._agents.takes
        if self._known is None and (folders or len(rows) or takes != "none"):
            self._known = frozenset(self._agents.own.agent.facts.get(RECORDED, "").split())
        if not folders and not self._known:
            return
        known = self._known or frozenset()
        left = sorted(known - folders.keys())
        for name in left if takes == "all" else ():
            with suppress(RequestError):  # by now another home's, or removed
                await self._agents.here(name)
        await self._note((*folders, *(name for name in left if name in rows or takes == "asked")))
        for name in folders if takes != "asked" else folders.keys() - known:
            await self._bring_in_line(name)
        for name in left:
            if name in rows and rows[name].state != SUSPENDED:
                log.warning("%s/%s is gone: its agent is suspended until it is back", AGENTS, name)
                await self._agents.suspend(name, gone(name))

    async def _note(self, names: Iterable[str]) -> None:
        """Record which agents have a folder, before agents are created for them."""
        noted = frozenset(names)
        if noted != self._known:
            await self._agents.own.record((RECORDED, " ".join(sorted(noted))))
            self._known = noted

    async def _bring_in_line(self, name: str) -> None:
        is_good = self._files.snapshot.agents[name].given is not None
        try:
            row = await self._agents.pinned(name)
            if row is None:
                await self._agents.add(name, ACTIVE)
                await self._agents.pinned(name)
                log.info("agent %s is there: %s/%s", name, AGENTS, name)
            if not is_good and (row is None or row.state != SUSPENDED):
                await self._agents.suspend(name, faulty(name))
            elif row is None:
                self._agents.supervisor.need(name, at_once=True)
            elif is_good and is_held(row):
                log.info("agent %s goes on: %s/%s is back", name, AGENTS, name)
                await self._agents.resume(name)
        except RequestError as error:  # the same was requested just before
            log.warning("%s/%s: %s", AGENTS, name, error)


def gone(name: str) -> str:
    """The reason for suspending an agent whose folder is gone."""
    return f"{AGENTS}/{name} is gone"


def faulty(name: str) -> str:
    """The reason for suspending an agent whose settings have never been free of faults."""
    return f"{AGENTS}/{name}/{AGENT_FILE} has faults"


def is_held(row: AgentRow) -> bool:
    """True if an agent is suspended for a fault of its folder, and continues when the fault is corrected."""
    return row.state == SUSPENDED and row.why in (gone(row.name), faulty(row.name))


def stored_files(store: Store, path: str) -> Sequence[bytes]:
    """The last good version of a file, as stored for the agents that follow it."""
    folder = folder_of(path)
    if not folder:
        return store.of().stored_files(path)
    owner = folder.removeprefix(f"{AGENTS}/").rstrip("/") if folder.startswith(AGENTS) else ""
    numbers = (row.agent for row in store.agents() if owner in ("", row.name))
    return next((found for number in numbers if (found := store.of(number).stored_files(path))), ())
