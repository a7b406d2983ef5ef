"""The server of PostgreSQL that tests have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres import GIVEN, Server, private_server, shared_server

OURS = pytest.mark.skipif(bool(os.environ.get(GIVEN)), reason="a server is given")


def test_G64_a_test_has_a_schema_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE t ()")
        found = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 't'").fetchone()
        assert found is not None
        assert found[0] in postgres_url
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)


def test_G63_a_server_is_killed_and_comes_back_with_what_was_committed(postgres: Server) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (n int)")
        connection.execute("INSERT INTO t VALUES (7)")
        postgres.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres.url)
    postgres.start()
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (7,)
    postgres.stop()
    postgres.start()


@pytest.mark.parametrize("way", ["nobody", "namespace", "copy"] if os.getuid() == 0 else [""])
def test_G63_a_server_starts_in_each_way(way: str) -> None:
    with private_server(way) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


USING = """
import os, sys
from tests.postgres import shared_server
os.environ.pop("PYTEST_XDIST_TESTRUNUID", None)
os.environ["PYTEST_XDIST_TESTRUNUID"] = sys.argv[1]
print(shared_server(), flush=True)
sys.stdin.read()
"""


@OURS
def test_G64_a_server_is_one_for_all_programs_of_a_run_and_ends_with_the_last(tmp_path: Path) -> None:
    run = f"t{os.getpid()}"
    using = [
        subprocess.Popen(
            [sys.executable, "-c", USING, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    urls = set()
    for one in using:
        assert one.stdout is not None
        urls.add(one.stdout.readline().strip())
    [url] = urls
    with psycopg.connect(url) as connection:
        found = connection.execute("SHOW data_directory").fetchone()
    assert found is not None
    pid = int(Path(found[0], "postmaster.pid").read_text().split("\n")[0])
    server = psutil.Process(pid)
    using[0].communicate()  # it ends well
    using[1].kill()
    with psycopg.connect(url):
        assert server.is_running()
    using[2].kill()
    server.wait()
    for one in using[1:]:
        one.communicate()


@OURS
def test_G64_who_asks_twice_has_the_same(postgres_url: str) -> None:
    assert shared_server() == shared_server()
    assert postgres_url.startswith(shared_server())
