"""Questions about tasks, answered from states and journals (K61, K62, K66, K67)."""

from __future__ import annotations

import pytest

from narval.core.errors import RequestError, TaskRefusedError
from narval.surfaces.python.agent import Agent

SHEETS = b"<memory><sheet n='1'/><sheet n='2'/><sheet n='3'/></memory>"


def put(agent: Agent) -> list[int]:
    return [case["object"] for case in agent.task_put("w.scan", [SHEETS])["cases"]]


def taken(agent: Agent) -> tuple[str, int, int]:
    """A task with an object: its handle, its number, the object."""
    put(agent)
    task = agent.task_init("w.scan")["task"]
    object = agent.task_get(task, wait=20.0)["object"]
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
    with pytest.raises(TaskRefusedError, match="not in the queue"):
        agent.task_queue("w.scan", after=99)


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
    agent.task_get(task, wait=20.0)
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
    agent.task_raise("ev.check", "w.scan", ["good"], "sync", wait=20.0)
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
