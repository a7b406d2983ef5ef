"""Dataflows in the foreground, without a home: loaded from a file and run to their end (T51)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, closing
from os import getpid
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from lxml import etree

from narval.calls.context import CallContext, call, enter
from narval.core.elements.canonical import canonical
from narval.core.elements.element import parse
from narval.core.errors import DefinitionError, Fault, RequestError
from narval.files.loaded import Loaded
from narval.files.reading import load
from narval.files.settings import CallLimits, Settings
from narval.kinds.dataflow.calls.documents import NumberReader, named_values
from narval.kinds.dataflow.calls.driver import FlowInput, Show
from narval.kinds.dataflow.calls.messages import InTurn, outside
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.results import (
    Claims,
    LocalResults,
    ResultChange,
    Results,
    SessionResults,
    forget_session,
    session_in,
)
from narval.kinds.dataflow.calls.session import bounds, check_spilling, drive_session, remembering
from narval.kinds.dataflow.calls.spill import DiskSpill
from narval.kinds.dataflow.calls.web import PageCache, Web, pages_file
from narval.kinds.dataflow.engine.decision import PLAN_INPUT
from narval.kinds.dataflow.engine.network.counts import Tally
from narval.kinds.dataflow.engine.network.requests import FlowListener, TransactionOver
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.definition import DataflowDefinition
from narval.store.batch import ResultRow
from narval.store.store import ALL

if TYPE_CHECKING:
    from narval.calls.book import CallBook

THREADS = 32
"""The most functions of modules that run in threads at once."""


class FlowFile(NamedTuple):
    """A dataflow of a file, with the functions of the modules around it, its settings, and the base folder of
    relative paths. `home` is the folder of the home that contains it, if any.
    """

    definition: DataflowDefinition
    functions: Mapping[str, Callable[..., Any]]
    settings: Settings
    folder: Path
    home: Path | None


def load_dataflow(file: Path, name: str = "") -> FlowFile:
    """Load the first dataflow of a file, or the one with that name, ready to run.

    A file below a folder `recipes` is loaded with all files there and in `modules` beside it, as in a home;
    any other file with `modules` in its own folder. Raises DefinitionError, SettingsError, and RequestError
    for an unknown name.
    """
    root = next((folder.parent for folder in file.absolute().parents if folder.name == "recipes"), None)
    loaded = load(root) if root is not None else _beside(file)
    loaded = loaded.with_definitions(file)
    path = str(file)
    in_file = [one for one in loaded.library.of("dataflow").values() if one.path in (path, file.name)]
    flows = [one for one in in_file if isinstance(one, DataflowDefinition)]
    named = [one for one in flows if name in (one.name, one.full_name)] if name else flows
    if not named:
        if not flows:
            raise RequestError(f"expected a file with dataflows, found none in {file}")
        there = ", ".join(one.name for one in flows)
        raise RequestError(f"expected a dataflow of {file} ({there}), got {name!r:.80}")
    if not named[0].graphs:
        raise DefinitionError([Fault(path, 1, 1, f"{named[0].full_name} calls something that is not there")])
    settings = Settings.load(root) if root is not None else Settings()
    home = root if root is not None and (root / "var").is_dir() else None
    return FlowFile(named[0], loaded.functions, settings, root or file.absolute().parent, home)


def _beside(file: Path) -> Loaded:
    loaded = Loaded()
    folder = file.absolute().parent / "modules"
    for module in sorted(folder.glob("*.py")):
        loaded = loaded.with_definitions(module)
    return loaded


def sessions_of(data: bytes | None, values: Mapping[str, str]) -> list[etree._Element]:
    """The sessions in a document of inputs, with `values` added; without a document, one. Raises
    RequestError.
    """
    if data is None:
        return [named_values(values)]
    root = parse(canonical(data))
    if root.tag != PLAN_INPUT:
        raise RequestError(f"expected <{PLAN_INPUT}> with a <session> for each, found <{root.tag!s}>")
    sessions = list(root.iterchildren("session"))
    if not sessions:
        raise RequestError(f"expected a <session> for each transaction in <{PLAN_INPUT}>, found none")
    for session in sessions:
        session.extend(list(named_values(values)))
    return sessions


async def run_sessions(
    flow: FlowFile,
    sessions: Iterable[Mapping[str, FlowInput]],
    shows: Iterable[Show],
    printed: Callable[[str], None],
    warn: Callable[[str], None],
    limits: Mapping[str, float] | None = None,
    results: Results | None = None,
    listener: FlowListener | None = None,
) -> list[TransactionOver]:
    """Run a dataflow for the inputs of all sessions at once; return how each ended. Raises FlowError.

    `limits` override the settings. `warn` receives texts that should be numbers but are not. `results` has
    what the home remembers; `listener` hears what happens at operators.
    """
    definition, functions, settings, folder, home = flow
    here = CallContext("dataflow", 0, "", home=folder)
    here.allow(settings.fetch_allow, settings.services)
    enter(here)
    bounded = settings.dataflows.with_asked(limits or {})
    check_spilling(definition, bounded)
    plan, mine, threads = FlowPlan(definition), f"{getpid()} {time()} ", OwnThreads()
    code, readers, runs = UserCode(functions, threads.part), list[NumberReader](), []
    tallies: list[Tally] = []
    with ExitStack() as ends:
        pages = PageCache(None if home is None else pages_file(home))
        web, claims = Web(ends.enter_context(closing(pages))), Claims()
        store = results if results is not None else LocalResults()
        for at, (inputs, show) in enumerate(zip(sessions, shows, strict=False), 1):
            tools = FlowTools(
                code=code,
                results=SessionResults(store, f"{mine}{at}", remembering(definition, inputs), claims),
                web=web,
                show=printed,
                sources=settings.sources,
                senders=outside(code, folder, web),
                home=folder,
            )
            readers.append(tools.numbers)
            within = bounds(bounded, ends.enter_context(closing(DiskSpill())), listener)
            network = Network(plan, within, tools.results.session)
            tallies.append(network.frames.tally)
            runs.append(_drive(network, store, tools, show, inputs, bounded.ttl))
        try:
            ended = await asyncio.gather(*runs)
        finally:
            await threads.close()
    for reader, tally in zip(readers, tallies, strict=True):
        for unread in (*reader.unread, *tally.lacking()):
            warn(str(unread))
    return ended


async def _drive(
    network: Network,
    store: Results,
    tools: FlowTools,
    show: Show,
    inputs: Mapping[str, FlowInput],
    ttl: float | None,
) -> TransactionOver:
    """Drive a session, and record what it saw or, if it failed, what it sent."""
    results = tools.results
    try:
        over = await drive_session(network, tools, show, inputs, ttl)
        if over.state == "done":
            await store.write(await results.ended_well())
        else:
            await forget_session(store, results.session)
        return over
    finally:
        results.end()


class HomeResults(LocalResults):
    """Results of a program without a daemon. Results that outlive it belong to the home, reached by `ask`.

    Without `keeps`, the home records nothing.
    """

    def __init__(self, ask: Callable[..., Any], *, keeps: bool) -> None:
        super().__init__()
        self._ask, self._keeps, self._read = ask, keeps, set[str]()

    async def all(self, scope: str, most: int = ALL) -> list[ResultRow]:
        """The results of a scope, newest first."""
        await self._know(scope)
        return await super().all(scope, most)

    async def of(self, scope: str, keys: Collection[str]) -> list[ResultRow]:
        """The results of a scope that have one of these keys."""
        await self._know(scope)
        return await super().of(scope, keys)

    async def write(self, change: ResultChange, also: InTurn | None = None) -> None:
        """Keep a change; the home records the part that outlives the program."""
        await super().write(change, also)
        if not self._keeps:
            return
        rows = [[*row[:3], row.data.decode()] for row in change.rows if session_in(row.scope) is None]
        dropped = [list(row) for row in change.dropped]
        if rows or dropped:
            await asyncio.to_thread(self._ask, "record_flow_results", rows=rows, dropped=dropped)

    async def _know(self, scope: str) -> None:
        """Read a scope of the home on first use."""
        if session_in(scope) is None and scope not in self._read:
            rows = await asyncio.to_thread(self._ask, "flow_results", scope=scope)
            rows_by_key = self.scopes.setdefault(scope, {})
            for key, at, data in rows:
                rows_by_key.setdefault(key, ResultRow(scope, key, at, data.encode()))
            self._read.add(scope)


class OwnThreads:
    """The threads of a program without a daemon, made on the first call of a module's function."""

    def __init__(self) -> None:
        self._book: CallBook | None = None

    async def part(self, work: Callable[[], Any], timeout: float | None) -> Any:
        """Do work in a thread, for at most `timeout` seconds."""
        if self._book is None:
            from narval.calls.book import CallBook  # imported here because many dataflows call no function
            from narval.calls.executor import Executor

            self._book = CallBook(Executor(CallLimits(threads=THREADS)))
        return await self._book.of(0).part(call(), work, timeout)

    async def close(self) -> None:
        """Let idle threads end; busy ones end with the program."""
        if self._book is not None:
            await self._book.close()
