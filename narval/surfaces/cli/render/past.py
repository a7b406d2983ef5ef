"""The report of a trial on the past, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from narval.ask.text import clean, counted, shortened
from narval.surfaces.cli.render import answers
from narval.surfaces.cli.render.simulation import local, shown
from narval.trials.past.outcome import Change, Deed, PastReport

WIDTH = 200
"""The characters of what a deed is about."""

PARTICIPLES: Mapping[str, str] = {"send": "sent", "write": "written", "ask": "asked"}
"""The past participle of each verb."""


def told(report: PastReport, zone: tzinfo | None) -> Iterator[str]:
    """The report for people."""
    names = ", ".join(map(clean, report.names))
    yield f"{names} on what came from {shown(report.start, zone)} to {shown(report.reached, zone)}"
    yield from _reach(report, zone)
    yield ""
    tally = report.tally
    ended = ", ".join(f"{number} {phase}" for phase, number in sorted(tally.ended.items()))
    yield f"it would have begun {counted(tally.begun, 'time')}" + (f": {ended}" if ended else "")
    for why, number in tally.errors.most_common(10):
        yield f"  failed {counted(number, 'time')}: {shortened(clean(why), WIDTH)}"
    numbers = ((done, tally.verbs[verb]) for verb, done in PARTICIPLES.items())
    deeds = ", ".join(f"{done} {counted(number, 'time')}" for done, number in numbers if number)
    yield f"it would have {deeds}" if deeds else "it would have sent, written and asked nothing"
    if tally.done > len(tally.deeds):
        yield f"  the newest {len(tally.deeds)} of {tally.done:,}; --all shows all"
    yield from (f"  {_deed(deed, zone)}" for deed in tally.deeds)
    yield from _waiting(report)
    yield from _changes(report.changes)
    if report.stopped:
        yield f"ended before its time: {clean(report.stopped)}"


def _reach(report: PastReport, zone: tzinfo | None) -> Iterator[str]:
    reach = report.reach
    came = ", ".join(f"{number:,} {clean(way)}" for way, number in reach.came.most_common())
    yield f"  {counted(sum(reach.came.values()), 'arrival')}" + (f": {came}" if came else "")
    oldest = f"the oldest is of {shown(reach.oldest, zone)}" if reach.oldest is not None else "there is none"
    yield f"  memory of that day: {counted(reach.remembered, 'element')} kept, {oldest}"
    backups = f"with {counted(len(report.backups), 'backup')}" if report.backups else "without a backup"
    for number, when in ((reach.forgotten_before, "before"), (reach.forgotten_since, "since then")):
        if number:
            yield f"  forgotten, {backups}: {number:,} elements and runs of {when}"
    if reach.unknown:
        unknown = counted(reach.unknown, "element")
        yield f"  left out: {unknown} of forgotten runs; nothing says any more whether they came from outside"
    for path, why in report.left_out:
        yield f"  left out: backup {clean(path)}: {clean(why)}"


def _deed(deed: Deed, zone: tzinfo | None) -> str:
    how = f" ({deed.how})" if deed.how else ""
    text = f": {shortened(clean(deed.text), WIDTH)}" if deed.text else ""
    return f"{local(deed.at, zone):%Y-%m-%d %H:%M:%S}  {deed.verb:<5}  {clean(deed.name)}{text}{how}"


def _waiting(report: PastReport) -> Iterator[str]:
    if not report.under_way:
        return
    yield f"{counted(report.under_way, 'run')} would still wait:"
    told_runs: Counter[tuple[str, ...]] = Counter()
    for answer in report.waiting:
        told_runs[tuple(line for line in answers.why(answer) if line.strip())[1:]] += 1
    for rest, number in told_runs.items():
        yield f"  {counted(number, 'run')}:"
        yield from (f"    {line}" for line in rest)


def _changes(changes: list[Change]) -> Iterator[str]:
    if not changes:
        yield "other definitions would have done the same"
        return
    yield "other definitions would have done otherwise:"
    for change in changes:
        what = f"calls of {clean(change.what)}" if change.what else "runs"
        more = change.with_it - change.without
        how_many = f"{abs(more):,} {'more' if more > 0 else 'fewer'}"
        yield f"  {clean(change.name)}: {how_many} {what}, {change.with_it:,} rather than {change.without:,}"


def json_form(report: PastReport, zone: tzinfo | None) -> dict[str, Any]:
    """The report in the form of the command line's `--json`."""
    tally, reach = report.tally, report.reach

    def iso(at: float | None) -> str | None:
        return None if at is None else local(at, zone).isoformat(timespec="milliseconds")

    return {
        "definitions": list(report.names),
        "since": iso(report.start),
        "until": iso(report.reached),
        "stopped": report.stopped or None,
        "came": dict(reach.came),
        "known": {
            "oldest": iso(reach.oldest),
            "remembered": reach.remembered,
            "forgotten_before": reach.forgotten_before,
            "forgotten_since": reach.forgotten_since,
            "unknown": reach.unknown,
            "backups": list(report.backups),
            "left_out": [{"path": str(path), "why": why} for path, why in report.left_out],
        },
        "begun": tally.begun,
        "ended": dict(tally.ended),
        "errors": dict(tally.errors),
        "counts": {PARTICIPLES[verb]: tally.verbs[verb] for verb in PARTICIPLES},
        "deeds": [{**deed._asdict(), "at": iso(deed.at)} for deed in tally.deeds],
        "under_way": report.under_way,
        "waiting": report.waiting,
        "others": [
            {"definition": name, "action": action or None, "without": without, "with": with_it}
            for name, action, without, with_it in report.changes
        ],
    }
