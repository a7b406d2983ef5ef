"""The way of an object through tasks (K8, K19–K21, K28, K29, K43, KA16–KA18, KA28)."""

from __future__ import annotations

import pytest

from narval.core.engines.events import Failure
from narval.kinds.task.engine.case.decision import MOST_VISITS
from tests.core.engines.dialogue import Refusal
from tests.kinds.task.engine.case.cases import Cases, task


def test_K21_an_object_is_put_to_the_server_of_the_type_where_it_enters() -> None:
    cases = Cases("enter")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    said = {"object": cheque, "case": case, "parent": 0, "ordinal": 0, "count": 0, "visits": 1}
    assert cases.told == [("g.enter", "put", said)]
    assert (cases.state(case), cases.places(case)) == ("active", {cheque: "enter"})


def test_K28_FORWARD_lets_the_object_go_on_and_COMMIT_ends_it() -> None:
    cases = Cases("enter", "verify")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    assert cases.passes_task(case, cheque, ("verify", 0)) == {}
    assert cases.queues == {cheque: "g.verify"}
    cases.passes_task(case, cheque, result="COMMIT")
    assert (cases.state(case), cases.places(case)) == ("committed", {cheque: "committed"})
    assert cases.trail(case) == [("enter", "committed")]
    assert (cases.finished[case].phase, cases.finished[case].eids) == ("done", (cheque,))
    assert cheque in cases.memory.outdated, "it is no more"


def test_K28_an_own_final_state_lets_the_object_go_on_under_its_own_name() -> None:
    cases = Cases("enter", "verify")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    cases.passes_task(case, cheque, ("verify", 0), result="stamped")
    assert [step.result for step in cases.states[case].trail] == ["stamped"]


def test_K43_an_object_that_was_replaced_goes_on_under_its_identity() -> None:
    cases = Cases("enter", "verify")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    better = cases.add("<cheque read='yes'/>")
    cases.passes_task(case, cheque, ("verify", 0), now=better)
    assert cases.queues == {better: "g.verify"}
    assert (cases.places(case), cases.states[case].objects) == ({cheque: "verify"}, {better: cheque})
    assert set(cases.memory.contexts.of(case)) >= {cheque, better}, "the case holds both"


def test_KA16_an_object_that_nobody_routes_is_held_with_an_error_and_goes_on_by_hand() -> None:
    cases = Cases("enter", "verify")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    cases.passes_task(case, cheque)
    assert (cases.state(case), cases.places(case)) == ("held", {cheque: "held"})
    assert cases.error()["type"] == "no-route"
    with pytest.raises(Refusal, match="name the type"):
        cases.says(case, "retry")
    assert cases.says(case, "retry", type="verify") == {"objects": [cheque]}
    assert (cases.state(case), cases.places(case)) == ("active", {cheque: "verify"})


def test_KA17_copies_have_a_common_parent_and_go_on_by_themselves() -> None:
    cases = Cases("enter", "a", "b")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    one, two = cases.add("<cheque n='1'/>"), cases.add("<cheque n='2'/>")
    cases.passes_task(case, cheque, ("a", one), ("b", two), parts={cheque: [one, two]})
    assert cases.places(case) == {cheque: "parts", one: "a", two: "b"}
    told = [said for _, _, said in cases.told[1:]]
    assert [(said["parent"], said["ordinal"], said["count"]) for said in told] == [
        (cheque, 1, 2),
        (cheque, 2, 2),
    ]
    cases.passes_task(case, one, result="COMMIT")
    assert cases.state(case) == "active"
    cases.passes_task(case, two, result="COMMIT")
    assert (cases.state(case), cases.places(case)[cheque]) == ("committed", "committed")


def test_KA17_a_part_that_nobody_routes_is_held() -> None:
    cases = Cases("enter", "a")
    folder = cases.add("<folder/>")
    case = cases.begins_case("enter", folder)
    one, two = cases.add("<page n='1'/>"), cases.add("<page n='2'/>")
    cases.passes_task(case, folder, ("a", one), parts={folder: [one, two]})
    assert cases.places(case) == {folder: "parts", one: "a", two: "held"}


def test_K20_parts_become_their_object_again() -> None:
    cases = Cases("split", "a", "b", task("join", composed=("a", "b")), "end")
    folder = cases.add("<folder/>")
    case = cases.begins_case("split", folder)
    one, two = cases.add("<page n='1'/>"), cases.add("<page n='2'/>")
    cases.passes_task(case, folder, ("a", one), ("b", two), parts={folder: [one, two]})
    cases.passes_task(case, one, ("join", 0))
    (wait,) = [wait for wait in waits(cases, case) if wait.id == str(one)]
    assert wait.text == "by g.join that all parts are there; missing: part 2 (at g.b)"
    assert cases.says_of(case, "merged", parent=folder, object=folder, parts=[one]) == "missing-part"
    cases.passes_task(case, two, ("join", 0))
    whole = cases.add("<folder merged='yes'/>")
    assert cases.says_of(case, "merged", parent=folder, object=whole, parts=[one, two]) == {}
    assert cases.places(case) == {folder: "join", one: "merged", two: "merged"}
    cases.passes_task(case, whole, ("end", 0))
    cases.passes_task(case, whole, result="COMMIT")
    assert cases.state(case) == "committed"
    assert {state for _, state in cases.trail(case)} == {"committed"}


