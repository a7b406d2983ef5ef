"""The folders of people: files offered for the items that ask them, and their answers taken (P55–P57).

    item offered -> work/ann/57-purchase.approve.xml -> work/ann/done/ -> taken under a number as in
    the inbox -> delivered to the item, and the number noted, in one commit -> removed; or refused/ and reason

Nothing is polled: file events report moved files, and turns report changed items.
"""

from __future__ import annotations

import asyncio
import logging
import re
import stat
from contextlib import suppress
from pathlib import Path

from narval.agent.turn import Turn
from narval.core.definitions.people.directory import Person
from narval.core.errors import ElementError
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.dropped.drop_folder import (
    AGAIN,
    Claim,
    Collector,
    DropFolder,
    NotSetAsideError,
    NotTakenError,
    contents,
)
from narval.files.found_files import names_in
from narval.people import files
from narval.people.item_text import text_shown
from narval.store.rows import number
from narval.system.clock import Clock

log = logging.getLogger("narval.work")

_OFFERED = re.compile(r"(\d{1,18})-(.+)\.xml")


class WorkFolders(Collector):
    """The folders of people in a home, scanned one after another."""

    def __init__(self, home: Path, host: AgentHost, clock: Clock, *, durable: bool) -> None:
        self._home, self._clock, self._durable = home, clock, durable
        self._folders: dict[str, DropFolder] = {}
        self._turns: asyncio.Task[None] | None = None
        super().__init__(host, "narval-work-folders")

    async def close(self) -> None:
        """Stop taking and offering."""
        await super().close()
        if self._turns is not None:
            self._turns.cancel()
            await asyncio.wait([self._turns])

    async def take_all(self) -> float | None:
        """Take people's answers, and offer them their items."""
        there = await asyncio.to_thread(names_in, self._home / files.WORK_FOLDER)
        people = [person for person in self._host.agent.lookup.people.people if person.name in there]
        for person in people:
            await self._serve(person)
        if people and self._turns is None:
            loop = asyncio.get_running_loop()
            self._turns = loop.create_task(self._heed_turns(), name="narval-work-turns")
        self.forget_untaken(person.name for person in people)
        return AGAIN if self.untaken else None

    async def _heed_turns(self) -> None:
        """Scan again after each turn in which an item or the directory has changed."""
        before = self._version()
        while True:
            await self._host.turned(3600.0)
            if self._version() != before:
                before = self._version()
                self._settling.notice()

    def _version(self) -> tuple[int, str]:
        return files.version(self._host.listings.of), self._host.agent.lookup.people.digest

    async def _serve(self, person: Person) -> None:
        """Take a person's answers, then offer the person's items; note what prevents it."""
        folder, untaken = self._home / files.WORK_FOLDER / person.name, list[str]()
        try:
            await asyncio.to_thread(files.check_folder, folder, person, self._home.stat())
            try:
                await self._take_all(person)
            except NotTakenError as error:
                untaken = error.reasons
            await self._offer(person, folder)
        except (ElementError, NotSetAsideError, OSError) as error:
            untaken = [f"{files.WORK_FOLDER}/{person.name} is not looked after: {error}"]
        except Exception:
            log.exception("%s/%s is left alone", files.WORK_FOLDER, person.name)
        self.note_untaken(person.name, untaken)

    # --- taking -----------------------------------------------------------------------------------------

    async def _take_all(self, person: Person) -> None:
        folder = self._folders.get(person.name)
        if folder is None:
            recorded = number(self._host.agent.facts, _recorded(person), 0)
            where, aside = f"{files.WORK_FOLDER}/{person.name}/{files.DONE}", files.REFUSED_ANSWERS
            folder = DropFolder(self._home, recorded, where, refused=aside, durable=self._durable)
            self._folders[person.name] = folder
        async for claim in folder.claims():
            await self._take(person, folder, claim)

    async def _take(self, person: Person, folder: DropFolder, claim: Claim) -> None:
        """Deliver the answer in a file, and remove the file; or set it aside with the reason."""
        try:
            content = await asyncio.to_thread(contents, claim, files.MOST_BYTES_OF_ANSWER)
            if content is not None:
                owner = files.owner_of(content[1], person, self._home.stat())
                answer = await asyncio.to_thread(files.read_answer, content[0])
                refused = await self._host.submit(
                    lambda turn: _take_answer(turn, person, owner, claim, answer)
                )
                if refused is not None:
                    raise refused
        except ElementError as refusal:
            await asyncio.to_thread(folder.set_aside, claim, refusal)
            return
        await asyncio.to_thread(folder.remove, claim)

    # --- offering ---------------------------------------------------------------------------------------

    async def _offer(self, person: Person, folder: Path) -> None:
        """Write the files of the items that a person may answer this way, and remove those of other items."""
        view, at = self._host.loop.view, self._clock.now()
        asked = files.items_asked(self._host.listings.of, self._host.agent, view, at, person.name)
        run_of = {files.name_of(run): run for run in asked}
        there = await asyncio.to_thread(names_in, folder)
        runs = self._host.agent.runs
        for name in there:
            if (match := _OFFERED.fullmatch(name)) and name not in run_of:
                run = runs.get(int(match[1]))
                if run is not None and name == files.name_of(run):
                    await asyncio.to_thread(_remove_offered, folder / name)
        for name in run_of.keys() - set(there):
            run = run_of[name]
            shown = text_shown(self._host.agent.store, run.eid)
            text = files.offered_file(run, person.name, shown, view.element)
            await asyncio.to_thread(files.write_offered, folder, name, text)


def _recorded(person: Person) -> str:
    """The fact of the store with the number of the last answer taken from a person's folder."""
    return f"work/{person.name}"


def _take_answer(
    turn: Turn, person: Person, owner: str, claim: Claim, answer: files.FiledAnswer
) -> ElementError | None:
    """Deliver an answer, and note the file's number in the same commit; return why it is refused, if so."""
    refused = files.deliver_answer(turn, person, owner, claim.shown, answer)
    if refused is None:
        turn.transaction.batch.meta.append((_recorded(person), str(claim.number)))
    return refused


def _remove_offered(path: Path) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
