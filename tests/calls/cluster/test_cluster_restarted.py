"""A cluster of one's own whose scheduler is restarted within seconds, its workers supervised (G70)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from distributed import Security

from narval.files.outside.cluster import CERTIFICATES, ClusterSettings
from tests.calls.cluster.test_cluster_lost import Daemon, go, noted, started, text
from tests.calls.conftest import Module

__all__ = ["go", "text"]


class OwnCluster:
    """A scheduler at one address, and a worker that is started again whenever it ends, as by systemd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        security = Security.temporary()
        texts = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
        for name, of in zip(CERTIFICATES, texts, strict=True):
            (folder / name).write_text(str(of))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"tls://127.0.0.1:{self.port}"
        self._tls = [
            "--tls-ca-file", str(folder / "ca.pem"),
            "--tls-cert", str(folder / "cert.pem"),
            "--tls-key", str(folder / "key.pem"),
        ]  # fmt: skip
        self.start_scheduler()
        worker = ["worker", self.address, *self._tls, "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        words = " ".join(self._dask(*worker, "--local-directory", str(folder)))
        self.workers = subprocess.Popen(
            ["sh", "-c", f"while :; do {words}; sleep 0.2; done"],
            stdout=open(folder / "worker.log", "w"), stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def start_scheduler(self) -> None:
        words = self._dask(
            "scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard",
            *self._tls,
        )  # fmt: skip
        self.scheduler = subprocess.Popen(
            words, stdout=open(self.folder / "scheduler.log", "a"), stderr=subprocess.STDOUT, start_new_session=True
        )

    def _dask(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "dask", *words]

    def restart(self) -> None:
        """The scheduler is killed, and another one begins at its address."""
        os.killpg(self.scheduler.pid, signal.SIGKILL)
        self.scheduler.wait()
        self.start_scheduler()

    def end(self) -> None:
        for program in (self.workers, self.scheduler):
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OwnCluster]:
    (tmp_path / "cluster").mkdir()
    cluster = OwnCluster(tmp_path / "cluster")
    yield cluster
    cluster.end()


def settings(cluster: OwnCluster) -> ClusterSettings:
    return ClusterSettings(address=cluster.address, certificates=str(cluster.folder))


def test_calls_are_made_again_when_a_scheduler_was_restarted_within_seconds(
    cluster: OwnCluster, daemon: Daemon, text: Module, tmp_path: Path, go: Path
) -> None:
    calls = daemon(settings(cluster))
    under_way = [started(calls, text, "noted") for _ in range(3)]
    calls.until(lambda: len(noted(tmp_path)) == 1)
    began = time.monotonic()
    cluster.restart()
    calls.until(lambda: len(noted(tmp_path)) > 1)
    print("again after", time.monotonic() - began, calls.book.executor.cluster.shown())
    go.touch()
    for one in under_way:
        assert calls.outcome(one).problem is None
    print("done after", time.monotonic() - began)
