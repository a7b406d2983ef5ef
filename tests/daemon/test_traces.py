"""Traces: a run a trace, its steps and calls spans, though a daemon ends; nothing without them."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import narval
from bench.steps import MODULE as STEPS
from bench.steps import recipe
from narval.agent.trace_ids import trace_id
from narval.ask.runs.acts import cancel, start
from narval.core.engines.commands import Finish
from narval.core.engines.events import Started
from narval.daemon import main_loop
from narval.daemon.daemon import Daemon
from narval.daemon.spans import Beginning, Recorded, Span, SpanMaker
from narval.daemon.traces import Traces
from narval.store.batch import Advance, RunRow
from tests.counting import CountedCalls
from tests.daemon.at_work import Scene, in_a_loop
from tests.local_site import local_site

MODULE = """
import narval
from narval import ActionError, Input, Output, action

tries = []

@action(runs="inline")
def nothing():
    return None

@action(runs="inline")
def twice():
    tries.append(narval.call().attempt)
    if len(tries) == 1:
        raise ActionError("not yet", "not-yet")

@action(runs="inline")
def never():
    raise ActionError("the secret of the element", "no-luck", final=True)

@action(runs="inline")
def gives():
    return "<error type='given'><message>the secret of the element</message></error>"

@action
async def ask():
    await narval.fetch("{url}/asked")

@action
async def waits():
    await narval.sleep(1000)
"""
RECIPES = """<cookbook group="w">
<recipe name="outer" start_step="first" end_step="inner">
  <step id="first" type="action" target="w.twice" retries="3" backoff="1"/>
  <step id="inner" type="recipe" target="w.inner"/>
  <transition id="t"><in idref="first"/><out idref="inner"/></transition>
