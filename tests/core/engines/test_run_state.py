"""The changes of runs: what each does to the state stands with it."""

import pytest

from narval.core.engines.registry import engine_of_run, run_kinds
from narval.core.engines.run_state import RunChange


@pytest.mark.parametrize("kind", sorted(run_kinds()))
def test_every_change_says_what_it_does_to_the_state(kind: str) -> None:
    assert [
        change for change in engine_of_run(kind).changes.__args__ if change.apply is RunChange.apply
    ] == []
