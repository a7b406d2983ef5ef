"""Tasks as written, with servers and cases: what the three engines say to each other fits (K39, K47)."""

from __future__ import annotations

from typing import Any

import pytest

from narval.core.definitions.action.definition import Input, Output
from narval.core.definitions.library import check_targets
from narval.core.definitions.parsing import parse
from narval.core.engines.commands import Call
from narval.core.engines.effects import InForce
from narval.core.engines.events import Caller, Failure, OutputElement, PersonsAct, Started
from narval.core.source.text import Source
from narval.kinds.task.engine import engine as instances
from narval.kinds.task.engine.case import decision as decisions_of_cases
from narval.kinds.task.engine.case import engine as cases
from narval.kinds.task.engine.server import engine as servers
from tests.core.engines.dialogue import Dialogue, action


class Works(Dialogue):
    """The types of a text at work: each has its server, and what they call begins by itself."""

    def __init__(self, text: str, *others: Any) -> None:
        super().__init__(*others)
        parsed = parse(Source("g.task", text.encode()))
        assert not parsed.faults or not text, parsed.faults
        self.library = self.library.replace(parsed.definitions)
        assert not check_targets(parsed.references, self.library)
        for definition in self.library.of("task").values():
            self.standing[definition.full_name] = self.begins_run(servers, definition)
        self.heard = []
        self._begin_called()

    def begins_run(
        self, engine: Any, definition: Any, elements: Any = (), caller: Caller | None = None, **given: Any
    ) -> int:
        run = self.memory.next_eid
        self.definitions[run], self.engines[run], self.callers[run] = definition, engine, caller
        self.states[run], self._replayed[run] = (engine.state_type.blank(run, definition) for _ in "12")
        self.in_force[run] = InForce()
        self.memory.show_run(run, engine.kind, self._rendered)
        super().tell(run, Started(self._next(), self.now, elements, caller, environment=given))
        self._begin_called()
        return run

    def tell(self, run: int, event: Any) -> None:
        super().tell(run, event)
        heard = self.heard
        self._begin_called()
        self.heard = [*heard, *(later for later in self.heard if later not in heard)]

    def _begin_called(self) -> None:
        """Begin what is called, and tell who called of what is over."""
        while (done := next(filter(self._owes, self.finished), 0)) or (asked := self._asked()) is not None:
            if done:
                self._tell_caller(done)
            elif asked is not None:
                of, call = asked
                given: Any = (call.payload or {}).get("environment", {})
                caller = Caller(of, call.step, call.call, call.nearby)
                self.begins_run(
                    instances, self.library.get("task", call.name), call.elements, caller, **given
                )

    def _asked(self) -> tuple[int, Call] | None:
        """A call of an instance that has not begun, and whose it is."""
        begun = {caller.call for caller in self.callers.values() if caller is not None}
        asked = ((of, call) for of, call in self.calls.values() if call.kind == "task")
        return next(((of, call) for of, call in asked if call.call not in begun), None)

    def _tell_caller(self, run: int) -> None:
        caller, finish = self.callers[run], self.finished[run]
        assert caller is not None, run
        problem = Failure(f"run-{finish.phase}", finish.state) if finish.phase != "done" else None
        self.answer(self.calls[caller.call][1], eids=finish.eids, problem=problem)

    def _owes(self, run: int) -> bool:
        caller = self.callers[run]
        return caller is not None and caller.call in self.in_force[caller.run].calls

    def put(self, name: str, xml: str) -> int:
        """An object is put to a type; its case."""
        return self.begins_run(cases, self.library.get("task", name), (self.add(xml),))

    def asks(self, run: int, signal: str, /, **arguments: Any) -> dict[str, Any]:
        self.said_by = {"act": PersonsAct("task")}
        try:
            return self.says(run, signal, **arguments)
        finally:
            self.said_by = {}

    def at_work(self, name: str) -> list[int]:
        """The instances of a type that are not over."""
        active = [run for run, engine in self.engines.items() if engine is instances]
        return [run for run in active if run not in self.finished and self.name_of(run) == name]

    def call_for(self, called: str) -> Call:
        (found,) = [
            call
            for _, call in self.calls.values()
            if call.name == called and call.kind not in ("task", "signal")
        ]
        return found


