"""Incidents: what failed and nobody has dealt with, alike ones in a row (M52, M53)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval as library
from narval.agent.incidents import alike
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import data, make_home, narval, well

RECIPES = """<cookbook>
<recipe group="s" name="tell" start_step="say" end_step="end">
  <step id="say" type="action" target="maybe.say"/><step id="end" type="action" target="talk.nothing"/>
  <transition id="t"><in idref="say"/><out idref="end"/></transition></recipe>
<recipe group="s" name="outer" start_step="call" end_step="call">
  <step id="call" type="recipe" target="s.tell"/></recipe>
</cookbook>"""

MODULE = """
from pathlib import Path
from narval import Input, Output, action, call

@action(runs="inline")
def say():
    if not (Path(call().home) / "mended").exists():
        raise ValueError(f"no answer from 'printer {call().run}' after {call().run} s")
"""

PAY = """<cookbook group="b"><recipe name="pay" start_step="pay" end_step="pay">
<step id="pay" type="action" target="bank.pay"><arguments><pay to="shop" amount="11"/></arguments></step>
</recipe></cookbook>"""

BANK = """
from narval import ActionError, Input, action

@action(inputs=[Input("pay", "pay")], runs="inline")
def pay(pay):
    raise ActionError("the daemon stopped: look whether it was done", "interrupted")
"""

WATCH = """<cookbook group="s"><recipe name="watch" start_step="look" end_step="look">
<step id="look" type="action" target="post.look"/></recipe></cookbook>"""

POST = """
import asyncio
from narval import Output, action, call

def error(kind, message, key=""):
    return f"<error type='{kind}'{key}><message>{message}</message></error>"

@action(outputs=[Output("troubles", "error", list=True, optional=True)], source=True)
async def look():
    yield error("unreachable", "the server is away")
    for name in "ab":
        yield error("bad-mail", f"'{name}' is no mail", f" key='{name}'")
    call().caught_up()
    await asyncio.Event().wait()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "s.xml").write_text(RECIPES)
    (made / "modules" / "maybe.py").write_text(MODULE)
    return made


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home, clock=library.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        yield agent


def failed(agent: Agent, *names: str) -> list[int]:
    runs = [agent.start(name) for name in names]
    agent.until_idle()
    return runs


def rows(agent: Agent, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.ask("incidents", **arguments)
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no answer after 12 s", "no answer after 7.5 s"),
        ("expected 'a b', got \"c\"", "expected 'd', got \"e f\""),
        ("cannot read run-12.xml", "cannot read run-7.xml"),
    ],
)
def test_M52_alike_are_messages_that_differ_in_numbers_and_quoted_texts(one: str, other: str) -> None:
    assert alike(one) == alike(other)
    assert alike("it doesn't work, it can't") == "it doesn't work, it can't"


def test_M52_alike_failures_are_one_row_with_counts_a_day(agent: Agent) -> None:
    first, second = failed(agent, "s.tell", "s.tell")
    agent.elapse(days=1)
    third, other = failed(agent, "s.tell", "demo.fail")
    newest, row = rows(agent)
    assert (newest["definition"], newest["count"], newest["newest"]) == ("demo.fail", 1, [other])
    assert (row["definition"], row["part"], row["type"]) == ("s.tell", "say", "ValueError")
    assert (row["what"], row["kind"], row["state"]) == ("run", "plan", "open")
    assert (row["count"], row["newest"]) == (3, [third, second, first])
    assert [day["count"] for day in row["days"]] == [*[0] * 12, 2, 1]
    assert row["days"][-1]["day"] == "2026-03-02"
    assert row["first"] < row["last"]


def test_M52_a_run_that_another_called_is_told_by_who_called_it(agent: Agent) -> None:
    (outer,) = failed(agent, "s.outer")
    (row,) = rows(agent)
    assert (row["definition"], row["part"], row["newest"]) == ("s.outer", "call", [outer])


def test_M52_an_error_that_a_run_did_not_cause_is_one_and_those_within_runs_are_none(agent: Agent) -> None:
    failed(agent, "demo.fail")
    agent.add("<start-plan recipe='demo.nowhere'/>")
    agent.until_idle()
    error, run = rows(agent)
    assert (error["what"], error["type"], run["what"]) == ("error", "unknown-target", "run")
    assert error["newest"][0] in [found.eid for found in agent.memory("error[@start]")]


