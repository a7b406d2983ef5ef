"""Runs of dataflows: sessions begin and end at their borders, and the run ends with the last of them."""

from __future__ import annotations

import pytest

from narval.core.definitions.parsing import compose, parse
from narval.core.engines.commands import CancelCall
from narval.core.errors import RequestError
from narval.core.source.text import Source
from tests.core.engines.dialogue import Dialogue, Refusal

PLAN = """
PLAN Dear {
  INPUT: TupleStream houses, String most;
  OUTPUT: TupleStream dear;
  BODY {
    select("price > 100", houses : costly)
    sprintf("up to %s", (most) : text)
    print(text)
    project("price", costly : dear)
  }
}
"""
TWO = "<plan_input><session/><session/></plan_input>"
RELATION = '<relation name="dear"><tuple><price>200</price></tuple></relation>'


@pytest.fixture
def said() -> Dialogue:
    said = Dialogue()
    parsed = parse(Source("flats.plan", PLAN.encode()))
    assert not parsed.faults, parsed.faults
    said.library, faults = compose(said.library.replace(parsed.definitions))
    assert not faults, faults
    return said


def start(said: Dialogue, *elements: str, **environment: str) -> int:
    given = [said.add(element) for element in elements]
    return said.start("flats.Dear", given, kind="dataflow", environment=environment)


def test_T21_T29_each_session_of_the_inputs_is_a_transaction_of_its_own(said: Dialogue) -> None:
    run = start(said, TWO)
    assert [call.step for _, call in said.calls.values()] == ["session 1", "session 2"]
    assert [call.payload for _, call in said.calls.values()] == [
        {"input": 1, "place": 1, "ttl": None},
        {"input": 1, "place": 2, "ttl": None},
    ]
    said.returned("session 2", RELATION)
    assert said.state(run) == "running"
    said.returned("session 1")
    assert said.state(run) == "done"
    assert said.finished[run].eids == said.states[run].results
    assert len(said.states[run].results) == 1


def test_T20_values_make_one_session(said: Dialogue) -> None:
    run = start(said, most="900", **{":ttl": "60"})
    (_, call) = next(iter(said.calls.values()))
    assert call.payload is not None
    element = said.element(int(str(call.payload["input"])))
    assert element is not None
    assert element.xml == b'<plan_input><session><value name="most">900</value></session></plan_input>'
    assert call.payload["ttl"] == 60.0
    said.returned("session 1")
    assert said.state(run) == "done"


def test_T31_an_input_that_there_is_not_is_named(said: Dialogue) -> None:
    run = start(said, mist="900")
    assert said.state(run) == "failed"
    error = said.element(said.states[run].error)
    assert error is not None
    assert b"has no input 'mist'; did you mean 'most'?" in error.xml


def test_T38_an_open_input_takes_sessions_until_it_is_complete(said: Dialogue) -> None:
    run = start(said, **{":open": "yes"})
    assert not said.calls
    assert said.says(run, "session", most="7") == {"sessions": 1}
    said.returned("session 1")
    assert said.state(run) == "running"
    assert said.says(run, "complete") == {"sessions": 1}
    assert said.state(run) == "done"
    with pytest.raises(Refusal, match="it is done"):
        said.says(run, "session", most="8")


def test_T38_what_is_no_session_is_refused(said: Dialogue) -> None:
    run = start(said, **{":open": "yes"})
    for name, arguments, why in (("seccion", {}, "expected session"), ("session", {"mist": "1"}, "no input")):
        with pytest.raises(Refusal, match=why):
            said.says(run, name, **arguments)
    closed = start(said, TWO)
    with pytest.raises(Refusal, match="its input is complete"):
        said.says(closed, "session")


def test_T44_a_session_that_fails_leaves_the_others_alone(said: Dialogue) -> None:
    run = start(said, TWO)
    said.erred("session 1", "no such host")
    said.returned("session 2", RELATION)
    assert said.state(run) == "failed"
    assert [session.state for session in said.states[run].sessions] == ["failed", "done"]
    assert said.engines[run].explain(said.definitions[run], said.states[run], None) == "session 1 failed"


