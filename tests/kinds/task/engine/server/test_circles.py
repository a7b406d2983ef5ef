"""Instances that wait for each other by synchronous events (KA10)."""

from __future__ import annotations

import pytest

from narval.kinds.task.language.definition import TaskDefinition
from tests.kinds.task.engine.server.hall import Hall, after, rule, said, state, task


def type_(name: str, **more: object) -> TaskDefinition:
    return task(name, state("busy", rule(**more)))


def raises(hall: Hall, at: str, raiser: int) -> str:
    return hall.sends(at, "raise", raiser, event="ev", mode="sync", raiser=raiser)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_KA10_of_those_that_wait_for_each_other_the_youngest_fails(count: int) -> None:
    hall = Hall(*(type_(f"t{n}") for n in range(count)))
    ones = [hall.joins(f"t{n}", "busy") for n in range(count)]
    signals = []
    for n in range(count):
        signals.append(raises(hall, f"t{(n + 1) % count}", ones[n]))
    assert hall.answer_to(signals[-1])["result"] == "failed"
    assert "wait for each other" in hall.answer_to(signals[-1])["why"]
    assert [len(hall.events(f"t{n}")) for n in range(count)] == [0, *[1] * (count - 1)]


def test_KA10_a_circle_that_closes_later_is_found() -> None:
    hall = Hall(type_("a"), type_("b", before_condition=after(10)))
    one, other = hall.joins("a", "busy"), hall.joins("b", "busy")
    first = raises(hall, "b", one)
    second = raises(hall, "a", other)
    assert hall.answer_to(first) is hall.answer_to(second) is None
    hall.passes(10)
    assert hall.answer_to(second)["result"] == "failed"
    assert hall.answer_to(first) is None


def test_KA10_who_raises_at_its_own_type_at_itself() -> None:
    hall = Hall(type_("a"))
    one = hall.joins("a", "busy")
    signal = raises(hall, "a", one)
    assert hall.answer_to(signal)["result"] == "failed"


def test_KA10_a_line_that_closes_no_circle_goes_on() -> None:
    hall = Hall(type_("a"), type_("b"))
    ones = [hall.joins("a", "busy") for _ in range(3)]
    other = hall.joins("b", "busy")
    raises(hall, "b", ones[2])
    signal = raises(hall, "a", other)
    assert hall.answer_to(signal) is None
    for act in hall.acts():
        hall.acted(act)
    assert (hall.events("a"), hall.events("b")) == ({}, {})


def test_KA10_actions_that_raise_at_each_other() -> None:
    hall = Hall(type_("a"), type_("b"))
    one, other = hall.joins("a", "busy"), hall.joins("b", "busy")
    hall.raises("a")  # its action raises at b, whose action raises at a
    first = raises(hall, "b", one)
    second = raises(hall, "a", other)
    assert hall.answer_to(second)["result"] == "failed"
    assert hall.answer_to(first) is None


def test_KA10_an_action_that_raises_at_its_own_type_at_itself() -> None:
    hall = Hall(type_("a"))
    one = hall.joins("a", "busy")
    hall.raises("a")
    assert hall.answer_to(raises(hall, "a", one))["result"] == "failed"


def test_KA10_assert_code_that_raises_before_its_server_knows_of_it() -> None:
    hall = Hall(task("a", state("busy", rule()), invocation="auto"), type_("b"))
    hall.put("a")
    one, other = hall.instance("a", hall.begun()[0]), hall.joins("b", "busy")
    first = raises(hall, "b", one)
    second = raises(hall, "a", other)
    assert hall.answer_to(second)["result"] == "failed"
    assert hall.answer_to(first) is None


def test_KA10_an_event_that_another_instance_may_receive_waits_for_it() -> None:
    hall = Hall(type_("a"), type_("b"))
    one, _, other = hall.joins("a", "busy"), hall.joins("a", "busy"), hall.joins("b", "busy")
    hall.raises("a")
    hall.raises("a")
    raises(hall, "b", one)
    signal = raises(hall, "a", other)
    assert hall.answer_to(signal) is None
    hall.acted(hall.acts()[1])  # that of the instance that waits for nobody
    assert {said(act)["raiser"] for act in hall.acts()} == {0, one, other}


def test_KA10_an_event_waits_for_an_instance_that_may_still_come_to_its_state() -> None:
    hall = Hall(task("a", state("calm", go="busy"), state("busy", rule())), type_("b"))
    one, free, other = hall.joins("a", "busy"), hall.joins("a", "calm"), hall.joins("b", "busy")
    hall.raises("a")  # its action raises at b, whose action raises at a
    raises(hall, "b", one)
    signal = raises(hall, "a", other)
    assert hall.answer_to(signal) is None
    hall.is_at("a", free, "busy")
    assert {said(act)["raiser"] for act in hall.acts()} == {0, one, other}