def test_M52_an_error_of_a_start_that_waits_is_open_as_long_as_that_waits(home: Path, agent: Agent) -> None:
    def declare(name: str) -> list[str]:
        (home / "data").mkdir(exist_ok=True)
        (home / "data" / "memory.xml").write_text(f"<memory><start-plan recipe='s.{name}'/></memory>")
        agent.ask("reload")
        return [row["message"] for row in rows(agent)]

    (message,) = declare("wach")
    assert message.endswith("it waits until one is, or until this start-plan is outdated")
    (message,) = declare("later")
    assert "names s.later" in message, "the mistyped name is gone from the file"
    (home / "recipes" / "later.xml").write_text(
        '<recipe group="s" name="later" start_step="a" end_step="a">'
        '<step id="a" type="action" target="talk.nothing"/></recipe>'
    )
    agent.ask("reload")
    assert not rows(agent), "its definition has come"


def test_what_a_source_could_not_read_is_open_until_it_is_acknowledged(home: Path, agent: Agent) -> None:
    (home / "modules" / "post.py").write_text(POST)
    (home / "recipes" / "post.xml").write_text(WATCH)
    agent.ask("reload")
    run = agent.start("s.watch")
    agent.until_idle()
    (row,) = rows(agent)  # the server that is away is a trouble that passes
    assert (row["what"], row["definition"], row["part"]) == ("error", "s.watch", "look")
    assert (row["type"], row["count"], row["place"]) == ("bad-mail", 2, "recipes/post.xml:2")
    (attention,) = agent.ask("attention")
    assert attention["text"] == "2 errors s.watch, the last: bad-mail: 'b' is no mail"
    agent.cancel(run)
    agent.until_idle()
    assert [row["count"] for row in rows(agent)] == [2]
    agent.ask("acknowledge", incident=row["incident"], reason="read elsewhere")
    assert rows(agent) == []


