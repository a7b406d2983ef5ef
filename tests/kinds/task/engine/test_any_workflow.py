"""Any types with their servers and cases: an object is in one place, whatever happens (K21, K39, K59)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.engines.events import Failure
from narval.kinds.task.engine import engine as instances
from narval.kinds.task.engine.case import engine as cases
from narval.kinds.task.engine.server import engine as servers
from narval.kinds.task.language.definition import PREDEFINED, Rule, Statement, TaskDefinition
from tests.core.engines.dialogue import Refusal
from tests.examples import examples
from tests.kinds.task.engine.instances import perform, state, task, when
from tests.kinds.task.engine.test_with_servers_and_cases import Works

TYPES, STATES = ("one", "two"), ("a", "b")
FOLLOWING = {"one": "two", "two": "last"}
"""The type to which objects and events go from each: in no circle, or there would be no end of it."""

ASSERTS = st.sampled_from(STATES + PREDEFINED).map(lambda name: perform("assert", name))
EDGES = st.lists(st.sampled_from(STATES + PREDEFINED), min_size=1, max_size=4).map(" ".join)


def scripts(called: str, *, asserts: bool = True) -> st.SearchStrategy[tuple[Statement, ...]]:
    to = FOLLOWING[called]
    calls = [perform("exec", "'do"), perform("copy", "'2"), perform("split", "'page")]
    calls += [perform("route", to), perform("route", to, "'1"), perform("route", "last")]
    calls += [perform("raise", to, "ev", "object"), perform("raise", to, "ev")]
    call = st.sampled_from(calls)
    leads = ASSERTS if asserts else call
    choice = st.builds(lambda then, other: when("n", ">", "3", then, other), leads, call)
    return st.lists(st.one_of(call, leads, choice), max_size=3).map(tuple)


@st.composite
def types(draw: st.DrawFn, called: str, *, quiet: bool = False) -> TaskDefinition:
    """A type. A quiet one begins by nothing, or by giving its object away, so that it has none when an event
    brings another; and it may have two rules for that.
    """
    any_script = scripts(called)
    gives_away = (perform("raise", FOLLOWING[called], "ev", "object"),)
    begins = st.sampled_from(((), gives_away)) if quiet else any_script
    action = st.one_of(any_script, st.just((perform("exec", "'do"),))) if quiet else any_script
    modes = st.sampled_from(("", "sync"))
    a_rule = st.builds(lambda mode, action: Rule("ev", mode=mode, action=action), modes, action)
    states = [
        state(
            name,
            edges=draw(EDGES),
            on_assert=draw(begins if name == "a" else any_script),
            on_leaving=draw(scripts(called, asserts=False)),
            rules=tuple(draw(a_rule) for _ in range(draw(st.integers(1, 2)) if quiet else 1)),
        )
        for name in STATES
    ]
    undone = {"compensated_by": "undo"} if draw(st.booleans()) else {}
    routes = {name: draw(any_script) for name in ("FORWARD", "ABORT", "EXCEPTION")}
    return task(*states, called=called, routes=routes, invocation="auto", digest=called, **undone)


LAST = task(
    state("z", edges="COMMIT", rules=(Rule("ev", action=(perform("assert", "COMMIT"),)),)),
    called="last",
    program=("last",),
    invocation="auto",
)
UNDO = task(
    state("u", edges="FORWARD"),
    called="undo",
    program=("undo",),
    invocation="compensation",
    compensates="one",
)


class Workflow:
    """Types at work, and whatever happens to them."""

    def __init__(self, *definitions: TaskDefinition) -> None:
        self.said = Works("", *definitions, LAST, UNDO)

    def runs(self, engine: Any) -> list[int]:
        return [
            run for run, of in self.said.engines.items() if of is engine and run not in self.said.finished
        ]

    def does(self, act: str, draw: Any) -> None:
        said, at_work = self.said, self.runs(instances)
        if act == "put":
            said.put(f"g.{draw(st.sampled_from(TYPES))}", f"<o n='{draw(st.integers(0, 9))}'><page/></o>")
        elif act == "raise":
            server = said.standing[f"g.{draw(st.sampled_from(TYPES))}"]
            with suppress(Refusal):
                said.asks(
                    server, "raise", event="ev", parameters=[], mode=draw(st.sampled_from(("", "async")))
                )
        elif act == "answer":
            calls = [call for _, call in said.calls.values() if call.kind == "program"]
            if calls:
                call = draw(st.sampled_from(calls))
                if (given := draw(st.integers(0, 4))) == 4:
                    said.answer(call, problem=Failure("broken", "it broke"))
                else:
                    said.answer(call, value={"status": given == 3})
        elif at_work:
            run = draw(st.sampled_from(at_work))
            asked = {"state": draw(st.sampled_from(STATES + PREDEFINED))} if act != "stop" else {}
            with suppress(Refusal):
                said.asks(run, act, **asked)
        self.check()

    def check(self) -> None:
        """Each object of a case that goes on is in one place alone, and where its case says that it is."""
        places = Counter(self.places())
        for case in self.runs(cases):
            for member in self.said.states[case].members.values():
                now = self.said.current(member.now)
                found = places[now] if now is not None else 0
                assert found <= 1, f"object {now} is in {found} places: {member}"
                if member.state in ("task", "event"):
                    assert found == 1, f"object {now} is nowhere: {member}"
                elif member.is_over or member.state in ("held", "parts"):
                    assert found == 0, f"object {now} is somewhere: {member}"

    def places(self) -> Iterator[int | None]:
        """The objects in queues, carried by events, and at instances, by their newest versions."""
        for run in self.runs(servers):
            state = self.said.states[run]
            yield from (self.said.current(eid) for eid in state.objects)
            yield from (self.said.current(event.object) for event in state.events.values() if event.object)
        for run in self.runs(instances):
            state = self.said.states[run]
            is_told = state.stage in ("told", "after") or state.left
            is_through = bool(state.outcome) and not state.gives_back
            if state.object and not (state.compensates or is_told or is_through):
                yield self.said.current(state.object)


ACTS = st.lists(
    st.sampled_from(["put"] * 3 + ["answer"] * 4 + ["raise"] * 2 + ["assert"] * 3 + ["finish", "stop"]),
    max_size=20,
)


@settings(max_examples=examples(150), deadline=None)
@given(types("one"), types("two"), ACTS, st.data())
def test_K59_any_types_on_any_course_leave_each_object_in_one_place(
    one: TaskDefinition, two: TaskDefinition, acts: list[str], data: st.DataObject
) -> None:
    workflow = Workflow(one, two)
    for act in ["put", *acts]:
        workflow.does(act, data.draw)


class BusyWorkflow(Workflow):
    """Programs take part too, and events begin cases, which are cancelled and retried."""

    def does(self, act: str, draw: Any) -> None:
        said, type = self.said, f"g.{draw(st.sampled_from(TYPES))}"
        if act == "wake":
            said.asks(said.standing["g.two"], "raise", event="ev", parameters=[], mode="async")
        elif act == "begin":
            said.begins_run(cases, said.library.get("task", type), (said.add("<o n='1'/>"),), event="ev")
        elif act == "init":
            said.begins_run(instances, said.library.get("task", type), program="yes")
        elif act in ("get", "down", "hand"):
            self._programs_act(act, draw)
        elif act in ("cancel", "retry"):
            self._case_is_seen_to(act, draw)
        else:
            super().does(act, draw)
        self.check()

    def _programs_act(self, act: str, draw: Any) -> None:
        programs = [run for run in self.runs(instances) if self.said.states[run].program]
        asked: dict[str, Any] = {}
        if act == "hand":
            to, event = draw(st.sampled_from((*TYPES, "last"))), draw(st.sampled_from(("ev", "ev", "no")))
            asked = {"type": to, "event": event, "carries": True, "mode": draw(st.sampled_from(("", "sync")))}
        if programs:
            with suppress(Refusal):
                self.said.asks(draw(st.sampled_from(programs)), "raise" if asked else act, **asked)

    def _case_is_seen_to(self, act: str, draw: Any) -> None:
        under_way = self.runs(cases)
        if under_way:
            case = draw(st.sampled_from(under_way))
            if act == "cancel":
                self.said.cancel(case)
            else:
                with suppress(Refusal):
                    self.said.says(case, "retry")


BUSY = ["put"] * 3 + ["answer"] * 4 + ["raise"] * 4 + ["assert"] * 3 + ["finish", "stop", "cancel", "retry"]
BUSY += ["begin"] * 2 + ["init"] * 2 + ["get"] * 3 + ["hand"] * 3 + ["down"]


@settings(max_examples=examples(150), deadline=None)
@given(
    types("one", quiet=True),
    types("two", quiet=True),
    st.lists(st.sampled_from(BUSY), max_size=30),
    st.data(),
)
def test_K59_whatever_programs_and_events_hand_over_is_in_one_place(
    one: TaskDefinition, two: TaskDefinition, acts: list[str], data: st.DataObject
) -> None:
    workflow = BusyWorkflow(one, two)
    for act in ["wake", "put", *acts]:
        workflow.does(act, data.draw)
