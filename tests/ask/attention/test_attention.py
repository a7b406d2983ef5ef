"""What needs attention, people first, each in a sentence (M13)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import narval as library
from narval.agent.incidents import IncidentRows
from narval.ask.attention import lines
from narval.ask.attention.lines import SHOWN
from narval.kinds.work.operations import attention as work_told
from narval.surfaces.python.agent import Agent
from narval.system.logins import login
from tests.ask.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import data, narval, well

MORE = """<cookbook group="s">
<work name="nobody"><title>Who?</title><for roles="keeper"/><outcome name="ok"/></work>
<work name="late"><title>Soon</title><for roles="approver"/><outcome name="ok"/><remind after="1d"/></work>
<recipe name="nobody" start_step="a" end_step="a"><step id="a" type="work" target="s.nobody"/></recipe>
<recipe name="late" start_step="a" end_step="a"><step id="a" type="work" target="s.late"/></recipe>
<recipe name="fail" start_step="a" end_step="a"><step id="a" type="action" target="m.fails"/></recipe>
<recipe name="ask" start_step="a" end_step="a"><step id="a" type="work" target="purchase.approve"/></recipe>
<recipe name="watch" start_step="a" end_step="a"><step id="a" type="action" target="watch.watch"/></recipe>
</cookbook>"""

WATCH = """
import asyncio
from pathlib import Path
from narval import Output, action, call

@action(outputs=[Output("error", "error", optional=True), Output("news", "news", optional=True)],
        source=True)
async def watch():
    yield "<news of='w'/>"
    yield "<error type='unreachable'><message>the server is away</message></error>"
    call().caught_up()
    while not (Path(call().home) / "back").exists():
        await asyncio.sleep(0.01)
    if (Path(call().home) / "well").exists():
        call().recovered()
    else:
        yield "<news of='w'/>"
    await asyncio.Event().wait()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = home_with(tmp_path / "home", PURCHASE)
    (made / "recipes" / "s.xml").write_text(MORE)
    (made / "modules" / "watch.py").write_text(WATCH)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home, clock=library.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        yield agent


