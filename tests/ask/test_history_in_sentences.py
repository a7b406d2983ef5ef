"""The history of a run in sentences, a group for each part in its turn (M29, M86)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import narval
from narval.ask.runs import calls_told
from narval.ask.runs import story as stories
from narval.ask.runs.history import lines_of
from narval.core.engines.events import Event
from narval.core.engines.registry import engine_of_run
from narval.core.engines.story import FIELDS, ON_EVENTS, ON_QUIET_EVENTS, story_of
from narval.core.errors import RequestError
from narval.core.kinds import KINDS
from narval.store.batch import JournalRow
from narval.surfaces.cli.history import sentence
from narval.surfaces.cli.render import reasons
from tests.surfaces.cli.command_line import data, make_home, well
from tests.surfaces.cli.command_line import narval as command

MODULE = """
import narval
from narval import action, Input, Output

@action(runs="inline", inputs=[Input("order", "order")], outputs=[Output("bill", "bill")])
def price(order): return "<bill title='For Ada'/>"

@action(runs="inline", inputs=[Input("bill", "bill")])
def prints(bill):
    if narval.call().attempt < 2:
        raise ConnectionError("the printer is off")
"""
RECIPE = """<recipe group="r" name="shop" start_step="count" end_step="print">
<step id="count" type="action" target="m.price"/>
<step id="print" type="action" target="m.prints" retries="1" backoff="60"/>
<transition id="paid"><in idref="count"/><out idref="print"/>
  <condition><match>money[@sum]</match></condition></transition></recipe>"""
KINDS_OF_RUNS = [run for kind in KINDS.values() for run in kind.runs if kind.engine]
UNTIL = re.compile(r"(?<= at) 2026-03-01 07:0\d:\d\d")
ABOUT = {"starts", "node", "state", "step", "transition", "call", "token"}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "m.py").write_text(MODULE)
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as opened:
        opened.load(tmp_path / "m.py")
        opened.load(RECIPE)
        yield opened


def groups(answer: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The groups of an answer: the part of each, and its sentences."""
    return [
        (f"{group['word']} {group['part']}".strip(), [sentence(entry["said"]) for entry in group["entries"]])
        for group in answer["groups"]
    ]


def test_M29_each_step_has_its_sentences_with_the_titles_of_elements(agent: Any) -> None:
    order = agent.add("<order title='Two lamps'/>")
    run = agent.start("r.shop")
    agent.until_idle()
    money = agent.add("<money sum='3'/>")
    agent.until_idle()
    (bill,) = agent.memory("bill")
    count = f"It called m.price with order {order} · Two lamps; it took less than 1 ms"
    given = f"It called m.prints with bill {bill.eid} · For Ada"
    first = [
        (part, [UNTIL.sub("", said) for said in told]) for part, told in groups(agent.ask("story", run=run))
    ]
    assert first == [
        ("run", ["It began."]),
        ("step count", [f"{count} and gave bill {bill.eid} · For Ada."]),
        ("transition paid", ["It waits for money[@sum]."]),
        (
            "step print",
            [
                f"It began: transition paid fired, with money {money} · sum 3.",
                f"{given}; it failed after less than 1 ms: ConnectionError: the printer is off.",
                "It is tried again at.",
            ],
        ),
    ]
    agent.elapse(minutes=2)
    whole = agent.ask("story", run=run)
    assert groups(whole)[3][1][-1] == f"{given}, attempt 2; it took less than 1 ms."
    assert groups(whole)[4][0] == "run"
    assert groups(whole)[4][1][0].startswith("The run is done")


def test_M29_a_call_that_the_next_daemon_makes_again_is_told_twice(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "modules/w.py").write_text(
        "import asyncio, narval\n\n@narval.action\nasync def sleeps(): await asyncio.sleep(3600)\n"
    )
    step = '<step id="s" type="action" target="w.sleeps"'
    (home / "recipes/w.xml").write_text(
        f"""<cookbook group="w"><recipe name="twice" start_step="s" end_step="s">{step}/></recipe>
<recipe name="once" start_step="s" end_step="s">{step} on-restart="error"/></recipe></cookbook>"""
    )
    with narval.open(home) as agent:
        twice, once = agent.start("w.twice"), agent.start("w.once")
        calls = agent.daemon.agent.runs[once].calls
        agent.runner.run(agent.daemon.main_loop.work_until(lambda: any(c.begun for c in calls.values())))
    with narval.open(home) as agent:
        agent.runner.run(agent.daemon.main_loop.work_until(lambda: not agent.daemon.agent.runs[once].active))
        before = "the daemon had stopped before it came back, and perhaps before it began"
        again = f"w.sleeps was called again: {before}."
        (_, step) = groups(agent.ask("story", run=twice))
        assert step == ("step s", ["It called w.sleeps; it is under way.", again])
        lines = list(reasons.why(agent.why(twice)))
        before = "the daemon stopped before it came back, perhaps before it began"
        assert f"  it was called again: {before}" in lines
        assert not [
            said for _, told in groups(agent.ask("story", run=once)) for said in told if "again" in said
        ]


