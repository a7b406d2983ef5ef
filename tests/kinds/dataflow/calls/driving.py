"""Networks driven in tests: a file of dataflows, functions of modules, and what came out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from narval.files.loaded import Loaded
from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.driver import FlowInput
from narval.kinds.dataflow.calls.flow_store import FlowStore
from narval.kinds.dataflow.calls.performers.numbers import NumberReader
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.sending import Sender, to_file
from narval.kinds.dataflow.calls.sessions import drive_session, remembering
from narval.kinds.dataflow.calls.web import Web
from narval.kinds.dataflow.engine.network.batches import TupleBatch
from narval.kinds.dataflow.engine.network.requests import FlowSettings, TransactionOver
from narval.kinds.dataflow.engine.network.transaction import Network
from narval.kinds.dataflow.engine.network.wiring import FlowPlan
from narval.kinds.dataflow.language.definition import DataflowDefinition


class Taken:
    """What came of a dataflow, in the order in which it came."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.values: dict[str, Any] = {}
        self.ended: dict[str, bool] = {}
        self.lines: list[str] = []
        self.unread: NumberReader

    def tuples(self, output: str, batch: TupleBatch) -> None:
        rows = [dict(zip(batch.schema, row, strict=True)) for row in batch.rows]
        self.rows.setdefault(output, []).extend(rows)

    def value(self, output: str, value: Any) -> None:
        self.values[output] = value

    def over(self, output: str, cancelled: bool) -> None:
        assert output not in self.ended, f"{output} ended twice"
        self.ended[output] = cancelled


def load(folder: Path, plan: str, module: str = "") -> tuple[DataflowDefinition, Mapping[str, Any]]:
    """The first dataflow of a text, with the functions of a module."""
    loaded = Loaded()
    if module:
        (folder / "code.py").write_text(module)
        loaded = loaded.with_definitions(folder / "code.py")
    (folder / "flow.plan").write_text(plan)
    loaded = loaded.with_definitions(folder / "flow.plan")
    found = next(iter(loaded.library.of("dataflow").values()))
    assert isinstance(found, DataflowDefinition)
    return found, loaded.functions


def session_of(
    folder: Path,
    plan: str,
    module: str = "",
    inputs: Mapping[str, FlowInput] | None = None,
    ttl: float | None = None,
    settings: FlowSettings | None = None,
    store: FlowStore | None = None,
    allow: tuple[str, ...] = (),
    sources: Mapping[str, FlowSource] | None = None,
    session: str = "session",
    senders: Mapping[str, Sender] | None = None,
) -> tuple[Coroutine[Any, Any, TransactionOver], Taken]:
    """One transaction, to be awaited, and what will come of it."""
    definition, functions = load(folder, plan, module)
    taken, code = Taken(), UserCode(functions)
    kept = store if store is not None else FlowStore(None)
    web = Web(allow, kept, asyncio.sleep, time)
    given, numbers = inputs or {}, NumberReader()
    taken.unread = numbers
    tools = FlowTools(
        code,
        taken.lines.append,
        asyncio.sleep,
        time,
        kept,
        session,
        web,
        numbers,
        sources or {},
        {"file": partial(to_file, code, folder), **(senders or {})},
        folder,
        dataflow=remembering(definition, given),
    )
    return drive_session(Network(FlowPlan(definition), settings, session), tools, taken, given, ttl), taken


def drive(
    folder: Path,
    plan: str,
    module: str = "",
    inputs: Mapping[str, FlowInput] | None = None,
    **others: Any,
) -> tuple[TransactionOver, Taken]:
    """Run one transaction to its end; `others` are those of `session_of`."""
    session, taken = session_of(folder, plan, module, inputs, **others)
    return asyncio.run(session), taken  # type: ignore[arg-type]
