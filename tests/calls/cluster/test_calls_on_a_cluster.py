"""Calls on a cluster that is there: answered by workers of narval, once, bounded (G65-G72)."""

import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.calls.cluster.client import PublishedTask
from narval.calls.workers import frames
from narval.files.outside.cluster import CERTIFICATES
from tests.calls.cluster.conftest import ClusterCalls, SharedCluster

Daemon = Callable[..., ClusterCalls]

TEXT = """
import os, time
from pathlib import Path
import narval

def act(): return f"<a pid='{os.getpid()}' parent='{os.getppid()}'/>"
def crash(): os.kill(os.getpid(), 11)
def greedy(): bytearray(1 << 30)
def hang(): time.sleep(3600)
def large(): return "<a>" + "x" * 600_000 + "</a>"
def told():
    print("hello from afar")
    narval.call().progress(1, 2)
    time.sleep(3600)
def noted():
    with Path(__file__).with_name("noted").open("a") as file:
        file.write(f"{narval.call().id}\\n")
    return f"<noted attempt='{narval.call().attempt}'/>"
def slow():
    noted()
    while not Path(__file__).with_name("go").exists(): time.sleep(0.01)
    return "<slow/>"
"""


@pytest.fixture
def text(tmp_path: Path) -> Any:
    path = tmp_path / "m.py"
    path.write_text(TEXT)
    from tests.calls.conftest import Module

    return Module(path, TEXT)


def noted(tmp_path: Path) -> list[str]:
    file = tmp_path / "noted"
    return file.read_text().split() if file.exists() else []


def test_G68_a_call_is_answered_by_a_worker_of_narval(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any
) -> None:
    calls = daemon(shared_cluster.settings())
    (element,) = calls.ask(text).elements
    workers = {str(worker.pid) for worker in shared_cluster.workers()}
    assert any(f"parent='{worker}'" in element.xml.decode().replace('"', "'") for worker in workers)


def test_G68_what_goes_wrong_costs_its_call_alone(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any
) -> None:
    calls = daemon(shared_cluster.settings(), worker_memory=128 << 20)
    before = {worker.pid for worker in shared_cluster.workers()}
    asked = {
        name: calls.start(calls.context(text, name, timeout=timeout))
        for name, timeout in (("crash", 60.0), ("greedy", 60.0), ("hang", 1.0), ("act", 60.0))
    }
    found = {name: calls.outcome(future) for name, future in asked.items()}
    assert found["crash"].problem.kind == "crashed"
    assert "SIGSEGV" in found["crash"].problem.message
    assert found["greedy"].problem.kind == "MemoryError"
    assert found["hang"].problem.kind == "timeout"
    assert found["act"].problem is None
    assert {worker.pid for worker in shared_cluster.workers()} == before


@pytest.mark.usefixtures("logged")
def test_G68_a_call_that_is_given_up_is_ended_there(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "narval.action")
    calls = daemon(shared_cluster.settings())
    call = calls.context(text, "told")
    future = calls.start(call)
    calls.until(lambda: call.progressed == (1, 2))
    assert "hello from afar" in caplog.text
    answering = {worker.pid for worker in shared_cluster.ours()}
    calls.abandon(call.id)
    assert calls.outcome(future).abandoned
    calls.until(lambda: not answering <= {worker.pid for worker in shared_cluster.ours()})


def test_G71_no_more_are_there_than_it_has_use_for_and_each_is_answered_once(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, tmp_path: Path
) -> None:
    calls = daemon(shared_cluster.settings())
    assert calls.ask(text).problem is None
    waiting = [calls.context(text, "slow") for _ in range(6)]
    futures = [calls.start(call) for call in waiting]
    calls.until(lambda: len(noted(tmp_path)) == 2)
    assert calls.book.counts.queued == 2, "two threads: two that run, two that wait there"
    there = "it is on the cluster, which has no thread for it"
    calls.until(lambda: [calls.waits_for(call) for call in waiting].count(there) == 2)
    reasons = [calls.waits_for(call) for call in waiting]
    assert reasons.count("all 4 places on the cluster are taken") == 2
    (tmp_path / "go").touch()
    assert [calls.outcome(future).problem for future in futures] == [None] * 6
    assert sorted(noted(tmp_path)) == sorted(call.id for call in waiting)


def test_G71_short_calls_go_in_groups(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, tmp_path: Path
) -> None:
    calls = daemon(shared_cluster.settings())
    for _ in range(10):
        calls.ask(text, "noted")
    asked = [calls.context(text, "noted") for _ in range(300)]
    futures = [calls.start(call) for call in asked]
    assert [calls.outcome(future).problem for future in futures] == [None] * 300
    assert sorted(noted(tmp_path)[10:]) == sorted(call.id for call in asked)


def test_G65_a_call_goes_where_its_resources_are_and_waits_where_they_are_not(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any
) -> None:
    calls = daemon(shared_cluster.settings())
    assert calls.ask(text, resources=(("GPU", 1.0),)).problem is None
    call = calls.context(text, resources=(("GPU", 2.0),))
    future = calls.start(call)
    calls.until(lambda: calls.waits_for(call) == "no worker of the cluster has GPU=2")
    assert calls.ask(text).problem is None, "it is in nobody's way"
    calls.abandon(call.id)
    assert calls.outcome(future).abandoned


