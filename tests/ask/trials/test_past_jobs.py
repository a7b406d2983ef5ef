"""Trials on the past as jobs of the daemon: they tell how far they are, and can be ended (D6)."""

from __future__ import annotations

import json
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import narval as library
from narval.ask.trials import child_program, past_jobs
from narval.core.errors import RequestError
from narval.files.home import Home
from narval.surfaces.control.client import Client
from tests.programs import is_at_work
from tests.surfaces.cli.command_line import daemon, ended, until, well
from tests.trials.simulate.homes import make_shop

SLOW = """\
from time import sleep
from narval import action

@action(runs="inline", pure=True)
def snail():
    sleep(0.02)
"""

HOURLY = """\
<recipe group="try" name="hourly" start_step="creep" end_step="creep">
  <step id="creep" type="action" target="slow.snail" until="never" every="1h"/>
</recipe>
"""
"""A definition with which a minute of the past is nothing, and ninety days take minutes."""

EACH_ORDER = """\
<recipe group="try" name="wonder" start_step="wait" end_step="ask" restart="parallel">
  <step id="wait" type="action" target="shop.nothing"/>
  <step id="ask" type="action" target="shop.ask"/>
  <transition id="comes"><in idref="wait"/><out idref="ask"/>
    <condition use="yes"><match>order</match></condition></transition>
</recipe>
"""


