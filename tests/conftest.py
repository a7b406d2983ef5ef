"""Settings of all tests: they depend on no machine, and a run is like the one before.

Examples of hypothesis are the same each time, a sixth of what `make soak` tries (`examples.py`);
`HYPOTHESIS_PROFILE=random make test` looks for others. The machine is in UTC. A turn of an agent in this
process takes no time, so that what is done within one does not depend on how fast that goes; a test of that
time sets the stopwatch itself. What is compiled is kept, whatever the environment says: the hundreds of
programs that tests start would each compile narval anew.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from narval.system import stopwatch
from narval.system.secret import GIVEN
from tests.examples import PROFILE, examples
from tests.parsed_once import parse_each_once
from tests.postgres import Server, fresh_schema, private_server, shared_server

ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("same", ANY_MACHINE, derandomize=True, max_examples=examples(100))
settings.register_profile("random", ANY_MACHINE, print_blob=True)
settings.load_profile(PROFILE)

stopwatch.seconds = lambda: 0.0
parse_each_once()

MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30


def has_room(folder: Path) -> bool:
    """True if programs may lie in a folder, and there is room for all that tests write."""
    is_there = folder.is_dir() and os.access(folder, os.W_OK)
    return is_there and not os.statvfs(folder).f_flag & os.ST_NOEXEC and shutil.disk_usage(folder).free > ROOM


if "TMPDIR" not in os.environ and has_room(MEMORY):
    os.environ["TMPDIR"] = str(MEMORY)  # tests wait for a disk else, for minutes: no test cuts the power
    tempfile.tempdir = None

os.environ["TZ"] = "Etc/UTC"
time.tzset()
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


BEGUN_FIRST = (
    "house/",
    "acceptance/test_takeover.py",
    "acceptance/test_messages_between_homes.py",
    "browser/test_accessible.py",
    "calls/cluster/test_cluster_lost.py",
    "daemon/fleet/test_protocol.py",
    "simulator/",
    "modules/test_mail_survives.py",
    "store/test_wrong_values.py",
    "store/test_agents.py",
    "calls/mcp/test_hostile.py",
    "acceptance/",
    "docs/",
    "browser/",
)
"""The files that take longest: begun last, one of them would keep all other workers waiting for its end."""


class OneWorkerAFile(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file have one worker; those of the house too, which all walk the same trees."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/house" if nodeid.startswith("tests/house/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneWorkerAFile:
    """Give the tests of a file to one worker, whatever `--dist` says."""
    return OneWorkerAFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files that take longest begin first."""
    rank = {place: at for at, place in enumerate(BEGUN_FIRST)}

    def order(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0].removeprefix("tests/")
        return min((at for place, at in rank.items() if file.startswith(place)), default=len(rank))

    items.sort(key=order)


FREEZE = gc.freeze
gc.disable()  # until all tests are read: they stay


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of every later collection, and nothing else: a command leaves out all
    there is at its start, for its process ends soon, but this one goes on.
    """
    gc.collect()
    gc.freeze()
    gc.freeze = lambda: None
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[object]:
    """Leave what the tests of a file have left out of every later collection: trees of the whole house, homes
    that are parsed once, modules. Each later collection would look it through again. The secrets that they
    were given are hidden from no later text.
    """
    ran = yield
    if nextitem is not None and nextitem.path != item.path:
        GIVEN.clear()
        gc.collect()
        FREEZE()
    return ran


@pytest.fixture
def small_heap() -> None:
    """A collector that looks at nothing but what a test makes, for one that has it look often: what other
    tests have left is left out from now on.
    """
    gc.collect()
    FREEZE()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The URL of an empty schema in the PostgreSQL of this run of tests (`postgres.py`)."""
    with fresh_schema(shared_server()) as url:
        yield url


@pytest.fixture
def postgres() -> Iterator[Server]:
    """A PostgreSQL of one's own, which a test may stop, kill and start."""
    with private_server() as server:
        yield server
