"""`narval check --explore`: what cannot happen, and what may, for people and programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from narval.ask.text import clean, counted
from narval.core.definitions.reading.durations import duration
from narval.core.engines.structure import Finding
from narval.core.errors import Fault
from narval.files.explore import ExplorationReport, explore_home
from narval.surfaces.cli.session import Session

_CLEAR = "\r\x1b[K"
"""Removes the line of progress."""


def explore(
    session: Session,
    faults: list[Fault],
    form: list[dict[str, Any]],
    counted_faults: str,
    paths: Iterable[Path],
    states: int,
    seconds: float,
) -> bool:
    """Write faults, and findings as they come; return True if all is well."""
    for fault in () if session.as_json else faults:
        click.echo(clean(fault))
    watched = sys.stderr.isatty() and not session.as_json
    progress = _progress if watched else lambda name, states: None
    reports = []
    for report in explore_home(session.home, paths, most=states, seconds=seconds, progress=progress):
        if watched:
            click.echo(_CLEAR, nl=False, err=True)
        if not session.as_json:
            for finding in report.findings:
                click.echo(_lines(finding))
        reports.append(report)
    cannot = sum(finding.severity == "error" for report in reports for finding in report.findings)
    if session.as_json:
        session.give({"faults": form, **_form(reports)}, lambda _: None)
    else:
        click.echo(_summary(counted_faults, cannot, reports), err=True)
    return not cannot and all(fault.warning for fault in faults)


def _lines(finding: Finding) -> str:
    severity = "note: " if finding.severity == "note" else ""
    head = f"{finding.path}:{finding.line}:{finding.column}: {severity}{finding.message}"
    return "\n".join([clean(head), *(f"    {clean(line)}" for line in finding.story)])


def _summary(faults: str, cannot: int, reports: list[ExplorationReport]) -> str:
    notes = sum(finding.severity == "note" for report in reports for finding in report.findings)
    states, seconds = sum(report.states for report in reports), sum(report.seconds for report in reports)
    walked = sum(report.walked for report in reports)
    explored = f"{counted(walked, 'definition')}, {counted(states, 'state')}, {duration(seconds)}"
    impossible = f"{counted(cannot, 'thing')} that cannot be" if cannot else "nothing that cannot be"
    others = ", ".join(f"{report.kind} {clean(report.name)}" for report in reports if not report.walked)
    left = f"; not walked through, its graph alone was looked at: {others}" if others else ""
    return f"{explored}: {faults}, {impossible}, {counted(notes, 'note')}{left}"


def _form(reports: list[ExplorationReport]) -> dict[str, Any]:
    return {
        "findings": [
            {"definition": report.name, **msgspec.to_builtins(finding), "part": finding.part or None}
            for report in reports
            for finding in report.findings
        ],
        "explored": [
            {
                "definition": report.name,
                "kind": report.kind,
                "states": report.states,
                "complete": report.complete,
                "walked": report.walked,
                "seconds": round(report.seconds, 3),
            }
            for report in reports
        ],
    }


def _progress(name: str, states: int) -> None:
    click.echo(f"{_CLEAR}{clean(name)}: {counted(states, 'state')} so far", nl=False, err=True)
