"""A cluster that goes on while daemons come and go, shared by the tests of a file, and daemons' executors."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from narval.calls.context import CallContext, Target
from narval.calls.record import CallListener, CallRecord, Outcome
from narval.core.engines.commands import Call
from narval.files.outside.cluster import ClusterSettings
from narval.files.settings import CallLimits
from tests.calls.conftest import Calls, number_of

PROGRAM = "narval.calls.cluster.local_program"
WORKER = "narval.calls.workers.worker"


class SharedCluster:
    """A scheduler with workers, which belongs to no daemon; its certificates are in a folder."""

    def __init__(self, folder: Path, workers: int, resources: str = "") -> None:
        self.folder = folder
        words = [sys.executable, "-m", PROGRAM, str(folder), str(workers), resources]
        with open(folder / "log", "w") as log:
            self.program = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
            )
        assert self.program.stdout is not None
        self.address = self.program.stdout.readline().strip()

    def settings(self, **others: Any) -> ClusterSettings:
        given = {"address": self.address, "certificates": str(self.folder), **others}
        return ClusterSettings(**given)

    def workers(self) -> list[psutil.Process]:
        """The programs that are workers of dask."""
        children = psutil.Process(self.program.pid).children()
        return [child for child in children if "multiprocessing.spawn" in " ".join(_line(child))]

    def ours(self) -> list[psutil.Process]:
        """The programs of narval that answer calls there."""
        children = psutil.Process(self.program.pid).children(recursive=True)
        return [child for child in children if WORKER in _line(child)]

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait()


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class Unrecorded(CallListener):
    """Takes an outcome, and leaves it to the test to say that it is recorded."""

    def __init__(self, listener: CallListener, unrecorded: list[Callable[[], None]]) -> None:
        super().__init__(lambda outcome: None)
        self.listener, self.unrecorded = listener, unrecorded

    def answered(self, record: CallRecord, outcome: Outcome) -> None:
        self.unrecorded.append(record.on_recorded)
        record.when_recorded(lambda: None)
        self.listener.answered(record, outcome)


class ClusterCalls(Calls):
    """A daemon's executor, whose calls of a module go to a cluster."""

    def __init__(self, settings: ClusterSettings, **limits: Any) -> None:
        super().__init__(CallLimits(cluster=settings, **limits))
        self.records = True
        """Whether outcomes are recorded at once."""
        self.unrecorded: list[Callable[[], None]] = []
        """What says that each other is, in their order."""

    def context(self, what: Any, name: str = "act", **fields: Any) -> CallContext:
        resources = fields.pop("resources", ())
        fields.setdefault("id", uuid.uuid4().hex)
        call = super().context(what, name, where="cluster", **fields)
        target = call.target
        call.target = Target(
            action=f"m.{name}",
            where="cluster",
            module_path=target.module_path,
            function_name=name,
            resources=resources,
        )
        return call

    def ask_for(self, call: CallContext, listener: CallListener, asked: Call | None = None) -> None:
        super().ask_for(call, listener if self.records else Unrecorded(listener, self.unrecorded), asked)

    def waits_for(self, call: CallContext) -> str:
        record = self.find(call.id)
        return "" if record is None else self.book.of(number_of(call.agent)).waits_for(record)


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCluster]:
    cluster = SharedCluster(tmp_path_factory.mktemp("cluster"), 2, "GPU=1")
    yield cluster
    cluster.end()


@pytest.fixture
def daemon() -> Iterator[Callable[..., ClusterCalls]]:
    made: list[ClusterCalls] = []

    def make(settings: ClusterSettings, **limits: Any) -> ClusterCalls:
        made.append(ClusterCalls(settings, **limits))
        return made[-1]

    yield make
    for calls in made:
        calls.close()
        calls.runner.close()