def test_K20_parts_that_wait_for_one_that_will_not_come_are_an_exception() -> None:
    cases = Cases("split", "a", "b", task("join", composed=("a", "b")), "exception")
    folder = cases.add("<folder/>")
    case = cases.begins_case("split", folder)
    one, two, three = (cases.add(f"<page n='{n}'/>") for n in (1, 2, 3))
    cases.passes_task(case, folder, ("a", one), ("b", two), ("b", three), parts={folder: [one, two, three]})
    cases.passes_task(case, one, ("join", 0))
    cases.passes_task(case, two, result="COMMIT")
    assert cases.places(case)[one] == "exception"
    assert [said["object"] for _, signal, said in cases.told if signal == "withdraw"] == [one]
    cases.passes_task(case, three, ("join", 0))
    assert cases.places(case)[three] == "exception"


def test_K29_what_a_server_says_of_an_object_that_is_held_is_no_news() -> None:
    cases = Cases("enter")
    case = cases.begins_case("enter", cheque := cases.add("<cheque/>"))
    cases.passes_task(case, cheque, result="EXCEPTION")
    assert cases.says_of(case, "lost", object=cheque, type="g.enter", why="run 7 was failed") == {}
    assert cases.error()["type"] == "exception"


def test_K20_parts_that_cannot_be_merged_are_an_exception() -> None:
    cases = Cases("split", "a", task("join", composed=("a",)))
    case = cases.begins_case("split", folder := cases.add("<folder/>"))
    one, two = cases.add("<page n='1'/>"), cases.add("<page n='2'/>")
    cases.passes_task(case, folder, ("join", one), ("join", two), parts={folder: [one, two]})
    assert cases.says_of(case, "lost", object=folder, why="element 4 is no longer there") == {}
    assert cases.places(case) == {folder: "parts", one: "held", two: "held"}
    assert cases.states[case].members[one].why == "element 4 is no longer there"


def test_K29_EXCEPTION_goes_where_its_script_says_else_to_the_exception_type_of_the_group() -> None:
    cases = Cases("enter", "repair", "exception")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    cases.passes_task(case, cheque, ("repair", 0), result="EXCEPTION")
    assert cases.places(case) == {cheque: "repair"}
    cases.passes_task(case, cheque, result="EXCEPTION")
    assert cases.places(case) == {cheque: "exception"}
    cases.passes_task(case, cheque, result="EXCEPTION")
    assert (cases.state(case), cases.places(case)) == ("held", {cheque: "held"})
    assert cases.trail(case) == [], "nothing of it was committed"
    cases.says(case, "retry")
    assert cases.places(case) == {cheque: "exception"}


def test_K29_without_an_exception_type_the_object_is_held() -> None:
    cases = Cases("enter")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    cases.says_of(case, "lost", object=cheque, why="its element is gone")
    assert (cases.state(case), cases.error()["type"]) == ("held", "lost")


def test_KA28_an_object_that_comes_back_too_often_is_an_exception() -> None:
    cases = Cases("enter")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    for _ in range(MOST_VISITS - 1):
        cases.passes_task(case, cheque, ("enter", 0))
    assert cases.places(case) == {cheque: "enter"}
    cases.passes_task(case, cheque, ("enter", 0))
    assert cases.error()["type"] == "visits"
    cases.says(case, "retry")
    assert cases.places(case) == {cheque: "enter"}, "by hand it may"


def comes_too_often(cases: Cases) -> tuple[int, int]:
    """A case whose object comes to a type once too often; and the object."""
    case = cases.begins_case("enter", cheque := cases.add("<cheque/>"))
    for _ in range(MOST_VISITS):
        cases.passes_task(case, cheque, ("enter", 0))
    return case, cheque


def test_KA28_the_script_of_exception_is_asked_where_it_goes() -> None:
    cases = Cases(task("enter", script="EXCEPTION"), "exception", "other")
    case, cheque = comes_too_often(cases)
    asked = cases.asked()
    assert (asked.name, asked.elements) == ("g.enter", (cheque,))
    said = {"object": str(cheque), "case": str(case)}
    why = f"it has been at g.enter {MOST_VISITS} times; see why it comes back"
    assert asked.payload == {"environment": {**said, "exception": why}}
    (wait,) = waits(cases, case)
    assert wait.text == f"by the script of EXCEPTION of g.enter where it goes: {why}"
    cases.passes_task(case, cheque, ("other", 0), result="EXCEPTION")
    cases.answer(asked, problem=Failure("run-failed", "failed"))
    assert cases.places(case) == {cheque: "other"}


