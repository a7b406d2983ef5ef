"""Measure, compare, tell: `make bench`.

    python -m bench [SUITE …] [--peers FOLDER] [--rounds N] [--write]

Each suite is made round after round, ours and the peers in turn. With the peers' folder their cases are run
as well (its `run.sh` sets them up) and ratios are told; without it, our figures alone. `--write` keeps the
lines in bench/results/ and puts the table and the curves into docs/; it wants two rounds or more. What a case
has begun and left behind is ended after it, and when this is interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import curves, report
from bench.machine import machine
from bench.marks import Case, Lines, Suite, suites
from bench.programs import none_left

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PATIENCE = 600
"""Seconds that a case may take."""


def ours(case: Case) -> list[str]:
    """The command line of a case of ours."""
    module, *arguments = case.command.split()
    return [sys.executable, "-m", f"bench.{module}", *arguments]


def peers(case: Case, folder: Path) -> list[str]:
    """The command line of a case of the peers' catalogue."""
    return [str(folder / "run.sh"), *case.name.split("/", 1)]


def line_of(case: Case, folder: Path | None, work: Path) -> dict[str, Any] | None:
    """The line that a case prints, or what went wrong; None for a peer where there are none."""
    if not case.is_ours and folder is None:
        return None
    command = ours(case) if case.is_ours else peers(case, folder or Path())
    environ = {
        **os.environ,
        "BENCH_TMP": str(work / "ours"),
        "PEERS_TMP": str(work / "peers"),
        "PEERS_VENVS": os.environ.get("PEERS_VENVS", str(work / "venvs")),
    }
    if case.is_ours:
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, as the peers are
    try:
        with none_left():
            done = subprocess.run(
                command,
                cwd=HERE.parent,
                env=environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {PATIENCE} seconds"}
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"error": (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:300]}
    return dict(lines[-1])


def rounds_of(suite: Suite, folder: Path | None, work: Path, rounds: int) -> Iterator[Lines]:
    """Each round of a suite: what its cases say, one after another."""
    for number in range(rounds):
        lines: Lines = {}
        for case in suite.cases:
            line = line_of(case, folder, work)
            if line is not None:
                lines[case.name] = line
                text = line.get("error") or f"{line['seconds']:9.3f} s  {line['per_second']} a second"
                print(
                    f"{suite.name} {number + 1}/{rounds}  {case.name:34} {text}", file=sys.stderr, flush=True
                )
        yield lines


def main() -> None:
    known = suites()
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--peers", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    unknown = set(asked.suites) - {each.name for each in known}
    if unknown:
        parser.error(f"expected some of {', '.join(each.name for each in known)}, got {', '.join(unknown)}")
    chosen = [suite for suite in known if not asked.suites or suite.name in asked.suites]
    rounds = {suite.name: asked.rounds or suite.rounds for suite in chosen}
    if asked.write and (few := [name for name, number in rounds.items() if number < report.LEAST_ROUNDS]):
        parser.error(f"expected {report.LEAST_ROUNDS} rounds or more to write, got 1 of {', '.join(few)}")
    folder = asked.peers.resolve() if asked.peers is not None else None
    if folder is not None and not (folder / "run.sh").exists():
        parser.error(f"{folder} has no run.sh: expected the folder of the peers' scripts")
    work = Path(os.environ.get("BENCH_WORK", HERE.parent / ".bench")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    about = machine(work)
    measured: report.Found = {}
    for suite in chosen:
        measured[suite.name] = list(rounds_of(suite, folder, work, rounds[suite.name]))
        if asked.write:
            write(about, measured)
    print(report.table(measured))


def write(about: dict[str, Any], measured: report.Found) -> None:
    """Keep what was measured; suites that were not are as they were."""
    RESULTS.mkdir(exist_ok=True)
    latest = RESULTS / "latest.jsonl"
    before = report.kept(latest)[1] if latest.exists() else {}
    results = {suite.name: measured.get(suite.name, before.get(suite.name, [])) for suite in suites()}
    results = {name: lines for name, lines in results.items() if lines}
    report.keep(latest, about, results)
    results = report.published(results)
    report.put(HERE.parent / "docs/explanation/performance.md", about, results)
    curves.draw(HERE.parent / "docs/explanation", results)


if __name__ == "__main__":
    main()
