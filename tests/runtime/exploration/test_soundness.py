"""What exploration calls impossible never happens: random recipes are explored, and then run."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from narval.definitions.library import Library
from narval.runtime.exploration.walk import Words, explore
from tests.dialogue import Dialogue
from tests.engines.test_plan_property import ACTIONS, happens, plans

EXAMPLES = int(os.environ.get("NARVAL_EXAMPLES", "60"))
MOST = 800
"""Recipes of more states are left aside: small ones have everything that large ones are made of."""


class Possible:
    """All that exploration deems possible of the plans of a recipe."""

    def __init__(self, name: str, library: Library) -> None:
        definition = library.get("recipe", name)
        assert definition is not None
        explored = explore(definition, library, most=MOST)
        assume(explored.complete)
        self.underway = {frozenset(place.words.items()) for place in explored.places}
        self.ends = {(phase, _own(kind)) for phase, kind, _ in explored.ends}
        self.seen = {(part, word) for part, word, _ in explored.seen}

    def check(self, words: Words, *, over: bool) -> None:
        """The parts of a run are as some run may have them."""
        assert [each for each in words.items() if each not in self.seen] == []
        if not over:
            assert frozenset(words.items()) in self.underway, words


def _own(kind: str) -> str:
    return kind if kind in ENGINES_OWN else ""


ENGINES_OWN = frozenset({"stuck", "input-missing", "bad-output", "foreach-misfit", "unknown-target"})
"""Types of errors that the engine makes itself: those of calls are any."""


class Watched(Dialogue):
    """A dialogue in which each step a plan takes is looked up among those deemed possible."""

    possible: Possible

    def _check(self, run: int, changes: list[Any]) -> None:
        super()._check(run, changes)
        words = {("steps", each): word for each, word in self.steps(run).items()}
        words |= {("transitions", each): word for each, word in self.transitions(run).items()}
        self.possible.check(words, over=run in self.finished)
        if run in self.finished:
            finish = self.finished[run]
            error = self.memory.element(finish.error) if finish.error is not None else None
            kind = error.attributes.get("type", "") if error is not None else ""
            assert (finish.phase, _own(kind)) in self.possible.ends


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans(), st.data())
def test_N22_a_plan_never_comes_to_where_exploration_says_that_it_cannot(
    text: str, data: st.DataObject
) -> None:
    said = Watched(text, *(each for each in ACTIONS.values() if each is not None))
    said.possible = Possible("g.r", said.library)
    runs = [said.start("g.r")]
    for _ in range(40):
        happens(said, runs, data)
        if all(run in said.finished for run in runs):
            break