def test_KA28_a_script_of_exception_that_routes_nowhere_or_cannot_begin_is_asked_once() -> None:
    cases = Cases(task("enter", script="EXCEPTION"), "exception")
    case, cheque = comes_too_often(cases)
    cases.passes_task(case, cheque, result="EXCEPTION")
    assert cases.places(case) == {cheque: "exception"}
    cases = Cases(task("enter", script="EXCEPTION"))
    case, cheque = comes_too_often(cases)
    cases.answer(cases.asked(), problem=Failure("run-failed", "out of order"))
    assert (cases.state(case), cases.error()["type"]) == ("held", "exception")


def test_KA28_a_script_of_exception_that_sends_the_object_back_is_not_asked_for_ever() -> None:
    cases = Cases(task("enter", script="EXCEPTION"))
    case, cheque = comes_too_often(cases)
    for _ in range(2):
        cases.passes_task(case, cheque, ("enter", 0), result="EXCEPTION")
    assert (cases.state(case), cases.error()["type"]) == ("held", "visits")


def test_K47_an_object_whose_script_of_exception_is_asked_is_withdrawn() -> None:
    cases = Cases(task("enter", script="EXCEPTION"))
    case, cheque = comes_too_often(cases)
    cases.says(case, "cancel")
    assert (cases.state(case), cases.places(case)) == ("cancelled", {cheque: "withdrawn"})


def test_KA28_what_is_split_again_and_again_is_counted_too() -> None:
    cases = Cases("enter")
    case = cases.begins_case("enter", cheque := cases.add("<cheque/>"))
    for _ in range(MOST_VISITS):
        made = cases.add("<cheque/>")
        cases.passes_task(case, cheque, ("enter", made), parts={cheque: [made]})
        cheque = made
    assert (cases.state(case), cases.error()["type"]) == ("held", "visits")


def test_a_type_that_is_not_loaded_any_more_holds_the_object_until_a_reload_and_a_retry() -> None:
    cases = Cases("enter", "verify")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    cases.unload("verify")
    cases.passes_task(case, cheque, ("verify", 0))
    assert (cases.state(case), cases.error()["type"]) == ("held", "unknown-target")
    cases.says(case, "retry")
    assert cases.state(case) == "held"
    cases.reload()
    cases.says(case, "retry", object=cheque)
    assert (cases.state(case), cases.queues) == ("active", {cheque: "g.verify"})


def test_K39_an_object_goes_with_an_event_and_is_routed_by_its_action() -> None:
    cases = Cases("enter", "update", "next")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    cases.says_of(case, "moved", object=cheque, type="g.update", event="12.3")
    assert cases.places(case) == {cheque: "event"}
    cases.says_of(case, "routed", object=cheque, routes=[{"type": "next", "object": cheque}])
    assert cases.places(case) == {cheque: "next"}


def test_K39_a_case_may_begin_with_an_event() -> None:
    cases = Cases("update")
    cheque = cases.add("<cheque/>")
    case = cases.begins_case("update", cheque, environment={"event": "ev.update", "parameters": '["a", 2]'})
    ((type, signal, said),) = cases.told
    assert (type, signal, said["event"], said["parameters"]) == ("g.update", "raise", "ev.update", ["a", 2])
    assert cases.places(case) == {cheque: "event"}


def test_what_is_said_of_objects_that_are_none_of_the_case_changes_nothing() -> None:
    cases = Cases("enter")
    cheque, other = cases.add("<cheque/>"), cases.add("<cheque/>")
    case = cases.begins_case("enter", cheque)
    assert cases.says_of(case, "ended", object=other, was=other, result="FORWARD") == "unknown-object"
    assert cases.passes_task(case, cheque, ("enter", other)) == "unknown-object"
    assert cases.passes_task(case, cheque, ("enter", 0), ("enter", 0)) == "routed-twice"
    assert cases.says_of(case, "put", object=cheque) == "not-listening"
    assert cases.decided == []
    assert cases.places(case) == {cheque: "enter"}


def test_nobody_from_outside_may_say_what_an_instance_does() -> None:
    cases = Cases("enter")
    case = cases.begins_case("enter", cheque := cases.add("<cheque/>"))
    with pytest.raises(Refusal, match="expected retry, cancel"):
        cases.says(case, "ended", object=cheque, was=cheque, result="COMMIT")
    assert cases.state(case) == "active"


def test_a_case_without_an_object_fails() -> None:
    cases = Cases("enter")
    case = cases.begins_case("enter")
    assert (cases.state(case), cases.error()["type"]) == ("failed", "no-object")


def waits(cases: Cases, case: int) -> list:  # type: ignore[type-arg]
    return list(cases.engines[case].waiting_for(cases.definitions[case], cases.states[case], {}))
