"""Dataflows in the foreground, without a home: loaded from a file, and run to their end (T51)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from os import getpid
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from lxml import etree

from narval.calls.context import CallContext, call
from narval.core.elements.canonical import canonical
from narval.core.elements.element import parse
from narval.core.errors import DefinitionError, Fault, RequestError
from narval.files.loaded import Loaded
from narval.files.reading import load
from narval.files.settings import CallLimits, Settings
from narval.kinds.dataflow.calls.documents import NumberReader, inputs_of, named_values
from narval.kinds.dataflow.calls.driver import Show
from narval.kinds.dataflow.calls.flow_store import FILE, FlowStore
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.sending import outside
from narval.kinds.dataflow.calls.session import drive_session, remembering
from narval.kinds.dataflow.calls.spill import DiskSpill
from narval.kinds.dataflow.calls.web import Web
from narval.kinds.dataflow.engine.decision import PLAN_INPUT
from narval.kinds.dataflow.engine.network.requests import FlowSettings, TransactionOver
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.definition import DataflowDefinition

if TYPE_CHECKING:
    from narval.calls.book import CallBook

THREADS = 32
"""The functions of modules that run at once in threads."""


class FlowFile(NamedTuple):
    """A dataflow of a file, with the functions of the modules around it, the settings it goes by, and the
    folder at which relative paths begin. In a home, `keep` is the file of the store of dataflows.
    """

    definition: DataflowDefinition
    functions: Mapping[str, Callable[..., Any]]
    settings: Settings
    folder: Path
    keep: Path | None


def load_dataflow(file: Path, name: str = "") -> FlowFile:
    """The dataflow of a file, or the one of that name in it, ready to be run.

    A file below a folder `recipes` is loaded with all that lies there and in `modules` beside it, as in a
    home; any other with `modules` in its own folder. Raises DefinitionError, SettingsError, and RequestError
    for a name that is not there.
    """
    root = next((folder.parent for folder in file.absolute().parents if folder.name == "recipes"), None)
    loaded = load(root) if root is not None else _beside(file)
    loaded = loaded.with_definitions(file)
    path = str(file)
    found = [one for one in loaded.library.of("dataflow").values() if one.path in (path, file.name)]
    flows = [one for one in found if isinstance(one, DataflowDefinition)]
    named = [one for one in flows if name in (one.name, one.full_name)] if name else flows
    if not named:
        there = ", ".join(one.name for one in flows) or "none"
        raise RequestError(f"expected a dataflow of {file} ({there}), got {name!r:.80}")
    if not named[0].graphs:
        raise DefinitionError([Fault(path, 1, 1, f"{named[0].full_name} calls something that is not there")])
    settings = Settings.load(root) if root is not None else Settings()
    keep = root / "var" / FILE if root is not None and (root / "var").is_dir() else None
    return FlowFile(named[0], loaded.functions, settings, root or file.absolute().parent, keep)


def _beside(file: Path) -> Loaded:
    loaded = Loaded()
    folder = file.absolute().parent / "modules"
    for module in sorted(folder.glob("*.py")):
        loaded = loaded.with_definitions(module)
    return loaded


def sessions_of(data: bytes | None, values: Mapping[str, str]) -> list[etree._Element]:
    """The sessions of a document of inputs, values added; one without a document. Raises RequestError."""
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
    sessions: Iterable[etree._Element],
    shows: Iterable[Show],
    printed: Callable[[str], None],
    warn: Callable[[str], None],
    ttl: float | None = None,
) -> list[TransactionOver]:
    """Run a dataflow for all sessions at once; how each of them ended. Raises FlowError for bad inputs.

    `warn` is told of texts that were to be numbers and are none.
    """
    definition, functions, settings, folder, keep = flow
    here = CallContext("dataflow", 0, "", home=folder)
    here.allow(settings.fetch_allow, settings.services)
    here.enter()
    given = [inputs_of(definition, session) for session in sessions]
    plan, mine, threads = FlowPlan(definition), f"{getpid()} {time()} ", OwnThreads()
    code, readers, runs = UserCode(functions, threads.part), list[NumberReader](), []
    with ExitStack() as ends:
        store = ends.enter_context(closing(FlowStore(keep)))
        ends.callback(store.forget_sessions, lambda session: session.startswith(mine))
        web = Web(store)
        for at, (inputs, show) in enumerate(zip(given, shows, strict=False), 1):
            tools = FlowTools(
                session=f"{mine}{at}",
                code=code,
                store=store,
                web=web,
                show=printed,
                sources=settings.sources,
                senders=outside(code, folder, web),
                home=folder,
                dataflow=remembering(definition, inputs),
            )
            readers.append(tools.numbers)
            bounds = FlowSettings(spill=ends.enter_context(closing(DiskSpill())))
            runs.append(drive_session(Network(plan, bounds, tools.session), tools, show, inputs, ttl))
        try:
            ended = await asyncio.gather(*runs)
        finally:
            await threads.close()
    for unread in (one for reader in readers for one in reader.unread):
        warn(str(unread))
    return ended


class OwnThreads:
    """The threads of a program without a daemon, there once a function of a module is called."""

    def __init__(self) -> None:
        self._book: CallBook | None = None

    async def part(self, work: Callable[[], Any], timeout: float | None) -> Any:
        """Do work in a thread, for at most so many seconds of it."""
        if self._book is None:
            from narval.calls.book import CallBook  # here: many dataflows call no function
            from narval.calls.executor import Executor

            self._book = CallBook(Executor(CallLimits(threads=THREADS)))
        return await self._book.of(0).part(call(), work, timeout)

    async def close(self) -> None:
        """Let the threads end; those that are busy end with the program."""
        if self._book is not None:
            await self._book.close()
