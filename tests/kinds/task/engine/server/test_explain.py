"""A standing run as people see it: three queues of events, its objects, who works, and why (K61, K62)."""

from __future__ import annotations

from lxml import etree

from narval.core.engines.graph import GraphNode
from narval.core.engines.story import joined
from narval.kinds.task.engine.server import engine
from tests.kinds.task.engine.server.hall import Hall, after, at, before, both, rule, said, state, task


def why(hall: Hall, eid: int) -> str:
    run = hall.servers["check"]
    words = engine.explain(hall.definitions[run], hall.states[run], str(eid)) or ""
    return "".join(map(str, joined([words], "")))


def waits(hall: Hall, eid: int) -> list[tuple[str, str]]:
    run = hall.servers["check"]
    found = engine.diagnose(hall.definitions[run], hall.states[run], str(eid), hall.element, lambda *_: None)
    return [(wait.what, wait.text) for wait in found]


def test_K39_an_action_waits_for_another_that_may_keep_what_the_event_brings() -> None:
    hall = Hall(task("check", state("busy", rule(), rule())))
    one, two, eid = hall.joins("check", "busy"), hall.joins("check", "busy"), hall.object()
    event = hall.raises("check", object=eid, case=7)
    assert why(hall, event) == (
        f"instance {one} does the action of rule 1 in state busy; "
        f"the action of rule 2 in state busy waits for another, which may keep object {eid}"
    )
    assert waits(hall, event)[1] == ("signal", f"that another action is done, which may keep object {eid}")
    hall.acted()
    assert why(hall, event) == f"instance {two} does the action of rule 2 in state busy"


def test_K62_the_three_queues_of_events() -> None:
    windows = {"before_condition": both(after(10), before(60)), "before_action": after(5)}
    hall = Hall(task("check", state("busy", rule("one", **windows), rule("two", when="go", **windows))))
    one, two = hall.raises("check", "one"), hall.raises("check", "two")
    assert hall.events("check") == {one: "registered", two: "registered"}
    window = "its window 110.0–160.0"
    assert why(hall, one) == f"rule 1 in state busy waits for {window}"
    assert waits(hall, one) == [("time", "its window for the condition")]
    hall.passes(10)
    assert hall.events("check") == {one: "awaiting-condition", two: "awaiting-condition"}
    assert why(hall, two) == ("rule 1 in state busy waits for an instance in that state until 160.0")
    checker = hall.joins("check", "busy")
    assert hall.events("check") == {one: "awaiting-action", two: "awaiting-condition"}
    assert why(hall, one).startswith("the condition of rule 1 in state busy held, and its action waits for")
    assert why(hall, two) == ("rule 1 in state busy waits for its condition to hold until 160.0")
    hall.arrives("<go/>")
    hall.passes(5)
    assert why(hall, one) == f"instance {checker} does the action of rule 1 in state busy"
    assert why(hall, two).startswith(f"the action of rule 1 in state busy waits for instance {checker}")
    assert why(hall, checker) == f"it does the action of event {one}"


def test_K62_an_event_that_no_free_instance_can_receive_names_the_busy_ones() -> None:
    hall = Hall(task("check", state("busy", rule())))
    one, two = hall.joins("check", "busy"), hall.joins("check", "busy")
    event = [hall.raises("check") for _ in "123"][-1]
    busy = f"; an action is done there by instance {one}, {two}"
    assert why(hall, event) == f"rule 1 in state busy waits for an instance in that state{busy}"


def test_K62_an_event_of_several_states_tells_of_each() -> None:
    hall = Hall(task("check", state("busy", rule(before_action=at(10))), state("idle", rule())))
    hall.joins("check", "busy")
    event = hall.raises("check")
    told = why(hall, event).split("; ")
    assert told[1] == "rule 1 in state idle is not asked while it is answered in state busy"


def test_K61_parts_and_picture() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=after(10))), composed_from=("scan",)))
    eid = hall.put("check")
    parent = hall.object("<folder/>")
    part = hall.put("check", parent=parent, ordinal=2, count=3)
    program = hall.joins("check", user="ann", program=True)
    event = hall.raises("check", object=hall.object())
    run = hall.servers["check"]
    definition, found = hall.definitions[run], hall.states[run]
    parts = engine.parts(definition, found)
    assert [(row["id"], row["state"]) for row in parts["queue"]] == [
        (str(eid), "queued"),
        (str(part), "part"),
    ]
    assert [(row["id"], row["user"]) for row in parts["instances"]] == [(str(program), "ann")]
    assert [(row["id"], row["state"]) for row in parts["events"]] == [(str(event), "registered")]
    assert why(hall, part) == f"1 of the 3 parts of {parent} are here; missing: 1, 3"
    assert why(hall, eid).endswith("no instance asks for an object; begin one with narval task init")
    nodes = [node for node in engine.graph(definition, found).parts if isinstance(node, GraphNode)]
    assert [(node.id, node.badge) for node in nodes][:3] == [
        ("queue", "1"),
        ("instances", "1"),
        ("registered", "1"),
    ]
    root = etree.fromstring(engine.render(definition, found, ()))
    assert dict(root.attrib) == {
        "name": "g.check",
        "state": "serving",
        "queue": "1",
        "events": "1",
        "instances": "1",
    }


def test_K61_who_is_gone_is_known_no_more() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=before(60)))))
    checker = hall.joins("check", "busy")
    event = hall.raises("check")
    (act,) = hall.acts()
    assert said(act)["event"] == event
    hall.lost(act)
    assert checker not in hall.server("check").at_work
    assert hall.events("check") == {event: "awaiting-condition"}
