"""A cluster of one's own whose scheduler is restarted within seconds, its workers supervised (G70)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from distributed import Security

from narval.files.outside.cluster import CERTIFICATES, ClusterSettings
from tests.calls.cluster.test_cluster_lost import Daemon, go, noted, once_begun, started, text
from tests.calls.conftest import Module
from tests.ports import free_port

__all__ = ["go", "text"]


class OwnCluster:
    """A scheduler at one address, and a worker that is started again whenever it ends, as by systemd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        security = Security.temporary()
        texts = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
        for name, of in zip(CERTIFICATES, texts, strict=True):
            (folder / name).write_text(str(of))
        self.port = free_port()
        self.address = f"tls://127.0.0.1:{self.port}"
        self._tls = [
            "--tls-ca-file", str(folder / "ca.pem"),
            "--tls-cert", str(folder / "cert.pem"),
            "--tls-key", str(folder / "key.pem"),
        ]  # fmt: skip
        self.start_scheduler()
        worker = ["worker", self.address, *self._tls, "--nthreads", "1", "--no-dashboard"]
        words = " ".join(self._dask(*worker, "--local-directory", str(folder)))
        self.workers = self._begun(["sh", "-c", f"while :; do {words}; sleep 0.2; done"], "workers.log")

    def start_scheduler(self) -> None:
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        words = self._dask("scheduler", "--protocol", "tls", *place, *self._tls)
        self.scheduler = self._begun(words, "scheduler.log")

    def _begun(self, words: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as said:
            return subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)

    def _dask(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "dask", *words]

    def restart(self) -> None:
        """The scheduler is killed, and another one begins at its address."""
        kill(self.scheduler)
        self.start_scheduler()

    def end(self) -> None:
        for program in (self.workers, self.scheduler):
            kill(program)


def kill(program: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCluster]:
    (tmp_path / "cluster").mkdir()
    cluster = OwnCluster(tmp_path / "cluster")
    yield cluster
    cluster.end()


def limits_of(calls: Any) -> list[float]:
    """The moments at which calls are over whose limits the daemon keeps, while there is a cluster."""
    return [record.timer.when() for record in calls.book if record.timer is not None]


def test_G70_calls_are_made_again_when_a_scheduler_was_restarted_within_seconds_and_limits_count(
    cluster: OwnCluster, daemon: Daemon, text: Module, tmp_path: Path, go: Path
) -> None:
    settings = ClusterSettings(address=cluster.address, certificates=str(cluster.folder))
    calls = daemon(settings)
    under_way = [started(calls, text, "noted") for _ in range(3)]
    calls.until(lambda: len(noted(tmp_path)) == 1)
    has_begun = once_begun(calls)
    cluster.restart()
    calls.until(lambda: len(noted(tmp_path)) == 2)
    [until] = limits_of(calls)
    assert until <= has_begun + 60.0, "that of the call which had begun counts on"
    assert calls.book.executor.cluster.shown()["away"] == ""
    go.touch()
    for one in under_way:
        assert calls.outcome(one).problem is None
    assert len(noted(tmp_path)) == 4
    go.unlink()
    limited = started(calls, text, "noted", timeout=3.0)
    calls.until(lambda: len(noted(tmp_path)) == 5)
    kill(cluster.workers)
    kill(cluster.scheduler)
    problem = calls.outcome(limited).problem
    assert problem.kind == "timeout"
    assert "there is no cluster" in problem.message
