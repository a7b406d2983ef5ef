"""Whatever happens to the objects of a case, it is as the slow reference says, and its rules hold (K47).

That what was recorded makes the same state again, at every event, is checked by the dialogue (K69).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.core.engines.dialogue import Refusal
from tests.examples import examples
from tests.kinds.task.engine.case.cases import Cases, task
from tests.kinds.task.engine.case.reference import COMPENSATORS, COMPOSES, GOING, CaseReference

TYPES = ("a", "b", "plain", COMPOSES)
types = st.sampled_from(TYPES)
picks = st.integers(0, 1000)


class Course(RuleBasedStateMachine):
    """A case and the reference, told the same."""

    cases: Cases
    reference: CaseReference
    case: int

    @initialize(has_exception=st.booleans())
    def begins(self, has_exception: bool) -> None:
        made = [
            task("a", "undo_a", script="ABORT"),
            task("b", "undo_b", script="ABORT"),
            task("plain", script="ABORT"),
        ]
        made += [task(COMPOSES, composed=("a", "b"), script="ABORT"), task("undo_a"), task("undo_b")]
        self.cases = Cases(*made, *([task("exception", script="ABORT")] if has_exception else []))
        first = self.cases.add("<thing/>")
        self.case = self.cases.begins_case("a", first)
        self.reference = CaseReference(first, has_exception)
        self.owed: dict[str, int] = {}
        self.compensated: list[str] = []

    def at(self, pick: int, *places: str) -> int | None:
        """An object that is in one of these places."""
        found = [one for one, thing in self.reference.things.items() if thing.place in places]
        return found[pick % len(found)] if found else None

    def is_over(self) -> bool:
        return self.case in self.cases.finished

    def ends(self, thing: int, result: str, routes: list[tuple[str, int]], parts: list[int]) -> Any:
        now = self.cases.states[self.case].members[thing].now
        made = {now: parts} if parts else None
        return self.cases.passes_task(self.case, now, *routes, result=result, parts=made)

    # --- tasks ------------------------------------------------------------------------------------------

    @rule(pick=picks, type=types, replaced=st.booleans())
    def goes_on(self, pick: int, type: str, replaced: bool) -> None:
        thing = self.at(pick, "task", "event", "withdrawing")
        if thing is None or self.is_over() or self.waits_for_parts(thing):
            return
        now = self.cases.states[self.case].members[thing].now
        new = self.cases.add("<thing/>") if replaced else 0
        self.cases.passes_task(self.case, now, (type, 0), now=new)
        self.reference.forward(thing, [(type, thing)], [])

    def waits_for_parts(self, thing: int) -> bool:
        """True of a part that waits: no instance has it."""
        found = self.reference.things[thing]
        return bool(found.parent) and found.type == COMPOSES

    @rule(pick=picks, ways=st.lists(st.sampled_from((*TYPES, "")), min_size=1, max_size=3))
    def is_divided(self, pick: int, ways: list[str]) -> None:
        thing = self.at(pick, "task", "event")
        if thing is None or self.is_over() or self.waits_for_parts(thing) or len(self.reference.things) > 12:
            return
        parts = [self.cases.add("<part/>") for _ in ways]
        routes = [(type, part) for type, part in zip(ways, parts, strict=True) if type]
        self.ends(thing, "FORWARD", routes, parts)
        self.reference.forward(thing, routes, parts)

    @rule(pick=picks)
    def nobody_routes_it(self, pick: int) -> None:
        thing = self.at(pick, "task")
        if thing is not None and not self.is_over() and not self.waits_for_parts(thing):
            self.ends(thing, "FORWARD", [], [])
            self.reference.forward(thing, [], [])

    @rule(pick=picks)
    def is_merged(self, pick: int) -> None:
        whole = self.at(pick, "parts")
        if whole is None or self.is_over():
            return
        things = self.reference.things
        parts = things[whole].parts
        if all(things[part].place == "task" and things[part].type == COMPOSES for part in parts):
            members = self.cases.states[self.case].members
            now = [members[part].now for part in parts]
            new = self.cases.add("<thing/>")
            assert self.cases.says_of(self.case, "merged", parent=whole, object=new, parts=now) == {}
            for eid in now:
                self.cases.queues.pop(eid)
            self.cases.queues[new] = f"g.{COMPOSES}"
            self.reference.merge(whole)

    @rule(pick=picks)
    def commits(self, pick: int) -> None:
        thing = self.at(pick, "task", "event", "withdrawing")
        if thing is not None and not self.is_over() and not self.waits_for_parts(thing):
            self.ends(thing, "COMMIT", [], [])
            self.reference.commit(thing)

    @rule(pick=picks, routed=st.none() | types)
    def is_an_exception(self, pick: int, routed: str | None) -> None:
        thing = self.at(pick, "task", "event")
        if thing is None or self.is_over() or self.waits_for_parts(thing):
            return
        here = self.reference.things[thing].type
        self.ends(thing, "EXCEPTION", [(routed, 0)] if routed else [], [])
        if routed:
            self.reference.put(thing, routed)
        else:
            self.reference.excepts(thing, here)

    @rule(pick=picks, type=types)
    def goes_with_an_event(self, pick: int, type: str) -> None:
        thing = self.at(pick, "task")
        if thing is None or self.is_over() or self.waits_for_parts(thing) or type == COMPOSES:
            return
        now = self.cases.states[self.case].members[thing].now
        self.cases.says_of(self.case, "moved", object=now, type=f"g.{type}", event="9.1")
        self.cases.queues.pop(now, None)
        self.reference.things[thing].place, self.reference.things[thing].type = "event", type

    @rule(name=types, loaded=st.booleans())
    def types_come_and_go(self, name: str, loaded: bool) -> None:
        if loaded:
            self.cases.away.discard(f"g.{name}")
            self.reference.away.discard(name)
        else:
            self.cases.unload(name)
            self.reference.away.add(name)

    @rule(pick=picks, type=types)
    def goes_on_by_hand(self, pick: int, type: str) -> None:
        thing = self.at(pick, "held")
        if thing is None or self.is_over() or self.reference.status == "blocked":
            return
        self.cases.says(self.case, "retry", object=thing, type=f"g.{type}")
        self.reference.put(thing, type)

    # --- undoing ----------------------------------------------------------------------------------------

    @rule(pick=picks)
    def aborts(self, pick: int) -> None:
        thing = self.at(pick, "task", "event", "withdrawing")
        if thing is None or self.is_over() or self.waits_for_parts(thing):
            return
        self.ends(thing, "ABORT", [], [])
        self.reference.abort(thing)

    @precondition(lambda self: self.reference.undone or len(self.reference.steps) > 3)
    @rule()
    def is_cancelled(self) -> None:
        if not self.is_over():
            self.cases.cancel(self.case)
            self.reference.abort(None)

    @rule(pick=picks, there=st.booleans())
    def is_withdrawn(self, pick: int, there: bool) -> None:
        asked = list(self.cases.withdrawals())
        if asked and not self.is_over():
            object = asked[pick % len(asked)]
            identity = int(self.cases.withdrawals()[object].step)
            queue = self.cases.queues.get(object)
            self.cases.withdraws(object, there=there)
            if self.reference.things[identity].place == "withdrawing":
                self.reference.withdrawn(identity)
            elif queue is not None:
                self.cases.queues[object] = queue

    @rule(well=st.sampled_from((True, True, False)))
    def a_compensator_is_over(self, well: bool) -> None:
        if self.reference.running is None or self.reference.status == "blocked":
            return
        running = self.reference.steps[self.reference.running]
        name, _ = self.cases.compensates(well=well)
        assert name == f"g.{COMPENSATORS[running.type]}"
        self.reference.compensator_over(well)

    @rule()
    def the_chain_is_tried_again(self) -> None:
        if self.reference.status == "blocked":
            self.cases.says(self.case, "retry")
            assert self.reference.running is not None
            self.reference.steps[self.reference.running].fate = "compensating"
            self.reference.status = "aborting"

    @rule(pick=picks, type=st.sampled_from((*TYPES, "")), is_split=st.booleans())
    def the_script_of_abort_is_over(self, pick: int, type: str, is_split: bool) -> None:
        thing = self.at(pick, "leaving", "aborting")
        if thing is None or self.is_over() or self.reference.things[thing].routes is not None:
            return
        now = self.cases.states[self.case].members[thing].now
        parts = [self.cases.add("<part/>")] if type and is_split else []
        object = parts[0] if parts else now
        routes = [{"type": type, "object": object}] if type else []
        made = {str(now): parts} if parts else {}
        self.cases.says_of(self.case, "routed", object=now, routes=routes, parts=made)
        self.reference.routed(thing, [(type, object if parts else thing)] if type else [], parts)

    @rule(pick=picks)
    def is_lost(self, pick: int) -> None:
        thing = self.at(pick, "task", "event", "withdrawing", "held", "aborting")
        if thing is None or self.is_over():
            return
        found, member = self.reference.things[thing], self.cases.states[self.case].members[thing]
        type, now = member.type, member.now
        if found.place in ("task", "event"):
            self.cases.queues.pop(now, None)
            self.reference.excepts(thing, found.type)
        self.cases.says_of(self.case, "lost", object=now, type=type, why="it is gone")

    @rule(pick=picks)
    def somebody_says_what_is_not_so(self, pick: int) -> None:
        thing = self.at(pick, "parts", "merged", "committed", "withdrawn", "aborted")
        if thing is None:
            return
        if self.reference.status == "blocked":
            return
        with pytest.raises(Refusal, match=r"is held|is over|is committed|is aborted|is cancelled"):
            self.cases.says(self.case, "retry", object=thing, type="g.a")

    # --- what holds -------------------------------------------------------------------------------------

    @invariant()
    def both_say_the_same(self) -> None:
        if not hasattr(self, "cases"):
            return
        state, reference = self.cases.states[self.case], self.reference
        found = {one: (member.state, member.type) for one, member in state.members.items()}
        expected = {one: (thing.place, f"g.{thing.type}") for one, thing in reference.things.items()}
        going = (*GOING, "withdrawing", "aborting", "leaving")
        assert {one: place for one, (place, _) in found.items()} == {
            one: place for one, (place, _) in expected.items()
        }
        assert [found[one] for one, (place, type) in expected.items() if place in going and type != "g."] == [
            found_at for found_at in expected.values() if found_at[0] in going and found_at[1] != "g."
        ]
        fates = {"given up": ("forwarded", "failed")}
        assert len(state.trail) == len(reference.steps)
        for step, passed in zip(state.trail, reference.steps, strict=True):
            assert step.state in fates.get(passed.fate, (passed.fate,))
        assert state.status == reference.expected_status()

    @invariant()
    def what_always_holds(self) -> None:
        if not hasattr(self, "cases"):
            return
        state, members = self.cases.states[self.case], self.cases.states[self.case].members
        at = {member.now: member.type for member in members.values() if member.state == "task"}
        assert at == {object: type for object, type in self.cases.queues.items() if object in at}
        assert set(self.cases.queues) <= {member.now for member in members.values() if not member.is_over}
        going = [member for member in members.values() if not member.is_over and member.state != "parts"]
        assert state.open == len(going)
        assert state.held == sum(member.state == "held" for member in going)
        assert state.withdrawing == sum(member.state == "withdrawing" for member in going)
        if state.over:
            fates = {step.state for step in state.trail}
            assert "compensating" not in fates
            assert state.status == "cancelled" or not fates & {"failed"}


Course.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=25, deadline=None)
TestCourse = Course.TestCase
