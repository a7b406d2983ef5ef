"""The outcome of a simulation: all events, calls and expectations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from narval.core.memory.memory import Memory
from narval.trials.simulate.executor import RecordedCall, is_of
from narval.trials.simulate.scenario import Expectation, Scenario
from narval.trials.simulate.trace import Line


class Judged(msgspec.Struct, frozen=True):
    """An expectation, and the number of its elements, runs or calls at a moment."""

    expectation: Expectation
    at: float
    count: int

    @property
    def met(self) -> bool:
        """True if the number is as expected."""
        most = math.inf if self.expectation.most is None else self.expectation.most
        return self.expectation.least <= self.count <= most


class SimulationReport(msgspec.Struct, frozen=True):
    """The results of one scenario."""

    scenario: Scenario
    """The scenario."""
    zone: tzinfo | None
    """The time zone that times are shown in."""
    start: float
    """The moment at which it began."""
    end: float
    """The moment at which it ended."""
    remembered: int
    """The number of elements at the start."""
    lines: list[Line]
    """The events, in order."""
    calls: list[RecordedCall]
    """The calls that were made."""
    runs: list[dict[str, Any]]
    """The runs, as in `narval runs`; with `who`, if there are several agents."""
    waiting: list[dict[str, Any]]
    """The reasons why runs wait, as in `narval why`."""
    judged: list[Judged]
    """The expectations, with their results."""
    stopped: str = ""
    """The reason why it ended early."""
    endless: bool = False
    """True if runs began without end."""

    @property
    def failed(self) -> list[Line]:
        """The lines of runs that failed unexpectedly; a run that answers a call is its caller's concern."""
        expected = {
            (judged.expectation.agent, judged.expectation.recipe)
            for judged in self.judged
            if judged.met and _wants_failure(judged.expectation)
        }
        ends = (line for line in self.lines if line["what"] == "ended" and line["phase"] == "failed")
        unexpected = (line for line in ends if (line.get("who", ""), line["name"]) not in expected)
        return [line for line in unexpected if not line["called"]]

    @property
    def unmet(self) -> list[Judged]:
        """The expectations that were not met."""
        return [judged for judged in self.judged if not judged.met]

    @property
    def unanswered(self) -> list[RecordedCall]:
        """The calls for which no answer could be made up."""
        return [call for call in self.calls if call.how == "unanswered"]

    @property
    def well(self) -> bool:
        """True if every expectation was met, every call answered, and no run failed unexpectedly."""
        return not (self.failed or self.unmet or self.unanswered or self.endless)


def _wants_failure(expectation: Expectation) -> bool:
    return expectation.what == "run" and expectation.phase == "failed" and expectation.least > 0


Phases = Mapping[int, tuple[str, str]]
"""The definition and the phase of each run, by its eid."""


def count_of(expectation: Expectation, memory: Memory, runs: Phases, calls: Sequence[RecordedCall]) -> int:
    """Count the elements, runs or calls of an expectation, of one agent."""
    if expectation.what == "run":
        key = (expectation.recipe, expectation.phase)
        return sum(key in ((name, ""), (name, phase)) for name, phase in runs.values())
    if expectation.what == "call":
        return sum(is_of(expectation, call) for call in calls)
    if expectation.condition is None:
        return 0
    elements = memory.select(expectation.condition.bind())
    return sum(eid not in memory.outdated for eid in elements)
