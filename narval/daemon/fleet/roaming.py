"""Roaming agents, which any daemon of a store may have: their collections and settings (G58).

    publish -> a heartbeat has the digest -> fetched, in a thread -> written to the folder -> read like others

Their settings are a fact of the store. Each daemon writes the collections that they follow to its
`collections/`. An agent whose collections have not arrived in their published version is not activated: it
would treat missing ones as removed. With `run --follow`, a home is checked and published whenever a file is
saved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from narval.agent.turn import Turn
from narval.core.errors import (
    DefinitionError,
    NarvalError,
    NotFetchedError,
    NotFoundError,
    RequestError,
    StoreAwayError,
    StoreError,
    SurroundingsError,
)
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.files_in_force import FilesInForce
from narval.daemon.fleet.shared_files import StoredSettings, WantedFiles, lacking
from narval.daemon.reload import Reloader
from narval.files.agents.published_folders import (
    digest_here,
    is_own,
    pack,
    packed_and_checked,
    published_here,
    remove_published,
    unpack,
    write_published,
)
from narval.files.agents.settings import HOME_COLLECTION, OWN, SETTINGS, parse_stored_settings
from narval.store.postgresql.leases import Published
from narval.store.store import Store

log = logging.getLogger("narval.collections")


class RoamingAgents:
    """The agents that any daemon may have, and the folders of the collections that they follow.

    They continue as soon as the collections that they follow are here.
    """

    def __init__(
        self, home: Path, published: Published, settings: StoredSettings, reloader: Reloader
    ) -> None:
        self._home, self._published, self.settings = home, published, settings
        self._reloader, self._files = reloader, reloader.files
        self._wanted = WantedFiles()
        self.waiting: set[str] = set()
        """The agents that wait for collections that they follow."""
        self._fetching = Repeated(self._fetch_all, "collections cannot be fetched")

    # --- settings -------------------------------------------------------------------------------------

    async def check(self, text: str) -> None:
        """Check that a text is valid as the settings of an agent. Raises DefinitionError with all its faults,
        RequestError if it names a collection that is not published, StoreError.
        """
        settings, faults = parse_stored_settings(text)
        if settings is None:
            raise DefinitionError(faults)
        there = {row.name for row in await asyncio.to_thread(self._published.all)}
        for name in settings.get("collections", ()):
            if name not in there and name not in (HOME_COLLECTION, OWN):
                collections = f"those there are: {', '.join(sorted(there)) or 'none'}"
                todo = f"publish it first: narval collection publish collections/{name}"
                raise NotFoundError(f"there is no published collection {name}; {collections}; {todo}")

    async def check_new(self, name: str, text: str) -> None:
        """Check, like `check`, the settings of an agent that is about to be made, and that the collections
        which they name are here. Raises NotFetchedError too.
        """
        await self.check(text)
        with self.settings.coming(name, text):
            names, before = self._files.settings_of(name).collections, self._wanted.followed
            try:
                await self.fetch_for(name)
                self.require(name)
            except NarvalError:
                of_others = {self._files.settings_of(one).collections for one in self.waiting - {name}}
                followed = self._wanted.followed - ({names} - before - of_others)
                self._want(self._wanted._replace(followed=followed))
                raise
            finally:
                self.waiting.discard(name)

    def record(self, host: AgentHost, text: str, turn: Turn) -> None:
        """Record a text as the settings of an agent, which applies them within the same turn."""
        turn.transaction.batch.meta.append((SETTINGS, text))
        self._files.apply_in_turn(host, turn)

    # --- followed collections -------------------------------------------------------------------------

    def require(self, name: str) -> None:
        """Check that all collections that an agent follows have been read as published; otherwise the agent
        waits until they have. Raises NotFetchedError, StoreError.
        """
        if not self._files.roams(name):
            return
        self.settings.forget(name)  # another daemon may have altered its settings
        files, published = self._files, self._wanted.published
        names = files.settings_of(name).collections
        missing = lacking(self._home, names, published, files.snapshot.published)
        follows_home = HOME_COLLECTION not in published and {*names} <= {HOME_COLLECTION, OWN}
        if missing is None and (follows_home or files.followed(name) is not None):
            self.waiting.discard(name)
            return
        if not self.waiting:
            log.info("agents wait for collections that are not here as they are published, %s first", name)
        self.waiting.add(name)
        if names not in self._wanted.followed:
            self._want(self._wanted._replace(followed=self._wanted.followed | {names}))
            self._fetching.begin()
        if missing is None or missing in published:
            why = f"of which this daemon does not have the published version yet: {missing or names[0]}"
        else:
            why = f"one of which is not published, and not in collections/ here: {missing}"
        raise NotFetchedError(f"{name} follows collections {why}; `narval collection` tells which are")

    def restore_folders(self) -> None:
        """Rewrite folders that differ from the published version."""
        if self._files.snapshot.published != self._wanted.published:
            self._fetching.begin()

    def _want(self, files: WantedFiles) -> None:
        self._wanted = files
        self._reloader.want(files)

    # --- fetching -------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Fetch everything published, before any agent is activated. Raises StoreError."""
        rows = await asyncio.to_thread(self._published.all)
        self._want(WantedFiles({row.name: row.digest for row in rows}))
        if self._wanted.published or published_here(self._home):
            await self._fetch_all()

    def hear(self, published: Iterable[tuple[str, str]]) -> None:
        """Record the digests in a heartbeat, and fetch what is missing here."""
        now = dict(published)
        if now != self._wanted.published or self._fetching.failed:
            self._want(self._wanted._replace(published=now))
            self._fetching.begin()

    async def fetch_for(self, name: str) -> None:
        """Fetch the collections that an agent follows, if possible. Raises StoreError."""
        try:
            self.require(name)
        except NotFetchedError:
            await self.fetch()

    async def fetch(self) -> None:
        """Fetch what is missing here, if possible, and have it read."""
        await asyncio.wait([self._fetching.begin()])

    async def close(self) -> None:
        """Stop fetching."""
        await self._fetching.close()

    async def _fetch_all(self) -> None:
        await self._reloader.reload(first=self._write_folders)

    def _write_folders(self) -> None:
        """Update the folders to match the store. Raises StoreAwayError."""
        published = self._wanted.published
        for name, digest in published.items():
            if digest_here(self._home, name) == digest or is_own(self._home, name):
                continue
            try:
                self._write_folder(name)
            except StoreAwayError:
                raise
            except (StoreError, SurroundingsError) as error:
                log.error("the collection %s, as it is published, is not taken over: %s", name, error)
        for name in published_here(self._home) - published.keys():
            log.info("the collection %s is no longer published", name)
            remove_published(self._home, name)

    def _write_folder(self, name: str) -> None:
        if (collection := self._published.get(name)) is None:
            return  # the next heartbeat reports that it was withdrawn
        digest, data = collection
        write_published(self._home, name, digest, unpack(data, digest))
        log.info("the collection %s was fetched: %.12s", name, digest)