def make_slow_shop(place: Path) -> Path:
    """A home in which something slow is tried."""
    home = make_shop(place).path
    (home / "modules" / "slow.py").write_text(SLOW)
    (home / "recipes" / "hourly.xml").write_text(HOURLY)
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home to which three orders came."""
    home = make_slow_shop(tmp_path_factory.mktemp("jobs") / "shop")
    (home / "new.xml").write_text(EACH_ORDER)
    well(home, "add", "-", given="<memory><order id='1'/><order id='2'/><order id='3'/></memory>")
    return home


@contextmanager
def asking(home: Path) -> Iterator[Client]:
    path = Home(home).known_socket()
    assert path is not None
    with Client(path) as client:
        yield client


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[Client]:
    """A connection to a daemon of that home."""
    with daemon(home), asking(home) as client:
        yield client


def once(client: Client, job: str, *, has: str) -> dict[str, Any]:
    """A job, as soon as it is over or has something; news say when to look."""
    turn = client.ask("changed")["turn"]
    while not (form := client.ask("job", job=job))[has] and form["state"] == "running":
        turn = client.ask("changed", after=turn, wait=60.0)["turn"]
    return dict(form)


@pytest.mark.parametrize("as_text", [False, True], ids=["by name", "as text"])
def test_a_job_ends_with_the_report_of_the_command(client: Client, home: Path, as_text: bool) -> None:
    asked = {"text": (home / "new.xml").read_text()} if as_text else {"definition": "shop.sell"}
    begun = client.ask("try_on_past", since="1d", **asked)
    assert begun["state"] == "running"
    form = once(client, begun["job"], has="over")
    assert (form["state"], form["why"], form["pid"]) == ("ended", None, None)
    assert form["definitions"] == ["try.wonder" if as_text else "shop.sell"]
    assert (form["reached"], form["over"] is not None) == (form["report"]["until"], True)
    name = str(home / "new.xml") if as_text else "shop.sell"
    report = json.loads(well(home, "simulate", name, "--since", "1d", "--json"))
    moments = dict.fromkeys(("since", "until", "waiting", "known"))
    assert {**form["report"], **moments} == {**report, **moments}
    assert begun["job"] in [row["job"] for row in client.ask("jobs")]
    assert client.ask("end_job", job=begun["job"]) == form


def test_one_under_way_tells_how_far_it_is_and_is_ended_with_the_report_so_far(client: Client) -> None:
    begun = client.ask("try_on_past", since="90d", definition="try.hourly")
    form = once(client, begun["job"], has="reached")
    assert form["state"] == "running"
    assert begun["since"] < form["reached"] < begun["until"]
    assert (form["played"], form["arrivals"], form["report"]["begun"]) == (0, 3, 1)
    over = client.ask("end_job", job=begun["job"])
    assert (over["state"], over["why"]) == ("stopped", "root ended it")
    assert form["reached"] <= over["reached"] < begun["until"]
    assert over["report"]["stopped"] == over["why"]
    assert not is_at_work(begun["pid"])
    assert client.ask("job", job=begun["job"]) == over
    (row,) = client.ask("jobs", definition="try.hourly")
    assert (row["state"], "report" in row) == ("stopped", False)


def test_a_few_are_under_way_at_once(client: Client) -> None:
    two = [client.ask("try_on_past", since="90d", definition="try.hourly")["job"] for _ in range(2)]
    with pytest.raises(RequestError, match="2 trials on the past of narval are under way"):
        client.ask("try_on_past", since="90d", definition="try.hourly")
    assert [client.ask("end_job", job=job)["state"] for job in two] == ["stopped", "stopped"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"since": "soon", "definition": "shop.sell"}, "^expected a duration such as 90d, or a date such as"),
        ({"since": "2999-01-01", "definition": "shop.sell"}, "expected a moment in the past"),
        ({"since": " ", "definition": "shop.sell"}, "expected a duration such as 90d"),
        ({"since": "9\0d", "definition": "shop.sell"}, "expected a duration such as 90d"),
        ({"since": "--help", "definition": "shop.sell"}, "expected a duration such as 90d"),
        ({"since": "90d", "definition": "shop.sel"}, "did you mean shop.sell"),
        ({"since": "90d"}, "expected a definition or the text of one"),
        ({"since": "90d", "definition": "shop.sell", "text": EACH_ORDER}, "one of the two"),
        (
            {"since": "90d", "text": "<recipe>\n<steep/>\n</recipe>"},
            r"^text\.xml:1:1: [^$]*\ntext\.xml:2:1: ",
        ),
        ({"since": "90d", "text": "<recipe>\n<step"}, r"text\.xml:2:"),
        ({"since": "90d", "text": "import os"}, "text.task:1"),
    ],
)
def test_what_is_wrong_is_refused_at_once(client: Client, asked: dict[str, str], why: str) -> None:
    before = len(client.ask("jobs"))
    with pytest.raises(Exception, match=why) as refused:
        client.ask("try_on_past", **asked)
    assert "narval-trial-" not in str(refused.value)
    assert len(client.ask("jobs")) == before


def test_one_that_does_not_begin_leaves_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Process] = []

    async def begin(*arguments: Any, **named: Any) -> Process:
        began.append(await child_program_begin(*arguments, **named))
        return began[-1]

    child_program_begin = child_program.begin
    monkeypatch.setattr(child_program, "begin", begin)
    monkeypatch.setattr(past_jobs, "PATIENCE", 0.0)
    home = make_slow_shop(tmp_path / "shop")
    with library.open(home) as agent, pytest.raises(RequestError, match="it did not begin within 0 s"):
        agent.ask("try_on_past", since="90d", definition="try.hourly")
    (child,) = began
    assert child.returncode is not None


def test_another_agent_has_jobs_of_its_own(client: Client, home: Path) -> None:
    client.ask("add_agent", name="ada")
    path = Home(home).known_socket()
    assert path is not None
    with Client(path, agent="ada") as ada:
        begun = ada.ask("try_on_past", since="1d", definition="shop.sell")
        form = once(ada, begun["job"], has="over")
        assert (form["state"], form["arrivals"]) == ("ended", 0)
        assert [row["job"] for row in ada.ask("jobs")] == [begun["job"]]
    assert begun["job"] not in [row["job"] for row in client.ask("jobs")]
    with pytest.raises(RequestError, match="there is no job"):
        client.ask("job", job=begun["job"])


def test_there_is_no_such_job(client: Client) -> None:
    for name in ("job", "end_job"):
        with pytest.raises(RequestError, match="there is no job 'x'"):
            client.ask(name, job="x")


def test_a_home_in_memory_has_no_jobs() -> None:
    with library.open() as agent, pytest.raises(RequestError, match="a home in memory has no child programs"):
        agent.ask("try_on_past", since="90d", text=EACH_ORDER)


def test_a_job_ends_with_the_daemon_however_that_ends(tmp_path: Path) -> None:
    home = make_slow_shop(tmp_path / "shop")
    with daemon(home) as running:
        with asking(home) as client:
            stopped = client.ask("try_on_past", since="90d", definition="try.hourly")
            once(client, stopped["job"], has="report")
            client.ask("stop")
        assert ended(running)[0] == 0
        assert not is_at_work(stopped["pid"])
    with daemon(home) as running:
        with asking(home) as client:
            form = client.ask("job", job=stopped["job"])
            assert (form["state"], form["why"], form["pid"]) == ("stopped", "the daemon was stopped", None)
            assert form["report"]["stopped"] == "the daemon was stopped"
            killed = client.ask("try_on_past", since="90d", definition="try.hourly")
            once(client, killed["job"], has="report")
            assert is_at_work(killed["pid"])
        running.kill()
        running.wait()
        until(lambda: not is_at_work(killed["pid"]))
    with daemon(home), asking(home) as client:
        form = client.ask("job", job=killed["job"])
        assert (form["state"], form["why"]) == ("stopped", "the daemon ended, and the trial with it")


def test_only_so_many_that_are_over_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_jobs, "LISTED", 2)

    class Child:
        pid = 1

    jobs = past_jobs.PastJobs(None)  # type: ignore[arg-type]  # it asks nothing of an agent
    for number in range(5):
        job = past_jobs.PastJob("narval", {}, "", Child(), 0.0)  # type: ignore[arg-type]
        job.form["job"] = str(number)
        if number:
            job.finish("ended", None, 0.0)
        jobs.add(job)
    assert list(jobs.by_name) == ["0", "3", "4"]
