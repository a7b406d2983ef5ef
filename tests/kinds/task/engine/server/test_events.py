"""Events from their raise to their end: windows, receivers, actions (K33–K41, KA4–KA13, KA32)."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from narval.core.engines.events import Failure
from narval.core.patterns.pattern import Bound
from tests.core.engines.dialogue import Refusal
from tests.kinds.task.engine.server.hall import (
    Hall,
    after,
    at,
    before,
    both,
    by_parameter,
    either,
    global_event,
    rule,
    said,
    state,
    task,
    within,
)


def test_K33_an_event_is_answered_by_who_is_in_its_state() -> None:
    hall = Hall(task("check", state("busy", rule("ev", parameters=("t1", "t2")))))
    checker = hall.joins("check", "busy")
    event = hall.raises("check", "ev", "a", "b")
    (act,) = hall.acts()
    assert (act.payload or {})["run"] == checker
    wanted = {"event": event, "name": "ev", "rule": 0, "state": "busy", "parameters": {"t1": "a", "t2": "b"}}
    assert said(act) == {**wanted, "object": 0, "case": 0, "raiser": 0}
    assert hall.events("check") == {event: "awaiting-action"}
    hall.acted()
    assert hall.result("check") == [(event, "done")]
    assert hall.server("check").events == {}


def test_K33_both_windows_are_kept() -> None:
    windows = {
        "before_condition": both(after(3600), before(7200)),
        "before_action": both(after(60), before(600)),
    }
    hall = Hall(task("check", state("busy", rule("ev", **windows))))
    hall.joins("check", "busy")
    event = hall.raises("check")
    assert hall.events("check") == {event: "registered"}
    hall.passes(3599)
    assert hall.events("check") == {event: "registered"}
    hall.passes(1)
    assert (hall.events("check"), hall.acts()) == ({event: "awaiting-action"}, [])
    hall.passes(60)
    hall.acted()
    assert hall.result("check") == [(event, "done")]


def test_K33_an_event_expires_when_its_last_window_is_over() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=before(60)))))
    signal = hall.sends("check", "raise", event="ev", parameters=[], mode="sync", raiser=0)
    assert hall.answer_to(signal) is None
    hall.passes(60)
    assert hall.answer_to(signal)["result"] == "expired"
    assert (hall.wakes, hall.server("check").events) == ({}, {})


def test_K34_a_later_window_is_another_chance() -> None:
    spec = either(at(10), within(5), both(after(100), before(110)))
    hall = Hall(task("check", state("busy", rule(before_condition=spec))))
    event = hall.raises("check")
    assert hall.events("check") == {event: "awaiting-condition"}
    hall.passes(6)
    assert hall.events("check") == {event: "registered"}
    hall.passes(20)
    hall.joins("check", "busy")
    assert hall.events("check") == {event: "registered"}
    hall.passes(80)
    assert hall.events("check") == {event: "awaiting-action"}


def test_K36_a_parameter_is_a_time() -> None:
    hall = Hall(
        task("check", state("busy", rule(parameters=("t",), before_condition=by_parameter("AFTER", "t"))))
    )
    hall.joins("check", "busy")
    hall.raises("check", "ev", "30")
    hall.passes(29)
    assert hall.acts() == []
    hall.passes(1)
    hall.acted()
    with pytest.raises(Refusal, match="soon") as refused:
        hall.raises("check", "ev", "soon")
    assert refused.value.kind == "bad-parameters"
    with pytest.raises(Refusal, match="takes 1 parameter"):
        hall.raises("check", "ev")


def test_K52_an_event_that_no_rule_answers_is_refused() -> None:
    hall = Hall(task("check", state("busy", rule())))
    with pytest.raises(Refusal, match=r"g.check has no rule for 'other'; it answers ev"):
        hall.raises("check", "other")


def test_KA4_a_condition_is_judged_again_when_something_changes() -> None:
    found = rule(when="go[@to = $p]", parameters=("p",), before_condition=before(60))
    hall = Hall(task("check", state("busy", found)))
    hall.joins("check", "busy")
    event = hall.raises("check", "ev", "x")
    assert hall.events("check") == {event: "awaiting-condition"}
    hall.arrives("<go to='y'/>")
    assert hall.events("check") == {event: "awaiting-condition"}
    assert hall.heard == []
    hall.arrives("<go to='x'/>")
    assert hall.events("check") == {event: "awaiting-action"}
    hall.acted()
    assert (hall.watches, hall.wakes) == ({}, {})


def test_KA27_a_condition_may_need_xpath_3_1() -> None:
    hall = Hall(task("check", state("busy", rule(when="go[some $to in to satisfies $to ge 'b']"))))
    hall.joins("check", "busy")
    hall.arrives("<go><to>b</to></go>")
    hall.raises("check")
    assert len(hall.acts()) == 1


def test_KA4_a_condition_on_the_object_waits_for_its_next_version() -> None:
    hall = Hall(task("check", state("busy", rule(when="$object/@ok = 'yes'", before_condition=before(60)))))
    eid = hall.object("<doc ok='no'/>")
    hall.put("check", eid)
    checker = hall.joins("check")
    hall.asks("check", "take", checker, instance=checker)
    hall.is_at("check", checker, "busy", eid)
    event = hall.raises("check")
    (watch,) = [watch for _, watch in hall.watches.values()]
    assert (watch.conditions, watch.elements) == ((), (eid,))
    hall.outdated(eid)
    assert hall.events("check") == {event: "awaiting-condition"}
    better = hall.object("<doc ok='yes'/>")
    hall.is_at("check", checker, "busy", better)
    assert hall.events("check") == {event: "awaiting-action"}


def test_KA5_a_receiver_that_is_away_lets_the_event_wait_on() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=before(60)))))
    checker = hall.joins("check", "busy")
    event = hall.raises("check")
    hall.not_there()
    assert hall.events("check") == {event: "awaiting-condition"}
    hall.is_at("check", checker, "busy")
    hall.acted()
    assert hall.result("check") == [(event, "done")]


def test_KA6_a_receiver_that_is_away_when_no_window_is_left() -> None:
    windows = {"before_condition": before(60), "before_action": after(100)}
    hall = Hall(task("check", state("busy", rule(**windows))))
    hall.joins("check", "busy")
    event = hall.raises("check")
    hall.passes(100)
    hall.not_there()
    assert hall.result("check") == [(event, "expired")]


def test_KA7_an_event_waits_for_a_receiver_that_is_not_there() -> None:
    hall = Hall(task("check", state("busy", rule())))
    event = hall.raises("check")
    assert hall.events("check") == {event: "awaiting-condition"}
    hall.joins("check", "busy")
    hall.acted()
    assert hall.result("check") == [(event, "done")]


def test_KA7_an_automatic_task_is_started_by_an_event() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=at(10))), invocation="auto"))
    eid = hall.object()
    event = hall.raises("check", object=eid, case=7)
    assert hall.begun() == []
    hall.passes(10)
    (call,) = hall.begun()
    assert call.elements == (eid,)
    instance = hall.instance("check", call)
    hall.is_at("check", instance, "busy", eid)
    hall.acted()
    assert hall.result("check") == [(event, "done")]
    hall.answer(call)
    assert hall.server("check").given == {}


def test_KA7_an_event_starts_one_instance_and_then_waits() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=at(10))), invocation="auto"))
    event = hall.raises("check")
    hall.passes(10)
    (call,) = hall.begun()
    hall.answer(call)
    assert (hall.begun(), hall.result("check")) == ([], [(event, "expired")])


def test_KA8_the_idle_is_asked_first_then_the_oldest() -> None:
    hall = Hall(task("check", state("busy", rule())))
    busy = hall.joins("check", "busy", hall.object())
    idle, later = hall.joins("check", "busy"), hall.joins("check", "busy")
    for _ in range(3):
        hall.raises("check")
    assert [(act.payload or {})["run"] for act in hall.acts()] == [idle, later, busy]


def test_K52_users_and_roles_select_the_receiver() -> None:
    hall = Hall(task("check", state("busy", rule())))
    hall.joins("check", "busy", user="ann", role="clerk")
    ben = hall.joins("check", "busy", user="ben", role="head")
    hall.raises("check", roles=["head"])
    assert [(act.payload or {})["run"] for act in hall.acts()] == [ben]
    waiting = hall.raises("check", users=["cid"])
    assert hall.events("check")[waiting] == "awaiting-condition"


def test_KA5_one_action_at_a_time() -> None:
    hall = Hall(task("check", state("busy", rule())))
    checker = hall.joins("check", "busy")
    first, second = hall.raises("check"), hall.raises("check")
    assert hall.events("check") == {first: "awaiting-action", second: "awaiting-condition"}
    hall.is_at("check", checker, "")
    hall.acted()
    assert hall.events("check") == {second: "awaiting-condition"}
    hall.is_at("check", checker, "busy")
    hall.acted()
    assert hall.result("check") == [(second, "done")]


def test_K38_a_synchronous_raiser_is_told_the_end() -> None:
    hall = Hall(task("check", state("busy", rule(mode="sync"))))
    hall.joins("check", "busy")
    signal = hall.sends("check", "raise", event="ev", parameters=[])
    assert hall.answer_to(signal) is None
    hall.acted(result="failed", why="no paper")
    told = hall.answer_to(signal)
    assert (told["result"], told["why"]) == ("failed", "no paper")
    assert hall.raises("check", mode="async")


def test_KA32_all_rules_of_a_state_are_run_and_the_gravest_result_counts() -> None:
    rules = rule(), rule(before_condition=after(10)), rule(when=False)
    hall = Hall(task("check", state("busy", *rules)))
    hall.joins("check", "busy")
    signal = hall.sends("check", "raise", event="ev", parameters=[], mode="sync")
    hall.acted()
    assert hall.answer_to(signal) is None
    hall.passes(10)
    hall.acted()
    assert hall.answer_to(signal)["result"] == "expired"


def test_KA32_a_rule_is_judged_for_an_instance_that_does_the_action_of_another() -> None:
    hall = Hall(task("check", state("busy", rule(), rule())))
    event, checker = hall.raises("check"), hall.joins("check", "busy")
    assert hall.events("check") == {event: "awaiting-action"}
    hall.is_at("check", checker, "")  # it passes on before it hears of an action
    hall.not_there()
    hall.not_there()
    assert hall.result("check") == [(event, "expired")]


def test_K37_the_rule_of_the_receivers_state_counts() -> None:
    hall = Hall(task("check", state("busy", rule()), state("idle", rule(), rule())))
    checker = hall.joins("check", "idle")
    event = hall.raises("check")
    assert [said(act)["state"] for act in hall.acts()] == ["idle"]
    hall.acted()
    hall.is_at("check", checker, "busy")
    hall.acted()
    assert hall.result("check") == [(event, "done")]


def test_K37_who_leaves_for_another_state_is_judged_by_its_rule() -> None:
    rules = rule(before_action=after(10)), rule(before_condition=before(60))
    hall = Hall(task("check", state("busy", rules[0]), state("idle", rules[1])))
    checker = hall.joins("check", "busy")
    event = hall.raises("check")
    hall.is_at("check", checker, "idle")
    hall.passes(10)
    hall.not_there()
    assert [said(act)["state"] for act in hall.acts()] == ["idle"]
    hall.acted()
    assert hall.result("check") == [(event, "expired")]  # the rule of the state that it left was over


def test_KA13_what_an_action_does_not_keep_goes_back() -> None:
    hall = Hall(task("check", state("busy", rule())), task("update"))
    updater, eid = hall.instance("update"), hall.object()
    hall.joins("check", "busy")
    hall.raises("check", object=eid, case=7, raiser=updater)
    assert hall.server("check").carried == {eid: 1} | dict.fromkeys([eid], *hall.events("check"))
    hall.acted()
    assert list(hall.server("update").queue) == [eid]
    assert [said(call) for call in hall.told("moved")] == [{"object": eid, "type": "g.update", "event": 0}]
    assert (hall.server("check").carried, hall.server("check").sent) == ({}, {})


def test_KA13_what_an_action_keeps_is_the_receivers() -> None:
    hall = Hall(task("check", state("busy", rule())))
    hall.joins("check", "busy")
    hall.raises("check", object=hall.object(), case=7)
    hall.acted(kept=True)
    assert (hall.told("moved"), list(hall.server("check").queue)) == ([], [])


def test_K39_an_action_may_route_what_the_event_carried_to_the_same_type() -> None:
    hall = Hall(task("check", state("busy", rule())))
    hall.joins("check", "busy")
    eid = hall.object()
    hall.raises("check", object=eid, case=7)
    hall.put("check", eid)
    hall.acted(kept=True)
    assert list(hall.server("check").queue) == [eid]


def test_K59_an_instance_lets_go_of_what_was_taken_from_its_event_meanwhile() -> None:
    hall = Hall(task("check", state("busy", rule())))
    checker, eid = hall.joins("check", "busy"), hall.object()
    event = hall.raises("check", object=eid, case=7)
    assert hall.asks("check", "withdraw", 7, object=eid, why="all is undone") == {"withdrawn": True}
    hall.asks("check", "at", checker, state="busy", object=eid, case=7, adopts=event)
    (stop,) = hall.told("stop")
    assert (said(stop)["object"], said(stop)["withdrawn"]) == (eid, True)
    assert (hall.server("check").given, hall.server("check").at_work[checker].object) == ({}, 0)


def test_K47_what_is_withdrawn_from_an_event_does_not_go_back() -> None:
    hall = Hall(task("check", state("busy", rule())), task("update"))
    eid = hall.object()
    event = hall.raises("check", object=eid, case=7, raiser=hall.instance("update"))
    assert hall.asks("check", "withdraw", 7, object=eid, why="all is undone") == {"withdrawn": True}
    assert hall.result("check") == [(event, "cancelled")]
    assert (hall.told("put"), hall.told("moved"), hall.server("check").objects) == ([], [], {})


def test_K39_the_rules_of_an_event_that_may_keep_what_it_brings_are_done_one_after_another() -> None:
    hall = Hall(task("check", state("busy", rule(), rule(), rule())))
    first, second, eid = hall.joins("check", "busy"), hall.joins("check", "busy"), hall.object()
    event = hall.raises("check", object=eid, case=7)
    (act,) = hall.acts()
    hall.acted(act)
    assert [said(act)["rule"] for act in hall.acts()] == [1]
    hall.asks("check", "at", second, state="busy", object=eid, case=7, adopts=event)
    hall.acted(kept=True)
    assert [(said(act)["rule"], said(act)["object"]) for act in hall.acts()] == [(2, 0)]
    hall.acted()
    assert hall.result("check") == [(event, "done")]
    assert (hall.server("check").given, first < second) == ({eid: str(second)}, True)


def test_KA12_a_wait_is_answered_by_an_event_that_was_before() -> None:
    hall = Hall(task("check", state("busy", rule())))
    one = hall.joins("check", "busy")
    event = hall.raises("check")
    hall.acted()
    wanted = {"event": event, "parameters": []}
    assert hall.asks("check", "wait", one, instance=one, event="ev") == wanted
    ended = {**wanted, "result": "done"}
    assert hall.asks("check", "wait", one, instance=one, event="ev", end=True) == ended
    signal = hall.sends("check", "wait", one, instance=one, event="ev", until=hall.now + 10)
    assert hall.answer_to(signal) is None
    hall.passes(10)
    assert hall.answer_to(signal) == {"timeout": True}
    signal = hall.sends("check", "wait", one, instance=one, event="ev", until=hall.now + 10)
    later = hall.raises("check")
    assert hall.answer_to(signal) == {"event": later, "parameters": []}
    assert hall.asks("check", "wait", one, instance=one, event="ev", until=0) == {"timeout": True}
    assert hall.server("check").waits == {}
    assert later in hall.events("check")


def test_K55_who_waits_no_more_is_forgotten() -> None:
    hall = Hall(task("check", state("busy", rule(before_condition=after(10)))))
    one = hall.joins("check")
    take = hall.sends("check", "take", one, instance=one)
    wait = hall.sends("check", "wait", one, instance=one, event="ev")
    raised = hall.sends("check", "raise", one, event="ev", mode="sync", raiser=one)
    for signal in (wait, raised, take):
        hall.sends("check", "gone", one, signal=signal)
    server = hall.server("check")
    assert (server.takers, server.waits, server.raisers, server.at_work) == ({}, {}, {}, {})
    hall.passes(20)
    assert len(server.events) == 1


def test_KA5_who_is_gone_does_no_action() -> None:
    hall = Hall(task("check", state("busy", rule())))
    checker = hall.joins("check", "busy")
    event = hall.raises("check")
    hall.asks("check", "down", checker, instance=checker)
    hall.answer(hall.acts()[0], problem=Failure("unknown-target", "no run"))
    assert hall.result("check") == [(event, "expired")]


def test_K33_events_go_by_the_rules_of_the_newest_version() -> None:
    hall = Hall(
        task("check", state("busy", rule("one"), rule("two", when="go", before_condition=before(60))))
    )
    gone, held = hall.raises("check", "one"), hall.raises("check", "two")
    hall.joins("check", "busy", user="ann")
    hall.not_there()
    waiting = hall.raises("check", "one", users=["ben"])
    run = hall.servers["check"]
    newer = rule("two", before_condition=before(60))
    hall.definitions[run] = replace(task("check", state("busy", newer)), digest="check2")
    hall.is_at("check", hall.joins("check"), "busy")
    hall.sends("check", "reload")
    assert hall.result("check") == [(waiting, "expired")]
    assert hall.events("check") == {held: "awaiting-action"}
    assert gone not in hall.events("check")


# --- global events ----------------------------------------------------------------------------------------


def test_KA14_a_global_event_is_raised_once_for_each_version() -> None:
    found = global_event("night", rule("night", before_action=at(100)))
    hall = Hall(found)
    (event,) = hall.events("night")
    hall.sends("night", "reload")
    assert list(hall.events("night")) == [event]
    hall.passes(100)
    (call,) = hall.begun()
    assert call.payload == {"environment": {"event": str(event), "parameters": "{}"}}
    hall.answer(call)
    assert hall.result("night") == [(event, "done")]
    hall.sends("night", "reload")
    hall.sends("night", "reload", gone=True)
    hall.sends("night", "reload")
    assert hall.events("night") == {}
    run = hall.servers["night"]
    hall.definitions[run] = replace(found, digest="night2")
    hall.sends("night", "reload")
    assert len(hall.events("night")) == 1


def test_K64_a_global_event_comes_again_without_drift() -> None:
    hall = Hall(global_event("night", period=60.0))
    started = hall.now
    hall.answer(hall.begun()[0])
    hall.passes(61)
    (call,) = hall.begun()
    assert hall.server("night").due == started + 120
    hall.answer(call)
    hall.now += 1000  # the daemon was not at work
    hall.passes(1)
    (call,) = hall.begun()
    hall.answer(call)
    assert hall.begun() == []
    assert hall.server("night").due == started + 1080


@pytest.mark.parametrize("period", [7 * 86400.0, 14 * 86400.0])
@pytest.mark.parametrize("day", range(7))
def test_K64_an_event_that_comes_every_week_comes_on_its_weekday(day: int, period: float) -> None:
    hall = Hall(global_event("weekly", period=period, weekdays=(day,)))
    started, due = hall.now, hall.server("weekly").due
    assert datetime.fromtimestamp(due, UTC).weekday() == day
    assert started < due <= started + period + 6 * 86400
    assert (due - started) % 86400 == 0
    hall.passes(due - started)
    call = hall.begun()[-1]
    hall.answer(call)
    assert hall.server("weekly").due == due + period


def test_K41_a_task_raises_a_global_event() -> None:
    hall = Hall(global_event("night", rule("night", parameters=("p",))))
    signal = hall.sends("night", "raise", event="night", parameters=["x"], mode="sync")
    (call,) = hall.begun()
    assert (call.payload or {})["environment"]["parameters"] == '{"p":"x"}'  # type: ignore[index, call-overload]
    hall.answer(call, problem=Failure("run-failed", "it broke"))
    assert hall.answer_to(signal)["result"] == "failed"


def test_KA4_a_condition_waits_on_after_a_restart_with_what_the_event_brought() -> None:
    found = rule(when="go[@to = $p]", parameters=("p",), before_condition=before(60))
    hall = Hall(task("check", state("busy", found)))
    hall.joins("check", "busy")
    hall.raises("check", "ev", "x<y")
    ((_, watch),) = hall.watches.values()
    (bound,) = watch.conditions
    again = Bound.from_plain(msgspec.json.decode(msgspec.json.encode(bound.plain())), hall.element)
    eids = [hall.object(f"<go to='{to}'/>") for to in ("x", "x&lt;y")]
    assert list(hall.matching(again, None)) == eids[1:]