PURCHASE = """
TASK TYPE order
  COMPENSATED BY unorder
  INVOCATION: AUTO
  INITIAL new
  STATE new EXPOSED
    ON ASSERT { assert(FORWARD); }
    ON EVENT go GOTO FORWARD
  ON FORWARD
    if (obj.amount > 100) route(check);
    else route(pay);

TASK TYPE unorder
  INVOCATION: COMPENSATION
  COMPENSATION TO order
  TASK CODE "exec:unorder"
  INITIAL undoing
  STATE undoing EXPOSED
    ON EVENT done GOTO FORWARD

TASK TYPE check
  ROLES: clerk
  INITIAL looking
  STATE looking EXPOSED
    ON EVENT fine GOTO FORWARD
    ON EVENT bad GOTO ABORT
  ON FORWARD
    route(pay);

TASK TYPE pay
  INITIAL waiting
  STATE waiting EXPOSED
    ON EVENT paid (how)
      CONDITION "$object/@amount > 1"
      ACTION { if (how == "cash") assert(COMMIT); else assert(ABORT); }
    ON EVENT settle GOTO COMMIT
    ON EVENT refuse GOTO ABORT
"""


def test_K43_a_purchase_is_paid() -> None:
    said = Works(PURCHASE)
    case = said.put("g.order", "<order amount='50'/>")
    run = said.begins_run(instances, said.library.get("task", "g.pay"), program="yes")
    got = said.asks(run, "get")
    assert got["state"] == "waiting"
    server = said.standing["g.pay"]
    said.asks(server, "raise", event="paid", parameters=["cash"])
    assert (said.state(case), said.states[run].stage) == ("committed", "")
    said.asks(run, "down")
    assert said.state(run) == "done"


@pytest.mark.parametrize(("amount", "way"), [(100, "g.pay"), (101, "g.check")])
def test_K2_K3_the_condition_of_a_route_says_along_which_an_object_goes(amount: int, way: str) -> None:
    said = Works(PURCHASE)
    case = said.put("g.order", f"<order amount='{amount}'/>")
    (member,) = said.states[case].members.values()
    assert (member.type, said.xml(member.now)) == (way, f"<order amount='{amount}'/>".replace("'", '"'))


def test_K3_what_a_task_gives_is_what_each_task_it_routes_to_is_given() -> None:
    both = STAMPED.replace("route(next);", "{ route(next); route(last); }", 1).replace(
        "ON ASSERT { assert(COMMIT); }", "", 1
    )
    said = Works(both, STAMP)
    case = said.put("g.stamp", "<order/>")
    (run,) = said.at_work("g.stamp")
    said.answer(said.call_for("m.stamp"), elements=(OutputElement(b'<order stamp="red"/>'),))
    said.asks(run, "raise-edge", event="go")
    ways = {member.type: said.xml(member.now) for member in said.states[case].members.values()}
    assert {ways[name] for name in ("g.next", "g.last")} == {'<order stamp="red"/>'}


def test_K47_a_purchase_is_aborted_and_its_order_compensated() -> None:
    said = Works(PURCHASE)
    case = said.put("g.order", "<order amount='500'/>")
    answer = said.add('<decision outcome="abort" by="ann"/>')
    said.answer(said.call_for("g.check"), eids=(answer,))
    assert said.state(case) not in ("committed", "aborted")
    said.answer(said.call_for("unorder"), value={"status": 0})
    assert said.state(case) == "aborted"
    assert said.at_work("g.check") == []


BACK = """
TASK TYPE turn
  INVOCATION: AUTO
  INITIAL turning
  STATE turning EXPOSED
    ON ASSERT { assert(FORWARD); }
    ON EVENT go GOTO FORWARD
  ON FORWARD route(turn);
  ON EXCEPTION if (obj.n == "1") route(rest);

TASK TYPE rest
  INITIAL resting
  STATE resting EXPOSED
    ON EVENT go GOTO COMMIT
"""


@pytest.mark.parametrize(("number", "place"), [(1, ("task", "g.rest")), (2, ("held", "g.turn"))])
def test_KA28_who_comes_too_often_goes_where_the_script_of_exception_says(
    number: int, place: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions_of_cases, "MOST_VISITS", 3)
    said = Works(BACK)
    case = said.put("g.turn", f"<doc n='{number}'/>")
    (member,) = said.states[case].members.values()
    assert (member.state, member.type) == place
    assert said.at_work("g.turn") == []


def test_K16_what_is_stopped_begins_again() -> None:
    said = Works(PURCHASE)
    case = said.put("g.order", "<order amount='500'/>")
    (first,) = said.at_work("g.check")
    said.asks(first, "stop", why="wrong person")
    said.answer(said.call_for("g.check"), abandoned=True)
    (second,) = said.at_work("g.check")
    assert second != first
    said.answer(said.call_for("g.check"), eids=(said.add('<decision outcome="forward"/>'),))
    assert said.state(case) == "active", said.states[case]


