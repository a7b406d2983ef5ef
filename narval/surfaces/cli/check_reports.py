"""The longer reports of check: `--trust` and `--explore`.

The first says which labels can reach calls outside, and what a label can cause; the second what cannot
happen, and what may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from narval.ask.text import Row, WayIn, clean, counted, ways_in
from narval.core.definitions.reading.durations import duration
from narval.core.definitions.suggestions import closest
from narval.core.definitions.telling.sentence import listed
from narval.core.engines.structure import Finding
from narval.core.errors import Fault, RequestError
from narval.core.trust.telling import who
from narval.files.explore import ExplorationReport, explore_home
from narval.files.reach import ReachSources, read_sources
from narval.surfaces.cli.session import Session

_NO_RULES = """\
There is no etc/trust.toml, so no rules: only what follows from a language model's answer asks first."""


class ReachedCalls(NamedTuple):
    """The calls that definitions can make outside, in the form of answers, with their display options."""

    rows: list[Row]
    """The calls."""
    label: str | None
    """The label to report on; None for all."""
    in_full: bool
    """True if the ways of labels are shown too."""
    has_rules: bool
    """True if the home has rules about what may go where."""

    def lines(self) -> Iterator[str]:
        """The lines for people."""
        if not self.rows:
            can = (
                "Nothing goes outside." if self.label is None else "It can come to nothing that goes outside."
            )
            yield can if self.label is None else f"{clean(self.label)}: {can}"
            return
        if self.label is not None:
            yield f"What {clean(who(self.label))} ({clean(self.label)}) can make this home do outside:"
            yield ""
        for (name, kind, file), of_one in groupby(self.rows, _definition):
            yield f"{clean(kind)} {clean(name)}, in {clean(file)}"
            told_at: dict[WayIn, str] = {}
            for row in of_one:
                yield from self._of_call(row, told_at)
            yield ""
        yield _counted_labels(self.rows)
        if not self.has_rules:
            yield _NO_RULES

    def _of_call(self, row: Row, told_at: dict[WayIn, str]) -> Iterator[str]:
        if row["prospect"] == "allowed" and self.label is None and not self.in_full:
            yield f"  {clean(row['summary'])}"
            return
        yield from (f"  {'  ' * line['depth']}{clean(line['text'])}" for line in row["lines"])
        if self.in_full:
            yield from _ways(row, told_at)


def reached_in(
    session: Session, named: Sequence[Path | str], label: str | None, sources: ReachSources | None = None
) -> ReachedCalls:
    """The calls of definitions, by names, files or folders, and of those that they call; by default of all.
    `sources` is what was read of the home already.

    Files outside the home, or without one, are read as if the home had them. Raises RequestError for a name
    that no definition has.
    """
    from narval.ask.memory.trust import reached
    from narval.core.memory.labels import MODEL
    from narval.files.reading import definitions_in

    paths = [one for one in named if isinstance(one, Path)]
    home = None if session.is_homeless else session.home
    root = None if home is None else home.path.resolve()
    beside = [path for path in paths if root is None or not path.resolve().is_relative_to(root)]
    if home is None or sources is None:
        sources = read_sources(home)
    if label is not None and not label.startswith(MODEL) and label not in sources.labels:
        meant = closest(label, sources.labels)
        raise RequestError(f"nothing that comes in here has the label {label!r:.80}{meant}")
    chosen: set[str] = {one for one in named if isinstance(one, str)}
    if beside:
        added = definitions_in(beside, home)
        sources = msgspec.structs.replace(sources, libraries=(*sources.libraries, added.library))
        chosen.update(definition.full_name for definition in added.definitions)
    reach = sources.reach
    inside = [path.resolve() for path in paths if path not in beside]
    definitions = [
        definition
        for definition in reach.definitions
        if not named
        or definition.full_name in chosen
        or (root is not None and any((root / definition.path).is_relative_to(path) for path in inside))
    ]
    names = {definition.full_name for definition in definitions}
    if missing := sorted(chosen.intersection(map(str, named)) - names):
        if why := next(filter(None, (one.why_missing(missing[0]) for one in sources.loaded)), ""):
            raise RequestError(why)
        there = {definition.full_name for definition in reach.definitions}
        raise RequestError(
            f"there is no file and no definition that is run named {missing[0]!r}{closest(missing[0], there)}"
        )
    if named:
        definitions = reach.with_called(definitions)
    rows = reached(reach, definitions, sources.rules, label, ways=bool(named))
    return ReachedCalls(rows, label, bool(named), sources.rules is not None)


def _definition(row: Row) -> tuple[str, str, str]:
    return row["definition"], row["kind"], row["file"]


def _ways(row: Row, told_at: dict[WayIn, str]) -> Iterator[str]:
    """The ways of labels because of which a call is not simply allowed, each with the parts that it leads to;
    `told_at` has, by way, the part that makes the call for which it was printed first.
    """
    for way, parts in ways_in(row).items():
        head = f"      how {clean(way.label)} comes to {clean(listed(parts))}:"
        if way in told_at:
            yield f"{head} as at {clean(told_at[way])}"
            continue
        told_at[way] = row["part"]
        yield head
        yield from (f"        {clean(step)}" for step in way.steps)


_VERBS = {"allowed": "allowed", "depends": "depending", "asks": "asking", "refused": "refused"}


def _counted_labels(rows: list[Row]) -> str:
    """The numbers of calls, by the decision of the rules."""
    numbers = {word: sum(row["prospect"] == word for row in rows) for word in _VERBS}
    counts = ", ".join(f"{number} {_VERBS[word]}" for word, number in numbers.items() if number)
    return f"{counted(len(rows), 'call')} can go outside: {counts}"


# --- check --explore ----------------------------------------------------------------------------------------


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
        click.echo(_counted_reports(counted_faults, cannot, reports), err=True)
    return not cannot and all(fault.warning for fault in faults)


def _lines(finding: Finding) -> str:
    severity = "note: " if finding.severity == "note" else ""
    head = f"{finding.path}:{finding.line}:{finding.column}: {severity}{finding.message}"
    return "\n".join([clean(head), *(f"    {clean(line)}" for line in finding.story)])


def _counted_reports(faults: str, cannot: int, reports: list[ExplorationReport]) -> str:
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
