"""Why something was done or not, through a whole agent: choices, errors, ends (N11, N22, N26, N27)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.runs import drawing
from narval.kinds.recipe.engine.graph import graph
from narval.surfaces.cli.render import reasons
from narval.surfaces.python.agent import Agent

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("email", "email", use=True)], outputs=[Output("verdict", "verdict")])
def judge(email):
    return f"<verdict kind='{email.attributes['kind']}'/>"

@action
def nothing():
    pass

@action
def fails():
    raise ValueError("never well")
"""
RECIPES = """<cookbook>
<recipe group="w" name="mail" start_step="judge" end_step="end">
  <step id="judge" type="action" target="w.judge"/>
  <step id="leave" type="action" target="w.nothing"/>
  <step id="ask" type="action" target="w.nothing"/>
  <step id="send" type="action" target="w.nothing"/>
  <step id="end" type="action" target="w.nothing"/>
  <transition id="leaves" priority="5"><in idref="judge"/><out idref="leave"/>
    <condition><match>verdict[@kind='spam']</match></condition></transition>
  <transition id="asks"><in idref="judge"/><out idref="ask"/>
    <condition><match>verdict[@kind=$judge/@kind][@kind='ham']</match></condition></transition>
  <transition id="sends"><in idref="ask"/><out idref="send"/>
    <condition><match>answer[@of='us']</match></condition></transition>
  <transition id="left"><in idref="leave"/><out idref="end"/></transition>
  <transition id="sent"><in idref="send"/><out idref="end"/></transition>
</recipe>
<recipe group="w" name="fails" start_step="s" end_step="z">
  <step id="s" type="action" target="w.fails"/>
  <step id="z" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="z"/></transition>
</recipe>
<recipe group="w" name="stuck" start_step="s" end_step="z">
  <step id="s" type="action" target="w.nothing"/>
  <step id="z" type="action" target="w.nothing"/>
  <transition id="ill"><in idref="s" on-error="yes"/><out idref="z"/>
    <condition><match>help[@now]</match></condition></transition>
</recipe>
<recipe group="w" name="late" start_step="s" end_step="z">
  <step id="s" type="action" target="w.nothing"/>
  <step id="z" type="action" target="w.nothing"/>
  <transition id="late"><in idref="s"/><out idref="z"/>
    <condition for="10m"><match>order[@state='open']</match></condition></transition>
</recipe>
</cookbook>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    path = tmp_path / "w.py"
    path.write_text(MODULE)
    with narval.open() as agent:
        agent.load(path)
        agent.load(RECIPES)
        yield agent


def start(agent: Agent, name: str) -> int:
    run = agent.start(name)
    agent.until_idle()
    return run


def mail(agent: Agent, kind: str) -> int:
    agent.add(f"<email kind='{kind}'/>")
    return start(agent, "w.mail")


def test_N11_a_choice_says_what_was_taken_instead_and_what_fails_on_the_nearest(agent: Agent) -> None:
    run = mail(agent, "spam")
    answer = agent.why(run, "asks")
    (verdict,) = agent.memory("verdict")
    assert answer["reason"] == (
        "transition asks is impossible: transition leaves (priority 5, that of asks is 0) was taken instead "
        f"with elements {verdict.eid}, and ended step judge"
    )
    (waiting,) = answer["waiting"]
    assert (waiting["id"], waiting["for"]) == ("asks", "condition")
    assert waiting["conditions"] == [
        {
            "pattern": "verdict[@kind=$judge/@kind][@kind='ham']",
            "met": False,
            "nearest": verdict.eid,
            "failed": "@kind='ham'",
            "value": "'spam'",
            "title": "verdict · kind spam",
        }
    ]


def test_N11_conditions_are_judged_by_what_memory_holds_now(agent: Agent) -> None:
    run = mail(agent, "spam")
    (before,) = agent.why(run, "sends")["waiting"][0]["conditions"]
    eid = agent.add("<answer of='us'/>")
    (after,) = agent.why(run, "sends")["waiting"][0]["conditions"]
    assert (before["met"], after["met"], after["nearest"]) == (False, True, eid)


def test_N11_a_step_that_was_left_out_leads_back_to_the_choice(agent: Agent) -> None:
    run = mail(agent, "spam")
    answer = agent.why(run, "send")
    assert answer["reason"].startswith(
        "step send is impossible: transition sends leads to it, and step ask is impossible: "
        "transition asks leads to it, and transition leaves (priority 5"
    )
    assert [wait["id"] for wait in answer["waiting"]] == ["sends", "asks"]


def test_N24_a_step_to_come_says_what_leads_to_it_and_what_that_waits_for(agent: Agent) -> None:
    run = mail(agent, "ham")
    (waiting,) = agent.why(run, "send")["waiting"]
    assert (waiting["id"], waiting["for"]) == ("sends", "condition")
    assert waiting["conditions"][0]["failed"] == "an element named answer"
    (waiting,) = agent.why(run, "sent")["waiting"]
    assert waiting["for"] == "join"
    assert waiting["text"] == "steps send (todo: no transition has led to it yet: sends (wait-condition))"


def test_N17_an_input_that_was_left_empty_says_what_comes_nearest_to_it_now(agent: Agent) -> None:
    agent.add("<mail/>")
    run = agent.start("w.mail")
    agent.until_idle()
    for waiting in (agent.why(run, "judge")["waiting"], agent.why(run)["waiting"][:1]):
        (wait,) = waiting
        assert (wait["id"], wait["for"]) == ("judge", "input")
        (condition,) = wait["conditions"]
        assert (condition["pattern"], condition["failed"]) == ("email", "an element named email")
    agent.add("<email kind='ham'/>")
    (wait,) = agent.why(run, "judge")["waiting"]
    assert wait["conditions"][0]["met"]


def test_N27_a_run_that_is_done_says_which_step_was_its_end(agent: Agent) -> None:
    run = mail(agent, "spam")
    answer = agent.why(run)
    assert (answer["state"], answer["waiting"]) == ("done", [])
    assert answer["reason"].startswith("step end was reached; it ended at 2")
    assert re.search(r"it ended at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+$", next(reasons.why(answer)))


def test_N26_a_failed_run_gives_its_error_and_that_nothing_took_it(agent: Agent) -> None:
    run = start(agent, "w.fails")
    (error,) = agent.memory("error")
    assert re.match(
        rf"failed in step s: ValueError: never well \(\S*w\.py:\d+, element {error.eid}\); "
        "no error link leaves step s; ",
        agent.why(run)["reason"],
    )
    assert agent.why(run, "z")["reason"] == (
        "step z is impossible: transition t leads to it, and it can no longer fire: s is error (wanted: done)"
    )


COUNTING = """PLAN Count {
  INPUT: TupleStream order, Number least
  OUTPUT: TupleStream large
  BODY { sprintf("amount >= %s", (least) : condition) select(condition, order : large) }
}"""


def test_an_error_of_a_dataflow_is_told_of_the_step_that_called_it(
    agent: Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flow = tmp_path / "flows.plan"
    flow.write_text(COUNTING)
    agent.load(flow)
    inner = "<step id='sum' type='dataflow' target='flows.Count'/>"
    agent.load(f"<recipe group='w' name='inner' start_step='sum' end_step='sum'>{inner}</recipe>")
    outer = "<step id='call' type='recipe' target='w.inner'/>"
    agent.load(f"<recipe group='w' name='outer' start_step='call' end_step='call'>{outer}</recipe>")
    run = start(agent, "w.outer")
    places = {"w.outer": "step call", "w.inner": "step sum", "flows.Count": "session 1"}
    rows = {row["name"]: row for row in agent.ask("runs")}
    assert {name: row["error"]["step"] for name, row in rows.items()} == {
        name: place.removeprefix("step ") for name, place in places.items()
    }
    for name, place in places.items():
        eid, said = rows[name]["eid"], f" in {place}: bad-input: "
        assert agent.why(eid)["reason"].startswith(f"failed{said}")
        assert said in str(agent.ask("story", run=eid)["groups"])
        assert f"run {eid} of {name} failed{said}" in caplog.text
    (failure,) = agent.memory("failure")
    assert (failure.attributes["run"], failure.attributes["step"]) == (str(run), "call")


def test_N27_a_stuck_run_says_which_transitions_could_not_fire_and_why(agent: Agent) -> None:
    run = start(agent, "w.stuck")
    answer = agent.why(run)
    assert "failed: stuck: no transition can fire any more" in answer["reason"]
    assert (
        "transition ill is impossible: it can no longer fire: s is done (wanted: error)" in answer["reason"]
    )
    (waiting,) = answer["waiting"]
    assert (waiting["id"], waiting["conditions"][0]["failed"]) == ("ill", "an element named help")


def test_a_run_that_was_cancelled_says_so(agent: Agent) -> None:
    run = mail(agent, "ham")
    agent.cancel(run)
    assert agent.why(run)["reason"].startswith("it was cancelled; it ended at 2")


def test_what_the_run_holds_is_nearest_though_another_element_satisfies_more(tmp_path: Path) -> None:
    module = tmp_path / "judge.py"
    module.write_text(
        "from narval import action, Output\n"
        "@action(outputs=[Output('verdict', 'verdict')], runs='inline')\n"
        "def judge(): return \"<verdict word='no' of='mine'/>\"\n"
    )
    recipe = """<recipe group="t" name="r" start_step="a" end_step="b">
      <step id="a" type="action" target="judge.judge"/><step id="b" type="action" target="judge.judge"/>
      <transition id="yes"><in idref="a"/><out idref="b"/>
        <condition><match>verdict[@word='yes' and @of='mine']</match></condition></transition></recipe>"""
    with narval.open() as agent:
        agent.load(module)
        agent.load(recipe)
        agent.add("<verdict word='yes' of='other'/>")
        run = agent.start("t.r")
        agent.until_idle()
        agent.add("<verdict word='yes' of='another'/>")
        (condition,) = agent.why(run)["waiting"][0]["conditions"]
        assert (condition["failed"], condition["value"]) == ("@word='yes'", "'no'")


DATED = """<recipe group="w" name="dated" start_step="s" end_step="z">
  <step id="s" type="action" target="w.nothing"/>
  <step id="z" type="action" target="w.nothing"/>
  <transition id="t"><in idref="s"/><out idref="z"/><time hours="7" minutes="0" seconds="0"/>{}</transition>