STAMP = action("m.stamp", [Input("w", "order", outdates=True)], [Output("o", "order")])

STAMPED = """
TASK TYPE stamp
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { m.stamp(); }
    ON EVENT go GOTO FORWARD
    ON EVENT pass GOTO passing
    ON EVENT leave GOTO EXCEPTION
  STATE passing EXPOSED
    ON ASSERT { raise(next, bring, object); }
    ON EVENT go GOTO FORWARD
  ON FORWARD
    route(next);

TASK TYPE next
  INITIAL b
  STATE b EXPOSED
    ON EVENT go GOTO COMMIT
    ON EVENT bring CONDITION "$carried/@stamp" ACTION { route(last); }
    ON EVENT bring_it () CONDITION ACTION { assert(COMMIT); }

TASK TYPE last
  INVOCATION: AUTO
  INITIAL c
  STATE c EXPOSED
    ON ASSERT { assert(COMMIT); }
    ON EVENT go GOTO COMMIT
"""


def stamped() -> tuple[Works, int, int]:
    said = Works(STAMPED, STAMP)
    case = said.put("g.stamp", "<order/>")
    (run,) = said.at_work("g.stamp")
    said.answer(said.call_for("m.stamp"), elements=(OutputElement(b'<order stamp="red"/>'),))
    return said, case, run


def test_an_object_that_was_replaced_is_known_to_its_case() -> None:
    said, case, run = stamped()
    said.asks(run, "raise-edge", event="go")
    assert (said.state(run), said.state(case)) == ("done", "active")
    program = said.begins_run(instances, said.library.get("task", "g.next"), program="yes")
    got = said.asks(program, "get")
    assert said.xml(got["object"]) == '<order stamp="red"/>'
    said.asks(program, "assert", state="COMMIT")
    assert said.state(case) == "committed"


def test_K16_an_object_that_was_rolled_back_is_known_to_its_case() -> None:
    said, _, run = stamped()
    said.asks(run, "stop")
    (again,) = said.at_work("g.stamp")
    assert said.xml(said.states[again].object) == "<order/>"
    said.answer(said.call_for("m.stamp"), elements=(OutputElement(b'<order stamp="blue"/>'),))
    said.asks(again, "raise-edge", event="go")
    program = said.begins_run(instances, said.library.get("task", "g.next"), program="yes")
    assert said.xml(said.asks(program, "get")["object"]) == '<order stamp="blue"/>'


def test_K39_an_object_that_was_replaced_goes_with_an_event() -> None:
    said, case, run = stamped()
    other = said.put("g.next", "<order/>")
    program = said.begins_run(instances, said.library.get("task", "g.next"), program="yes")
    said.asks(program, "get")
    said.asks(run, "raise-edge", event="pass")
    assert said.states[run].object == 0
    assert (said.state(case), said.state(other)) == ("committed", "active")


CIRCLE = """
TASK TYPE one
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON EVENT go GOTO b
    ON EVENT ev SYNC CONDITION ACTION { if (obj.x) exec("true"); }
    ON EVENT end GOTO COMMIT
  STATE b EXPOSED
    ON ASSERT { raise(two, ev); assert(COMMIT); }
    ON EVENT ev SYNC CONDITION ACTION { if (obj.x) exec("true"); }
    ON EVENT end GOTO COMMIT

TASK TYPE two
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON EVENT ev SYNC CONDITION ACTION { raise(one, ev); }
    ON EVENT end GOTO COMMIT
"""


def test_KA10_of_two_tasks_that_raise_at_each_other_the_younger_event_fails() -> None:
    said = Works(CIRCLE)
    cases = [said.put(name, "<o/>") for name in ("g.one", "g.two")]
    (one,), (two,) = said.at_work("g.one"), said.at_work("g.two")
    said.asks(one, "raise-edge", event="go")
    assert [said.states[run].status for run in (one, two)] == ["done", "active"], said.states[one]
    assert [said.state(case) for case in cases] == ["committed", "active"]


def test_KA10_a_task_that_raises_at_itself_goes_on() -> None:
    said = Works(CIRCLE.replace("raise(two, ev)", "raise(one, ev)"))
    case = said.put("g.one", "<o/>")
    (one,) = said.at_work("g.one")
    said.asks(one, "raise-edge", event="go")
    assert (said.state(one), said.state(case)) == ("done", "committed")


