"""The queue of a type, and who takes from it (K21, K44, K57)."""

from __future__ import annotations

from tests.kinds.task.engine.server.hall import Hall, before, rule, said, state, task


def test_K57_objects_are_taken_in_order_of_arrival() -> None:
    hall = Hall(task("scan"))
    first, second = hall.put("scan"), hall.put("scan")
    program = hall.joins("scan", program=True)
    given = hall.asks("scan", "take", program, instance=program)
    assert given == {"object": first, "case": 7, "eids": [first]}
    assert hall.asks("scan", "take", program, instance=program)["object"] == second
    parked = hall.sends("scan", "take", program, instance=program)
    assert hall.answer_to(parked) is None
    third = hall.put("scan")
    assert hall.server("scan").given == {third: str(program)}


def test_K21_what_is_given_back_is_next() -> None:
    hall = Hall(task("scan"))
    first, second = hall.put("scan"), hall.put("scan")
    one, other = hall.joins("scan"), hall.joins("scan")
    assert hall.asks("scan", "take", one, instance=one)["object"] == first
    hall.asks("scan", "down", one, instance=one, object=first, front=True)
    assert list(hall.server("scan").queue) == [first, second]
    assert hall.asks("scan", "take", other, instance=other)["object"] == first


def test_K44_an_automatic_task_is_begun_for_one_object_at_a_time() -> None:
    hall = Hall(task("scan", invocation="auto"))
    first, second = hall.put("scan"), hall.put("scan")
    (call,) = hall.begun()
    assert call.elements == (first,)
    assert call.payload == {"environment": {"object": str(first), "case": "7"}}
    hall.answer(call, eids=(first,))
    (call,) = hall.begun()
    assert call.elements == (second,)
    hall.answer(call)
    assert hall.begun() == []


def test_P35_people_are_asked_for_each_object_at_once() -> None:
    hall = Hall(task("check", roles=("clerk",)))
    objects = [hall.put("check") for _ in range(3)]
    assert [call.elements[0] for call in hall.begun()] == objects


def test_KA15_a_periodic_task_runs_when_loaded_and_then_in_its_period() -> None:
    hall = Hall(task("sweep", invocation="periodic", period=10.0))
    (call,) = hall.begun()
    assert call.elements == ()
    hall.passes(35)
    assert hall.begun() == [call]
    eid = hall.put("sweep")
    hall.answer(call)
    (call,) = hall.begun()
    assert call.elements == (eid,)
    hall.answer(call)
    assert hall.begun() == []
    hall.passes(5)
    (call,) = hall.begun()


def test_K20_parts_are_merged_once_all_are_there() -> None:
    hall = Hall(task("file", composed_from=("scan",)))
    parent = hall.object('<folder no="1"><a/></folder>')
    parts = [hall.object(f"<page n='{n}'/>") for n in (1, 2, 3)]
    for ordinal in (3, 1, 2):
        assert list(hall.server("file").queue) == []
        hall.put("file", parts[ordinal - 1], parent=parent, ordinal=ordinal, count=3)
    (made,) = hall.server("file").queue
    assert hall.xml(made) == '<folder no="1"><page n="1"/><page n="2"/><page n="3"/></folder>'
    (told,) = hall.told("merged")
    assert said(told) == {"parent": parent, "object": made, "parts": parts, "type": "g.file"}
    assert hall.current(parent) == made


def test_K8_what_is_withdrawn_is_nowhere() -> None:
    hall = Hall(task("scan", invocation="auto"))
    first, second = hall.put("scan"), hall.put("scan")
    assert hall.asks("scan", "withdraw", 7, object=second, why="abort") == {"withdrawn": True}
    (call,) = hall.begun()
    signal = hall.sends("scan", "withdraw", 7, object=first, why="abort")
    assert hall.answer_to(signal) is None
    hall.answer(call, abandoned=True)
    assert hall.answer_to(signal) == {"withdrawn": True}
    assert hall.asks("scan", "withdraw", 7, object=first, why="abort") == {"withdrawn": False}
    assert (hall.begun(), hall.server("scan").given) == ([], {})


def test_K8_an_instance_is_told_to_stop_whose_object_is_withdrawn() -> None:
    hall = Hall(task("scan"))
    eid, program = hall.put("scan"), hall.joins("scan")
    hall.asks("scan", "take", program, instance=program)
    signal = hall.sends("scan", "withdraw", 7, object=eid, why="abort")
    (stop,) = hall.told("stop")
    assert (said(stop), (stop.payload or {})["run"]) == ({"why": "abort", "withdrawn": True}, program)
    hall.asks("scan", "down", program, instance=program, object=0)
    hall.answer(stop, value={})
    assert hall.answer_to(signal) == {"withdrawn": True}
    assert list(hall.server("scan").queue) == []


def test_K29_an_object_that_is_forgotten_is_lost() -> None:
    hall = Hall(task("scan"))
    eid, program = hall.put("scan"), hall.joins("scan")
    hall.forgets(eid)
    assert hall.asks("scan", "take", program, instance=program) is None
    (lost,) = hall.told("lost")
    assert said(lost)["object"] == eid


def test_K16_a_stopped_instance_gives_back_what_the_object_was() -> None:
    hall = Hall(task("scan", invocation="auto"))
    first, second = hall.put("scan"), hall.put("scan")
    (call,) = hall.begun()
    instance, older = hall.instance("scan", call), hall.object("<doc old='1'/>")
    hall.asks("scan", "down", instance, instance=instance, object=older, front=True)
    assert list(hall.server("scan").queue) == [older, second]
    hall.answer(call)
    (call,) = hall.begun()
    assert (call.elements, hall.server("scan").given) == ((older,), {older: call.call})
    assert first not in hall.server("scan").objects


def test_KA7_an_instance_begun_for_an_object_answers_the_event_that_waits() -> None:
    hall = Hall(task("scan", state("busy", rule(before_condition=before(60))), invocation="auto"))
    first, second = hall.put("scan"), hall.put("scan")
    (call,) = hall.begun()
    hall.raises("scan")
    hall.answer(call)
    (call,) = hall.begun()
    assert call.elements == (second,), f"not without an object, after {first}"