</recipe>"""


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("", "t waits until 2026-07-02 07:00:00 (Europe/Paris), hours=7 minutes=0 seconds=0"),
        (
            "<condition><match>mail</match></condition>",
            "t waits until 2026-07-02 07:00:00 (Europe/Paris), hours=7 minutes=0 seconds=0, "
            "and then for an element for each condition",
        ),
    ],
)
def test_N25_a_date_is_told_in_the_zone_of_the_home(tmp_path: Path, condition: str, sentence: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text('timezone = "Europe/Paris"')
    (tmp_path / "w.py").write_text(MODULE)
    with narval.open(tmp_path, clock=narval.SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        agent.load(tmp_path / "w.py")
        agent.load(DATED.format(condition))
        run = start(agent, "w.dated")
        answer = agent.why(run)
        [waiting] = answer["waiting"]
        assert (waiting["id"], waiting["for"], waiting["zone"]) == ("t", "time", "Europe/Paris")
        assert waiting["until"] == "2026-07-02T07:00:00.000+02:00"
        assert sentence in list(reasons.why(answer))
        assert sentence in list(reasons.why(agent.why(run, "t")))
        assert "its date has not come" in agent.why(run, "t")["reason"]
        drawn = drawing.dot(graph(*_definition_and_state(agent, run)))
        assert "hours=7 minutes=0 seconds=0" in drawn
        assert "#d6e6f7" in drawn, "the colour of what waits"


def test_N25_why_has_the_fields_that_cron_stands_for() -> None:
    with narval.open(clock=narval.SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        dated = DATED.replace('hours="7" minutes="0" seconds="0"', 'cron="0 7 13 * mon-fri"')
        agent.load(dated.format("").replace("w.nothing", "basic.nothing"))
        answer = agent.why(start(agent, "w.dated"))
        fields = "monthdays=13 hours=7 minutes=0 seconds=0 or weekdays=0-4 hours=7 minutes=0 seconds=0"
        [waits] = [line for line in reasons.why(answer) if "waits until 2026-07-02 07:00:00" in line]
        assert waits.endswith(f"{fields}, whichever is first")


@pytest.mark.parametrize(
    "written", ["minutes='*/5' hours='8-18/2' seconds='0'", "monthdays='-3--1,15' hours='0'", "years='*/4'"]
)
def test_N39_a_graph_has_steps_and_last_days_as_they_are_written(tmp_path: Path, written: str) -> None:
    (tmp_path / "w.py").write_text(MODULE)
    with narval.open() as agent:
        agent.load(tmp_path / "w.py")
        agent.load(DATED.format("").replace('hours="7" minutes="0" seconds="0"', written))
        drawn = drawing.dot(graph(*_definition_and_state(agent, start(agent, "w.dated"))))
        for field in written.replace("'", "").split():
            assert field in drawn


def _definition_and_state(agent: Agent, run: int) -> tuple[Any, Any]:
    found = agent.daemon.agent.runs[run]
    return found.definition, found.state


def test_N28_a_failed_run_says_when_its_recipe_begins_again() -> None:
    again = (
        "<recipe group='w' name='again' start_step='s' end_step='s' restart='yes'>"
        "<step id='s' type='action' target='basic.nothing'/></recipe>"
    )
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        agent.load(again)
        agent.stub("basic.nothing", _fails)
        first = agent.start("w.again")
        agent.until_idle()
        assert "w.again begins again at 2026-03-01" in agent.why(first)["reason"]
        assert "after a failure" in agent.why(first)["reason"]
        agent.elapse(seconds=2)
        assert "begins again" not in agent.why(first)["reason"]
        second = agent.runs(name="w.again")[-1]["eid"]
        assert "after 2 failures in a row" in agent.why(second)["reason"]


def _fails() -> None:
    raise ValueError("never well")


def test_N38_a_condition_that_must_last_says_since_when_it_does_and_when_it_will_hold(agent: Agent) -> None:
    run = start(agent, "w.late")
    (waiting,) = agent.why(run)["waiting"]
    (condition,) = waiting["conditions"]
    assert waiting["until"] is None
    assert (condition["met"], condition["lasting"], condition["since"]) == (False, 600.0, None)
    assert "  not met  order[@state='open'] for 10 min 0 s" in list(reasons.why(agent.why(run)))

    order = agent.add("<order state='open'/>")
    agent.until_idle()
    answer = agent.why(run)
    (waiting,) = answer["waiting"]
    (condition,) = waiting["conditions"]
    assert waiting["text"] == f"element {order} to have fitted for long enough"
    assert (condition["met"], condition["nearest"]) == (False, order)
    since, until = map(datetime.fromisoformat, (condition["since"], condition["until"]))
    assert (until - since, waiting["until"]) == (timedelta(minutes=10), condition["until"])
    assert agent.run(run)["transitions"][0]["until"] == condition["until"]
    lines = list(reasons.why(answer))
    assert lines[-3].startswith(f"late waits for element {order} to have fitted for long enough, until 20")
    assert lines[-1].startswith(f"           element {order} (order · state open) fits since 20")
    assert "order[@state='open'] for 10 min 0 s" in drawing.dot(graph(*_definition_and_state(agent, run)))
    reason = agent.why(run, "late")["reason"]
    assert reason.endswith(f"its in-steps are done, and element {order} must still fit for a while")


TOGETHER = """<recipe group="t" name="t" start_step="s" end_step="z">
<step id="s" type="action" target="w.nothing"/><step id="z" type="action" target="w.nothing"/>
<transition id="t"><in idref="s"/><out idref="z"/>{}</transition></recipe>"""


def judged(agent: Agent, *patterns: str) -> list[dict[str, Any]]:
    """The conditions of a plan that waits for these patterns, as they are judged."""
    conditions = "".join(f"<condition><match>{pattern}</match></condition>" for pattern in patterns)
    agent.load(TOGETHER.format(conditions))
    (wait,) = agent.why(start(agent, "t.t"))["waiting"]
    return list(wait["conditions"])


def test_N11_conditions_that_want_the_same_elements_are_not_met_together(agent: Agent) -> None:
    agent.add("<email/>")
    order = agent.add("<order urgent='yes'/>")
    met, *rivals = judged(agent, "email | order", "order", "order[@urgent]")
    assert [row["met"] for row in (met, *rivals)] == [True, False, False]
    for row in rivals:
        assert (row["nearest"], row["failed"]) == (order, "an element of its own")
        assert row["value"] == f"element {order}, which 2 conditions want: one more is needed"


def test_N11_three_conditions_that_want_two_elements_are_not_met_together(agent: Agent) -> None:
    for xml in ("<order/>", "<order/>", "<email/>"):
        agent.add(xml)
    *rivals, met = judged(agent, "order", "order", "order", "email")
    assert [row["met"] for row in (*rivals, met)] == [False, False, False, True]
    assert {row["value"] for row in rivals} == {"2 elements, which 3 conditions want: one more is needed"}
    *rivals, met = judged(agent, "*[self::order]", "order", "order", "order", "email")
    assert {row["value"] for row in rivals} == {"2 elements, which 4 conditions want: 2 more are needed"}


def test_N11_an_order_by_a_text_has_its_nearest_element_and_the_reason(agent: Agent) -> None:
    agent.add("<email date='2026-10-01'/>")
    email = agent.add("<email date='2026-12-01' new='yes'/>")
    [row] = judged(agent, "email[@new][@date &gt; '2026-11-01']")
    assert (row["nearest"], row["failed"]) == (email, "@date > '2026-11-01'")
    assert row["value"] == (
        "'2026-12-01'; it never holds: > compares numbers, and '2026-11-01' is not a number"
    )


def test_the_moments_of_a_reason_are_apart_from_those_that_a_text_quotes(agent: Agent) -> None:
    quoted = "it was due at 2026-02-01T08:00:00+00:00"
    run = start(agent, "w.late")
    agent.cancel(run, quoted)
    agent.until_idle()
    answer = agent.why(run)
    moments = [piece["moment"] for piece in answer["said"] if not isinstance(piece, str)]
    assert moments == [agent.ask("show", run=run)["ended"]]
    assert quoted in "".join(piece for piece in answer["said"] if isinstance(piece, str))
    assert answer["reason"] == f"it was cancelled: {quoted}; it ended at {moments[0]}"


def test_the_story_of_an_element_says_a_use_once_and_the_first_ten_of_what_was_made_of_it(
    agent: Agent,
) -> None:
    run = mail(agent, "spam")
    email = agent.memory("email")[-1].eid
    answer = agent.why(email)
    made = {"eid": run, "name": "note", "title": "", "directly": True, "origin": None}
    use = {"definition": "w.mail", "step": "judge", "input": "email", "run": None, "run_of": None}
    answer |= {"used_by": [use, use | {"input": "other"}], "made_of_it": [made] * 50, "made": 52}
    lines = list(reasons.why(answer))
    assert len([line for line in lines if "used by" in line]) == 1
    assert len([line for line in lines if "made of it" in line]) == 10
    assert f"              and 42 more: `narval why {email} --uses`" in lines


def test_N28_each_of_two_failed_runs_of_a_recipe_says_when_its_own_successor_begins() -> None:
    again = (
        "<recipe group='w' name='again' start_step='s' end_step='s' restart='yes'>"
        "<step id='s' type='action' target='basic.nothing'/></recipe>"
    )
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00:00Z")) as agent:
        agent.load(again)
        agent.stub("basic.nothing", _fails)
        first = agent.start("w.again")
        agent.until_idle()
        agent.elapse(seconds=0.5)
        second = agent.start("w.again")
        agent.until_idle()
        moments = [
            [piece["moment"] for piece in agent.why(run)["said"] if "moment" in piece]
            for run in (first, second)
        ]
        begins = [moments_of[0][-12:-6] for moments_of in moments]
        assert begins == ["01.000", "01.500"]
        agent.elapse(seconds=0.6)
        assert "begins again" not in agent.why(first)["reason"]
        assert "begins again" in agent.why(second)["reason"]
