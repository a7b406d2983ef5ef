"""Tables of what was measured: medians of ratios, their spreads, and whether all of these keep the marks."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from bench.marks import PEER, Lines, Mark, marks

Found = dict[str, list[Lines]]
"""By suite, what each round said."""

BEGIN, END = "<!-- make bench: from here -->", "<!-- make bench: to here -->"
GROWTH = "growth"
"""A suite of other sizes, for the curves."""
LEAST_ROUNDS = 2
"""A suite of fewer rounds has no spread, and so is not published."""
FIGURES = ("us_per_step", "us_per_element", "late_p99_ms", "per_second")
UNITS = {"per_second": "/s", "late_p99_ms": " ms"}


def values_of(mark: Mark, results: Found) -> list[float]:
    """What a mark is in each round of the suite that has all of its figures; in none, of no suite."""
    for name, lines in results.items():
        values = [value for each in lines if (value := mark.value(each)) is not None]
        if values and name != GROWTH:
            return values
    return []


def table(results: Found) -> str:
    """The marks, each with its median, its spread, and whether it is met; then disagreements and errors."""
    rows = [
        "| workload | what | mark | narval | spread | |",
        "|---|---|---|---|---|---|",
    ]
    for mark in marks():
        values = values_of(mark, results)
        if values:
            rows.append(_row(mark, values))
    return "\n".join([*rows, *_disagreements(results), *_errors(results)])


def _row(mark: Mark, values: list[float]) -> str:
    middle = median(values)
    met = _outcome(mark, values)
    bound = "" if met == "" else mark.bound.replace(">=", "≥ ").replace("<=", "≤ ") + mark.unit
    text = f"{_number(middle)}{mark.unit}"
    spread = f"{_number(min(values))} – {_number(max(values))}" if len(values) > 1 else ""
    return f"| {mark.workload} | {mark.what} | {bound} | {text} | {spread} | {met} |"


def _outcome(mark: Mark, values: list[float]) -> str:
    """The outcome in words: a mark is met where each round met it, and in part where their median did."""
    if mark.bound == PEER:
        return ""
    if all(mark.met(value) for value in values):
        return "met"
    return "in part" if mark.met(median(values)) else "**missed**"


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def figures(results: Found) -> str:
    """Our own figures, as they were: of use only beside others of the same run."""
    rows = ["| case | median | spread | resident |", "|---|---|---|---|"]
    for case in dict.fromkeys(case for lines in results.values() for each in lines for case in each):
        lines = [
            each[case] for every in results.values() for each in every if "seconds" in each.get(case, {})
        ]
        field = next((name for name in FIGURES if lines and lines[0].get(name) is not None), None)
        if field is not None:
            values = [float(line[field]) for line in lines]
            resident = median(line["rss_mb"] for line in lines)
            unit = UNITS.get(field, " µs")
            rows.append(
                f"| {case} | {_number(median(values))}{unit} "
                f"| {_number(min(values))} – {_number(max(values))} | {resident:.0f} MB |"
            )
    return "\n".join(rows)


def _disagreements(results: Found) -> list[str]:
    """Cases of one workload and size whose answers differ."""
    answers: dict[tuple[str, int], dict[str, Any]] = {}
    for lines in results.values():
        for each in lines:
            for case, line in each.items():
                if "digest" in line and line.get("complete", True):
                    answers.setdefault((line["workload"], line["n"]), {})[case] = line["digest"]
    return [
        f"\nDISAGREE {workload}: {cases}"
        for (workload, _), cases in answers.items()
        if len(set(cases.values())) > 1
    ]


def _errors(results: Found) -> list[str]:
    return [
        f"\n{case}: {line['error']}"
        for case, line in {
            case: line
            for lines in results.values()
            for each in lines
            for case, line in each.items()
            if "error" in line
        }.items()
    ]


def published(results: Found) -> Found:
    """The suites that were measured often enough."""
    return {suite: lines for suite, lines in results.items() if len(lines) >= LEAST_ROUNDS}


def keep(path: Path, about: dict[str, Any], results: Found) -> None:
    """The machine, then every line, each with its suite, round and case."""
    with path.open("w", encoding="utf-8") as file:
        print(json.dumps({"machine": about}), file=file)
        for suite, lines in results.items():
            for number, each in enumerate(lines):
                for case, line in each.items():
                    print(json.dumps({"suite": suite, "round": number + 1, "case": case, **line}), file=file)


def kept(path: Path) -> tuple[dict[str, Any], Found]:
    """What `keep` wrote."""
    about, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    results: Found = {}
    for line in lines:
        suite, number, case = line.pop("suite"), line.pop("round"), line.pop("case")
        every = results.setdefault(suite, [])
        while len(every) < number:
            every.append({})
        every[number - 1][case] = line
    return about["machine"], results


def put(page: Path, about: dict[str, Any], results: Found) -> None:
    """Put the table into a page, between its two comments."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items())
    body = "\n\n".join((BEGIN, table(results), f"Measured with: {told}.", END))
    page.write_text(f"{before}{body}{after}", encoding="utf-8")