def test_M29_an_argument_made_for_the_next_step_is_not_what_the_call_before_it_gave(agent: Any) -> None:
    agent.load(
        """<cookbook>
<recipe group="r" name="gives" start_step="s" end_step="s">
<step id="s" type="action" target="m.price"/></recipe>
<recipe group="r" name="chain" start_step="first" end_step="last">
<step id="first" type="action" target="basic.nothing"/>
<step id="run" type="recipe" target="r.gives"/>
<step id="last" type="action" target="m.price"><arguments><order title="Third"/></arguments></step>
<transition id="one"><in idref="first"/><out idref="order"/></transition>
<step id="order" type="action" target="m.price"><arguments><order title="First"/></arguments></step>
<transition id="two"><in idref="order"/><out idref="run"/></transition>
<transition id="three"><in idref="run"/><out idref="last"/></transition></recipe></cookbook>"""
    )
    run = agent.start("r.chain")
    agent.until_idle()
    steps = dict(groups(agent.ask("story", run=run)))
    ends = {
        step: steps[f"step {step}"][-1].partition("; it took ")[2]
        for step in ("first", "order", "run", "last")
    }
    bills = [bill.eid for bill in agent.memory("bill")]
    assert ends["first"] == "less than 1 ms."
    for step, bill in zip(("order", "run", "last"), bills, strict=True):
        assert ends[step] == f"less than 1 ms and gave bill {bill} · For Ada."


def test_M29_pages_of_a_story_go_back_and_on_and_lose_nothing(agent: Any) -> None:
    agent.add("<order/>")
    run = agent.start("r.shop")
    agent.until_idle()
    lines = agent.history(run)
    back, before = list[int](), None
    while True:
        page = agent.ask("story", run=run, limit=1, before=before)
        back[:0] = [entry["seq"] for group in page["groups"] for entry in group["entries"]]
        if (before := page["older"]) is None:
            break
    on, after, more = list[int](), 0, True
    while more:
        page = agent.ask("story", run=run, limit=1, after=after)
        on += [entry["seq"] for group in page["groups"] for entry in group["entries"]]
        after, more = page["last"], page["more"]
    assert back == on == sorted(on)
    assert after == lines[-1]["seq"]
    late = agent.ask("story", run=run, limit=1)
    assert re.match(
        r"m\.price, which was asked at 2026-03-01 07:00:00, took|m\.price, which", groups(late)[0][1][0]
    )
    for wrong in ({"limit": 0}, {"before": 5, "after": 1}):
        with pytest.raises(RequestError, match="expected"):
            agent.ask("story", run=run, **wrong)


@pytest.mark.parametrize("kind", KINDS_OF_RUNS)
def test_M29_the_sentences_of_a_kind_are_about_changes_that_it_has(kind: str) -> None:
    engine: Any = engine_of_run(kind)
    rows = story_of(engine)
    assert rows or kind == "plan-undo"
    changes = {change.__name__: change for change in get_args(engine.changes)}
    for name, fact in rows.items():
        fields = {field.name for field in msgspec.structs.fields(changes[name])}
        fields = {"due" if field == "at" else "of_run" if field == "run" else field for field in fields}
        named = {field for _, field, _ in FIELDS.findall(fact.words) if field}
        assert named <= fields, name
        assert not fact.part or fact.part in fields & ABOUT, name


def test_M29_the_sentences_on_events_are_about_fields_that_these_have() -> None:
    rows = {**ON_EVENTS, **ON_QUIET_EVENTS}
    assert rows.pop("Unreadable").part == ""  # an entry that is no event
    kinds = {kind.__name__: kind for kind in get_args(Event)}
    for name, fact in rows.items():
        kind = kinds[name.removesuffix("Back").removesuffix("By")]
        fields = {field.name for field in msgspec.structs.fields(kind)}
        named = {field for _, field, _ in FIELDS.findall(fact.words) if field}
        assert named | ({fact.part} - {""}) <= fields, name


def test_M86_a_page_of_a_long_story_costs_what_it_shows(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.add("<order/>")
    run = agent.start("r.shop")
    for number in range(1500):
        agent.signal(run, f"s{number}")
    assert len(agent.history(run)) > 3000
    read: list[int] = []

    def counted(row: JournalRow) -> list[dict[str, Any]]:
        read.append(row.seq)
        return lines_of(row)

    for module in (stories, calls_told):
        monkeypatch.setattr(module, "lines_of", counted)
    page = agent.ask("story", run=run, limit=10)
    assert len(read) <= 10 + 2
    read.clear()
    assert agent.ask("story", run=run, limit=10, before=page["older"])["older"] < page["older"]
    assert len(read) <= 10 + 2


def test_M29_the_command_line_tells_it_and_scripts_have_what_they_had(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    well(home, "add", "-", given="<name>Ada</name>")
    run = data(home, "start", "demo.greet", "--wait")["eid"]
    text = well(home, "history", run)
    assert "started it." in text
    assert "The run is done" in text
    lines = data(home, "history", run)
    assert [line["what"] for line in lines][:1] == ["Started"]
    assert data(home, "history", run, "--journal") == lines
    story = data(home, "history", run, "--story")
    page = data(home, "history", run, "--story", "--limit", 2)
    assert story["groups"][0]["word"] == "run"
    assert page["groups"][-1] == story["groups"][-1]
    assert f"--before {page['older']}" in command(home, "history", run, "--limit", 2).stderr
