"""Programs that work as tasks (K48–K60), asked as a program in Python asks; no daemon is faked."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from narval.core.errors import RequestError, TaskRefusedError, TokenError
from narval.surfaces.python.agent import Agent

SHEET = b'<sheet number="1"/>'


def begun(agent: Agent, name: str = "w.scan") -> str:
    return str(agent.task_init(name)["task"])


def at_work(agent: Agent) -> tuple[str, int]:
    """A task with an object, by its handle; and the object."""
    agent.task_put("w.scan", [SHEET])
    task = begun(agent)
    return task, agent.task_get(task, wait=60.0)["object"]


def refused(kind: str, *asked: Any, **named: Any) -> str:
    with pytest.raises(TaskRefusedError) as error:
        asked[0](*asked[1:], **named)
    assert error.value.kind == kind, str(error.value)
    return str(error.value)


def test_K48_K57_K49_K50_K55_a_program_takes_objects_and_moves(agent: Agent) -> None:
    case = agent.task_put("w.scan", [SHEET])["cases"][0]
    task = begun(agent)
    got = agent.task_get(task, wait=60.0)
    assert (got["object"], got["xml"], got["case"], got["state"]) == (
        case["object"],
        SHEET.decode(),
        case["case"],
        "scanning",
    )
    assert agent.task_state(task)["next"] == ["EXCEPTION", "reading"]
    assert agent.task_assert(task, "reading")["state"] == "reading"
    assert agent.task_assert(task, "FORWARD") == {"task": got["task"], "state": "FORWARD", "object": None}
    agent.until_idle()
    assert agent.run(case["case"])["state"] == "committed"
    assert agent.task_get(task)["object"] is None
    agent.task_down(task)
    assert refused("over", agent.task_get, task).startswith("task ")


def test_K18_a_new_version_of_the_object_goes_on(agent: Agent) -> None:
    task, object = at_work(agent)
    newer = agent.add("<sheet number='one'/>", replace=object)
    assert agent.task_assert(task, "reading")["object"] == newer
    agent.task_assert(task, "FORWARD")
    agent.until_idle()
    assert agent.task_where(object)["now"] == newer


def test_K16_K18_a_task_that_is_finished_gives_the_newest_version_of_its_object(agent: Agent) -> None:
    task, object = at_work(agent)
    newer = agent.add("<sheet number='one'/>", replace=object)
    agent.task_finish(int(task.partition(".")[0]), "FORWARD", "done by hand")
    agent.until_idle()
    assert agent.task_where(object)["now"] == newer


def test_K18_K39_the_newest_version_of_an_object_goes_with_an_event(agent: Agent) -> None:
    task, object = at_work(agent)
    newer = agent.add("<sheet number='one'/>", replace=object)
    agent.task_raise("ev.never", "w.scan", task=task, with_object=True)
    agent.until_idle()
    assert agent.task_where(object)["now"] == newer
    assert [row["object"] for row in agent.task_events("w.scan")] == [newer]


def test_K67_where_an_object_is_is_told_of_the_version_that_counts_now(agent: Agent) -> None:
    task, object = at_work(agent)
    run = int(task.partition(".")[0])
    for number in ("two", "three"):
        newer = agent.add(f"<sheet number='{number}'/>", replace=agent.task_where(object)["now"])
        for version in (object, newer):
            place = agent.task_where(version)
            assert (place["now"], place["task"], place["object"]) == (newer, run, object)
    agent.task_assert(task, "reading")
    assert agent.task_where(object)["now"] == newer


def test_K57_an_object_that_was_not_done_is_given_again(agent: Agent) -> None:
    task, object = at_work(agent)
    assert agent.task_get(task)["object"] == object


def test_K57_who_asks_again_while_none_is_there_is_answered(agent: Agent) -> None:
    task = begun(agent)
    assert agent.task_get(task)["object"] is None
    assert agent.task_get(task)["object"] is None
    object = agent.task_put("w.scan", [SHEET])["cases"][0]["object"]
    assert agent.task_get(task, wait=60.0)["object"] == object


def test_K48_several_instances_share_the_queue(agent: Agent) -> None:
    first, second = begun(agent), begun(agent)
    found = agent.task_put("w.scan", [b"<memory><a/><b/><c/></memory>"])["cases"]
    assert [agent.task_get(task, wait=60.0)["object"] for task in (first, second)] == [
        case["object"] for case in found[:2]
    ]
    assert [row["object"] for row in agent.task_queue("w.scan")] == [found[2]["object"]]


@pytest.mark.parametrize("handle", ["", "1", "1.abc", "99.abc", "x.y", "TASK.wrong"])
def test_K58_what_is_no_handle_is_refused_with_the_next_step(agent: Agent, handle: str) -> None:
    task = begun(agent)
    said = refused("no-task", agent.task_assert, handle.replace("TASK", task.partition(".")[0]), "reading")
    assert "NARVAL_TASK" in said or "not the handle" in said


def test_K58_no_state_without_an_object(agent: Agent) -> None:
    assert "get one first" in refused("no-object", agent.task_assert, begun(agent), "reading")


def test_K49_a_state_without_an_edge_is_refused_and_nothing_has_changed(agent: Agent) -> None:
    task, _ = at_work(agent)
    said = refused("no-edge", agent.task_assert, task, "FORWARD")
    assert said == "no edge leads from scanning to FORWARD; those that do lead to EXCEPTION, reading"
    assert agent.task_state(task)["state"] == "scanning"


def test_K32_K51_an_event_within_the_task_leads_along_an_edge(agent: Agent) -> None:
    task, _ = at_work(agent)
    assert agent.task_raise("scanned", task=task)["state"] == "reading"
    assert "it has " in refused("no-edge", agent.task_raise, "scanned", task=task)


def test_K52_K38_a_synchronous_event_returns_with_its_result(agent: Agent) -> None:
    task, _ = at_work(agent)
    agent.task_assert(task, "reading")
    found = agent.task_raise("ev.check", "w.scan", ["good"], "sync", wait=60.0)
    assert found["result"] == "done"
    agent.until_idle()
    assert agent.task_state(task)["state"] is None or agent.task_state(task)["object"] is None


def test_K52_what_no_rule_answers_is_refused(agent: Agent) -> None:
    assert "it answers ev.check" in refused("no-rule", agent.task_raise, "ev.chek", "w.scan")
    said = refused("bad-parameters", agent.task_raise, "ev.check", "w.scan")
    assert said == "ev.check takes 1 parameter (word), got 0"
    assert "did you mean" in refused("no-type", agent.task_raise, "ev.check", "w.scann")
    assert "NARVAL_TASK" in refused("no-type", agent.task_raise, "scanned")
    with pytest.raises(RequestError, match="sync or async"):
        agent.task_raise("ev.check", "w.scan", ["good"], "later")


def test_K53_KA12_an_event_that_was_raised_before_counts_once(agent: Agent) -> None:
    task, _ = at_work(agent)
    agent.task_assert(task, "reading")
    agent.task_raise("ev.check", "w.scan", ["bad"])
    agent.until_idle()
    assert agent.task_wait(task, "ev.check")["parameters"] == ["bad"]
    assert agent.task_wait(task, "ev.check", wait=0.0)["event"] is None


def test_K54_the_end_of_an_event_is_waited_for(agent: Agent) -> None:
    task, _ = at_work(agent)
    agent.task_assert(task, "reading")
    agent.task_raise("ev.check", "w.scan", ["bad"])
    assert agent.task_wait(task, "ev.check", end=True, wait=60.0)["result"] == "done"


def test_K53_a_wait_ends_with_its_time(agent: Agent) -> None:
    task = begun(agent)
    assert agent.task_wait(task, "ev.check", timeout=0.0)["timed_out"] is True
    assert "the events it answers are ev.check" in refused("no-rule", agent.task_wait, task, "ev.nothing")


def test_K59_an_object_goes_with_an_event_and_is_had_no_more(agent: Agent) -> None:
    task, object = at_work(agent)
    agent.task_assert(task, "reading")
    other = begun(agent)
    agent.task_put("w.scan", [b"<other/>"])
    agent.task_get(other, wait=60.0)
    agent.task_assert(other, "reading")
    agent.task_raise("ev.never", "w.scan", task=task, with_object=True)
    assert agent.task_state(task)["object"] is None
    assert "given away" in refused(
        "no-object", agent.task_raise, "ev.bring", "w.scan", task=task, with_object=True
    )
    assert agent.task_where(object)["event"] == "ev.never"


def test_K39_a_new_object_goes_with_an_event(agent: Agent) -> None:
    found = agent.task_raise("ev.never", "w.scan", elements=[SHEET])
    agent.until_idle()
    assert agent.task_where(found["case"])["event"] == "ev.never"
    assert "its events are" in refused("no-rule", agent.task_raise, "ev.x", "w.scan", elements=[SHEET])


def test_K41_a_global_event_is_raised_by_its_name(agent: Agent) -> None:
    before = len(agent.task_events("w.NIGHT"))
    assert agent.task_raise("w.NIGHT")["type"] == "w.NIGHT"
    assert len(agent.task_events("w.NIGHT")) == before + 1
    assert "did you mean 'w.NIGHT'?" in refused("no-type", agent.task_raise, "NIGHT")


def test_K58_every_call_of_a_program_renews_its_lease(agent: Agent) -> None:
    agent.task_put("w.scan", [SHEET])
    task = str(agent.task_init("w.scan", lease=100)["task"])
    agent.task_get(task, wait=60.0)
    agent.task_assert(task, "reading")
    for call in (agent.task_state, agent.task_get, partial(agent.task_wait, event="ev.never", wait=0)):
        agent.elapse(seconds=60)
        call(task)
    agent.elapse(seconds=60)
    assert agent.task_state(task)["state"] == "reading"
    agent.elapse(seconds=101)
    refused("over", agent.task_state, task)


def test_K58_a_program_that_asks_very_often_renews_its_lease_once_in_a_while(agent: Agent) -> None:
    task = begun(agent)
    for _ in range(20):
        agent.task_state(task)
        agent.elapse(seconds=10)
    lines = agent.history(int(task.partition(".")[0]))
    assert 2 <= sum("LeaseRenewed" in str(line) for line in lines) <= 4


def test_K53_nobody_waits_for_less_than_no_time(agent: Agent) -> None:
    with pytest.raises(RequestError, match="a timeout of 0 seconds or more, got -1"):
        agent.task_wait(begun(agent), event="ev.never", timeout=-1)


# --- who may ----------------------------------------------------------------------------------------------


def test_KA23_K11_a_program_of_nobody_is_no_user(agent: Agent) -> None:
    assert refused("not-eligible", agent.task_init, "w.sign").startswith("w.sign is for ann, ben, clerk")
    assert "a global event" in refused("global-event", agent.task_init, "w.NIGHT")
    assert "did you mean" in refused("no-type", agent.task_init, "w.scam")


def test_KA24_a_program_is_known_by_its_user_and_its_handle_and_there_is_no_password(agent: Agent) -> None:
    with pytest.raises((TypeError, RequestError), match="password"):
        agent.task_init("w.scan", password="secret")
    task, _ = at_work(agent)
    run, secret = task.split(".")
    assert re.fullmatch("[0-9a-f]{32}", secret)
    refused("no-task", agent.task_state, f"{run}.{'0' * 32}")
    refused("no-task", agent.task_state, f"{run}.{begun(agent).partition('.')[2]}")
    assert agent.task_state(task)["state"] == "scanning"


def test_a_type_that_people_do_is_not_started_but_put_an_object(agent: Agent) -> None:
    with pytest.raises(TokenError, match=r"narval task put w\.sign") as error:
        agent.start("w.sign")
    assert error.value.kind == "by-people"


def test_K21_what_has_no_queue_takes_no_object(agent: Agent) -> None:
    refused("global-event", agent.task_put, "w.NIGHT", [SHEET])
    refused("no-type", agent.task_put, "w.nothing", [SHEET])
    with pytest.raises(RequestError, match="got none"):
        agent.task_put("w.scan", [b"<memory/>"])


# --- administration ---------------------------------------------------------------------------------------


def test_K16_a_stopped_task_gives_its_object_back(agent: Agent) -> None:
    task, object = at_work(agent)
    run = int(task.partition(".")[0])
    agent.task_stop(run, "wrong scanner")
    agent.until_idle()
    assert agent.run(run)["state"] == "stopped"
    assert [row["object"] for row in agent.task_queue("w.scan")] == [object]
    refused("over", agent.task_stop, run)


def test_K16_a_task_is_finished_whatever_edges_there_are(agent: Agent) -> None:
    task, object = at_work(agent)
    run = int(task.partition(".")[0])
    refused("no-state", agent.task_finish, run, "reading")
    assert agent.task_finish(run, "FORWARD", "done by hand")["state"] == "FORWARD"
    agent.until_idle()
    assert [row["type"] for row in agent.task_passed(object)] == ["w.scan", "w.book"]


def test_K29_an_object_that_is_held_goes_where_somebody_says(agent: Agent) -> None:
    task, object = at_work(agent)
    agent.task_finish(int(task.partition(".")[0]), "EXCEPTION", "it is torn")
    agent.until_idle()
    taker = begun(agent, "w.exception")
    agent.task_get(taker)
    agent.task_finish(int(taker.partition(".")[0]), "EXCEPTION", "it is torn")
    agent.until_idle()
    place = agent.task_where(object)
    assert (place["state"], place["why"]) == ("held", "it is torn")
    refused("no-type", agent.task_retry, place["case"], object, "w.nothing")
    refused("not-held", agent.task_retry, place["case"], object + 1)
    assert agent.task_retry(place["case"], object, "w.book")["state"] == "committed"
    assert agent.task_where(object)["type"] == "w.book"


def test_K16_only_tasks_are_stopped_and_only_cases_go_on(agent: Agent) -> None:
    case = agent.task_put("w.scan", [SHEET])["cases"][0]["case"]
    with pytest.raises(RequestError, match="is no task"):
        agent.task_stop(case)
    with pytest.raises(RequestError, match="is no case"):
        agent.task_retry(int(begun(agent).partition(".")[0]))
    refused("not-held", agent.task_retry, case)
