"""The memory of a home is copied, and not a byte of the home is altered: at rest, after a crash, at work."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import narval
from narval.core.errors import RequestError
from narval.files.home import Home
from narval.files.settings import Settings
from narval.trials.simulate.memory_copy import remembered
from narval.trials.simulate.scenario import scenario_of
from narval.trials.simulate.simulated_home import simulated_home
from narval.trials.simulate.simulation import play_scenario
from tests.surfaces.cli.command_line import daemon, well
from tests.trials.simulate.homes import play, really_called


class Print(NamedTuple):
    """What would differ if a file had been written."""

    mode: int
    changed: int
    content: str


def prints(home: Home, *, without: tuple[str, ...] = ()) -> dict[str, Print]:
    """Every file and folder of a home; only looking at one may be seen in it."""
    found = {}
    for path in [home.path, *home.path.rglob("*")]:
        if path.name not in without and not path.is_socket():
            known = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path.relative_to(home.path))] = Print(known.st_mode, known.st_mtime_ns, content)
    return found


@pytest.fixture
def lived_in(shop: Home) -> Home:
    """A home that has sold something."""
    with narval.open(shop.path) as agent:
        agent.add("<order id='1'/>")
        agent.until_idle()
    for trace in shop.path.glob("*.called"):
        trace.unlink()
    return shop


NOW = """<scenario at="2026-11-21T08:00" memory="now" until="1d">
  <start recipe="shop.sell"/><arrive at="+1h"><order id="2"/></arrive>
  <expect><element match="receipt" count="2"/><element match="shop" count="1"/></expect>
</scenario>"""


def test_a_home_that_never_ran_is_left_as_it_is(shop: Home) -> None:
    before = prints(shop)
    assert play(shop, NOW.replace('receipt" count="2"', 'receipt" count="1"')).well
    assert prints(shop) == before
    assert not shop.var.exists()


def test_a_home_at_rest_is_left_as_it_is_and_its_memory_goes_on(lived_in: Home) -> None:
    before = prints(lived_in)
    report = play(lived_in, NOW)
    assert [(found.expectation.text, found.count) for found in report.unmet] == []
    assert prints(lived_in) == before
    assert really_called(lived_in) == []
    # the start-plan of memory.xml was obeyed long ago, and what was used stays used
    assert [line["name"] for line in report.lines if line["what"] == "started"] == ["shop.sell"] * 2
    assert report.remembered > 0


def test_a_home_that_may_only_be_read_is_enough(lived_in: Home) -> None:
    before = prints(lived_in)
    for path in (lived_in.var, lived_in.path):
        os.chmod(path, 0o500)
    try:
        assert play(lived_in, NOW).well
    finally:
        for path in (lived_in.path, lived_in.var):
            os.chmod(path, 0o700)
    assert {name: each.content for name, each in prints(lived_in).items()} == {
        name: each.content for name, each in before.items()
    }


def test_N35_what_a_killed_daemon_left_in_its_log_is_remembered(lived_in: Home, tmp_path: Path) -> None:
    killed = Home(tmp_path / "killed")
    with narval.open(lived_in.path) as agent:
        agent.add("<order id='2'/>")
        agent.until_idle()
        shutil.copytree(lived_in.path, killed.path, ignore=lambda _, names: {"control.sock"} & set(names))
    assert (killed.var / "store.db-wal").stat().st_size > 0
    before = prints(killed)
    report = play(killed, NOW.replace('receipt" count="2"', 'receipt" count="3"'))
    assert report.unmet == []
    assert prints(killed) == before


def at_rest(home: Home) -> dict[str, Print]:
    """Its files, once what its daemon had to do is recorded: two looks see the same."""
    seen, before = prints(home, without=("store.db-shm",)), None
    while seen != before:
        time.sleep(0.1)
        seen, before = prints(home, without=("store.db-shm",)), seen
    return seen


def test_a_home_at_work_is_copied_while_its_daemon_goes_on(lived_in: Home) -> None:
    # What SQLite notes of its readers is in the -shm, which is the daemon's scratch and is made again by it.
    with daemon(lived_in.path):
        well(lived_in.path, "add", "-", given="<order id='7'/>")
        while len(list(lived_in.path.glob("post.called"))) < 1:
            pass
        before = at_rest(lived_in)
        known = remembered(lived_in, Settings())
        for _ in range(3):
            assert play(lived_in, NOW.replace('receipt" count="2"', 'receipt" count="3"')).well
        assert prints(lived_in, without=("store.db-shm",)) == before
        assert sum(kept.element.name == "order" for kept in known.elements) == 2
        well(lived_in.path, "add", "-", given="<order id='8'/>")


def test_N18_marks_and_numbers_go_on(lived_in: Home) -> None:
    known = remembered(lived_in, Settings())
    with narval.open(lived_in.path) as agent:
        memory = agent.daemon.agent.memory
        marks = {(*scope, *use) for scope, uses in memory.marks.items() for use in uses.items()}
        assert marks == set(known.marks)
        assert {kept.element.eid for kept in known.elements} == {
            eid for eid in memory if not memory.is_run(eid)
        }
    report = play(lived_in, NOW)
    runs = {eid for eid in (line.get("run") for line in report.lines) if eid}
    assert min(runs) > max(kept.element.eid for kept in known.elements)


def test_a_memory_in_a_database_server_cannot_be_copied_and_that_is_said(shop: Home) -> None:
    shop.settings.write_text('store = "postgresql+psycopg://db.example.org/narval"\n')
    with pytest.raises(RequestError, match="--memory new"):
        asyncio.run(play_scenario(simulated_home(shop), scenario_of("shop.tell"), 0.0))
    assert play(shop, '<scenario until="1m"/>').well
