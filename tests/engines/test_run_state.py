"""The header of a run's state, and the tables of its changes."""

import pytest

from narval.engines.automaton import changes as automaton
from narval.engines.automaton.apply import APPLY as AUTOMATON
from narval.engines.process import changes as process
from narval.engines.process.apply import APPLY as PROCESS
from narval.engines.recipe import changes as recipe
from narval.engines.recipe.apply import APPLY as RECIPE


@pytest.mark.parametrize(
    ("base", "table"),
    [
        (recipe.PlanChange, RECIPE),
        (automaton.AutomatonChange, AUTOMATON),
        (process.ProcessChange, PROCESS),
    ],
    ids=["recipe", "automaton", "process"],
)
def test_every_change_of_a_kind_can_be_applied(base, table):
    assert set(base.types()) == set(table)