def test_G67_who_has_certificates_of_another_authority_is_refused(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, tmp_path: Path
) -> None:
    from distributed import Security

    stranger = Security.temporary()
    for name, content in (
        ("ca.pem", stranger.tls_ca_file),
        ("cert.pem", stranger.tls_client_cert),
        ("key.pem", stranger.tls_client_key),
    ):
        (tmp_path / name).write_text(content)
    calls = daemon(shared_cluster.settings(certificates=str(tmp_path)))
    call = calls.context(text, timeout=1.0)
    future = calls.start(call)
    problem = calls.outcome(future).problem
    assert problem.kind == "timeout"
    assert "there is no cluster" in problem.message


def test_G67_who_has_no_certificates_is_refused(shared_cluster: SharedCluster, tmp_path: Path) -> None:
    host, port = shared_cluster.address.removeprefix("tls://").split(":")
    text = (
        "import socket, ssl\n"
        "context = ssl.create_default_context(cafile=%r)\n"
        "context.check_hostname = False\n"
        f"with socket.create_connection(({host!r}, {port})) as plain, context.wrap_socket(plain) as found:\n"
        "    print(found.recv(1))\n"
    ) % str(shared_cluster.folder / "ca.pem")
    done = subprocess.run(["python3", "-c", text], capture_output=True, check=False)
    assert done.returncode != 0
    assert b"certificate required" in done.stderr or b"alert" in done.stderr


def test_G72_what_is_too_large_is_refused(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = daemon(shared_cluster.settings())
    monkeypatch.setattr("narval.calls.cluster.frames.MOST", 100)
    problem = calls.ask(text).problem
    assert problem.kind == "too-large"
    assert "keep them as files, and give back where these are" in problem.message
    assert frames.MOST == 128 * 1024 * 1024


def test_G72_so_much_of_results_is_in_memory_until_they_are_recorded(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any
) -> None:
    calls = daemon(shared_cluster.settings(memory=1_000_000))
    calls.records = False
    futures = [calls.start(calls.context(text, "large")) for _ in range(3)]
    calls.until(lambda: any(future.done() for future in futures))
    assert calls.ask(text).problem is None, "others have room"
    assert [future.done() for future in futures].count(True) == 1
    calls.unrecorded.pop(0)()
    calls.until(lambda: [future.done() for future in futures].count(True) == 2)
    while calls.unrecorded:
        calls.unrecorded.pop(0)()
    calls.until(lambda: all(future.done() for future in futures))


def test_G69_the_next_daemon_finds_what_the_last_one_has_begun(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, tmp_path: Path
) -> None:
    id = uuid.uuid4().hex
    before = daemon(shared_cluster.settings())
    before.start(before.context(text, "slow", id=id))
    before.until(lambda: noted(tmp_path) == [id])
    before.close()
    after = daemon(shared_cluster.settings())
    future = after.start(after.context(text, "slow", id=id))
    (tmp_path / "go").touch()
    assert after.outcome(future).problem is None
    assert noted(tmp_path) == [id], "it ran once"


def test_G69_a_call_that_must_not_be_made_twice_is_found_or_interrupted(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any, tmp_path: Path
) -> None:
    calls = daemon(shared_cluster.settings())
    problem = calls.ask(text, "noted", id=uuid.uuid4().hex, has_begun=True).problem
    assert (problem.kind, noted(tmp_path)) == ("interrupted", [])


def test_G69_what_nobody_has_collected_for_a_day_is_dropped(
    shared_cluster: SharedCluster, daemon: Daemon, text: Any
) -> None:
    from distributed import Client, Security

    authority, own, key = (str(shared_cluster.folder / name) for name in CERTIFICATES)
    security = Security(tls_ca_file=authority, tls_client_cert=own, tls_client_key=key)
    yesterday, today = int(time.time()) - 90_000, int(time.time()) - 80_000
    with Client(shared_cluster.address, security=security, set_as_default=False) as client:
        finished = {name: client.submit(int, key=f"old-{name}") for name in ("left", "new", "late")}
        waiting = client.submit(int, key="old-waits", resources={"NOBODY": 1})
        client.gather(list(finished.values()))
        published = {
            PublishedTask("old-left", yesterday, over=True): finished["left"],
            PublishedTask("old-new", yesterday, over=False): finished["new"],
            PublishedTask("old-late", today, over=True): finished["late"],
            PublishedTask("old-waits", yesterday, over=False): waiting,
        }
        client.publish_dataset({task.name: future for task, future in published.items()})
        client.publish_dataset({"of somebody else": finished["left"]})
        calls = daemon(shared_cluster.settings())
        assert calls.ask(text).problem is None
        found = client.list_datasets()
        left = {task.key: task for name in found if (task := PublishedTask.of(name)) and "old-" in task.key}
        assert set(left) == {"old-new", "old-late", "old-waits"}
        assert left["old-new"].over, "it is over now: its day begins"
        assert left["old-new"].at > today
        assert not left["old-waits"].over
        assert "of somebody else" in found
        client.unpublish_dataset(["of somebody else", *(task.name for task in left.values())])
