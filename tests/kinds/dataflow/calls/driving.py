"""Networks driven in tests: a file of dataflows, functions of modules, and what came out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from narval.calls import context
from narval.calls.context import CallContext, current_call
from narval.files.loaded import Loaded
from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.documents import NumberReader
from narval.kinds.dataflow.calls.driver import FlowInput
from narval.kinds.dataflow.calls.foreground import OwnThreads
from narval.kinds.dataflow.calls.messages import Sender, outside
from narval.kinds.dataflow.calls.performers.performing import UserCode
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.calls.results import Claims, LocalResults, Results, SessionResults
from narval.kinds.dataflow.calls.session import drive_session, remembering
from narval.kinds.dataflow.calls.web import PageCache, Web
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

    def retracted(self, output: str, batch: TupleBatch) -> None:
        """What was taken stays."""

    def value(self, output: str, value: Any) -> None:
        self.values[output] = value

    def over(self, output: str, cancelled: bool) -> None:
        assert output not in self.ended, f"{output} ended twice"
        self.ended[output] = cancelled


def enter(folder: Path, *allow: str) -> None:
    """Be within a call that may fetch from some places inside."""
    here = CallContext("session", 1, "flow", home=folder)
    here.allow(allow, ())
    context.enter(here)


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
    store: Results | None = None,
    claims: Claims | None = None,
    is_recorded: bool = True,
    allow: tuple[str, ...] = (),
    sources: Mapping[str, FlowSource] | None = None,
    session: str = "session",
    senders: Mapping[str, Sender] | None = None,
) -> tuple[Coroutine[Any, Any, TransactionOver], Taken]:
    """One transaction, to be awaited, and what will come of it; its end `is_recorded`, or was lost."""
    definition, functions = load(folder, plan, module)
    taken, threads, given = Taken(), OwnThreads(), inputs or {}
    code, kept = UserCode(functions, threads.part), store if store is not None else LocalResults()
    web, results = Web(PageCache(None)), SessionResults(kept, session, remembering(definition, given), claims)
    tools = FlowTools(
        code=code,
        results=results,
        web=web,
        show=taken.lines.append,
        sources=sources or {},
        senders={**outside(code, folder, web), **(senders or {})},
        home=folder,
    )
    taken.unread = tools.numbers

    async def run() -> TransactionOver:
        if current_call() is None:
            enter(folder, *allow)
        try:
            network = Network(FlowPlan(definition), settings, session)
            over = await drive_session(network, tools, taken, given, ttl)
            if over.state == "done" and is_recorded:
                await kept.write(await results.ended_well())
            return over
        finally:
            results.end()
            await threads.close()

    return run(), taken


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