class Repeated:
    """Work that is repeated if it is requested while running, and never runs twice at a time.

    `trouble` says in the log what it means if it fails.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], trouble: str) -> None:
        self._work, self._trouble = work, trouble
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self.failed = False
        """True if the last attempt failed."""

    def begin(self) -> asyncio.Task[None]:
        """Start the work, or repeat it after the present run."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._do(), name="narval-repeated")
        return self._task

    async def close(self) -> None:
        """Stop the work."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _do(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._work()
                self.failed = False
            except NarvalError as error:
                if not self.failed:
                    log.warning("%s, and this is retried: %s", self._trouble, error)
                self.failed = True
            except Exception:
                log.exception("%s", self._trouble)


# --- publishing -----------------------------------------------------------------------------------------

AGAIN = 1.0
"""Seconds after which publishing is retried if the store was away."""


def publishing(
    home: Path, store: Store, files: FilesInForce, by: str
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the task that publishes a home now, and after each change of its files, until cancelled; `by` is
    a login. Raises RequestError if no other home could follow.
    """
    if store.published is None:
        expectation = "a store that homes share, such as postgresql://… in etc/narval.toml"
        raise RequestError(
            f"--follow publishes what is saved in this home: expected {expectation}, found SQLite"
        )
    return partial(_publish_changes, home, store.published, files, by)


async def _publish_changes(home: Path, published: Published, files: FilesInForce, by: str) -> None:
    changed = asyncio.Event()

    async def note() -> None:
        changed.set()

    files.on_change.append(note)
    tried, is_away = "", False
    while True:
        try:
            tried = await asyncio.to_thread(_publish, home, published, by, tried)
            is_away = False
        except StoreAwayError as error:
            if not is_away:
                log.warning("this home could not be published, and publishing is retried: %s", error)
            is_away = True
            await asyncio.sleep(AGAIN)
            continue
        except NarvalError as error:
            log.error("this home is not published: %s", error)
        await changed.wait()
        changed.clear()


def _publish(home: Path, published: Published, by: str, tried: str) -> str:
    """Publish the home unless it equals what was `tried` last, or has faults; return the digest tried."""
    digest = pack(home, declares=False)[0].digest
    if digest == tried:
        return tried
    before = next((row.digest for row in published.all() if row.name == HOME_COLLECTION), "")
    try:
        packed = packed_and_checked(home, HOME_COLLECTION, {})
    except DefinitionError as error:
        what_stays = f"version {before[:12]} stays" if before else "nothing is published"
        log.error("this home is not published, %s, for it has faults: %s", what_stays, error)
        return digest
    if packed.digest != before:
        published.put(HOME_COLLECTION, packed.digest, packed.data, by)
        log.info("this home was published: %d files, version %.12s", len(packed.files), packed.digest)
    return packed.digest
