"""Questions about tasks, answered from states and journals (K61, K62, K66, K67)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.ask.asker import Asker
from narval.core.errors import RequestError, TaskRefusedError
from narval.surfaces.python.agent import Agent

SHEETS = b"<memory><sheet n='1'/><sheet n='2'/><sheet n='3'/></memory>"


def put(agent: Agent) -> list[int]:
    return [case["object"] for case in agent.task_put("w.scan", [SHEETS])["cases"]]


def taken(agent: Agent) -> tuple[str, int, int]:
    """A task with an object: its handle, its number, the object."""
    put(agent)
    task = agent.task_init("w.scan")["task"]
    object = agent.task_get(task, wait=60.0)["object"]
    return task, int(task.partition(".")[0]), object


def test_K61_the_active_list_has_state_object_and_person(agent: Agent) -> None:
    assert agent.tasks() == []
    _, run, object = taken(agent)
    other = agent.task_init("w.scan")["run"]
    rows = agent.tasks()
    assert [(row["eid"], row["state"], row["object"]) for row in rows] == [
        (run, "scanning", object),
        (other, None, None),
    ]
    assert [row["eid"] for row in agent.tasks(limit=1)] == [other]
    assert [row["eid"] for row in agent.tasks(limit=1, before=other)] == [run]
    assert agent.tasks("w.book") == []
    with pytest.raises(TaskRefusedError, match="did you mean"):
        agent.tasks("w.bok")


def test_K21_the_queue_is_listed_in_order_and_in_pages(agent: Agent) -> None:
    objects = put(agent)
    agent.until_idle()
    assert [row["object"] for row in agent.task_queue("w.scan")] == objects
    assert [row["object"] for row in agent.task_queue("w.scan", limit=2)] == objects[:2]
    assert [row["object"] for row in agent.task_queue("w.scan", after=objects[1])] == objects[2:]
    with pytest.raises(TaskRefusedError, match="no longer in the queue"):
        agent.task_queue("w.scan", after=99)


def test_an_object_and_its_case_have_the_labels_of_who_puts_it(agent: Agent) -> None:
    agent.asker = Asker("bot", labels=("bot",))
    labels = agent.daemon.agent.memory.labels
    for case in agent.ask("task_put", name="w.scan", elements=[SHEETS])["cases"]:
        assert [labels.names(labels.own(case[what])) for what in ("object", "case")] == [("bot",), ("bot",)]


def test_what_a_program_of_a_run_puts_is_recorded_as_by_it(agent: Agent) -> None:
    agent.asker = Asker("ann", program="a program of run 7")
    (case, *_) = agent.task_put("w.scan", [SHEETS])["cases"]
    origin = agent.ask("element", eid=case["object"])["origin"]
    assert (origin["by"], origin["actor"]) == ("ann", "a program of run 7")


def test_an_event_has_the_labels_of_who_raises_it_and_hands_them_to_who_acts(agent: Agent) -> None:
    labels = agent.daemon.agent.memory.labels
    raiser, raising, _ = taken(agent)
    for handle in ("", raiser):
        task, run, _ = taken(agent)
        agent.task_assert(task, "reading")
        agent.until_idle()
        agent.asker = Asker("bot", labels=("bot",))
        agent.task_raise("ev.check", "w.scan", ["good"], "async", task=handle)
        agent.asker = Asker("ann")
        agent.until_idle()
        assert labels.names(labels.own(run)) == ("bot",)
    assert labels.names(labels.own(raising)) == (), "who passes an event on has not heard what it says"


def test_K62_the_queues_of_events_are_shown_as_they_are(agent: Agent) -> None:
    agent.task_raise("ev.check", "w.scan", ["good"])
    agent.task_raise("ev.never", "w.scan")
    agent.until_idle()
    rows = {row["event"]: row for row in agent.task_events("w.scan")}
    assert rows["ev.never"]["queue"] == "registered"
    assert rows["ev.never"]["next"].startswith("2026-03-02T21:00:00")
    assert rows["ev.check"]["parameters"] == ["good"]
    assert rows["ev.check"]["queue"] in ("registered", "awaiting-condition")
    (night,) = agent.task_events("w.NIGHT")
    assert (night["queue"], night["next"][:16]) == ("awaiting-action", "2026-03-02T21:00")
    assert len(agent.task_events()) == 3
    assert len(agent.task_events(limit=2)) == 2


def test_K67_an_object_is_found_by_any_version(agent: Agent) -> None:
    task, _, object = taken(agent)
    found = agent.task_where(object)
    assert (found["object"], found["where"], found["type"]) == (object, "at w.scan", "w.scan")
    newer = agent.add("<sheet n='one'/>", replace=object)
    assert agent.task_where(newer)["object"] == object
    assert agent.task_where(found["case"])["object"] == object
    agent.task_assert(task, "reading")
    agent.task_assert(task, "FORWARD")
    agent.until_idle()
    assert agent.task_where(object)["state"] == "committed"
    with pytest.raises(TaskRefusedError, match="is no object of a task"):
        agent.task_where(agent.add("<other/>"))
    with pytest.raises(TaskRefusedError, match="is not in memory"):
        agent.task_where(10_000)


def test_K67_the_tasks_that_an_object_has_passed(agent: Agent) -> None:
    task, run, object = taken(agent)
    assert agent.task_passed(object) == []
    agent.task_assert(task, "reading")
    agent.task_assert(task, "FORWARD")
    agent.until_idle()
    rows = agent.task_passed(object)
    assert [(row["type"], row["result"]) for row in rows] == [("w.scan", "FORWARD"), ("w.book", "COMMIT")]
    assert rows[0]["task"] == run


def test_K67_times_in_states_and_at_tasks(agent: Agent) -> None:
    objects = put(agent)
    agent.elapse(seconds=30)
    task = agent.task_init("w.scan")["task"]
    agent.task_get(task, wait=60.0)
    agent.elapse(seconds=60)
    agent.task_assert(task, "reading")
    agent.elapse(seconds=5)
    assert agent.task_time("w.scan", "scanning") == {
        "type": "w.scan", "state": "scanning", "seconds": 60.0, "times": 1, "open": 0
    }  # fmt: skip
    assert agent.task_time("w.scan", "reading")["open"] == 1
    agent.task_assert(task, "FORWARD")
    agent.elapse(seconds=100)
    assert agent.task_time("w.scan", "reading")["seconds"] == 5.0
    assert agent.task_time("w.scan", object=objects[0]) == {
        "type": "w.scan", "object": objects[0], "seconds": 65.0, "times": 1, "open": 0, "waited": 30.0
    }  # fmt: skip
    assert agent.task_time("w.scan", object=objects[1])["waited"] == 195.0
    with pytest.raises(RequestError, match="has no state"):
        agent.task_time("w.scan", "nowhere")
    with pytest.raises(RequestError, match="not both"):
        agent.task_time("w.scan")


def test_K66_the_two_logs_have_their_records(agent: Agent) -> None:
    task, run, object = taken(agent)
    agent.task_assert(task, "reading")
    agent.task_raise("ev.check", "w.scan", ["good"], "sync", wait=60.0)
    agent.until_idle()
    rows = agent.task_log()
    objects = [(row["object"], row["type"]) for row in rows if row["log"] == "object"]
    assert objects == [(object, "w.scan"), (object, "w.book")]
    states = [row["state"] for row in rows if "state" in row]
    assert states == ["scanning", "reading", "FORWARD", "booking", "COMMIT"]
    check = [row for row in rows if row.get("event") == "ev.check"]
    assert [(row.get("to"), row.get("condition"), row.get("action")) for row in check] == [
        ("w.scan", None, None),
        (None, True, None),
        (None, None, "done"),
    ]
    assert [row["task"] for row in check[1:]] == [run, run]
    by_itself = [row for row in rows if row.get("to") == "w.NIGHT"]
    assert [(row["task"], row["by"]) for row in by_itself] == [(None, "narval")]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    assert agent.task_log(limit=2) == rows[:-3:-1]
    assert {row["type"] for row in agent.task_log(name="w.book")} == {"w.book"}
    assert agent.task_log(object=object) == [
        row for row in rows if row.get("object") == object and "event" not in row
    ]


LOAN = """
TASK TYPE loan
  INVOCATION: AUTO
  INITIAL asked
  STATE asked EXPOSED
    ON EVENT ev.grant (rate)
      AFTER 1 HRS
      CONDITION "$object/@amount <= 100"
      AFTER 30 MINS
      ACTION { set(obj.rate, rate); assert(FORWARD); }
    ON EVENT granted GOTO FORWARD
    ON EVENT refused GOTO ABORT
  STATE FORWARD EXPOSED
    ON ASSERT { if (obj.rate > 9) exec("false"); }
  ON FORWARD
    route(pay);

