"""Instances on their way through states: scripts, moves, code, people, ends (K25–K31, K43–K60)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.elements.canonical import canonical
from narval.core.engines.events import Failure, OutputElement, Signalled
from narval.kinds.task.engine.state import ScriptFrame
from narval.kinds.task.engine.values import Values
from narval.kinds.task.language.definition import Comparison, Rule, ScriptValue
from tests.core.engines.dialogue import Refusal, action
from tests.kinds.task.engine.instances import CASE, SERVER, Instances, perform, state, task, when

FREE = task(state("start", edges="mid FORWARD"), state("mid", edges="FORWARD COMMIT ABORT"))


def note(label: str) -> object:
    return perform("exec", f"'echo {label}")


@pytest.mark.parametrize(
    ("left", "operator", "right", "holds"),
    [
        ("10", "==", "10.0", True),
        (" 9 ", "<", "10", True),
        ("-2", "<", "1", True),
        ("\N{ARABIC-INDIC DIGIT ONE}", "==", "1", False),
        ("nan", "==", "1", False),
        ("1_0", "==", "10", False),
        ("abc", "<", "abd", True),
    ],
)
def test_texts_that_are_numbers_compare_as_numbers(left: str, operator: Any, right: str, holds: bool) -> None:
    test = Comparison(ScriptValue(left), operator, ScriptValue(right))
    values = Values(Instances(task(state("a"))), ScriptFrame("action", "a"), 0)
    assert values.holds(test) is holds


# --- what scripts set -------------------------------------------------------------------------------------


def test_KA27_a_script_sets_an_attribute_of_a_new_version_of_the_object() -> None:
    script = (
        perform("set", "obj.amount", "'6"),
        perform("set", "state", "obj.amount"),
        perform("set", "payer.name", "'Ann"),
        when("state", "==", "6", perform("assert", "FORWARD")),
    )
    said = Instances(task(state("a", edges="FORWARD", on_assert=script)))
    run = said.works_on("<cheque amount='5'><payer><name>Ben</name></payer></cheque>")
    told = said.told_case()
    assert said.state(run) == "done"
    assert said.xml(told["object"]) == '<cheque amount="6" state="6"><payer><name>Ann</name></payer></cheque>'
    assert told["was"] != told["object"]
    assert said.current(told["was"]) == told["object"], "it is the same object, by any of its numbers"


def test_KA27_a_script_that_sets_what_is_there_already_makes_no_version() -> None:
    script = perform("set", "amount", "'5"), perform("assert", "FORWARD")
    said = Instances(task(state("a", edges="FORWARD", on_assert=script)))
    said.works_on()
    assert said.told_case()["was"] == said.told_case()["object"]


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("payer.name", "'x", "has no child payer"),
        ("a", "'\x00", "set: a: "),
        ("a", "nothing", "nothing is neither"),
    ],
)
def test_KA27_what_cannot_be_set_is_an_exception(path: str, value: str, why: str) -> None:
    said = Instances(task(state("a", edges="FORWARD", on_assert=(perform("set", path, value),))))
    said.works_on()
    assert (said.entered(), why in said.error()["message"]) == (["EXCEPTION"], True)


@pytest.mark.parametrize(("path", "there"), [("amount", True), ("obj.note", True), ("due", False)])
def test_KA27_a_script_asks_whether_a_value_is_there(path: str, there: bool) -> None:
    script = when(path, "has", "", perform("assert", "FORWARD"), perform("assert", "COMMIT"))
    said = Instances(task(state("a", edges="FORWARD COMMIT", on_assert=(script,))))
    said.works_on("<cheque amount='0' note=''/>")
    assert said.entered()[-1] == ("FORWARD" if there else "COMMIT")


# --- scripts --------------------------------------------------------------------------------------------


def test_K43_a_routing_script_looks_at_the_object() -> None:
    ways = {"FORWARD": (when("obj.amount", ">", "100", perform("route", "rich"), perform("route", "next")),)}
    routed = task(state("a", edges="FORWARD", on_assert=(perform("assert", "FORWARD"),)), routes=ways)
    said = Instances(routed, task(state("s", edges="FORWARD"), called="rich"))
    for amount, to in (("99", "g.next"), ("100.5", "g.rich"), ("9e9", "g.rich")):
        said.told.clear()
        said.works_on(f"<cheque><amount>{amount}</amount></cheque>")
        assert [row["type"] for row in said.told_case()["routes"]] == [to]


def test_KA16_an_object_that_is_routed_nowhere_goes_to_EXCEPTION() -> None:
    said = Instances(task(state("a", edges="FORWARD", on_assert=(perform("assert", "FORWARD"),)), routes={}))
    run = said.works_on()
    assert (said.told_case()["result"], said.state(run)) == ("EXCEPTION", "failed")
    assert said.error()["type"] == "no-route"


def test_KA17_routes_to_two_types_are_of_two_copies() -> None:
    ways = {"FORWARD": (perform("route", "next"), perform("route", "one"))}
    said = Instances(
        task(state("a", edges="FORWARD", on_assert=(perform("assert", "FORWARD"),)), routes=ways)
    )
    said.works_on()
    told = said.told_case()
    copies = told["parts"][str(told["object"])]
    assert told["routes"] == [
        {"type": "g.next", "object": copies[0]},
        {"type": "g.one", "object": copies[1]},
    ]
    assert all('amount="5"' in said.xml(eid) for eid in copies)


def test_K8_an_object_is_split_and_its_parts_are_routed() -> None:
    ways = {"FORWARD": (perform("split", "'page"), perform("route", "next", "'*"))}
    said = Instances(
        task(state("a", edges="FORWARD", on_assert=(perform("assert", "FORWARD"),)), routes=ways)
    )
    said.works_on("<book><page n='1'/>and<page n='2'/></book>")
    told = said.told_case()
    parts = told["parts"][str(told["object"])]
    assert [said.xml(eid) for eid in parts] == ['<page n="1"/>', '<page n="2"/>']
    assert [row["object"] for row in told["routes"]] == parts


def test_KA29_a_name_that_is_not_there_sends_the_task_to_EXCEPTION() -> None:
    said = Instances(
        task(
            state("a", edges="b", on_leaving=(when("amount", "==", "1", perform("assert", "b")),)),
            state("b", edges="FORWARD"),
        )
    )
    run = said.works_on("<cheque/>")
    answer = said.asks(run, "assert", state="b")
    assert answer["state"] == "EXCEPTION"
    assert (said.error()["type"], said.error()["object"]) == ("no-value", str(said.told_case()["object"]))
    assert said.told_case()["result"] == "EXCEPTION"


def test_a_script_that_asserts_in_a_circle_is_stopped() -> None:
    circle = task(
        state("a", edges="b", on_assert=(perform("assert", "b"),)),
        state("b", edges="a", on_assert=(perform("assert", "a"),)),
    )
    said = Instances(circle)
    said.works_on()
    assert said.error()["type"] == "endless"


def test_an_action_gets_the_object_and_its_arguments_and_may_replace_the_object() -> None:
    stamped = action(
        "m.stamp",
        [
            Input("what", "cheque", use=False, outdates=True),
            Input("how", "argument[@n='1']", use=False),
        ],
        [Output("out", "cheque")],
    )
    script = (perform("m.stamp", "'red"), when("stamp", "==", "red", perform("assert", "FORWARD")))
    said = Instances(stamped, task(state("a", edges="FORWARD", on_assert=script)))
    run = said.works_on()
    given = dict(said.call_for("m.stamp").inputs)
    assert said.xml(given["how"][0]) == '<argument n="1">red</argument>'
    said.answer(said.call_for("m.stamp"), elements=(_output("<cheque stamp='red'/>"),))
    told = said.told_case()
    assert (told["was"], said.xml(told["object"])) == (given["what"][0], '<cheque stamp="red"/>')
    assert said.state(run) == "done"


def test_an_action_that_fails_sends_the_task_to_EXCEPTION_and_frees_what_it_took() -> None:
    stamped = action("m.stamp", [Input("what", "cheque", outdates=True)])
    said = Instances(stamped, task(state("a", edges="FORWARD", on_assert=(perform("m.stamp"),))))
    said.works_on()
    said.answer(said.call_for("m.stamp"), problem=Failure("ValueError", "it broke"))
    assert said.told_case()["result"] == "EXCEPTION"
    assert said.told_case()["was"] == said.told_case()["object"]


def _output(xml: str) -> OutputElement:
    return OutputElement(canonical(xml))


def test_K56_exec_waits_and_launch_does_not() -> None:
    script = (perform("launch", "'xterm -e top"), perform("exec", "'false"))
    said = Instances(task(state("a", edges="FORWARD", on_assert=script)))
    run = said.works_on()
    xterm, false = said.call_for("xterm"), said.call_for("false")
    assert dict(xterm.program.environment)["OBJECT_amount"] == "5"  # type: ignore[union-attr]
    said.answer(false, value={"status": 1, "output": "no"})
    assert (said.told_case()["result"], said.state(run)) == ("EXCEPTION", "ending")
    said.answer(xterm, value={"status": 0})
    assert said.state(run) == "failed"


# --- code and people ------------------------------------------------------------------------------------


def test_code_works_on_the_object_and_walks_to_FORWARD() -> None:
    said = Instances(
        action(
            "m.look",
            [Input("what", "cheque")],
            [Output("o", "report")],
        ),
        task(state("a", edges="b"), state("b", edges="FORWARD"), code=("action", "m.look")),
    )
    run = said.works_on()
    said.answer(said.call_for("m.look"), elements=(_output("<report/>"),))
    assert (said.entered(), said.state(run)) == (["b", "FORWARD"], "done")
    (report,) = said.told_case()["outputs"]
    assert said.xml(report) == "<report/>"


def test_code_that_fails_is_an_EXCEPTION() -> None:
    said = Instances(task(state("a", edges="FORWARD"), program=("scan", "--fast")))
    run = said.works_on()
    call = said.call_for("scan")
    assert (call.listed, dict(call.program.environment)["NARVAL_TASK"]) == (("",), str(run))  # type: ignore[union-attr]
    said.answer(call, value={"status": 3})
    assert (said.told_case()["result"], said.error()["type"]) == ("EXCEPTION", "status")


def test_K49_code_that_asserts_a_final_state_comes_to_its_own_end() -> None:
    said = Instances(task(state("a", edges="FORWARD"), program=("scan",)))
    run = said.works_on()
    assert said.asks(run, "assert", state="FORWARD")["state"] == "FORWARD"
    assert (said.told_case()["result"], said.state(run)) == ("FORWARD", "ending")
    said.answer(said.call_for("scan"), value={"status": 0})
    assert (said.state(run), said.errors()) == ("done", [])


def test_K28_the_script_of_COMMIT_runs_and_one_without_an_object_does_not() -> None:
    ways = {"COMMIT": (note("paid"),)}
    done = task(state("a", edges="COMMIT", on_assert=(perform("assert", "COMMIT"),)), routes=ways)
    said = Instances(done)
    run = said.works_on()
    said.answer(said.call_for("echo"), value={"status": 0})
    assert (said.told_case()["result"], said.state(run)) == ("COMMIT", "done")
    assert said.state(said.begins_one()) == "done"


def test_K6_a_person_answers_and_the_answer_walks() -> None:
    said = Instances(task(state("a", edges="b"), state("b", edges="FORWARD ABORT"), users=("ann",)))
    run = said.works_on()
    call = said.call_for("g.one")
    assert (call.kind, call.nearby[0]) == ("work", (said.states[run].object,))
    answer = said.add('<decision outcome="forward" by="ann"/>')
    said.answer(call, eids=(answer,))
    assert (said.entered(), said.state(run)) == (["b", "FORWARD"], "done")


def test_K47_ON_ABORT_runs_after_the_chain() -> None:
    ways = {"ABORT": (perform("route", "next"),)}
    said = Instances(task(state("a", edges="ABORT", on_assert=(perform("assert", "ABORT"),)), routes=ways))
    said.held.add("ended")
    run = said.works_on()
    assert (said.state(run), said.signals("routed")) == ("active", [])
    said.lets(run, "ended", value={})
    assert said.signals("routed")[0]["routes"][0]["type"] == "g.next"
    assert said.state(run) == "aborted"


def test_K47_a_script_of_ABORT_that_routes_nothing_says_so() -> None:
    ways = {"ABORT": (when("kind", "==", "letter", perform("route", "next")),)}
    said = Instances(task(state("a", edges="ABORT", on_assert=(perform("assert", "ABORT"),)), routes=ways))
    run = said.works_on('<object kind="none"/>')
    assert said.signals("routed")[0]["routes"] == []
    assert said.state(run) == "aborted"


def test_K46_a_compensator_gives_its_end_to_who_called_it() -> None:
    said = Instances(task(state("a", edges="FORWARD", on_assert=(perform("assert", "FORWARD"),)), routes={}))
    run = said.works_on(compensates="g.next")
    assert (said.told, said.state(run), said.finished[run].phase) == ([], "done", "done")


# --- events ---------------------------------------------------------------------------------------------

LISTENS = task(
    state(
        "a", edges="b FORWARD", rules=(Rule("tick", ("t",), action=(note("tick"), perform("assert", "b"))),)
    ),
    state("b", edges="FORWARD"),
)


def test_KA5_an_action_is_done_in_its_state_alone() -> None:
    said = Instances(LISTENS)
    run = said.works_on()
    assert said.signals("at") == [
        {"instance": run, "state": "a", "object": said.states[run].object, "case": CASE, "to": "g.one"}
    ]
    signal = said.acts(run, "tick", "a", parameters={"t": "9"})
    assert said.answer_to(signal) is None
    assert dict(said.call_for("echo").program.environment)["TASK_t"] == "9"  # type: ignore[union-attr]
    late = said.acts(run, "tick", "a")
    said.answer(said.call_for("echo"), value={"status": 0})
    assert said.answer_to(signal) == {"result": "done", "why": "", "kept": False}
    assert said.answer_to(late) == {"state": False}
    assert [told["state"] for told in said.signals("at")] == ["a", ""]


def test_K39_an_instance_without_an_object_keeps_what_an_event_brings() -> None:
    said = Instances(LISTENS)
    run, eid = said.begins_one(), said.add("<cheque/>")
    signal = said.acts(run, "tick", "a", object=eid, case=CASE)
    said.answer(said.call_for("echo"), value={"status": 0})
    assert said.answer_to(signal)["kept"]
    said.asks(run, "assert", state="FORWARD")
    assert said.told_case()["object"] == eid


def test_K39_an_action_routes_what_an_event_brings() -> None:
    moves = task(state("a", edges="FORWARD", rules=(Rule("take", action=(perform("route", "next"),)),)))
    said = Instances(moves)
    run, eid = said.works_on(), said.add("<other/>")
    signal = said.acts(run, "take", "a", object=eid, case=77)
    assert said.answer_to(signal)["kept"]
    (told,) = said.signals("routed")
    assert (told["to"], told["object"], told["routes"]) == (77, eid, [{"type": "g.next", "object": eid}])
    assert said.states[run].object != eid


def test_K38_K59_a_raise_waits_for_its_return_and_what_it_carries_is_gone() -> None:
    script = (perform("raise", "next", "wake", "amount", "object"), when("amount", "", "", note("x")))
    said = Instances(task(state("a", edges="FORWARD", on_assert=script)))
    said.held.add("raise")
    run = said.works_on()
    assert said.signals("moved")[0]["type"] == "g.next"
    said.lets(run, "raise", value={"event": "7", "result": "done"})
    (told,) = said.signals("raise")
    assert (told["parameters"], told["event"], told["raiser"], told["to"]) == (["5"], "wake", run, "g.next")
    assert (said.error()["type"], said.state(run)) == ("no-object", "failed")
    assert said.signals("ended") == []


def test_K39_an_object_stays_where_the_event_is_refused() -> None:
    said = Instances(
        task(state("a", edges="FORWARD", on_assert=(perform("raise", "next", "wake", "object"),)))
    )
    said.refused["raise"] = "no-rule"
    said.works_on()
    assert [told["type"] for told in said.signals("moved")] == ["g.next", "g.one"]
    assert (said.told_case()["result"], said.error()["type"]) == ("EXCEPTION", "no-rule")


def test_K39_an_object_whose_event_is_refused_too_late_is_in_the_queue() -> None:
    said = Instances(LISTENS)
    said.held.add("raise")
    run = said.works_on()
    eid = said.states[run].object
    with pytest.raises(Refusal):  # it is not answered yet
        said.asks(run, "raise", type="next", event="wake", carries=True, mode="sync")
    other = said.add("<other/>")
    said.acts(run, "tick", "a", object=other, case=77)
    said.lets(run, "raise", problem=Failure("over", "it is over"))
    (put,) = said.signals("put")
    assert (put["object"], put["case"], put["front"], said.states[run].object) == (eid, CASE, True, other)
    assert [(told["object"], told["type"]) for told in said.signals("moved")][-1] == (eid, "g.one")


def test_K59_an_instance_is_stopped_for_the_object_alone_that_it_has() -> None:
    said = Instances(LISTENS)
    run, eid = said.begins_one(), said.add("<cheque/>")
    said.tell(run, stop(said, object=eid))
    assert said.state(run) == "active"
    said.acts(run, "tick", "a", object=eid, case=CASE)
    said.tell(run, stop(said, object=eid))
    said.answer(said.call_for("echo"), abandoned=True)
    assert (said.state(run), said.signals("down")) == ("stopped", [])


def stop(said: Instances, **arguments: Any) -> Signalled:
    """The server takes an object back."""
    return Signalled(0, said.now, "w1", "stop", arguments={"withdrawn": True, **arguments}, sender=SERVER)


def test_K39_an_object_stays_where_the_event_of_its_routing_script_is_refused() -> None:
    script = (perform("raise", "next", "wake", "object"),)
    said = Instances(task(state("a", edges="FORWARD"), routes={"FORWARD": script}))
    said.refused["raise"] = "no-rule"
    run = said.works_on()
    said.asks(run, "assert", state="FORWARD")
    assert (said.told_case()["result"], said.signals("put")) == ("EXCEPTION", [])


def test_K52_a_program_raises_and_hears_what_comes_of_it() -> None:
    said = Instances(FREE)
    run = said.init()
    said.replies["raise"] = {"event": "7"}
    assert said.asks(run, "raise", type="next", event="wake", parameters=["1"], mode="async") == {
        "event": "7"
    }
    with pytest.raises(Refusal, match="no object to hand over"):
        said.asks(run, "raise", type="next", event="wake", carries=True)
    with pytest.raises(Refusal, match="found no nowhere"):
        said.asks(run, "raise", type="nowhere", event="wake")


# --- ends -----------------------------------------------------------------------------------------------


def test_K16_what_is_stopped_is_rolled_back_and_goes_back() -> None:
    stamped = action(
        "m.stamp",
        [Input("w", "cheque", outdates=True)],
        [Output("o", "cheque")],
    )
    said = Instances(stamped, task(state("a", edges="FORWARD", on_assert=(perform("m.stamp"),))))
    run = said.works_on()
    given = said.states[run].object
    said.answer(said.call_for("m.stamp"), elements=(_output("<cheque stamp='red'/>"),))
    said.asks(run, "stop", why="enough")
    (told,) = said.signals("down")
    assert (said.state(run), told["front"], said.xml(told["object"])) == ("stopped", True, said.xml(given))
    assert said.states[run].object == told["object"]


def test_K16_what_is_stopped_while_its_code_runs_ends_once_that_is_gone() -> None:
    said = Instances(task(state("a", edges="FORWARD"), program=("scan",)))
    run = said.works_on()
    said.asks(run, "stop", withdrawn=True)
    assert said.state(run) == "ending"
    said.answer(said.call_for("scan"), abandoned=True)
    assert (said.state(run), said.signals("down")) == ("stopped", [])


def test_an_object_that_comes_too_late_goes_back() -> None:
    said = Instances(FREE)
    run = said.begins_one(by_server=False)
    said.cancel(run)
    assert said.state(run) == "ending"
    eid = said.gives(run)
    assert (said.state(run), said.signals("down")[0]["object"]) == ("cancelled", eid)


def test_K16_a_task_is_finished_by_force_whatever_edges_there_are() -> None:
    said = Instances(task(state("a", edges="b"), state("b", edges="FORWARD"), program=("scan",)))
    run = said.works_on()
    with pytest.raises(Refusal, match="expected a terminal state"):
        said.asks(run, "finish", state="b")
    said.asks(run, "finish", state="COMMIT", why="the customer has paid")
    assert (said.told_case()["result"], said.told_case()["why"]) == ("COMMIT", "the customer has paid")
    said.answer(said.call_for("scan"), abandoned=True)
    assert said.state(run) == "done"


def test_K45_one_that_finds_nothing_in_the_queue_ends() -> None:
    said = Instances(FREE)
    run = said.begins_one(by_server=False)
    said.gives(run, "")
    assert said.state(run) == "done"


def test_signals_that_anybody_could_give_are_refused() -> None:
    said = Instances(FREE)
    run = said.works_on()
    with pytest.raises(Refusal, match="narval task"):
        said.says(run, "assert", state="mid")
    with pytest.raises(Refusal, match="expected assert"):
        said.asks(run, "act", state="start")
    with pytest.raises(Refusal, match="expected assert"):
        said.asks(run, "dance")


def test_K57_a_program_that_waits_no_more_asks_again_later() -> None:
    said = Instances(FREE)
    run = said.init()
    with pytest.raises(Refusal):
        said.asks(run, "get")
    first = next(iter(said.states[run].answered.values()))
    with pytest.raises(Refusal):
        said.asks(run, "get")
    signal = next(iter(said.states[run].answered.values()))
    assert signal != first, "who asks again is the one that is answered"
    with pytest.raises(Refusal):
        said.asks(run, "gone", signal=signal)
    (call,) = [call for _, call in said.calls.values() if (call.payload or {}).get("signal") == "take"]
    said.answer(call, abandoned=True)
    assert len(said.signals("join")) == 2
    said.held.discard("take")
    said.replies["take"] = {"object": said.add("<cheque/>"), "case": CASE}
    assert said.asks(run, "get")["state"] == "start"


def test_K51_a_script_raises_the_event_of_an_edge() -> None:
    moved = task(
        state("a", edges={"ev.go": "b"}, on_assert=(perform("raise", "ev.go"),)), state("b", edges="FORWARD")
    )
    said = Instances(moved)
    said.works_on()
    assert said.entered() == ["a", "b"]


# --- for people -----------------------------------------------------------------------------------------


def test_K31_what_it_waits_for_and_where_it_is_are_told() -> None:
    said = Instances(LISTENS)
    run = said.works_on()
    (definition, found), engine = (said.definitions[run], said.states[run]), said.engines[run]
    waits = [(wait.what, wait.text) for wait in engine.waiting_for(definition, found, {})]
    assert waits == [
        ("signal", 'ON EVENT tick (t) CONDITION ACTION { exec("echo tick"); assert(b); }'),
        ("signal", "to move along an edge: to-b to b, to-FORWARD to FORWARD"),
    ]
    assert engine.explain(definition, found, "a") == f"it is in state a with object {found.object}"
    assert engine.explain(definition, found, "b").endswith("not in b; edges lead to it from a")
    assert engine.explain(definition, found, "elsewhere") is None
    drawn = engine.graph(definition, found)
    assert [node.id for node in drawn.parts if hasattr(node, "shape")] == ["a", "b", "FORWARD"]
    said.asks(run, "stop", why="the shop is shut")
    assert engine.explain(definition, found, None) == (
        f"it ended in state a with object {found.object}; its object went back to the queue: the shop is shut"
    )


def test_K39_an_object_that_is_adopted_and_passed_on_is_not_given_back() -> None:
    passes = task(
        state("a", edges="FORWARD", rules=(Rule("ev", action=(perform("raise", "next", "wake", "object"),)),))
    )
    said = Instances(passes)
    said.replies["raise"] = {"event": 8}
    run, eid = said.begins_one(), said.add("<cheque/>")
    signal = said.acts(run, "ev", "a", object=eid, case=CASE)
    assert said.answer_to(signal) == {"result": "done", "why": "", "kept": True}
    assert (said.states[run].object, said.signals("raise")[0]["object"]) == (0, eid)


def test_KA6_an_action_that_is_in_line_when_the_instance_ends_is_for_another() -> None:
    said = Instances(LISTENS)
    run = said.works_on()
    first, second = said.acts(run, "tick", "a"), said.acts(run, "tick", "a", object=said.add("<o/>"), case=7)
    said.asks(run, "stop")
    assert said.answer_to(first)["result"] == "failed"
    assert said.answer_to(second) == {"state": False}
    said.answer(said.call_for("echo"), abandoned=True)
    assert said.answer_to(said.acts(run, "tick", "a")) == {"state": False}


def test_K29_what_the_case_does_not_take_is_an_exception() -> None:
    said = Instances(task(state("a", edges="FORWARD", on_assert=(perform("assert", "FORWARD"),))))
    said.held.add("ended")
    run = said.works_on()
    said.lets(run, "ended", problem=Failure("routed-twice", "no"))
    said.lets(run, "ended", value={})
    assert [told["result"] for told in said.signals("ended")] == ["FORWARD", "EXCEPTION"]
    assert (said.signals("ended")[1]["routes"], said.state(run)) == ([], "failed")