def test_KA28_an_object_that_events_bring_back_again_and_again_is_held() -> None:
    said = Works("""
TASK TYPE one
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { raise(two, ev, object); assert(COMMIT); }
    ON EVENT end GOTO COMMIT

TASK TYPE two
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON EVENT ev CONDITION ACTION { if (obj.x) exec("true"); }
    ON EVENT end GOTO COMMIT
""")
    said.put("g.two", "<o/>")
    case = said.put("g.one", "<o/>")
    (member,) = said.states[case].members.values()
    assert (member.state, said.error()["type"]) == ("held", "visits")


def test_K28_what_was_routed_on_the_way_goes_nowhere_after_COMMIT() -> None:
    said = Works("""
TASK TYPE one
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { split("page"); route(one); route(one, 1); assert(COMMIT); }
    ON EVENT end GOTO COMMIT
""")
    assert said.state(said.put("g.one", "<o><page/></o>")) == "committed"


def test_K59_of_an_instance_that_is_stopped_what_it_gave_away_does_not_come_back() -> None:
    said = Works("""
TASK TYPE one
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { raise(two, ev, object); assert(COMMIT); }
    ON EVENT end GOTO COMMIT

TASK TYPE two
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { exec("true"); }
    ON EVENT ev SYNC CONDITION ACTION { assert(COMMIT); }
    ON EVENT end GOTO COMMIT
""")
    case = said.put("g.one", "<o/>")
    (one,) = said.at_work("g.one")
    said.asks(one, "stop")
    assert (said.at_work("g.one"), len(said.at_work("g.two"))) == ([], 1)
    said.asks(said.at_work("g.two")[0], "finish", state="COMMIT")
    assert said.state(case) == "committed"


BROUGHT = """
TASK TYPE one
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { raise(two, bring, object); assert(COMMIT); }
    ON EVENT end GOTO COMMIT

TASK TYPE two
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON EVENT wake CONDITION ACTION
    ON EVENT bring CONDITION ACTION { exec("weigh"); }
    ON EVENT end GOTO COMMIT
"""


def brought() -> tuple[Works, int, int]:
    """An instance that was begun by an event without an object is brought one by another event, and its
    action waits for a program; with its case.
    """
    said = Works(BROUGHT)
    said.asks(said.standing["g.two"], "raise", event="wake", parameters=[])
    (run,) = said.at_work("g.two")
    return said, run, said.put("g.one", "<o/>")


def places(said: Works, eid: int) -> list[str]:
    """The places of an object: the queues, the events and the instances that have it."""
    found = []
    for name, server in said.standing.items():
        state = said.states[server]
        found += [f"the queue of {name}"] * (eid in state.objects)
        found += [f"event {event.name}" for event in state.events.values() if event.object == eid]
        found += [f"an instance of {name}" for run in said.at_work(name) if said.states[run].object == eid]
    return found


def test_K59_what_an_event_brings_to_an_instance_without_an_object_is_its_own_from_then_on() -> None:
    said, run, case = brought()
    (member,) = said.states[case].members.values()
    assert places(said, member.now) == ["an instance of g.two"]
    assert (member.state, member.type, member.event) == ("task", "g.two", "")
    said.answer(said.call_for("weigh"), value={"status": 0})
    assert said.states[said.standing["g.two"]].events == {}
    said.asks(run, "raise-edge", event="end")
    assert said.state(case) == "committed"


@pytest.mark.parametrize("weighed", [True, False])
def test_K16_an_instance_that_is_stopped_gives_back_what_an_event_brought(weighed: bool) -> None:
    said, run, case = brought()
    call = said.call_for("weigh")
    if weighed:
        said.answer(call, value={"status": 0})
    said.asks(run, "stop")
    if not weighed:
        assert places(said, said.states[run].object) == ["an instance of g.two"], (
            "its program is not over yet"
        )
        said.answer(call, abandoned=True)
    (again,) = said.at_work("g.two")
    assert again != run
    assert places(said, said.states[again].object) == ["an instance of g.two"]
    said.asks(again, "raise-edge", event="end")
    assert said.state(case) == "committed"


def test_K47_on_abort_routes_what_the_last_compensator_has_left() -> None:
    undo = "ON ASSERT { set(obj.state, 'undone'); assert(FORWARD); }"
    said = Works(f"""
TASK TYPE pay INVOCATION: AUTO COMPENSATED BY unpay INITIAL a
  STATE a EXPOSED ON ASSERT {{ assert(FORWARD); }} ON EVENT go GOTO FORWARD
  ON FORWARD route(send);
TASK TYPE unpay INVOCATION: COMPENSATION INITIAL a
  STATE a EXPOSED {undo} ON EVENT go GOTO FORWARD
TASK TYPE send INVOCATION: AUTO INITIAL a
  STATE a EXPOSED ON ASSERT {{ set(obj.sent, 'no'); assert(ABORT); }} ON EVENT go GOTO ABORT
  ON ABORT {{ set(obj.seen, obj.state); route(tell); }}
TASK TYPE tell INVOCATION: AUTO INITIAL a STATE a EXPOSED ON EVENT go GOTO COMMIT
""")
    said.put("g.pay", "<order/>")
    (run,) = said.at_work("g.tell")
    assert said.xml(said.states[run].object) == '<order state="undone" seen="undone"/>'


