"""Runs tell one another something, and wait for an answer (K52), in dialogues and explored."""

from __future__ import annotations

import pytest

from narval.core.definitions.library import Library
from narval.core.definitions.parsing import parse
from narval.core.engines.commands import SIGNAL, Call
from narval.core.engines.effects import InForce
from narval.core.engines.events import Returned
from narval.core.kinds import KINDS
from narval.core.source.text import Source
from narval.trials.explore.search import next_events
from narval.trials.explore.state import ExplorationState
from narval.trials.explore.unknown_memory import Targets
from tests.core.engines.dialogue import Dialogue, action
from tests.house.countdown import ROW


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Dialogue:
    monkeypatch.setitem(KINDS, "countdown", ROW)
    said = Dialogue(action("m.tick"))
    said.library = said.library.replace(
        parse(Source("c.countdown", b"one from 5 call m.tick\ntwo from 9 call m.tick")).definitions
    )
    return said


def begun(said: Dialogue, *names: str) -> list[int]:
    return [said.start(f"c.{name}", [said.add(f"<{name}/>")], kind="countdown") for name in names]


def test_K52_what_a_run_tells_another_is_answered_within_the_turn(said: Dialogue) -> None:
    one, two = begun(said, "one", "two")
    said.says(one, "tell", to=two, signal="skip", n=3)
    assert [(heard.run, type(heard.event).__name__) for heard in said.heard] == [
        (one, "Signalled"),
        (two, "Signalled"),
        (one, "Returned"),
    ]
    assert said.heard[1].event.arguments == {"n": 3, "from": one}  # type: ignore[union-attr]
    assert said.states[one].heard == ["[{'left': 7}, []]"]


def test_K52_a_standing_run_is_told_by_the_name_of_what_it_follows(said: Dialogue) -> None:
    one, two = begun(said, "one", "two")
    said.standing["c.two"] = two
    said.says(one, "tell", of="c.two", signal="skip")
    assert said.states[one].heard == ["[{'left': 7}, []]"]


def test_K52_the_answer_may_come_later_and_brings_elements(said: Dialogue) -> None:
    one, two = begun(said, "one", "two")
    said.says(one, "tell", to=two, signal="hold")
    assert (said.states[one].heard, list(said.states[two].held.values())) == ([], [one])
    said.says(two, "free")
    [element] = said.states[two].first
    assert said.states[one].heard == [f"[{{'left': 8}}, [{element}]]"]


def test_K52_what_is_given_up_is_forgotten_by_who_was_to_answer(said: Dialogue) -> None:
    one, two = begun(said, "one", "two")
    said.says(one, "tell", to=two, signal="hold")
    said.says(one, "drop")
    assert (said.states[one].heard, said.states[two].held) == (["abandoned"], {})
    said.says(one, "tell", to=two, signal="hold")
    said.cancel(one)
    assert said.states[two].held == {}


def test_K52_who_ends_without_an_answer_leaves_a_failure(said: Dialogue) -> None:
    one, two = begun(said, "one", "two")
    said.says(one, "tell", to=two, signal="hold")
    said.cancel(two)
    assert said.states[one].heard == ["over"]


def test_K52_exploration_tries_an_answer_a_failure_and_no_element() -> None:
    call = Call("1000000000000000.1", SIGNAL, "g.r", "tell")
    reached = ExplorationState(b"", InForce(calls={call.call: call}))
    events = [happening.event for happening in next_events(reached, Targets(Library()))]
    assert all(isinstance(event, Returned) and not event.elements for event in events)
    assert [event.problem is None for event in events if isinstance(event, Returned)] == [True, False, False]