</recipe>
<recipe name="inner" start_step="s" end_step="s"><step id="s" type="action" target="w.nothing"/></recipe>
<recipe name="fails" start_step="s" end_step="s"><step id="s" type="action" target="w.never"/></recipe>
<recipe name="given" start_step="s" end_step="s"><step id="s" type="action" target="w.gives"/></recipe>
<recipe name="asks" start_step="s" end_step="s"><step id="s" type="action" target="w.ask"/></recipe>
<recipe name="waits" start_step="s" end_step="s"><step id="s" type="action" target="w.waits"/></recipe>
</cookbook>"""


def scene_in(folder: Path, settings: str = "", url: str = "") -> Scene:
    scene = Scene(folder / "home", settings=settings)
    scene.write("modules/w.py", MODULE.replace("{url}", url))
    scene.write("recipes/w.xml", RECIPES)
    return scene


def traced(daemon: Daemon) -> InMemorySpanExporter:
    """Where the spans of a daemon go, once it has closed."""
    exporter = InMemorySpanExporter()
    traces = Traces(exporter)
    daemon.rounds.trace(traces)
    daemon.end_with(traces.close)
    return exporter


def named(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    spans: dict[str, list[ReadableSpan]] = {}
    for span in sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0):
        spans.setdefault(span.name, []).append(span)
    return spans


def parent_of(span: ReadableSpan) -> int:
    return int(span.parent.span_id) if span.parent is not None else 0


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@in_a_loop
async def test_a_run_is_a_trace_and_its_steps_and_calls_are_spans(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    exporter = traced(daemon)
    eid = (await start(daemon, "w.outer"))["eid"]
    await daemon.main_loop.elapse(10)
    await scene.end()
    spans = named(exporter)
    assert len({span.context.trace_id for each in spans.values() for span in each if span.context}) == 1
    [outer], [inner], [first], [step] = spans["w.outer"], spans["w.inner"], spans["first"], spans["inner"]
    [failed, good], [nested], [s] = spans["action w.twice"], spans["recipe w.inner"], spans["s"]
    assert parent_of(outer) == 0
    assert [parent_of(first), parent_of(step)] == [id_of(outer)] * 2
    assert [parent_of(failed), parent_of(good)] == [id_of(first)] * 2
    assert parent_of(nested) == id_of(step)
    assert parent_of(inner) == id_of(nested)
    assert parent_of(s) == id_of(inner)
    about: Any = failed.attributes
    assert (about["error.type"], about["narval.attempt"], about["narval.run"]) == ("_OTHER", 1, eid)
    assert (failed.status.is_ok, good.status.is_ok, first.status.is_ok) == (False, True, True)
    assert outer.start_time is not None
    assert outer.end_time is not None
    assert outer.end_time - outer.start_time >= 1e9  # it was tried again after a second
    assert outer.resource.attributes["service.name"] == "narval"


@in_a_loop
async def test_what_fails_or_is_cancelled_says_so_without_what_elements_say(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    exporter = traced(daemon)
    await start(daemon, "w.fails")
    await start(daemon, "w.given")
    waiting = (await start(daemon, "w.waits"))["eid"]
    await daemon.main_loop.until_idle()
    await cancel(daemon, waiting)
    await daemon.main_loop.until_idle()
    await scene.end()
    spans = named(exporter)
    errors = {"w.fails": "failed", "action w.never": "_OTHER", "action w.gives": "_OTHER"}
    for name, error in {**errors, "w.waits": "cancelled", "action w.waits": "abandoned"}.items():
        [span] = spans[name]
        assert (span.status.is_ok, span.status.description) == (False, error)
    assert "secret" not in "".join(span.to_json() for each in spans.values() for span in each)


@in_a_loop
async def test_after_a_crash_a_run_goes_on_in_the_same_trace(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    before = traced(daemon)
    eid = (await start(daemon, "w.waits"))["eid"]
    await daemon.main_loop.until_idle()
    header = next(iter(daemon.calls.of(daemon.agent.store.agent).records.values())).call.traceparent
    scene.kill(daemon)
    await scene.end()
    assert before.get_finished_spans() == ()
    daemon = await scene.open()
    exporter = traced(daemon)
    await cancel(daemon, eid)
    await daemon.main_loop.until_idle()
    await scene.end()
    spans = named(exporter)
    [run], [call] = spans["w.waits"], spans["action w.waits"]
    assert run.context is not None
    assert header == f"00-{run.context.trace_id:032x}-{id_of(call):016x}-01"
    assert parent_of(call) == id_of(run)


@in_a_loop
async def test_spans_reach_a_collector_and_services_are_told_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way, as the settings and the environment say it."""
    with local_site() as site:
        site.put("/asked", "good")
        site.put("/v1/traces", "")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", site.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=desk,place=cellar")
        scene = scene_in(tmp_path, f'traces = true\nfetch_allow = ["{site.place}"]\n', site.url)
        daemon = await scene.open()
        await start(daemon, "w.asks")
        await daemon.main_loop.work_until(lambda: not daemon.agent.runs.active)
        while not any(one.path == "/v1/traces" for one in list(site.asked)):  # while the daemon is at work
            await asyncio.sleep(0.01)
        await scene.end()
        asked = {one.path: one for one in site.asked}
        requests = [_read(one) for one in site.asked if one.path == "/v1/traces"]
    resources = [resource for request in requests for resource in request.resource_spans]
    about = {each.key: each.value.string_value for each in resources[0].resource.attributes}
    assert (about["service.name"], about["place"]) == ("desk", "cellar")
    spans = {span.name: span for each in resources for scope in each.scope_spans for span in scope.spans}
    assert {"w.asks", "s", "action w.ask"} == set(spans)
    call = spans["action w.ask"]
    headers = {name.lower(): value for name, value in asked["/asked"].headers.items()}
    assert headers["traceparent"] == f"00-{call.trace_id.hex()}-{call.span_id.hex()}-01"


def _read(asked: Any) -> ExportTraceServiceRequest:
    """The spans that a collector was sent."""
    headers = {name.lower(): value for name, value in asked.headers.items()}
    is_packed = headers.get("content-encoding") == "gzip"
    request = ExportTraceServiceRequest()
    request.ParseFromString(gzip.decompress(asked.body) if is_packed else asked.body)
    return request


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER: expected otlp or console, found 'zipkin'"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "expected http/protobuf, found 'grpc'"),
        ("OTEL_SDK_DISABLED", "true", "OTEL_SDK_DISABLED is true"),
        ("", "", "install it with: pip install"),
    ],
)
@in_a_loop
async def test_where_traces_cannot_be_the_log_says_why_and_the_work_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    told: str,
) -> None:
    if variable:
        monkeypatch.setenv(variable, value)
    else:
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    scene = scene_in(tmp_path, "traces = true\n")
    daemon = await scene.open()
    assert told in scene.home.log.read_text()
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    assert not daemon.agent.runs.active
    assert daemon.agent.samples is None
    await scene.end()


