"""Instances move from state to state: LEAVE and ASSERT code, edges, what counts and when (K25–K31, K49)."""

from __future__ import annotations

import pytest

from narval.kinds.task.engine.explain import explain, parts
from narval.kinds.task.language.definition import Rule
from tests.core.engines.dialogue import Refusal
from tests.kinds.task.engine.instances import CASE, Instances, perform, state, task

FREE = task(state("start", edges="mid FORWARD"), state("mid", edges="FORWARD COMMIT ABORT"))


def note(label: str) -> object:
    return perform("exec", f"'echo {label}")


# --- moves ----------------------------------------------------------------------------------------------


def test_K27_K49_a_state_counts_once_leave_code_of_the_one_before_and_its_own_assert_code_have_run() -> None:
    both = task(
        state("a", edges="b", on_assert=(perform("assert", "b"),), on_leaving=(note("left a"),)),
        state("b", edges="FORWARD", on_assert=(note("in b"), perform("assert", "FORWARD"))),
    )
    said = Instances(both)
    run = said.works_on()
    assert (said.entered(), said.call_for("echo").program.words) == (["a"], ("echo", "left", "a"))  # type: ignore[union-attr]
    said.answer(said.call_for("echo"), value={"status": 0})
    assert (said.entered(), said.states[run].state, said.states[run].entering) == ([], "a", "b")
    assert said.call_for("echo").program.words == ("echo", "in", "b")  # type: ignore[union-attr]
    said.answer(said.call_for("echo"), value={"status": 0})
    assert (said.entered(), said.state(run)) == (["b", "FORWARD"], "done")
    assert said.told_case()["routes"] == [{"type": "g.next", "object": said.told_case()["object"]}]


def test_K27_the_server_knows_the_state_before_until_the_assert_code_has_run() -> None:
    rules = (Rule("ev"),)
    slow = task(
        state("a", edges="b", rules=rules),
        state("b", edges="FORWARD", rules=rules, on_assert=(note("in b"),)),
    )
    said = Instances(slow)
    run = said.works_on()
    said.asks_later(run, "assert", state="b")
    assert [told["state"] for signal, told in said.told if signal == "at"] == ["a"]
    assert (
        explain(slow, said.states[run], "b") == "its ASSERT code runs; until that has ended it is in state a"
    )
    assert [found["state"] for found in parts(slow, said.states[run])["states"][:2]] == ["here", "entering"]
    owed = said.acts(run, "ev", "a")
    said.answer(said.call_for("echo"), value={"status": 0})
    assert [told["state"] for signal, told in said.told if signal == "at"] == ["a", "b"]
    assert said.answer_to(owed) == {"state": False}, "it was in `a` no more when its turn came"


def test_K27_KA29_a_state_whose_assert_code_fails_was_never_entered() -> None:
    fails = task(state("a", edges="b"), state("b", edges="FORWARD", on_assert=(note("in b"),)))
    said = Instances(fails)
    run = said.works_on()
    said.asks_later(run, "assert", state="b")
    said.answer(said.call_for("echo"), value={"status": 1})
    assert said.entered() == ["EXCEPTION"]


@pytest.mark.parametrize("status", [0, 1])
def test_K27_a_terminal_state_counts_once_its_assert_code_has_run(status: int) -> None:
    slow = task(state("a", edges="COMMIT"), state("COMMIT", on_assert=(note("closing"),)))
    said = Instances(slow)
    run = said.works_on()
    said.asks_later(run, "assert", state="COMMIT")
    assert (said.entered(), said.states[run].state, said.states[run].stage) == ([], "a", "entering")
    said.answer(said.call_for("echo"), value={"status": status})
    assert said.entered() == ["EXCEPTION" if status else "COMMIT"]


def test_K16_K27_an_instance_that_is_stopped_while_it_enters_its_first_state_gives_its_object_back() -> None:
    slow = task(state("a", edges="COMMIT", on_assert=(note("begin"),)))
    said = Instances(slow)
    run = said.works_on()
    began = said.call_for("echo")
    said.asks(run, "stop")
    said.answer(began, abandoned=True)
    (down,) = [told for signal, told in said.told if signal == "down"]
    assert (said.state(run), down["object"], said.entered()) == ("stopped", said.states[run].given, [])


def test_K49_a_state_is_asserted_along_an_edge_alone() -> None:
    said = Instances(FREE)
    run = said.init()
    with pytest.raises(Refusal, match="no object"):
        said.asks(run, "assert", state="mid")


def test_K58_a_program_takes_objects_moves_them_and_goes_down() -> None:
    said = Instances(FREE)
    run = said.init()
    said.held.discard("take")
    first = said.add("<cheque amount='1'/>")
    said.replies["take"] = {"object": first, "case": CASE}
    assert said.asks(run, "get") == {"state": "start", "object": first, "case": CASE}
    assert said.asks(run, "assert", state="start")["state"] == "start"
    with pytest.raises(Refusal, match="no edge leads from start to COMMIT"):
        said.asks(run, "assert", state="COMMIT")
    assert said.asks(run, "raise-edge", event="to-mid")["state"] == "mid"
    with pytest.raises(Refusal, match="is not done"):
        said.asks(run, "get")
    assert said.asks(run, "assert", state="FORWARD")["state"] == "FORWARD"
    assert (said.told_case()["result"], said.told_case()["was"]) == ("FORWARD", first)
    said.replies["take"] = {"object": 0}
    assert said.asks(run, "get") == {"object": 0}
    said.asks(run, "down")
    assert said.state(run) == "done"
    assert said.signals("down") == [{"instance": run, "object": 0, "front": False, "to": "g.one"}]


def test_K58_a_program_that_asks_nothing_is_dead_and_its_object_goes_back() -> None:
    said = Instances(FREE)
    run = said.init(lease=60)
    said.held.discard("take")
    said.replies["take"] = {"object": said.add("<cheque/>"), "case": CASE}
    said.passes(50)
    said.asks(run, "get")
    said.passes(50)
    assert said.state(run) == "active"
    said.asks(run, "renew")
    said.passes(61)
    assert (said.state(run), said.signals("down")[0]["front"]) == ("dead", True)
    assert "in state start with object" in said.error()["message"]


def test_K26_an_internal_state_is_shown_as_the_last_exposed_one() -> None:
    hidden = task(state("a", edges="b"), state("b", edges="FORWARD", exposed=False))
    said = Instances(hidden)
    run = said.works_on()
    said.asks(run, "assert", state="b")
    assert said.states[run].state == "b"
    assert 'at="a"' in said.xml(run)
