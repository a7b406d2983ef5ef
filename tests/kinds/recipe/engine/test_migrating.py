"""Random plans that go on with another version of their recipe, at a random moment (issue 42)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from narval.kinds.recipe.engine.state import PlanState
from narval.kinds.recipe.language.definition import Recipe
from tests.core.engines.dialogue import Dialogue, recipe, recipes, step, transition
from tests.examples import examples
from tests.kinds.recipe.engine.test_property import ACTIONS, ELEMENTS, happens, plans


class Recorded:
    """What was drawn for one dialogue, to be drawn for another."""

    def __init__(self, data: st.DataObject) -> None:
        self._data, self.drawn = data, list[Any]()

    def draw(self, strategy: Any) -> Any:
        self.drawn.append(self._data.draw(strategy))
        return self.drawn[-1]


class Again:
    """Draws what was recorded."""

    def __init__(self, recorded: Recorded) -> None:
        self._drawn = iter(recorded.drawn)

    def draw(self, strategy: Any) -> Any:
        return next(self._drawn)


def dialogue(text: str) -> Dialogue:
    return Dialogue(text, *(action for action in ACTIONS.values() if action is not None))


@settings(max_examples=examples(120), deadline=None)
@given(plans(), st.data())
def test_a_plan_that_goes_on_with_its_own_text_behaves_as_if_it_never_was(
    text: str, data: st.DataObject
) -> None:
    stays, moves = dialogue(text), dialogue(text)
    for xml in data.draw(st.lists(st.sampled_from(ELEMENTS), max_size=3)):
        stays.add(xml), moves.add(xml)
    runs, same_runs = [stays.start("g.r")], [moves.start("g.r")]
    for _ in range(24):
        if data.draw(st.integers(0, 2)) == 0:
            [again] = recipes(text)
            for run in same_runs:
                if moves.states[run].status == "running":
                    plan = moves.migrate(run, again)
                    assert not plan.refused
                    assert (plan.gone, plan.new, plan.begins) == ((), (), ())
                    stays._next()
        recorded = Recorded(data)
        happens(stays, runs, recorded)  # type: ignore[arg-type]
        happens(moves, same_runs, Again(recorded))  # type: ignore[arg-type]
        assert moves.states == stays.states
        assert moves.calls.keys() == stays.calls.keys()
        assert moves.wakes.keys() == stays.wakes.keys()


@st.composite
def versions(draw: st.DrawFn) -> tuple[str, str]:
    """A recipe, and another in which some transitions and steps are others, more or fewer."""
    size = draw(st.integers(3, 6))
    ways = [draw(ways_to(number, size)) for number in range(1, size)]
    larger = size + draw(st.integers(0, 1))
    others = [draw(ways_to(number, larger)) for number in range(1, larger)]
    mixed = [*(old if draw(st.integers(0, 3)) else new for old, new in zip(ways, others, strict=False))]
    return _text(size, ways), _text(larger, [*mixed, *others[len(ways) :]])


@st.composite
def ways_to(draw: st.DrawFn, number: int, size: int) -> tuple[str, str, str]:
    """A transition to a step, and perhaps to a later one: where it begins, where it ends, what it needs."""
    ins = {number - 1, draw(st.integers(0, number - 1))} if draw(st.booleans()) else {number - 1}
    outs = {number, draw(st.integers(number, size - 1))} if draw(st.booleans()) else {number}
    return _named(ins), _named(outs), draw(st.sampled_from(["", "", "red", "use green"]))


def _named(numbers: set[int]) -> str:
    return " ".join(f"s{number}" for number in sorted(numbers))


def _text(size: int, ways: list[tuple[str, str, str]]) -> str:
    steps = [step(f"s{number}", "m.none") for number in range(size)]
    links = [
        transition(f"t{number}", ins, outs, *filter(None, [needs]))
        for number, (ins, outs, needs) in enumerate(ways)
    ]
    return recipe("g.r", *steps, *links, start="s0", end=f"s{size - 1}")


def goes_on(said: Dialogue, data: Any) -> None:
    """A call comes back, or an element arrives."""
    calls = [call for _, call in said.calls.values()]
    if calls and data.draw(st.integers(0, 3)):
        said.answer(data.draw(st.sampled_from(calls)))
    else:
        said.arrives(data.draw(st.sampled_from(ELEMENTS)))


@settings(max_examples=examples(200), deadline=None)
@given(versions(), st.data())
def test_a_plan_in_another_text_is_where_a_plan_of_that_text_can_be(
    texts: tuple[str, str], data: st.DataObject
) -> None:
    said, [new] = dialogue(texts[0]), recipes(texts[1])
    run = said.start("g.r")
    for _ in range(data.draw(st.integers(0, 6))):
        goes_on(said, data)
    if said.states[run].status != "running" or said.migrate(run, new).refused:
        return
    for _ in range(6):
        state = said.states[run]
        assert state.steps.keys() <= new.steps.keys()
        assert state.transitions.keys() <= new.transitions.keys()
        assert_reachable(new, state)
        goes_on(said, data)


def assert_reachable(definition: Recipe, state: PlanState) -> None:
    """Some order of firing leads from the first step to exactly what was reached and left."""
    reached, left = {definition.start.id}, set[str]()
    fired = [definition.transitions[id] for id, run in state.transitions.items() if run.state == "fired"]
    while fired:
        one = next(at for at in fired if reached.issuperset(at.sources) and left.isdisjoint(at.sources))
        fired.remove(one)
        left.update(one.sources)
        reached.update(one.targets)
    idle = ("todo", "impossible")
    assert reached == {id for id, run in state.steps.items() if run.state not in idle}
    assert left == {id for id, run in state.steps.items() if run.state == "history"}