def told(agent: Agent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.ask("attention")
    assert found == agent.ask("status")["attention"]
    return found


def test_errors_lists_what_is_in_trouble_now(home: Path) -> None:
    (home / "recipes" / "p.xml").write_text(
        '<recipe group="s" name="patient" start_step="a" end_step="a">'
        '<step id="a" type="action" target="m.fails" retries="1" backoff="600"/></recipe>'
    )
    well(home, "start", "s.patient")
    narval(home, "run", "--timeout", "0.5")
    assert "in trouble now:\n  a in run " in well(home, "errors")
    assert data(home, "errors") == []


def test_what_has_not_changed_is_not_worked_out_again(
    home: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "recipes" / "p.xml").write_text(
        '<recipe group="s" name="patient" start_step="a" end_step="a">'
        '<step id="a" type="action" target="m.fails" retries="1" backoff="600"/></recipe>'
    )
    agent.ask("reload")
    done = list[Any]()

    def noted(owner: Any, name: str, what: Callable[..., Any]) -> None:
        worked_out = getattr(owner, name)

        def wrapper(*arguments: Any) -> Any:
            done.append(what(*arguments))
            return worked_out(*arguments)

        monkeypatch.setattr(owner, name, wrapper)

    noted(lines, "_tries", lambda run: run.eid)
    noted(IncidentRows, "look", lambda _: "incidents")
    noted(work_told, "_sentences", lambda _: "work")
    agent.add("<request what='a lamp'/>")
    names = ("patient", "patient", "fail", "nobody", "ask")
    patient, other, *_, asks = [agent.start(f"s.{name}") for name in names]
    agent.until_idle()
    assert [item["what"] for item in told(agent)] == ["nobody", "person", "incident", "source"]
    assert {patient, other, "incidents", "work"} <= set(done)
    for act, worked_out in (
        (lambda: None, set[Any]()),
        (lambda: agent.add("<note/>"), {"incidents"}),
        (lambda: agent.start("s.patient"), {"new"}),
        (lambda: agent.cancel(asks), {"work", "incidents"}),
    ):
        done.clear()
        act()
        agent.until_idle()
        told(agent)
        assert {"new" if isinstance(each, int) and each > asks else each for each in done} == worked_out
    agent.elapse(hours=1)
    assert "source" not in {item["what"] for item in told(agent)}


def test_M13_what_is_to_run_always_and_dies_again_is_one_line_until_it_stays_up(agent: Agent) -> None:
    agent.load("""<recipe group="t" name="life" start_step="a" end_step="b">
    <step id="a" type="action" target="basic.nothing"/><step id="b" type="action" target="m.fails"/>
    <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>storm</match></condition></transition></recipe>""")
    agent.load("""<automaton group="t" name="serves"><state name="start" type="recipe" target="t.life"/>
    <transition from="start" label="*" to="start"/></automaton>""")
    run = agent.start("t.serves")
    for times in (1, 2, 3, 4):
        agent.elapse(seconds=5)
        agent.add("<storm/>")
        agent.until_idle()
        found = [item for item in told(agent) if item["what"] == "source"]
        assert len(found) == (times > 2)
    [dies] = found
    assert dies["text"].startswith(f"start in run {run} of t.serves died 4 times in a row, the last time at ")
    assert dies["text"].endswith(", and was started again; it ended with 1, and said last: “sold out”")
    agent.elapse(minutes=11)
    assert "source" not in {item["what"] for item in told(agent)}


def test_M13_nothing_is_told_where_nothing_is_wrong(home: Path, agent: Agent) -> None:
    assert told(agent) == []


def test_M13_nothing_needs_attention_is_said_in_words(home: Path) -> None:
    assert well(home, "status").startswith("Nothing needs attention.\n\nhome ")
    assert well(home, "attention") == "Nothing needs attention.\n"
    assert narval(home, "start", "s.fail", "--wait").exit_code == 1
    assert well(home, "status").startswith("needs attention (moments of UTC):\n  run ")
    assert data(home, "status")["attention"] == data(home, "attention")


def test_M13_what_waits_for_people_is_first_and_each_links_to_what_it_tells_of(
    home: Path, agent: Agent
) -> None:
    agent.add("<request what='a lamp'/>")
    asked = agent.start("s.ask")
    for name in ("s.nobody", "s.late", "s.fail"):
        agent.start(name)
    agent.until_idle()
    agent.elapse(days=1, hours=2)
    (home / "recipes" / "bad.xml").write_text("<cookbook>\n <recip/></cookbook>")
    agent.ask("reload")
    items = told(agent)
    assert [(item["what"], item["grave"]) for item in items] == [
        ("overdue", "middle"),
        ("nobody", "middle"),
        ("person", "low"),
        ("file", "high"),
        ("incident", "high"),
    ]
    late, nobody, person, file, failed = items
    assert file["text"].startswith("recipes/bad.xml:2:")
    (row, _) = agent.ask("incidents")[::-1]
    assert failed["link"] == {"incident": row["incident"]}
    assert "of s.fail failed at a: ValueError: sold out" in failed["text"]
    assert failed["since"] < file["since"]
    assert late["text"].endswith("of s.late was reminded of, and is not answered: Soon")
    assert late["since"] > failed["since"], "since the reminder, and not since it was offered"
    assert nobody["text"].endswith("has no person who may do it: Who?")
    assert person["text"].startswith("1 item waits for people: ")
    agent.cancel(asked)
    agent.until_idle()
    assert [item["what"] for item in told(agent)] == ["overdue", "nobody", "file", "incident"]


def test_M13_alike_errors_are_one_line_and_the_lines_are_in_the_order_of_their_moments(agent: Agent) -> None:
    agent.stub("m.fails", lambda: (_ for _ in ()).throw(OSError("no room in a/b")))
    agent.start("s.fail")
    agent.until_idle()
    agent.elapse(minutes=1)
    agent.start("s.ask")  # nothing in memory fits
    agent.until_idle()
    agent.elapse(minutes=1)
    agent.stub("m.fails", lambda: (_ for _ in ()).throw(OSError("no room in c/d/e, so")))
    agent.start("s.fail")
    agent.until_idle()
    asked, failed = told(agent)
    assert "of s.ask failed at a: input-missing: " in asked["text"]
    assert failed["text"] == "2 runs of s.fail failed at a, the last: OSError: no room in c/d/e, so"
    assert failed["link"] == {"page": "errors"}
    assert failed["since"] < asked["since"]


def test_M13_an_item_that_somebody_withdrew_is_not_asked_about_again(home: Path) -> None:
    with library.open(home, by=login(os.geteuid())) as agent:
        agent.add("<request what='a lamp'/>")
        run = agent.start("s.ask")
        agent.until_idle()
        (item,) = agent.ask("worklist", every=True)
        agent.cancel(item["item"], reason="a wrong one")
        agent.until_idle()
        assert agent.run(run)["error"]["type"] == "withdrawn"
        assert told(agent) == []
        assert len(agent.ask("incidents")) == 1


def test_M13_of_very_many_overdue_items_it_says_how_many_more_there_are(home: Path, agent: Agent) -> None:
    for _ in range(15):
        agent.start("s.late")
    agent.until_idle()
    agent.elapse(days=1, hours=2)
    items = [item for item in told(agent) if item["what"] == "overdue"]
    assert len(items) == 11
    assert items[-1]["text"].startswith(
        "5 more items of work, reminded of or without a person for it: `narval work"
    )


def test_M13_a_source_tells_of_trouble_until_it_gives_something_else(home: Path, agent: Agent) -> None:
    run = agent.start("s.watch")
    agent.until_idle()
    (item,) = told(agent)
    assert (item["what"], item["link"]) == ("source", {"run": run})
    assert item["text"] == (
        f"watch.watch in run {run} of s.watch tells of trouble: unreachable: the server is away"
    )
    for _ in range(250):  # what others give meanwhile is no cure, and hides nothing
        agent.add("<news/>")
    assert told(agent) == [item]
    (home / "back").touch()
    while len(agent.memory("news[@of]")) < 2:
        agent.elapse(seconds=1)
    assert told(agent) == []


def test_a_source_that_says_that_it_is_well_again_needs_nothing_to_give(home: Path, agent: Agent) -> None:
    (home / "well").touch()
    agent.start("s.watch")
    agent.until_idle()
    assert len(told(agent)) == 1
    (home / "back").touch()
    while agent.ask("attention"):
        agent.elapse(seconds=1)
    assert told(agent) == []
    assert len(agent.memory("news[@of]")) == 1


def test_what_failed_and_is_to_be_tried_again_is_told_until_it_ends_well(home: Path, agent: Agent) -> None:
    agent.load(
        '<recipe group="s" name="patient" start_step="a" end_step="a">'
        '<step id="a" type="action" target="m.fails" retries="1" backoff="600"/></recipe>'
    )
    run = agent.start("s.patient")
    agent.until_idle()
    (item,) = told(agent)
    assert (item["what"], item["link"]) == ("source", {"run": run})
    first, _, last = item["text"].partition(" at ")
    assert first == f"a in run {run} of s.patient will be tried again"
    assert last.endswith("): action m.fails, attempt 2 of 2 after ValueError: sold out")
    agent.stub("m.fails", lambda: None)
    agent.elapse(minutes=20)
    assert told(agent) == []


def test_M13_a_disk_that_is_nearly_full_comes_before_all_else(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs("/")
    full = os.statvfs_result((4096, 4096, 10**6, 5000, 5000, *found[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    agent.start("s.fail")
    agent.until_idle()
    disk, _ = told(agent)
    assert (disk["what"], disk["grave"]) == ("disk", "high")
    assert "20 MB of 4.1 GB are left" in disk["text"]


@pytest.mark.parametrize(
    ("whole", "left", "is_full"),
    [
        (4_000_000, 3_500_000, False),  # as a small one is at its best
        (4_000_000, 300_000, True),
        (100 * 10**9, 900_000_000, True),
        (100 * 10**9, 1_200_000_000, False),
        (20 * 10**12, 50 * 10**9, False),  # less than a hundredth, and far more than a store takes
        (20 * 10**12, 900_000_000, True),
    ],
)
def test_M13_how_much_is_little_depends_on_the_size_of_the_disk(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, whole: int, left: int, is_full: bool
) -> None:
    disk = os.statvfs("/")
    there = os.statvfs_result((1000, 1000, whole // 1000, left // 1000, left // 1000, *disk[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: there)
    assert [item["what"] for item in told(agent)] == ["disk"] * is_full


def test_M13_without_a_daemon_a_full_disk_does_not_hide_that_none_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert well(home, "attention") == "Nothing needs attention.\n"
    found = os.statvfs("/")
    full = os.statvfs_result((4096, 4096, 10**6, 5000, 5000, *found[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    disk, none = data(home, "attention")
    assert (disk["what"], none["what"]) == ("disk", "daemon")
    assert none["text"] == f"no daemon is running: narval --home {home} run"


def test_M13_of_many_alike_the_first_are_told_and_how_many_more(home: Path, agent: Agent) -> None:
    for number in range(SHOWN + 3):
        (home / "recipes" / f"bad{number:02}.xml").write_text("<cookbook><recip/></cookbook>")
    agent.ask("reload")
    items = told(agent)
    assert len(items) == SHOWN + 1
    assert items[-1]["text"] == "3 more faults of files: `narval check` tells them"
