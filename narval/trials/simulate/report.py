"""The outcome of a simulation: all events, calls and expectations, and a summary of what it would alter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from narval.core.engines.registry import engine_of_run
from narval.core.kinds import ASKS
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


RAN = "ran"
"""The word for a call of a pure action, which has no effect outside."""


def changes_of(report: SimulationReport) -> dict[str, Any]:
    """The elements added, replaced and forgotten, the calls that would go outside with their inputs, the work
    that would be offered, and how the runs end, by name.

    Only runs that began in the simulation count: service runs exist as long as their definitions.
    """
    lines = report.lines
    begun = {(line.get("who", ""), line["run"]) for line in lines if line["what"] == "started"}
    runs = [run for run in report.runs if (run.get("who", ""), run["eid"]) in begun]
    items = [run for run in runs if engine_of_run(run["kind"]).definition_kind in ASKS]
    asking = {run["name"] for run in items}
    under_way = [run for run in runs if run["phase"] == "active"]
    ended = [
        line for line in lines if line["what"] == "ended" and (line.get("who", ""), line["run"]) in begun
    ]
    ends = Counter((run["name"], run["phase"]) for run in under_way + ended if run["name"] not in asking)
    return {
        "added": [
            {"element": line["element"], "run": line.get("run"), "xml": line["xml"]}
            for line in lines
            if line["what"] in ("added", "arrived")
        ],
        "replaced": [eid for line in lines if line["what"] == "replaced" for eid in line["elements"]],
        "forgotten": {
            what: sum(line[what] for line in lines if line["what"] == "forgot")
            for what in ("runs", "elements")
        },
        "outside": [
            {
                "action": call.action,
                "run": call.run,
                "step": call.step,
                "how": call.how,
                "given": [element.xml.decode("utf-8") for _, elements in call.inputs for element in elements],
            }
            for call in report.calls
            if call.how != RAN
        ],
        "items": [{"item": run["eid"], "name": run["name"], "state": run["state"]} for run in items],
        "runs": [
            {"name": name, "phase": phase, "count": count} for (name, phase), count in sorted(ends.items())
        ],
    }