TASK TYPE pay
  INVOCATION: AUTO
  INITIAL paying
  STATE paying EXPOSED
    ON ASSERT { assert(COMMIT); }
    ON EVENT done GOTO COMMIT
"""


@pytest.fixture
def bank(agent: Agent, tmp_path: Path) -> Agent:
    """The agent, with loans that are granted by an event and paid."""
    file = tmp_path / "bank.task"
    file.write_text(LOAN)
    agent.load(file)
    agent.until_idle()
    return agent


def lent(bank: Agent, amount: int) -> tuple[int, int]:
    """A case, and its object, a loan of this amount."""
    (row,) = bank.task_put("bank.loan", [f"<loan amount='{amount}'/>".encode()])["cases"]
    bank.until_idle()
    return row["case"], row["object"]


def test_K63_each_step_of_an_event_is_logged_with_its_time_and_result(bank: Agent) -> None:
    _, loan = lent(bank, 500)
    (run,) = (row["eid"] for row in bank.tasks("bank.loan"))
    bank.task_raise("ev.grant", "bank.loan", ["3"])
    bank.elapse(hours=2)
    bank.add("<loan amount='50'/>", replace=loan)
    bank.elapse(hours=1)
    rows = [row for row in bank.task_log() if row.get("event") == "ev.grant"]
    assert [(row["at"][11:16], row["task"], row.get("condition"), row.get("action")) for row in rows] == [
        ("20:00", None, None, None),
        ("21:00", run, False, None),
        ("22:00", run, True, None),
        ("22:30", run, None, "done"),
    ]


def test_K4_a_workflow_begins_with_its_object_and_what_it_did_is_there_when_it_has_ended(bank: Agent) -> None:
    case, loan = lent(bank, 50)
    assert (bank.run(case)["phase"], bank.task_where(loan)["type"]) == ("active", "bank.loan")
    bank.task_raise("ev.grant", "bank.loan", ["3"])
    bank.elapse(hours=2)
    assert (bank.run(case)["phase"], bank.task_where(loan)["state"]) == ("done", "committed")
    passed = [(row["type"], row["result"], row["at"][11:16]) for row in bank.task_passed(loan)]
    assert passed == [("bank.loan", "FORWARD", "21:30"), ("bank.pay", "COMMIT", "21:30")]
    other, _ = lent(bank, 50)
    bank.task_finish(bank.tasks("bank.loan")[0]["eid"], "ABORT", "no security")
    bank.until_idle()
    assert bank.run(other)["phase"] == "cancelled"


def test_K5_a_task_has_conditions_before_and_after_times_and_what_it_is_given_and_gives(bank: Agent) -> None:
    _, large = lent(bank, 500)
    bank.task_raise("ev.grant", "bank.loan", ["3"])
    bank.elapse(hours=9)
    assert bank.tasks("bank.loan")[0]["state"] == "asked", "the condition before it does not hold"
    now = bank.add("<loan amount='99'/>", replace=large)
    bank.elapse(minutes=29)
    assert bank.task_where(large)["type"] == "bank.loan", "its time has not come"
    bank.elapse(minutes=1)
    assert bank.task_where(large)["state"] == "committed"
    given = bank.element(bank.task_where(large)["now"])
    assert (given.xml, given.eid == now) == (b'<loan amount="99" rate="3"/>', False)
    _, dear = lent(bank, 50)
    bank.task_raise("ev.grant", "bank.loan", ["10"])
    bank.elapse(hours=2)
    assert bank.task_passed(dear)[0]["result"] == "EXCEPTION", "the condition after it does not hold"


def test_K65_requests_are_served_while_events_wait_in_the_order_of_both(bank: Agent) -> None:
    _, loan = lent(bank, 50)
    bank.task_raise("ev.grant", "bank.loan", ["3"])
    (run,) = (row["eid"] for row in bank.runs(kind="task-server", name="bank.loan"))
    for _ in range(3):
        bank.elapse(minutes=25)
        lent(bank, 70)
        assert len(bank.task_queue("bank.loan")) > 0
    bank.elapse(minutes=30)
    assert bank.task_where(loan)["state"] == "committed"
    done = {"Enqueued": "put", "EventRaised": "raise", "ConditionJudged": "judge", "RuleOver": "end"}
    rows = [row for row in bank.history(run) if row["what"] in done]
    assert [done[row["what"]] for row in rows] == ["put", "raise", "put", "put", "judge", "put", "end"]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
