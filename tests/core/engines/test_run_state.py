"""The header of a run's state, and the tables of its changes."""

import pytest

from narval.kinds.automaton.engine import changes as automaton
from narval.kinds.automaton.engine.apply import APPLY as AUTOMATON
from narval.kinds.process.engine import changes as process
from narval.kinds.process.engine.apply import APPLY as PROCESS
from narval.kinds.recipe.engine import changes as recipe
from narval.kinds.recipe.engine.apply import APPLY as RECIPE


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
