"""Whatever instances, raisers, cases and clocks do: an event ends once, an object is in one place, and what
may be done is done (K21, K33–K39, KA4–KA8, KA13).
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition
from hypothesis.stateful import rule as does

from narval.core.engines.events import Cancelled, Failure, TimerFired
from narval.kinds.task.engine.server import engine
from narval.kinds.task.language.definition import TaskDefinition
from tests.examples import examples
from tests.kinds.task.engine.server import reference
from tests.kinds.task.engine.server.hall import (
    Hall,
    after,
    at,
    before,
    both,
    either,
    rule,
    said,
    state,
    task,
    within,
)

lengths = st.integers(0, 12).map(float)
windows = st.one_of(
    st.builds(at, lengths),
    st.builds(within, lengths),
    st.builds(before, lengths),
    st.builds(lambda begin, length: both(after(begin), before(begin + length)), lengths, lengths),
)
specs = st.none() | windows | st.builds(either, windows, windows)
conditions = st.sampled_from((True, True, False, "go[@n = '1']", "$object/@ok = 'yes'"))
rules = st.builds(
    lambda event, when, first, second: rule(event, when, before_condition=first, before_action=second),
    st.sampled_from("ef"),
    conditions,
    specs,
    specs,
)
states = st.lists(rules, min_size=1, max_size=3)
seconds = st.integers(1, 9).map(float)
picks = st.integers(0, 50)


class Course(RuleBasedStateMachine):
    """A type that answers events, one from which they are raised, and the instances of the first."""

    hall: Hall

    @initialize(first=states, second=states, auto=st.booleans())
    def begin(self, first: Any, second: Any, auto: bool) -> None:
        more: Any = {"invocation": "auto"} if auto else {}
        definition: TaskDefinition = task("t", state("a", *first), state("b", *second), **more)
        self.hall = Hall(definition, task("u"))
        self.raiser = self.hall.instance("u")
        self.raised: dict[int, str] = {}
        self.over: dict[int, str] = {}
        self.line: list[int] = []
        self.set_back_at = 0
        self.withdrawn: dict[str, int] = {}

    # --- what happens ---------------------------------------------------------------------------------

    @property
    def run(self) -> int:
        return self.hall.servers["t"]

    @property
    def server(self) -> Any:
        return self.hall.server("t")

    def pick(self, known: Any, at: int) -> Any:
        there = sorted(known)
        return there[at % len(there)]

    def note(self) -> None:
        """Note what has ended by what was said last."""
        for one in self.hall.decided:
            if type(one).__name__ == "EventOver":
                assert one.event not in self.over, f"event {one.event} is over twice"
                self.over[one.event] = one.result

    @does(state=st.sampled_from(("", "a", "b")), has=st.booleans(), ok=st.booleans())
    def join(self, state: str, has: bool, ok: bool) -> None:
        eid = self.hall.object(f"<doc ok='{'yes' if ok else 'no'}'/>") if has else 0
        self.hall.joins("t", state, eid)
        self.note()
        self.serve(fronts=True)

    @precondition(lambda self: self.server.at_work)
    @does(at=picks, state=st.sampled_from(("", "a", "b")))
    def move(self, at: int, state: str) -> None:
        instance = self.pick(self.server.at_work, at)
        self.hall.is_at("t", instance, state, self.server.at_work[instance].object)
        self.note()
        self.serve(fronts=True)

    @precondition(lambda self: self.server.at_work)
    @does(at=picks, gives=st.booleans())
    def leave(self, at: int, gives: bool) -> None:
        instance = self.pick(self.server.at_work, at)
        entry = self.server.at_work[instance]
        if entry.call:
            return
        eid = entry.object if gives else 0
        take = entry.take
        self.hall.asks("t", "down", instance, instance=instance, object=eid, front=True)
        assert take not in self.server.takers.values() or not take
        self.note()
        self.serve(fronts=True)
        for act in self.hall.acts():
            if (act.payload or {})["run"] == instance:
                self.hall.answer(act, problem=Failure("unknown-target", "it is gone"))
                self.note()
                self.serve(fronts=True)

    @does(event=st.sampled_from("ef"), carries=st.booleans(), sync=st.booleans(), by=st.booleans())
    def raise_event(self, event: str, carries: bool, sync: bool, by: bool) -> None:
        given: dict[str, Any] = {"object": self.hall.object(), "case": 7} if carries else {}
        raiser = self.raiser if by else 0
        known = any(found.event == event for found in self.hall.definitions[self.hall.servers["t"]].events)
        if not known:
            return
        told = {"event": event, "parameters": [], "mode": "sync" if sync else "", "raiser": raiser, **given}
        signal = self.hall.sends("t", "raise", raiser or 1, **told)
        (number,) = [one.event for one in self.hall.decided if type(one).__name__ == "EventRaised"]
        self.raised[number] = signal if sync else ""
        self.note()
        self.serve(fronts=True)

    @precondition(lambda self: self.hall.acts())
    @does(at=picks, how=st.sampled_from(("done", "failed", "away", "kept")))
    def act(self, at: int, how: str) -> None:
        acts = {act.call: act for act in self.hall.acts()}
        act = acts[self.pick(acts, at)]
        if how == "away":
            self.hall.not_there(act)
        else:
            self.hall.acted(act, "failed" if how == "failed" else "done", kept=how == "kept")
        self.note()
        self.serve(fronts=True)

    @does(n=st.sampled_from("12"))
    def arrive(self, n: str) -> None:
        self.hall.arrives(f"<go n='{n}'/>")
        self.note()
        self.serve(fronts=True)

    @does(length=seconds)
    def wait(self, length: float) -> None:
        self.hall.passes(length)
        self.note()
        self.serve(fronts=True)

    @does(length=seconds, down=st.booleans())
    def jump(self, length: float, down: bool) -> None:
        """The clock is set forward, or the daemon was not at work."""
        self.hall.now += length
        if down:
            self.hall.up_since = self.hall.now
        self.hall.passes(0)
        self.note()
        self.serve(fronts=True)

    @does(length=seconds)
    def set_back(self, length: float) -> None:
        """The clock is set back: timers that are dates are told early."""
        self.hall.now -= length
        self.set_back_at = self.hall.next_event()
        for wake, (run, _) in list(self.hall.wakes.items()):
            if wake in self.hall.wakes:
                self.hall.tell(run, TimerFired(self.hall.next_event(), self.hall.now, wake))
                self.note()
                self.serve(fronts=True)

    @does()
    def restart(self) -> None:
        """The next daemon reads the snapshot."""
        run = self.hall.servers["t"]
        stored = msgspec.msgpack.encode(self.hall.states[run])
        self.hall.states[run] = msgspec.msgpack.decode(stored, type=engine.state_type)

    # --- the queue ------------------------------------------------------------------------------------

    @does()
    def put(self) -> None:
        self.line.append(self.hall.put("t"))
        self.note()
        self.serve()

    @precondition(lambda self: any(not one.take for one in self.server.at_work.values()))
    @does(at=picks)
    def take(self, at: int) -> None:
        free = [eid for eid, one in self.server.at_work.items() if not one.take and not one.acting]
        if free:
            instance = self.pick(free, at)
            self.hall.sends("t", "take", instance, instance=instance)
            self.note()
            self.serve()

    @precondition(lambda self: self.line)
    @does(at=picks)
    def withdraw(self, at: int) -> None:
        eid = self.pick(self.line, at)
        assert self.hall.asks("t", "withdraw", 7, object=eid, why="w") == {"withdrawn": True}
        self.line.remove(eid)

    @precondition(lambda self: self.hall.begun())
    @does(at=picks, state=st.sampled_from("ab"), ends=st.booleans())
    def called(self, at: int, state: str, ends: bool) -> None:
        calls = {call.call: call for call in self.hall.begun()}
        call = calls[self.pick(calls, at)]
        known = [eid for eid, by in self.hall.begun_by.items() if by.call == call.call]
        if not ends:
            instance = known[0] if known else self.hall.instance("t", call)
            self.hall.is_at("t", instance, state, self.server.called[call.call].object)
            self.note()
            self.serve(fronts=True)
        else:
            self.hall.answer(call)
            self.note()
            self.serve(fronts=True)
            for act in self.hall.acts():
                if (act.payload or {})["run"] in known:
                    self.hall.answer(act, problem=Failure("over", "it is over"))
                    self.note()
                    self.serve(fronts=True)

    def serve(self, *, fronts: bool = False) -> None:
        """Note who was given an object: always the next one of the line."""
        for one in (one for heard in self.hall.heard if heard.run == self.run for one in heard.changes):
            kind = type(one).__name__
            if (kind == "ObjectGiven" and one.object) or (
                kind == "InstanceCalled" and one.object and not one.event
            ):
                assert self.line.pop(0) == one.object
            elif fronts and kind == "Enqueued" and one.front:
                self.line.insert(0, one.object)

    # --- what always holds ----------------------------------------------------------------------------

    @invariant()
    def all_is_as_it_should_be(self) -> None:
        if not hasattr(self, "hall"):
            return
        reference.check(self.hall, "t", self.set_back_at)
        assert list(self.server.queue) == self.line
        assert {*self.raised} - {*self.over} == {*self.server.events}
        assert {said(act)["event"] for act in self.hall.acts()} <= {*self.server.events}


TestAnyCourse = Course.TestCase
TestAnyCourse.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_K33_the_end_of_a_standing_run_leaves_nothing_in_force() -> None:
    hall = Hall(
        task("t", state("a", rule(before_condition=after(9)), rule(when="go", before_condition=before(9))))
    )
    hall.joins("t", "a")
    hall.raises("t", "ev")
    hall.tell(hall.servers["t"], Cancelled(hall.next_event(), hall.now))
    assert (hall.wakes, hall.watches, hall.state(hall.servers["t"])) == ({}, {}, "cancelled")
