"""Changes: a summary of what a simulation would alter (M57)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from narval.core.engines.registry import engine_of_run
from narval.core.kinds import ASKS
from narval.trials.simulate.report import SimulationReport

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
