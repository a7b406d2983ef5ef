"""Grant answers: the answer of a person who may alter the home, to an item that asked for what a definition
needs (`grant_items.py`), is written to `etc/grants.toml`.

If the daemon ends between an answer and its writing, the question is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from narval.agent.loop import Request
from narval.agent.run import Run
from narval.core.errors import NarvalError, RequestError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.grant_items import RequestAnswer, answer_of
from narval.daemon.reload import Reloader, altered
from narval.files.grants import grants_of, standings, write_grants
from narval.files.home import Home
from narval.files.snapshot import AgentFiles, Snapshot

log = logging.getLogger("narval.daemon")


class GrantAnswers:
    """Writes the answers to items that asked for what definitions need, and activates them. If writing fails,
    an error element reports it.
    """

    def __init__(self, home: Home | None, reloader: Reloader) -> None:
        self._home, self._reloader = home, reloader
        self._writing: dict[tuple[AgentHost, int], asyncio.Task[str]] = {}
        """The task that writes each answer, by agent and item; its result is why it failed, or ""."""

    def is_busy(self) -> bool:
        """True while an answer is being written, or is not active yet."""
        return bool(self._writing)

    async def written(self, host: AgentHost, item: int) -> None:
        """Wait until the answer of an item is written and active. Raises RequestError if it cannot be
        written, or if the files are not read afterwards.
        """
        writing = self._writing.get((host, item))
        if writing is not None and (why := await asyncio.shield(writing)):
            raise RequestError(why)

    def take(self, host: AgentHost, run: Run) -> None:
        """Take the answer of an ended run, if it is an item that asked."""
        answer = answer_of(host.agent, run)
        if answer is not None and self._home is not None:
            work = self._write(self._home, host, answer, run)
            task = asyncio.get_running_loop().create_task(work, name="narval-grants")
            self._writing[host, run.eid] = task

    async def close(self) -> None:
        """Stop writing answers: one that is not written is asked for again."""
        tasks = [*self._writing.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _write(self, home: Home, host: AgentHost, answer: RequestAnswer, run: Run) -> str:
        files, at = self._reloader.files, run.ended or 0.0
        decided = f"what {answer.name} needs is decided by {answer.by}"
        try:
            try:
                await altered(
                    home, lambda: _write_answer(home.path, files.of(host), files.snapshot, answer, at)
                )
            except (OSError, NarvalError) as error:
                why = f"{decided}, and cannot be written: {error}"
                host.post(Request(lambda turn: turn.transaction.add_error("grant-not-written", why)))
                return why
            try:
                await self._reloader.take_over()
            except RequestError as error:
                return f"{decided}; {error}"
        finally:
            self._writing.pop((host, run.eid), None)
            host.wake()
        return ""


def _write_answer(
    home: Path, files: AgentFiles, snapshot: Snapshot, answer: RequestAnswer, at: float
) -> None:
    """Write an answer to the grants of a home, unless the definition asks for something else by now.

    Raises RequestError if the file has faults, OSError.
    """
    before = grants_of(home)
    for one in standings(files, snapshot, answer.name):
        is_asked = one.decision.standing == "asked" and one.decision.lacking == answer.needs
        if is_asked and one.definition.kind == answer.kind:
            library = files.loaded.library
            grant = one.grant(library, answer.by, at, rejected=not answer.is_granted)
            write_grants(home, {**before, one.table: grant})
            did = "granted" if answer.is_granted else "rejected"
            log.info("%s %s what %s needs: %s", answer.by, did, answer.name, ", ".join(answer.needs))
            return
