"""Actions that fail, and objects that are given back as they were last committed."""

from __future__ import annotations

import pytest

from narval.kinds.task.engine import engine
from narval.kinds.task.language.definition import Rule
from tests.kinds.task.engine.instances import CASE, Instances, perform, state, task

FREE = task(state("start", edges="mid FORWARD"), state("mid", edges="FORWARD COMMIT ABORT"))


def note(label: str) -> object:
    return perform("exec", f"'echo {label}")


LISTENS = task(state("a", edges="FORWARD", rules=(Rule("tick", action=(note("tick"),)),)))


def test_an_action_that_fails_says_so_and_the_task_stays_where_it_is() -> None:
    said = Instances(LISTENS)
    run = said.works_on()
    signal = said.acts(run, "tick", "a")
    said.answer(said.call_for("echo"), value={"status": 2})
    assert said.answer_to(signal) == {"result": "failed", "why": "the program ended with 2", "kept": False}
    assert (said.state(run), said.states[run].state) == ("active", "a")
    assert (said.error()["type"], said.error()["object"]) == ("status", str(said.states[run].object))
    again = said.acts(run, "tick", "a")
    said.answer(said.call_for("echo"), value={"status": 0})
    assert said.answer_to(again)["result"] == "done"


def test_an_action_that_asserts_where_no_edge_leads_fails_alone() -> None:
    rule = Rule("tick", action=(perform("assert", "COMMIT"),))
    said = Instances(task(state("a", edges="FORWARD", rules=(rule,))))
    run = said.works_on()
    signal = said.acts(run, "tick", "a")
    assert (said.answer_to(signal)["result"], said.states[run].state) == ("failed", "a")


def test_the_ASSERT_code_of_a_state_that_an_action_asserts_is_none_of_the_action() -> None:
    rule = Rule("tick", action=(perform("assert", "b"),))
    states = state("a", edges="b", rules=(rule,)), state("b", edges="FORWARD", on_assert=(note("in b"),))
    said = Instances(task(*states))
    said.works_on()
    signal = said.acts(run := said.works_on(), "tick", "a")
    said.answer(said.call_for("echo"), value={"status": 1})
    assert said.answer_to(signal)["result"] == "failed"
    assert said.state(run) == "failed"
    assert said.told_case()["result"] == "EXCEPTION"


def test_a_call_of_an_action_is_made_again_as_often_as_its_rule_says() -> None:
    rule = Rule("tick", action=(note("first"), perform("exec", "'false")), retries=2)
    said = Instances(task(state("a", edges="FORWARD", rules=(rule,))))
    run = said.works_on()
    signal = said.acts(run, "tick", "a")
    said.answer(said.call_for("echo"), value={"status": 0})
    for pause in (2, 4):  # one and two seconds, and up to half as much again
        said.answer(said.call_for("false"), value={"status": 1})
        waits = engine.waiting_for(said.definitions[run], said.states[run], {})
        assert "to do the action of tick again" in " ".join(wait.text for wait in waits if wait.what == "try")
        assert said.answer_to(signal) is None
        said.passes(pause)
    said.answer(said.call_for("false"), value={"status": 1})
    assert (said.answer_to(signal)["result"], said.states[run].state) == ("failed", "a")


def test_an_action_that_waits_for_its_next_try_ends_with_its_instance() -> None:
    rule = Rule("tick", action=(perform("exec", "'false"),), retries=2)
    said = Instances(task(state("a", edges="FORWARD", rules=(rule,))))
    run = said.works_on()
    signal = said.acts(run, "tick", "a")
    said.answer(said.call_for("false"), value={"status": 1})
    said.asks(run, "stop", why="enough")
    assert (said.answer_to(signal)["result"], said.state(run)) == ("failed", "stopped")
    assert not said.in_force[run].wakes


@pytest.mark.parametrize("end", ["ABORT", "EXCEPTION"])
def test_ABORT_and_EXCEPTION_give_the_object_as_it_was_last_committed(end: str) -> None:
    said = Instances(task(state("a", edges="ABORT EXCEPTION")))
    run = said.init()
    said.held.discard("take")
    first = said.add("<cheque amount='5'/>")
    said.replies["take"] = {"object": first, "case": CASE}
    said.asks(run, "get")
    altered = said.replaces(first, "<cheque amount='6'/>")
    said.asks(run, "assert", state=end)
    told = said.told_case()
    assert (told["was"], said.xml(told["object"])) == (first, '<cheque amount="5"/>')
    assert said.current(altered) == told["object"]


@pytest.mark.parametrize("how", ["stop", "down", "lease"])
def test_what_replaced_the_object_in_its_state_is_rolled_back(how: str) -> None:
    said = Instances(FREE)
    run = said.init(lease=60)
    said.held.discard("take")
    first = said.add("<cheque amount='5'/>")
    said.replies["take"] = {"object": first, "case": CASE}
    said.asks(run, "get")
    altered = said.replaces(first, "<cheque amount='6'/>")
    said.passes(61) if how == "lease" else said.asks(run, how)
    (told,) = said.signals("down")
    assert (told["front"], said.xml(told["object"])) == (True, '<cheque amount="5"/>')
    assert said.current(altered) == told["object"]


def test_a_lease_that_expires_as_the_instance_ends_changes_nothing() -> None:
    said = Instances(FREE)
    run = said.init(lease=60)
    said.asks_later(run, "get")  # the server has not answered yet
    said.asks(run, "stop")
    assert said.state(run) == "ending"
    said.passes(61)
    assert (said.state(run), said.errors()) == ("ending", [])