def test_K47_what_an_event_brought_is_withdrawn_from_the_instance_that_has_it() -> None:
    said, run, case = brought()
    said.cancel(case)
    assert said.state(case) == "cancelled"
    said.answer(said.call_for("weigh"), abandoned=True)
    assert (said.state(run), said.at_work("g.two")) == ("stopped", [])


def test_K59_of_two_rules_that_an_event_has_one_is_done_after_the_other() -> None:
    said = Works("""
TASK TYPE one
  INITIAL a
  STATE a EXPOSED
    ON EVENT hand_on CONDITION ACTION
    ON EVENT bring CONDITION ACTION { exec("weigh"); }
    ON EVENT bring CONDITION ACTION { exec("measure"); }
    ON EVENT end GOTO COMMIT

TASK TYPE two
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON EVENT bring CONDITION ACTION
    ON EVENT end GOTO COMMIT
""")
    one = said.library.get("task", "g.one")
    for _ in "12":  # each has given its object away, and waits for another
        said.put("g.one", "<o/>")
        program = said.begins_run(instances, one, program="yes")
        said.asks(program, "get")
        said.asks(program, "raise", type="two", event="bring", carries=True)
    first, second = said.at_work("g.one")
    case = said.begins_run(cases, one, (said.add("<o/>"),), event="bring")
    (member,) = said.states[case].members.values()
    assert places(said, member.now) == ["an instance of g.one"]
    assert (said.states[first].object, said.states[second].object) == (member.now, 0)
    assert said.call_for("weigh").inputs == (("", (member.now,)),)
    assert said.call_for("measure").inputs == (), "what it brought is with another instance"


ABORTED = """
TASK TYPE first
  INVOCATION: AUTO
  COMPENSATED BY undo
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { assert(FORWARD); }
    ON EVENT end GOTO FORWARD
  ON FORWARD route(one);

TASK TYPE undo
  INVOCATION: COMPENSATION
  COMPENSATION TO first
  TASK CODE "exec:undo"
  INITIAL u
  STATE u EXPOSED
    ON EVENT end GOTO FORWARD

TASK TYPE one
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON ASSERT { assert(ABORT); }
    ON EVENT end GOTO ABORT
  ON ABORT raise(two, bring, object);

TASK TYPE two
  INVOCATION: AUTO
  INITIAL a
  STATE a EXPOSED
    ON EVENT bring CONDITION ACTION
    ON EVENT end GOTO COMMIT
"""


def test_K47_what_is_aborted_goes_on_with_an_event_once_all_is_undone() -> None:
    said = Works(ABORTED)
    case = said.put("g.first", "<o/>")
    said.answer(said.call_for("undo"), value={"status": 0})
    (member,) = said.states[case].members.values()
    assert (member.state, member.type, said.state(case)) == ("task", "g.two", "active")
    assert places(said, member.now) == ["an instance of g.two"]
    said.asks(said.at_work("g.two")[0], "raise-edge", event="end")
    assert said.state(case) == "committed"


def test_KA20_what_is_aborted_goes_nowhere_while_the_chain_is_blocked() -> None:
    said = Works(ABORTED.replace("TASK TYPE two\n  INVOCATION: AUTO", "TASK TYPE two"))
    case = said.put("g.first", "<o/>")
    said.answer(said.call_for("undo"), value={"status": 1})
    (member,) = said.states[case].members.values()
    assert (said.state(case), member.state, places(said, member.now)) == ("blocked", "aborting", [])
    said.says(case, "retry")
    said.answer(said.call_for("undo"), value={"status": 0})
    assert (said.state(case), member.state) == ("aborted", "aborted")


def test_KA28_what_is_aborted_and_brought_back_again_and_again_is_held() -> None:
    said = Works(ABORTED)
    said.put("g.two", "<o/>")  # its instance keeps nothing of what events bring
    case = said.put("g.one", "<o/>")
    (member,) = said.states[case].members.values()
    assert (member.state, said.error()["type"]) == ("held", "visits")
