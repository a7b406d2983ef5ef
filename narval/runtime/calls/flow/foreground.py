"""Dataflows in the foreground, without a home: loaded from a file, and run to their end (T51)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from os import getpid
from pathlib import Path
from time import time
from typing import Any

from lxml import etree

from narval.definitions.dataflow.definition import DataflowDefinition
from narval.engines.dataflow.decision import PLAN_INPUT
from narval.engines.dataflow.network import Network
from narval.engines.dataflow.requests import TransactionOver
from narval.engines.dataflow.wiring import FlowPlan
from narval.errors import DefinitionError, Fault, RequestError
from narval.memory.elements.canonical import canonical
from narval.memory.elements.element import parse
from narval.runtime.calls.flow.desk import Desk
from narval.runtime.calls.flow.documents import inputs_of, named_values
from narval.runtime.calls.flow.driver import FlowDriver, Show
from narval.runtime.calls.flow.flow_store import FlowStore
from narval.runtime.calls.flow.performing import UserCode
from narval.runtime.calls.flow.tools import FlowTools
from narval.runtime.calls.flow.web import Web
from narval.runtime.home.loaded import Loaded
from narval.runtime.home.loader import Loader


def load_dataflow(file: Path, name: str = "") -> tuple[DataflowDefinition, Mapping[str, Callable[..., Any]]]:
    """The dataflow of a file, or the one of that name in it, and the functions of the modules around it.

    A file below a folder `recipes` is loaded with all that lies there and in `modules` beside it, as in a
    home; any other with `modules` in its own folder. Raises DefinitionError, and RequestError for a name that
    is not there.
    """
    root = next((folder.parent for folder in file.absolute().parents if folder.name == "recipes"), None)
    loaded = Loader(root).load() if root is not None else _beside(file)
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
    return named[0], loaded.functions


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
        raise RequestError(f"expected <{PLAN_INPUT}> with a <session> for each, found <{root.tag!r}>")
    sessions = list(root.iterchildren("session"))
    for session in sessions:
        session.extend(list(named_values(values)))
    return sessions


async def run_sessions(
    definition: DataflowDefinition,
    sessions: Iterable[etree._Element],
    functions: Mapping[str, Callable[..., Any]],
    shows: Iterable[Show],
    printed: Callable[[str], None],
    ttl: float | None = None,
    allow: Iterable[str] = (),
    keep: Path | None = None,
) -> list[TransactionOver]:
    """Run a dataflow for all sessions at once; how each of them ended. Raises FlowError for bad inputs."""
    code = UserCode(functions)
    store, plan, mine = FlowStore(keep), FlowPlan(definition), f"{getpid()} {time()} "
    web = Web(allow, store, asyncio.sleep, time)
    try:
        inputs = [inputs_of(definition, session) for session in sessions]
        drivers = []
        for at, (_, show) in enumerate(zip(inputs, shows, strict=False), 1):
            session = f"{mine}{at}"
            desk = Desk(FlowTools(code, printed, asyncio.sleep, time, store, session, web))
            drivers.append(FlowDriver(Network(plan, id=session), desk.hire, show, ttl))
        return await asyncio.gather(
            *(driver.drive(given) for driver, given in zip(drivers, inputs, strict=True))
        )
    finally:
        code.close()
        store.forget_sessions(lambda session: session.startswith(mine))
        store.close()
