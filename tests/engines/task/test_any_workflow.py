"""Any types with their servers and cases: an object is in one place, whatever happens (K21, K39, K59)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.definitions.task.definition import PREDEFINED, Rule, TaskDefinition
from narval.definitions.task.script import Statement
from narval.engines.events import Failure
from narval.engines.task import engine as instances
from narval.engines.task_case import engine as cases
from narval.engines.task_server import engine as servers
from tests.engines.dialogue import Refusal
from tests.engines.task.instances import perform, state, task, when
from tests.engines.task.test_with_servers_and_cases import Works

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
def types(draw: st.DrawFn, called: str) -> TaskDefinition:
    any_script = scripts(called)
    states = [
        state(
            name,
            edges=draw(EDGES),
            on_assert=draw(any_script),
            on_leaving=draw(scripts(called, asserts=False)),
            rules=(Rule("ev", mode=draw(st.sampled_from(("", "sync"))), action=draw(any_script)),),
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


@settings(max_examples=150, deadline=None)
@given(types("one"), types("two"), ACTS, st.data())
def test_K59_any_types_on_any_course_leave_each_object_in_one_place(
    one: TaskDefinition, two: TaskDefinition, acts: list[str], data: st.DataObject
) -> None:
    workflow = Workflow(one, two)
    for act in ["put", *acts]:
        workflow.does(act, data.draw)