def test_what_a_source_could_not_read_is_logged_once_though_it_is_given_again_at_each_start(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told_once = POST.replace("optional=True)", "optional=True, unique='@key')")
    (home / "modules" / "post.py").write_text(told_once)
    (home / "recipes" / "post.xml").write_text(WATCH)
    with library.open(home, clock=library.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        run = agent.start("s.watch")
        agent.until_idle()
    with library.open(home, clock=library.SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        agent.until_idle()
        assert agent.ask("show", run=run)["state"] == "running"
        assert len(agent.memory("error[@key]")) == 2
    of = f"step look in run {run} of s.watch: bad-mail"
    lines = [record.getMessage() for record in caplog.records if "bad-mail" in record.getMessage()]
    assert lines == [f"{of}: 'a' is no mail", f"{of}: 'b' is no mail"]


def test_M52_the_fault_of_a_file_is_open_until_it_is_good(home: Path, agent: Agent) -> None:
    good = (home / "recipes" / "s.xml").read_text()
    (home / "recipes" / "s.xml").write_text("<cookbook>\n<recipe/>")
    agent.ask("reload")
    (row,) = rows(agent)
    assert (row["what"], row["definition"], row["type"]) == ("file", "recipes/s.xml", "bad-file")
    with pytest.raises(RequestError, match=r"ends when recipes/s.xml has no faults; correct that file"):
        agent.ask("acknowledge", incident=row["incident"], reason="later")
    (home / "recipes" / "s.xml").write_text(good)
    agent.ask("reload")
    assert rows(agent) == []
    (row,) = rows(agent, every=True)
    assert row["state"] == "settled"


def test_M53_a_row_is_tried_again_and_is_over_when_that_goes_well(home: Path, agent: Agent) -> None:
    runs = failed(agent, "s.tell", "s.tell", "s.tell")
    (row,) = rows(agent)
    answer = agent.ask("retry_incident", incident=row["incident"])
    assert [line["run"] for line in answer] == runs[::-1]
    agent.until_idle()
    (row,) = rows(agent)  # they failed again, and tell of themselves
    again = [line["retry"] for line in answer]
    assert (row["count"], sorted(row["newest"])) == (3, sorted(again))
    (home / "mended").touch()
    answer = agent.ask("retry_incident", incident=row["incident"], limit=2)
    agent.until_idle()
    assert rows(agent)[0]["count"] == 1
    agent.ask("retry", run=rows(agent)[0]["newest"][0])
    agent.until_idle()
    assert rows(agent) == []
    (row,) = rows(agent, incident=row["incident"])
    assert (row["state"], row["count"]) == ("settled", 6)
    with pytest.raises(RequestError, match="is already settled"):
        agent.ask("retry_incident", incident=row["incident"])


def test_M53_some_runs_after_others_are_begun_again_while_those_are_under_way(
    home: Path, agent: Agent
) -> None:
    runs = failed(agent, *["demo.fail"] * 3)
    (row,) = rows(agent)
    (home / "recipes" / "demo.xml").write_text(
        (home / "recipes" / "demo.xml").read_text().replace("talk.fail", "talk.slow")
    )
    agent.ask("reload")
    begun = [agent.ask("retry_incident", incident=row["incident"], limit=1)[0]["run"] for _ in runs]
    assert begun == runs[::-1]


def test_M53_a_run_whose_retry_is_under_way_is_not_begun_twice(home: Path, agent: Agent) -> None:
    (home / "recipes" / "s.xml").write_text(RECIPES.replace('target="maybe.say"', 'target="talk.slow"'))
    (run,) = failed(agent, "demo.fail")
    (row,) = rows(agent)
    (home / "recipes" / "demo.xml").write_text(
        (home / "recipes" / "demo.xml").read_text().replace("talk.fail", "talk.slow")
    )
    agent.ask("reload")
    answer = agent.ask("retry_incident", incident=row["incident"])
    assert [line["run"] for line in answer] == [run]
    (told,) = (line["text"] for line in agent.ask("attention") if line["what"] == "incident")
    assert told.endswith(f"; begun again as {answer[0]['retry']}, under way")
    why = f"run {run} was begun again as {answer[0]['retry']}, which is under way"
    (again,) = agent.ask("retry_incident", incident=row["incident"])
    assert (again["retry"], again["error"].partition(":")[0]) == (None, why)
    for refused in ("retry", "retry_plan"):
        with pytest.raises(RequestError, match=why):
            agent.ask(refused, run=run)


def test_M53_a_run_is_not_begun_again_beside_a_retry_of_its_retry(home: Path) -> None:
    with library.open(home, clock=library.SimulatedClock(1000.0)) as agent:
        (first,) = failed(agent, "s.tell")
        second = agent.retry(first)
        agent.until_idle()
        third = agent.retry(first)
        agent.until_idle()
        (home / "recipes" / "s.xml").write_text(RECIPES.replace('target="maybe.say"', 'target="talk.slow"'))
        agent.ask("reload")
        last = agent.retry(second)
        for run in (first, second, third):
            with pytest.raises(RequestError, match=f"begun again as {last}, which is under way"):
                agent.retry(run)
    with library.open(home, clock=library.SimulatedClock(2000.0)) as agent:
        for run in (first, second, third):
            with pytest.raises(RequestError, match=f"begun again as {last}, which is under way"):
                agent.retry(run)


def test_M52_a_row_is_acknowledged_which_recipes_see_and_a_restart_keeps(home: Path) -> None:
    with library.open(home, clock=library.SimulatedClock(1000.0)) as agent:
        failed(agent, "s.tell", "s.tell")
        (row,) = rows(agent)
        with pytest.raises(RequestError, match="expected a reason"):
            agent.ask("acknowledge", incident=row["incident"], reason=" ")
        answer = agent.ask("acknowledge", incident=row["incident"], reason="the printer was off")
        assert answer["count"] == 2
        (said,) = agent.memory("acknowledged[@definition='s.tell']")
        assert said.attributes["reason"] == "the printer was off"
        assert rows(agent) == []
    with library.open(home, clock=library.SimulatedClock(2000.0)) as agent:
        assert rows(agent) == []
        (row,) = rows(agent, every=True)
        assert (row["state"], row["acknowledged"]["element"]) == ("acknowledged", answer["element"])
        assert row["acknowledged"]["reason"] == "the printer was off"
        failed(agent, "s.tell")
        (row,) = rows(agent)
        assert (row["state"], row["count"]) == ("open", 1)
        with pytest.raises(RequestError, match="there is no incident 'x'; `narval errors --all` lists"):
            rows(agent, incident="x")


def test_M52_a_look_costs_what_is_new_and_what_is_open(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    from narval.agent import incidents

    failed(agent, *["s.tell"] * 5)
    rows(agent)
    looked: list[int] = []
    incident = incidents.incident
    monkeypatch.setattr(
        incidents, "incident", lambda of, element: looked.append(element.eid) or incident(of, element)
    )
    rows(agent)
    assert looked == []
    failed(agent, "s.tell")
    rows(agent)
    assert len(looked) == 2  # the error of the run, and the failure


def test_M52_errors_on_the_command_line(home: Path) -> None:
    assert narval(home, "start", "s.tell", "--wait").exit_code == 1
    (row,) = data(home, "errors")
    shown = well(home, "errors")
    assert row["incident"] in shown
    assert "no answer from" in shown
    assert "acknowledged" not in well(home, "errors", "show", row["incident"])
    said = well(home, "errors", "acknowledge", row["incident"], "--reason", "off", "--as", "ann")
    assert said.startswith("1 incident is acknowledged; element ")
    assert well(home, "errors") == ""
    assert "ann" in well(home, "errors", "show", row["incident"])
    assert data(home, "errors", "--all")[0]["acknowledged"]["by"] == "ann"
    assert narval(home, "start", "s.tell", "--wait").exit_code == 1
    assert "begins again as" in well(home, "errors", "retry", row["incident"])
    (home / "mended").touch()
    assert narval(home, "run", "--until-idle").exit_code == 0
    assert data(home, "errors") == []


def test_M52_a_run_whose_call_was_never_made_is_told_with_what_it_had(home: Path, agent: Agent) -> None:
    (home / "recipes" / "b.xml").write_text(PAY.replace('<pay to="shop" amount="11"/>', ""))
    (home / "modules" / "bank.py").write_text(BANK)
    agent.ask("reload")
    run = agent.start("b.pay", "<note>rent</note>")
    agent.until_idle()
    (row,) = (row for row in rows(agent) if row["type"] == "input-missing")
    (row,) = rows(agent, incident=row["incident"])
    assert [(one["run"], [given["title"] for given in one["inputs"]]) for one in row["runs"]] == [
        (run, ["note · rent"])
    ]


def test_M52_a_row_tells_what_each_run_was_given_and_one_of_them_is_acknowledged(
    home: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "recipes" / "b.xml").write_text(PAY)
    (home / "modules" / "bank.py").write_text(BANK)
    agent.ask("reload")
    first, second, third = failed(agent, "b.pay", "b.pay", "b.pay")
    id = rows(agent)[0]["incident"]
    (row,) = rows(agent, incident=id)
    assert [run["run"] for run in row["runs"]] == [third, second, first]
    assert [one["title"] for one in row["runs"][0]["inputs"]] == ["pay · to shop · amount 11"]
    assert agent.ask("acknowledge", incident=id, reason="it was paid", run=second)["count"] == 1
    assert rows(agent)[0]["newest"] == [third, first]
    with pytest.raises(RequestError, match=f"incident {id} has no open failure of run {second}"):
        agent.ask("acknowledge", incident=id, reason="it was paid", run=second)


def test_M53_of_several_interrupted_runs_none_is_begun_again_unasked(home: Path) -> None:
    (home / "recipes" / "b.xml").write_text(PAY)
    (home / "modules" / "bank.py").write_text(BANK)
    with library.open(home, clock=library.SimulatedClock("2026-03-01T06:00:00Z")) as agent:
        failed(agent, "b.pay", "b.pay")
        id = rows(agent)[0]["incident"]
        with pytest.raises(RequestError, match=r"some of the 2 runs .* may have done .* --all"):
            agent.ask("retry_incident", incident=id)
        assert len(agent.ask("retry_incident", incident=id, limit=1)) == 1
        agent.until_idle()
    shown = well(home, "errors", "show", id)
    assert "pay · to shop · amount 11" in shown
    assert "it was done, go on: narval retry RUN --done" in shown
    assert f"narval errors acknowledge {id} --run RUN" in shown
    refused = narval(home, "errors", "retry", id)
    assert (refused.exit_code, "--all" in refused.stderr) == (1, True)
    assert "begins again as" in well(home, "errors", "retry", id, "--all")


def test_a_part_to_which_something_was_not_granted_is_told_of() -> None:
    module = """from narval import ActionError, action
@action
def send(): raise ActionError("it gave what is not granted", "not-granted", final=True)"""
    process = """<process-definition group="p" name="sends">
      <node name="a" type="action" isStart="true"><custom><target>w.send</target></custom></node>
    </process-definition>"""
    with library.open() as agent:
        agent.load(module, name="w")
        agent.load(process)
        run = agent.start("p.sends")
        agent.until_idle()
        (told,) = [item["text"] for item in agent.ask("attention") if item["what"] == "incident"]
        assert f"narval rerun {run}" in told