def test_T44_a_retry_does_what_was_not_done(said: Dialogue) -> None:
    run = start(said, TWO)
    said.erred("session 1")
    said.returned("session 2", RELATION)
    engine, definition = said.engines[run], said.definitions[run]
    resume = engine.plan_resume(definition, said.states[run], None, (), said.element, said.library.get)
    again = said.start("flats.Dear", resume.elements, kind="dataflow", resume=resume)
    assert [call.payload["place"] for _, call in said.calls.values() if call.payload] == [1]
    said.returned("session 1")
    assert said.state(again) == "done"
    assert said.states[again].results == said.states[run].results
    assert engine.resumed_from(said.states[again]) == (run, "")
    with pytest.raises(RequestError, match="leave out the part"):
        engine.plan_resume(definition, said.states[run], "select", (), said.element, said.library.get)
    with pytest.raises(RequestError, match="no step to mark as done"):
        engine.plan_resume(definition, said.states[run], None, (), said.element, said.library.get, ())


def test_T35_a_void_session_gives_nothing_and_the_run_is_done(said: Dialogue) -> None:
    run = start(said, TWO)
    for step in ("session 1", "session 2"):
        said.answer(said.call_of(step), value={"state": "void" if step.endswith("1") else "done"})
    assert said.state(run) == "done"
    told = said.engines[run].explain(said.definitions[run], said.states[run], None)
    assert told == "its input was complete, and 2 sessions have ended, 1 of them void"


def test_what_passed_is_told_of_each_operator(said: Dialogue) -> None:
    run = start(said, TWO)
    key = said.definitions[run].graph.calls[0].key
    counts = [{"key": key, "state": "done", "taken": 5, "given": 2}]
    for step in ("session 1", "session 2"):
        said.answer(said.call_of(step), value={"operators": counts})
    engine, definition, state = said.engines[run], said.definitions[run], said.states[run]
    assert engine.explain(definition, state, key) == "it was done: 10 tuples in, 4 out"
    operators = engine.parts(definition, state)["operators"]
    assert operators[0] == {
        "id": key, "target": "select", "line": 6, "state": "done", "taken": 10, "given": 4, "requests": 0,
    }  # fmt: skip
    drawn = engine.graph(definition, state)
    assert {"input houses", "output dear", key} <= {node.id for node in drawn.parts if hasattr(node, "id")}


def test_texts_that_were_no_numbers_are_told_of_their_session(said: Dialogue) -> None:
    run = start(said, TWO)
    unread = {
        "key": "extract-1",
        "line": 4,
        "attribute": "price",
        "count": 5,
        "texts": ["12,50", "27.00 €", "x"],
    }
    said.answer(said.call_of("session 1"), value={"unread": [unread]})
    said.answer(said.call_of("session 2"), value={"state": "done"})
    engine, definition, state = said.engines[run], said.definitions[run], said.states[run]
    assert engine.parts(definition, state)["unread"] == [{"session": "session 1", **unread}]
    told = "price of extract-1, line 4: no numbers: '12,50', '27.00 €', 'x', … (5 in all)"
    assert str(engine.explain(definition, state, "session 1")).endswith(f"; {told}")
    assert told not in str(engine.explain(definition, state, "session 2"))


def test_a_cancelled_run_gives_its_sessions_up(said: Dialogue) -> None:
    run = start(said, TWO)
    said.cancel(run)
    assert said.state(run) == "cancelled"
    assert len(said.wishes(CancelCall)) == 2
    assert [session.state for session in said.states[run].sessions] == ["cancelled", "cancelled"]


def test_values_beside_sessions_are_refused_rather_than_dropped(said: Dialogue) -> None:
    run = start(said, TWO, most="900")
    assert said.state(run) == "failed"
    assert not said.calls