@in_a_loop
async def test_a_sampler_of_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    exporter = traced(daemon)
    await start(daemon, "w.waits")
    await daemon.main_loop.until_idle()
    records = daemon.calls.of(daemon.agent.store.agent).records
    assert next(iter(records.values())).call.traceparent.endswith("-00")
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    await scene.end()
    assert exporter.get_finished_spans() == ()


@in_a_loop
async def test_where_more_is_done_than_traces_may_cost_there_is_a_gap_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    monkeypatch.setattr("narval.daemon.traces.MOST_WAITING", -1)
    exporter = traced(daemon)
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    monkeypatch.setattr("narval.daemon.traces.MOST_WAITING", 1000)
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    await scene.end()
    assert len(named(exporter)["w.inner"]) == 1
    assert "have no spans" in scene.home.log.read_text()


def test_what_a_server_of_tasks_calls_is_a_trace_of_its_own() -> None:
    """As services are told: the server hardly ends, and its span with it."""
    server = RunRow(1, "task-server", "w.desk", "d", "running", "active", 0.0)
    case = RunRow(2, "task-case", "w.desk", "d", "running", "active", 0.0, None, 1, "s", "1-1")
    plan = RunRow(3, "plan", "w.inner", "d", "running", "active", 0.0, None, 2, "s", "2-1")
    maker = SpanMaker()
    maker.begin(Beginning(1, "home", "home", 0.0, (server, case, plan)))
    ends = [Advance(run, 9, Started(9, 1.0), (), (Finish("done", "done"),)) for run in (3, 2)]
    spans = {span.name: span for span in maker.spans(Recorded(1, (), ends))}
    assert spans["w.inner"].trace == spans["w.desk"].trace == trace_id("home", 2)
    assert (spans["w.desk"].parent, spans["w.inner"].parent != "") == ("", True)


@in_a_loop
async def test_after_a_fault_of_its_own_what_begins_later_has_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, makes = scene_in(tmp_path), SpanMaker.spans
    broken: list[str] = []

    def spans(maker: SpanMaker, recorded: Recorded) -> Iterator[Span]:
        if not broken:
            broken.append("once")
            raise ZeroDivisionError
        return makes(maker, recorded)

    monkeypatch.setattr(SpanMaker, "spans", spans)
    daemon = await scene.open()
    exporter = traced(daemon)
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    while "spans could not be made" not in scene.home.log.read_text():
        await asyncio.sleep(0.01)
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    await scene.end()
    assert len(named(exporter)["w.inner"]) == 1


@in_a_loop
async def test_a_daemon_ends_though_its_collector_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    class Hanging(InMemorySpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            answers.wait()
            return super().export(spans)

    monkeypatch.setattr("narval.daemon.traces.PATIENCE", 0.2)
    scene = scene_in(tmp_path)
    daemon = await scene.open()
    traces = Traces(Hanging())
    daemon.rounds.trace(traces)
    daemon.end_with(traces.close)
    await start(daemon, "w.inner")
    await daemon.main_loop.until_idle()
    await scene.end()  # which comes back before anybody answers
    answers.set()


def test_nothing_of_it_is_imported_without_it(tmp_path: Path) -> None:
    program = """
import sys, narval
with narval.open({home!r}) as agent:
    agent.start("w.inner")
    agent.until_idle()
found = [name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "google", "requests")]
found += [name for name in sys.modules if name in ("narval.daemon.traces", "narval.daemon.spans")]
print(found)
"""
    scene = scene_in(tmp_path)
    program = program.format(home=str(scene.home.path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_step_costs_the_loop_hardly_more_with_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: a turn is noted, and nothing is done for a step."""
    monkeypatch.setattr(main_loop, "SLICE", inf)
    (tmp_path / "w.py").write_text(STEPS)
    (tmp_path / "w.xml").write_text(recipe(10, "step"))
    calls = {}
    for is_traced in (False, True):
        with narval.open() as agent:
            agent.load(tmp_path / "w.py")
            agent.load(tmp_path / "w.xml")
            agent.until_idle()
            if is_traced:
                traces = Traces(InMemorySpanExporter())
                agent.daemon.rounds.trace(traces)
                agent.daemon.end_with(traces.close)
            with CountedCalls() as counted:
                agent.start_each("w.line", ["<x n='0'/>"] * 20)
                agent.until_idle()
            calls[is_traced] = counted.number
    assert calls[True] <= 1.01 * calls[False]
