"""What lies at hand is found straight away, and is what the whole search would have found (N15, N16)."""

from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.action.definition import Input, Output
from narval.kinds.recipe.engine.steps.inputs import InputSearch
from tests.core.engines.dialogue import Dialogue, action, recipe, step, transition
from tests.examples import examples

NAMES = ("red", "green", "blue")
GIVES = action("m.a", (), [Output("any", "*", list=True, optional=True)])
PATTERNS = [*NAMES, *NAMES, "red | green", "*[@n > 1]", "*[@n = $a/@n]"]
ELEMENTS = st.lists(st.builds("<{} n='{}'/>".format, st.sampled_from(NAMES), st.integers(0, 3)), max_size=4)


@st.composite
def inputs(draw: st.DrawFn) -> list[Input]:
    kinds = ({}, {}, {"use": True}, {"optional": True}, {"list": True}, {"outdates": True})
    wanted = draw(st.lists(st.tuples(st.sampled_from(PATTERNS), st.sampled_from(kinds)), max_size=3))
    return [Input(f"i{number}", pattern, **kind) for number, (pattern, kind) in enumerate(wanted)]


@pytest.fixture(scope="module")
def found() -> Iterator[Counter[bool]]:
    """How often predecessors alone gave all inputs: then it is what the whole search gives."""
    straight, counted = InputSearch.from_predecessors, Counter[bool]()

    def checked(search: InputSearch, without: Input | None) -> dict[str, tuple[int, ...]] | None:
        given = straight(search, without)
        assert given is None or given == search.by_rank(without).given
        counted[given is not None] += 1
        return given

    with patch.object(InputSearch, "from_predecessors", checked):
        yield counted
    assert counted[True] > 50
    assert counted[False] > 50


@settings(max_examples=examples(1600), deadline=None)
@given(inputs(), ELEMENTS, ELEMENTS, st.lists(st.sampled_from(NAMES), max_size=2), st.booleans())
def test_N15_what_predecessors_give_is_what_the_whole_search_gives(
    found: Counter[bool],
    inputs: list[Input],
    before: list[str],
    made: list[str],
    conditions: list[str],
    again: bool,
) -> None:
    line = [step("a"), step("z"), transition("t", "a", "z", *conditions)]
    said = Dialogue(recipe("g.r", *line), GIVES, action("m.z", inputs, [Output("any", "*", optional=True)]))
    for xml in before:
        said.add(xml)
    for _ in range(1 + again):
        run = said.start("g.r")
        said.returned("a", *made, run=run)
