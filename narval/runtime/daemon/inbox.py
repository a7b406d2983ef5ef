"""The inbox: an XML file moved to `inbox/` becomes elements, exactly once (N8, N35).

    inbox/NAME -> inbox/.taken/NUMBER-NAME -> read, checked -> added, and the number noted, in one commit
               -> removed

The number tells how far the inbox has been read: a file in `.taken` under a number that is noted was added,
and is only to be removed; one with a higher number was not. So there is no moment at which `kill -9` loses a
file or adds it twice. A file that is refused goes to `inbox/refused/`, its reason beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from narval.errors import ElementError, NarvalError
from narval.memory.elements.element import Origin
from narval.memory.elements.error_element import make_error
from narval.runtime.agent.turn import Turn
from narval.runtime.daemon.agents.agent_host import AgentHost
from narval.runtime.daemon.drop_folder import Claim, DropFolder, NotSetAsideError, read
from narval.runtime.daemon.reload import FilesInForce
from narval.runtime.store.rows import number
from narval.runtime.system.file_events import Debounce
from narval.runtime.system.time_slice import TimeSlice

log = logging.getLogger("narval.inbox")

RECORDED = "inbox"
"""The fact of the store that holds the number of the last file added."""

SETTLE, MOST = 0.05, 0.5
AGAIN = 5.0
"""Seconds after which it is tried again to set a file aside."""


class Inbox:
    """Adds what is dropped into a folder, one file after another, in order of their names.

    `meta` are the facts the store had at the start; `host` adds elements, and is woken when nothing is left
    to add; `files` have the schemas that elements must fit, and tell if all must survive a loss of power.

    When a file can be neither added nor set aside, no further one is claimed: a later number would tell the
    next start that this one was added. It is tried again from time to time, and an error element says so.
    """

    def __init__(self, home: Path, meta: Mapping[str, str], host: AgentHost, files: FilesInForce) -> None:
        durable = files.settings.durability == "power"
        self._folder = DropFolder(home, number(meta, RECORDED, 0), durable=durable)
        self._host, self._files = host, files
        self._settling = Debounce(SETTLE, MOST)
        self._stuck = ""
        """Why nothing is added at present."""
        self.is_busy = True
        """True while there may be something to add."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="narval-inbox")

    async def close(self) -> None:
        """Add nothing more; what is under way is for the next start."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def look(self) -> None:
        """Look soon: something may have been dropped."""
        self.is_busy = True
        self._settling.notice()

    async def _follow(self) -> None:
        while True:
            try:
                await self._add_all()
                self._stuck = ""
            except NotSetAsideError as error:
                await self._tell(str(error))
            except Exception as error:
                known = isinstance(error, NarvalError)
                log.error("the inbox is left alone from now on: %s", error, exc_info=None if known else error)
                return
            finally:
                self.is_busy = False
                self._host.wake()
            await self._settling.quiet(AGAIN if self._stuck else None)
            self.is_busy = True

    async def _tell(self, why: str) -> None:
        """Tell once that nothing more is added until something is put right."""
        if why == self._stuck:
            return
        self._stuck = why
        message = f"nothing is taken from the inbox until that is put right: {why}"
        log.error("%s", message)
        await self._host.submit(lambda turn: turn.add(make_error("inbox-stuck", message)))

    async def _add_all(self) -> None:
        for claim in await asyncio.to_thread(self._folder.left_over):
            await self._add(claim)
        for name in await asyncio.to_thread(self._folder.unclaimed):
            claimed = await asyncio.to_thread(self._folder.claim, name)
            if claimed is not None:
                await self._add(claimed)

    async def _add(self, claim: Claim) -> None:
        """Add what a file holds, all of it or nothing, and remove it."""
        try:
            elements, owner = await asyncio.to_thread(read, claim)
            await self._check(elements, claim)
        except ElementError as refusal:
            await asyncio.to_thread(self._folder.set_aside, claim, refusal)
            return
        origin = Origin(step=claim.shown, by=owner)

        def work(turn: Turn) -> list[int]:
            turn.transaction.batch.meta.append((RECORDED, str(claim.number)))
            return [turn.add(xml, origin) for xml in elements]

        eids = await self._host.submit(work)
        log.info("%s: %d elements", claim.shown, len(eids))
        await asyncio.to_thread(self._folder.remove, claim)

    async def _check(self, elements: list[bytes], claim: Claim) -> None:
        """Raise ElementError for the first element that its schema refuses (N7), with its place."""
        schemas, time_slice = self._files.schemas, TimeSlice()
        for position, xml in enumerate(elements):
            refusal = schemas.refusal(xml)
            if refusal is not None:
                document = await asyncio.to_thread(claim.path.read_bytes)
                fault = schemas.refusal_in(document, position)
                reason, line, column = (fault.message, fault.line, fault.column) if fault else (refusal, 1, 1)
                raise ElementError("invalid", f"refused by its schema: {reason}", line, column)
            await time_slice.yield_if_due()
