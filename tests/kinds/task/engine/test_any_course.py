"""Any task on any course: no illegal move, each object given on once, each signal answered once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.events import Failure
from narval.kinds.task.language.definition import PREDEFINED, Perform, Rule, Statement, TaskDefinition
from tests.core.engines.dialogue import Refusal
from tests.examples import examples
from tests.kinds.task.engine.instances import CASE, Instances, perform, state, task, when

NAMES = ("a", "b", "c")

CALLS = st.sampled_from(
    [
        perform("exec", "'do"),
        perform("launch", "'start"),
        perform("copy", "'2"),
        perform("split", "'page"),
        perform("route", "next"),
        perform("route", "next", "'1"),
        perform("raise", "next", "ev", "object"),
        perform("raise", "next", "ev", "amount"),
        perform("m.none"),
    ]
)
ASSERTS = st.sampled_from(NAMES + PREDEFINED).map(lambda name: perform("assert", name))
STATEMENTS: st.SearchStrategy[Statement] = st.one_of(
    CALLS,
    ASSERTS,
    st.builds(lambda then, other: when("amount", ">", "3", then, other), ASSERTS, CALLS),
)
SCRIPTS = st.lists(STATEMENTS, max_size=3).map(tuple)
EDGES = st.lists(st.sampled_from(NAMES + PREDEFINED), max_size=4).map(" ".join)


@st.composite
def tasks(draw: st.DrawFn) -> TaskDefinition:
    states = [
        state(
            name,
            edges=draw(EDGES),
            on_assert=draw(SCRIPTS),
            on_leaving=draw(SCRIPTS),
            rules=(Rule("ev", action=draw(SCRIPTS)),) if draw(st.booleans()) else (),
        )
        for name in NAMES
    ]
    ends = [
        state(name, on_assert=draw(SCRIPTS), on_leaving=(perform("exec", "'never"),)) for name in PREDEFINED
    ]
    program = ("code",) if draw(st.booleans()) else ()
    routes = {name: draw(SCRIPTS) for name in PREDEFINED}
    return task(*states, *ends, routes=routes, program=program)


class Course:
    """An instance that is told all sorts of things, and what it has said of objects."""

    def __init__(self, definition: TaskDefinition, *, program: bool) -> None:
        self.said = Instances(definition)
        self.definition = definition
        self.taken: list[int] = []
        self.owed: list[str] = []
        self.answered: Counter[str] = Counter()
        self.said.held |= {"raise", "ended", "down"}
        self.was = self.forced = ""
        self.run = self.said.init() if program else self.said.works_on("<cheque amount='5'><page/></cheque>")
        if not program:
            self.taken.append(self.said.states[self.run].given)
        self.look()

    def look(self) -> None:
        """Check what has followed from the last thing said."""
        for change in self.said.decided:
            kind = type(change).__name__
            if kind == "EntryBegan" and change.why:
                self.forced = change.state
            elif kind == "StateEntered":
                edges = set(self.definition.states[self.was].edges.values()) if self.was else {"a"}
                assert change.why or change.state in {*edges, self.forced}, f"{self.was} to {change.state}"
                self.was, self.forced = change.state, ""
            elif kind == "ObjectDone":
                self.was = ""
            elif kind == "ScriptBegan" and change.frame.kind == "leaving":
                assert change.frame.state not in PREDEFINED, "LEAVE of a terminal state never runs"
        for command in self.said.wished:
            signal = getattr(command, "signal", "")
            if type(command).__name__ == "Answer":
                self.answered[signal] += 1
        self.said.heard = []

    @property
    def over(self) -> bool:
        return self.run in self.said.finished

    def does(self, act: str, draw: Any) -> None:
        said, run = self.said, self.run
        match act:
            case "answer":
                self._answer(draw)
            case "act":
                carried = said.add("<other amount='1'/>") if draw(st.booleans()) else 0
                where = draw(st.sampled_from(NAMES))
                self.owed.append(said.acts(run, "ev", where, object=carried, case=CASE + 1))
            case "assert":
                self._asks("assert", state=draw(st.sampled_from(NAMES + PREDEFINED)))
            case "get":
                self._asks("get")
            case "finish":
                self._asks("finish", state=draw(st.sampled_from(PREDEFINED)))
            case "stop":
                self._asks("stop")
        self.look()

    def _asks(self, signal: str, **arguments: Any) -> None:
        with suppress(Refusal):
            self.said.asks(self.run, signal, **arguments)
        (heard,) = [heard.event for heard in self.said.heard if type(heard.event).__name__ == "Signalled"]
        self.owed.append(heard.signal)  # type: ignore[union-attr]

    def _answer(self, draw: Any) -> None:
        calls = [call for _, call in self.said.calls.values()]
        if not calls:
            return
        call = draw(st.sampled_from(calls))
        self._note(call)
        signal = (call.payload or {}).get("signal")
        if signal == "take":
            self._gives(call)
        elif draw(st.booleans()) or signal in ("ended", "down"):
            self.said.answer(call, value={"status": 0})
        else:
            self.said.answer(call, problem=Failure("broken", "it broke"))

    def _note(self, call: Call) -> None:
        if call.kind == SIGNAL:
            said: Any = call.payload
            self.said.told.append((said["signal"], said["arguments"]))

    def _gives(self, call: Call) -> None:
        eid = self.said.add("<cheque amount='5'><page/></cheque>")
        self.taken.append(eid)
        self.said.answer(call, value={"object": eid, "case": CASE}, eids=(eid,))

    def ends(self) -> None:
        """Bring the instance to its end, and check what it has left behind."""
        self._asks("stop")
        self.look()
        while not self.over:
            (call, *_) = [call for _, call in self.said.calls.values()]
            self._note(call)
            if (call.payload or {}).get("signal") == "take":
                self._gives(call)
            else:
                self.said.answer(call, value={})
            self.look()
        assert all(self.answered[signal] == 1 for signal in self.owed), self.answered
        assert Counter(self.given_on()) == Counter(self.taken)

    def given_on(self) -> Iterator[int]:
        """The objects, as they were taken, that have left the instance, with how each did."""
        for signal, arguments in self.said.told:
            if signal == "ended":
                yield arguments["was"]
            elif signal == "down" and arguments["object"]:
                yield arguments["object"]
        back = [said["object"] for signal, said in self.said.told if signal == "moved" and not said["event"]]
        went = [said["object"] for signal, said in self.said.told if signal == "moved" and said["event"]]
        yield from (Counter(went) - Counter(back)).elements()


ACTS = st.lists(
    st.sampled_from(["answer"] * 6 + ["act"] * 2 + ["assert"] * 3 + ["get", "get", "finish", "stop"]),
    max_size=25,
)


@settings(max_examples=examples(150), deadline=None)
@given(tasks(), st.booleans(), ACTS, st.data())
def test_K49_K59_any_task_on_any_course(
    definition: TaskDefinition, program: bool, acts: list[str], data: st.DataObject
) -> None:
    course = Course(definition, program=program)
    for act in acts:
        if not course.over:
            course.does(act, data.draw)
    if not course.over:
        course.ends()


# --- scripts against a slow reference -------------------------------------------------------------------


def nested(depth: int) -> st.SearchStrategy[Statement]:
    leaf = st.integers(0, 99).map(lambda number: perform("exec", f"'{number}"))
    if not depth:
        return leaf
    inner = st.lists(nested(depth - 1), max_size=3).map(tuple)
    choice = st.builds(
        lambda amount, then, other: when("amount", ">", str(amount), perform("exec", "'x"), *other),
        st.integers(0, 9),
        inner,
        inner,
    )
    return st.one_of(leaf, choice)


def performed(script: tuple[Statement, ...], amount: int) -> Iterator[str]:
    """The programs that a script runs, by recursion."""
    for statement in script:
        if isinstance(statement, Perform):
            yield statement.arguments[0].value  # type: ignore[union-attr]
        else:
            limit = int(statement.test.right.value)  # type: ignore[union-attr]
            yield from performed(statement.then if amount > limit else statement.otherwise, amount)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(nested(3), max_size=4).map(tuple), st.integers(0, 9))
def test_KA27_a_script_that_stops_at_each_statement_does_the_same(
    script: tuple[Statement, ...], amount: int
) -> None:
    said = Instances(task(state("a", edges="FORWARD", on_assert=script)))
    run, found = said.works_on(f"<cheque amount='{amount}'/>"), []
    while said.states[run].frames:
        (call,) = [call for _, call in said.calls.values() if call.kind == "program"]
        found.append(call.name)
        said.answer(call, value={"status": 0})
    assert found == list(performed(script, amount))
