"""Lost workers of a cluster, schedulers and local clusters, and clusters that are not there (G70)."""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from narval.calls.executor import Executor
from narval.calls.record import CallListener, CallRecord, Outcome
from narval.core.engines.commands import Call
from narval.files.outside.cluster import LOCAL_CLUSTER, ClusterSettings
from tests.calls.cluster.conftest import PROGRAM, ClusterCalls, SharedCluster
from tests.calls.conftest import Module

Daemon = Callable[..., ClusterCalls]

TEXT = """
import os, signal, time
from pathlib import Path
import narval

def act(): return "<a/>"
def noted():
    with Path(__file__).with_name("noted").open("a") as file:
        file.write(f"{os.getppid()}\\n")
    while not Path(__file__).with_name("go").exists(): time.sleep(0.01)
    return "<noted/>"
def poison():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
"""


@pytest.fixture
def text(tmp_path: Path) -> Module:
    return Module(tmp_path / "m.py", TEXT)


@pytest.fixture(autouse=True)
def go(tmp_path: Path) -> Iterator[Path]:
    """The file that lets calls end: they do at the end of the test, too."""
    yield tmp_path / "go"
    (tmp_path / "go").touch()


def noted(tmp_path: Path) -> list[int]:
    file = tmp_path / "noted"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


class Announced(CallListener):
    """Takes down which calls are announced."""

    def __init__(self, answered: Callable[[Outcome], None], announced: list[str], executor: Executor) -> None:
        super().__init__(answered)
        self._announced, self._executor = announced, executor

    def announce(self, record: CallRecord) -> None:
        self._announced.append(record.call.id)
        self._executor.go(record)


def started(
    calls: ClusterCalls, what: Module, name: str, announced: list[Any] | None = None, timeout: float = 60.0
) -> Any:
    """A call that is begun at once; one that must not be made twice if its announcement is kept."""
    call = calls.context(what, name, timeout=timeout)

    async def start() -> Any:
        import asyncio

        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked = None if announced is None else Call(call.id, "action", "m.noted", "send", on_restart="error")
        calls.ask_for(
            call,
            Announced(outcome.set_result, [] if announced is None else announced, calls.book.executor),
            asked,
        )
        return outcome

    return calls.runner.run(start())


def test_G70_what_a_lost_worker_had_is_made_again_unless_it_must_not_be(
    shared_cluster: SharedCluster, daemon: Daemon, text: Module, tmp_path: Path, go: Path
) -> None:
    calls = daemon(shared_cluster.settings())
    announced: list[str] = []
    both = started(calls, text, "noted"), started(calls, text, "noted", announced)
    calls.until(lambda: len(noted(tmp_path)) == 2)
    assert len(announced) == 1
    for worker in noted(tmp_path):
        os.kill(worker, signal.SIGKILL)
    go.touch()
    again, once = (calls.outcome(future) for future in both)
    assert again.problem is None
    assert once.problem.kind == "interrupted"
    assert len(noted(tmp_path)) == 3


def once_begun(calls: ClusterCalls) -> float:
    """The moment of the event loop at which it is known that a worker has begun a call."""
    calls.until(lambda: any(record.place is not None and record.place.worker for record in calls.book))
    return calls.runner.get_loop().time()


def limit_of(calls: ClusterCalls) -> float | None:
    """The moment at which the one call is over, if the daemon keeps its limit."""
    [record] = calls.book
    return record.timer.when() if record.timer is not None else None


def test_G70_the_limit_of_a_call_that_begins_again_counts_from_its_first_begin(
    shared_cluster: SharedCluster, daemon: Daemon, text: Module, tmp_path: Path, go: Path
) -> None:
    calls = daemon(shared_cluster.settings())
    once_more = started(calls, text, "noted", timeout=60.0)
    has_begun = once_begun(calls)
    calls.until(lambda: len(noted(tmp_path)) == 1)
    assert limit_of(calls) is None, "it is kept on the cluster"
    [worker] = noted(tmp_path)
    os.kill(worker, signal.SIGKILL)
    calls.until(lambda: limit_of(calls) is not None)
    assert limit_of(calls) <= has_begun + 60.0
    go.touch()
    assert calls.outcome(once_more).problem is None
    assert len(noted(tmp_path)) == 2


def test_G70_a_call_that_kills_its_workers_has_crashed(
    shared_cluster: SharedCluster, daemon: Daemon, text: Module
) -> None:
    calls = daemon(shared_cluster.settings())
    problem = calls.ask(text, "poison").problem
    assert problem.kind == "crashed"
    assert problem.message == "4 workers of the cluster were lost while they had the call"
    assert calls.ask(text).problem is None


def test_G70_a_scheduler_that_is_lost_is_told_and_its_calls_are_made_again(
    daemon: Daemon, text: Module, tmp_path: Path, go: Path
) -> None:
    calls = daemon(ClusterSettings(address=LOCAL_CLUSTER, workers=1))
    again = started(calls, text, "noted")
    calls.until(lambda: len(noted(tmp_path)) == 1)
    once = started(calls, text, "noted", [])
    (program,) = local_clusters()
    program.kill()
    calls.until(lambda: "ended with status -9" in str(calls.book.executor.cluster.shown()))
    go.touch()
    assert calls.outcome(again).problem is None
    assert calls.outcome(once).problem.kind == "interrupted", "it was sent, and may have begun"
    assert len(noted(tmp_path)) == 2


def test_G65_a_local_cluster_that_starts_is_no_warning_and_ends_when_nobody_needs_it(
    daemon: Daemon, text: Module, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "narval.cluster")
    calls = daemon(ClusterSettings(address=LOCAL_CLUSTER, workers=1), worker_idle=0.01)
    assert local_clusters() == []
    assert calls.ask(text).problem is None
    assert {record.levelname for record in caplog.records if record.name == "narval.cluster"} == {"INFO"}
    calls.until(lambda: local_clusters() == [])
    assert calls.book.executor.cluster.shown() == {
        "threads": 0,
        "tasks": 0,
        "queued": 0,
        "away": "nobody needs it",
    }
    assert calls.ask(text).problem is None, "it is there again"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (ClusterSettings(), "none is set; write cluster = "),
        (
            ClusterSettings(address="tls://127.0.0.1:1", certificates="/nowhere"),
            "no scheduler answers at tls://127.0.0.1:1: the certificates in /nowhere cannot be read",
        ),
    ],
)
def test_G70_without_a_cluster_a_call_waits_for_its_time_limit(
    daemon: Daemon, text: Module, settings: ClusterSettings, why: str
) -> None:
    calls = daemon(settings)
    call = calls.context(text, timeout=1.0, id=uuid.uuid4().hex)
    future = calls.start(call)
    assert calls.waits_for(call).startswith("there is no cluster: ")
    problem = calls.outcome(future).problem
    assert problem.kind == "timeout"
    assert f"there is no cluster: {why}" in problem.message


def local_clusters() -> list[psutil.Process]:
    """The local clusters of this program that are there."""
    children = psutil.Process().children(recursive=True)
    lines = ((child, _line(child)) for child in children)
    return [child for child, line in lines if PROGRAM in line and "narval-cluster-" in str(line)]


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() if process.status() != psutil.STATUS_ZOMBIE else []
    except psutil.Error:
        return []
