"""Traces: recorded turns go as spans to an OpenTelemetry collector, through a separate thread.

A turn costs the loop one entry of a queue. The thread makes spans of it and passes them to the SDK. While the
daemon has work, the thread takes a small share of the time, and turns beyond that are dropped and counted:
traces may have gaps, but the work never waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from typing import Any

from narval import __version__
from narval.agent.agent import AgentState
from narval.agent.recovery import row_of
from narval.agent.trace_ids import asked_in
from narval.daemon.spans import Beginning, Recorded, Span, SpanMaker
from narval.store.batch import AgentRow, Batch

log = logging.getLogger("narval.traces")

MOST_WAITING = 200_000
"""The most advances that wait to be made into spans."""
GATHER = 0.2
"""Seconds for which turns are collected."""
SHARE = 0.02
"""The share of the time that spans may take while the daemon itself has work."""
SLICE, LONG_SLICE = 0.005, 0.05
"""Seconds of work between checks whether the daemon is busy: while it is, and while it is not."""
BUSY = 0.3
"""The share of a core from which the daemon counts as busy."""
TOGETHER = 256
"""The number of spans that are exported together."""
PATIENCE = 3.0
"""Seconds that the last spans have when the daemon ends."""


class SdkMissingError(Exception):
    """The packages of the extra are not installed."""


class Traces:
    """The traces of all agents of a daemon, passed to an `exporter` of the SDK; None: the one that the
    environment names. Raises SdkMissingError, and ValueError for an invalid environment.
    """

    def __init__(self, exporter: Any = None) -> None:
        self._sdk = _Sdk(exporter)
        self._waiting: deque[Beginning | Recorded | int] = deque()
        """Recorded turns, and agents that begin or end to be traced; one that ends is given by its number."""
        self._noted = self._taken = 0
        """The numbers of advances added there, counted by the loop, and taken, counted by the thread."""
        self._lost = 0
        """The number of advances that found no room since the last report."""
        self._is_broken = False
        """True once the thread has lost its knowledge of runs under way."""
        self._agents: dict[int, tuple[AgentState, AgentRow]] = {}
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="narval-traces", daemon=True)
        self._thread.start()

    # --- in the loop ----------------------------------------------------------------------------------

    def begin(self, agent: AgentState, row: AgentRow, now: float) -> None:
        """Trace an agent from now on, with what it has under way."""
        active = agent.runs.active.values()
        agent.trace_by(self._sdk.samples)
        self._agents[row.agent] = agent, row
        traces = {run.eid: trace for run in active if (trace := asked_in(run))}
        calls = {run.eid: tuple(run.calls.values()) for run in active if run.calls}
        rows = tuple(map(row_of, active))
        self._waiting.append(Beginning(row.agent, row.id, row.name, now, rows, traces, calls))

    def end(self, agent: AgentState, row: AgentRow) -> None:
        """Stop tracing an agent that has left."""
        if self._agents.get(row.agent, (None,))[0] is agent:
            del self._agents[row.agent]
            self._waiting.append(row.agent)

    def note(self, batch: Batch) -> None:
        """Queue a recorded turn."""
        if not batch.journal:
            return
        if self._noted - self._taken > MOST_WAITING:
            self._lost += len(batch.journal)
            return
        if self._lost or self._is_broken:
            self._begin_anew(batch.journal[0].event.at)
        self._noted += len(batch.journal)
        self._waiting.append(Recorded(batch.agent, batch.runs, batch.journal))
        if not self._wake.is_set():
            self._wake.set()

    def _begin_anew(self, now: float) -> None:
        """Continue after a gap: all that is under way is registered again; what ended in it has no span."""
        if self._lost:
            log.warning("%d advances have no spans: more is done than traces may cost", self._lost)
        self._lost, self._is_broken = 0, False
        for agent, row in list(self._agents.values()):
            self.begin(agent, row, now)

    async def close(self) -> None:
        """Export the waiting spans, and end."""
        self._closed.set()
        self._wake.set()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        until = time.monotonic() + PATIENCE
        self._thread.join(PATIENCE)
        last = threading.Thread(target=self._sdk.close, name="narval-traces-end", daemon=True)
        last.start()
        last.join(max(0.0, until - time.monotonic()))

    # --- in the thread --------------------------------------------------------------------------------

    def _work(self) -> None:
        maker, is_last = SpanMaker(), False
        while not is_last:
            self._wake.wait()
            is_busy = self._pause(GATHER)
            is_last = self._closed.is_set()
            self._wake.clear()
            try:
                self._drain(maker, is_busy=is_busy)
            except Exception:
                maker, self._is_broken = SpanMaker(), True
                log.exception("spans could not be made")

    def _drain(self, maker: SpanMaker, *, is_busy: bool) -> None:
        """Make spans of everything queued, within the share while the daemon itself is busy."""
        began, made = time.thread_time(), 0
        while self._waiting:
            recorded = self._waiting.popleft()
            if isinstance(recorded, Beginning):
                maker.begin(recorded)
                continue
            if isinstance(recorded, int):
                maker.end(recorded)
                continue
            self._taken += len(recorded.journal)
            for span in maker.spans(recorded):
                self._sdk.export(span)
                made += 1
                if made % TOGETHER == 0:
                    self._sdk.flush()
                if (spent := time.thread_time() - began) > (SLICE if is_busy else LONG_SLICE):
                    is_busy = self._pause(spent / SHARE - spent if is_busy else SLICE)
                    began = time.thread_time()

    def _pause(self, seconds: float) -> bool:
        """Sleep for `seconds` seconds, or until the end; True if the daemon was busy in that time."""
        at, cpu = time.monotonic(), time.process_time()
        self._closed.wait(seconds)
        return time.process_time() - cpu > BUSY * (time.monotonic() - at)


class _Sdk:
    """The SDK of OpenTelemetry: its provider, with the resource and sampler that the environment names, and
    the processor that exports. Only this class imports it.
    """

    def __init__(self, exporter: Any) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.sdk import trace as sdk
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ModuleNotFoundError as error:
            raise SdkMissingError(f"expected the package {error.name}") from error
        self._trace, self._sdk = trace, sdk
        of_environment = OTELResourceDetector().detect().attributes
        named = {} if of_environment.get("service.name") else {"service.name": "narval"}
        self._provider = sdk.TracerProvider(
            resource=Resource.create({"service.version": __version__, **named}), shutdown_on_exit=False
        )
        self._processor = BatchSpanProcessor(exporter if exporter is not None else _exporter())
        self._scope = InstrumentationScope("narval", __version__)
        self._roles = {"client": trace.SpanKind.CLIENT, "server": trace.SpanKind.SERVER}

    def samples(self, id: str) -> bool:
        """True if the sampler has a trace exported."""
        decision: Any = self._provider.sampler.should_sample(None, int(id, 16), "").decision
        return bool(decision.is_sampled())

    def export(self, span: Span) -> None:
        """Pass a span to the processor, if its trace is exported."""
        if not self.samples(span.trace):
            return
        trace, error = self._trace, span.error
        self._processor.on_end(
            self._sdk.ReadableSpan(
                span.name,
                self._context(span.trace, span.id),
                self._context(span.trace, span.parent, remote=span.role == "server") if span.parent else None,
                self._provider.resource,
                span.attributes,
                kind=self._roles.get(span.role, trace.SpanKind.INTERNAL),
                status=trace.Status(trace.StatusCode.ERROR, error) if error else trace.Status(),
                start_time=int(span.start * 1e9),
                end_time=int(max(span.start, span.end) * 1e9),
                instrumentation_scope=self._scope,
            )
        )

    def flush(self) -> None:
        """Export the spans passed so far."""
        self._processor.force_flush()

    def close(self) -> None:
        """Export the rest, and end."""
        processor: Any = self._processor
        processor.shutdown()

    def _context(self, trace: str, span: str, *, remote: bool = False) -> Any:
        flags = self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED)
        return self._trace.SpanContext(int(trace, 16), int(span, 16), is_remote=remote, trace_flags=flags)


def _exporter() -> Any:
    """The exporter that the environment names. Raises ValueError."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if name == "console":
        return ConsoleSpanExporter()
    if name != "otlp":
        raise ValueError(f"OTEL_TRACES_EXPORTER: expected otlp or console, found {name!r}")
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    for variable in variables:
        if (protocol := os.environ.get(variable, "").strip().lower()) not in ("", "http/protobuf"):
            raise ValueError(f"{variable}: expected http/protobuf, found {protocol!r}")
    return OTLPSpanExporter()
