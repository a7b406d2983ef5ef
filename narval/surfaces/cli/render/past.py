"""The report of a trial on the past: its form for programs, and the sentences on it for terminal and pages.

All sentences are made from the form, whether a command has just made it or a daemon stored it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, tzinfo
from functools import partial
from itertools import islice
from typing import Any

from narval.ask.text import Row, clean, counted, shortened
from narval.ask.text import zone as named_zone
from narval.surfaces.cli.render import reasons
from narval.surfaces.cli.render.simulation import moment_form, shown_there
from narval.trials.past.outcome import PastReport

WIDTH = 200
"""The most characters of the subject of a deed."""

PARTICIPLES: Mapping[str, str] = {"send": "sent", "write": "written", "ask": "asked"}
"""The past participle of each verb."""


def told(form: Row) -> Iterator[str]:
    """The report for people."""
    yield heading(form)
    yield from (f"  {line}" for line in known(form))
    yield ""
    yield begun(form)
    yield from (f"  {line}" for line in failures(form))
    yield done(form)
    if left_out := newest(form):
        yield f"  {left_out}; --all shows all"
    yield from (f"  {_deed(deed)}" for deed in form["deeds"])
    if form["under_way"]:
        yield waiting(form)
        groups = list(waits(form))
        for runs, reasons in groups:
            if len(groups) > 1:
                yield f"  {runs}:"
            yield from (f"    {line}" for line in reasons)
    yield others(form)
    yield from (f"  {line}" for line in differences(form))
    if form["stopped"]:
        yield stopped(form)


def heading(form: Row) -> str:
    """The definitions that were played, and the time span."""
    names = ", ".join(map(clean, form["definitions"]))
    return f"{names} on what came from {_moment(form['since'])} to {_moment(form['until'])} {named_zone()}"


def known(form: Row) -> Iterator[str]:
    """The number of arrivals, and how far back the past is recorded."""
    counts = form["known"]
    came = ", ".join(f"{number:,} {clean(way)}" for way, number in form["came"].items())
    yield f"{counted(sum(form['came'].values()), 'arrival')}" + (f": {came}" if came else "")
    oldest = f"the oldest is of {_moment(counts['oldest'])}" if counts["oldest"] else "there is none"
    yield f"memory of that day: {counted(counts['remembered'], 'element')} kept, {oldest}"
    backups = f"with {counted(len(counts['backups']), 'backup')}" if counts["backups"] else "without a backup"
    for number, when in ((counts["forgotten_before"], "before"), (counts["forgotten_since"], "since then")):
        if number:
            yield f"forgotten, {backups}: {number:,} elements and runs of {when}"
    if counts["unknown"]:
        unknown = counted(counts["unknown"], "element")
        yield f"left out: {unknown} of forgotten runs; nothing says any more whether they came from outside"
    for backup in counts["left_out"]:
        yield f"left out: backup {clean(backup['path'])}: {clean(backup['why'])}"


def begun(form: Row) -> str:
    """The number of runs that would have begun, and how they would have ended."""
    ended = ", ".join(f"{number:,} {phase}" for phase, number in sorted(form["ended"].items()))
    return f"it would have begun {counted(form['begun'], 'time')}" + (f": {ended}" if ended else "")


def failures(form: Row) -> Iterator[str]:
    """The errors by which runs failed, the most frequent first."""
    errors: Counter[str] = Counter(form["errors"])
    for why, number in errors.most_common(10):
        yield f"failed {counted(number, 'time')}: {shortened(clean(why), WIDTH)}"


def done(form: Row) -> str:
    """The number of things that would have been sent, written and asked."""
    deeds = ", ".join(
        f"{word} {counted(number, 'time')}" for word, number in form["counts"].items() if number
    )
    return f"it would have {deeds}" if deeds else "it would have sent, written and asked nothing"


def newest(form: Row) -> str:
    """The number of deeds that are listed, and of all deeds; "" if all are listed."""
    listed, number = len(form["deeds"]), sum(form["counts"].values())
    return f"the newest {listed} of {number:,}" if number > listed else ""


def deed_text(deed: Row) -> str:
    """The action, to whom or with what, and how the call was answered."""
    how = f" ({deed['how']})" if deed["how"] else ""
    text = f": {shortened(clean(deed['text']), WIDTH)}" if deed["text"] else ""
    return f"{clean(deed['name'])}{text}{how}"


def _deed(deed: Row) -> str:
    at = datetime.fromisoformat(deed["at"])
    return f"{at:%Y-%m-%d %H:%M:%S}  {deed['verb']:<5}  {deed_text(deed)}"


def waiting(form: Row) -> str:
    """The number of runs that would still be waiting."""
    return f"{counted(form['under_way'], 'run')} would still wait:"


def waits(form: Row) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The runs that would still be waiting, grouped by their reasons."""
    runs: Counter[tuple[str, ...]] = Counter()
    for answer in form["waiting"]:
        runs[tuple(line for line in reasons.why(answer) if line.strip())[1:]] += 1
    for sentences, number in runs.items():
        yield counted(number, "run"), sentences


def others(form: Row) -> str:
    """A sentence on whether other definitions would have acted differently."""
    if form["others"]:
        return "other definitions would have done otherwise:"
    return "other definitions would have done the same"


def differences(form: Row) -> Iterator[str]:
    """The acts that other definitions would have done more or less often."""
    for change in form["others"]:
        what = f"calls of {clean(change['action'])}" if change["action"] else "runs"
        more = change["with"] - change["without"]
        how_many = f"{abs(more):,} {'more' if more > 0 else 'fewer'}"
        numbers = f"{change['with']:,} rather than {change['without']:,}"
        yield f"{clean(change['definition'])}: {how_many} {what}, {numbers}"


def stopped(form: Row) -> str:
    """The reason why it ended early."""
    return f"ended before its time: {clean(form['stopped'])}"


def _moment(text: str) -> str:
    return shown_there(datetime.fromisoformat(text))


def json_form(report: PastReport, zone: tzinfo | None, most: int | None = None) -> dict[str, Any]:
    """The report in the form of the command line's `--json`; `most` of the deeds, the newest (None: all)."""
    tally, reach = report.tally, report.reach
    iso = partial(moment_form, zone=zone)
    skipped = max(0, len(tally.deeds) - most) if most is not None else 0
    return {
        "definitions": list(report.names),
        "since": iso(report.start),
        "until": iso(report.reached),
        "stopped": report.stopped or None,
        "came": dict(reach.came.most_common()),
        "known": {
            "oldest": iso(reach.oldest) if reach.oldest is not None else None,
            "remembered": reach.remembered,
            "forgotten_before": reach.forgotten_before,
            "forgotten_since": reach.forgotten_since,
            "unknown": reach.unknown,
            "backups": list(report.backups),
            "left_out": [{"path": str(path), "why": why} for path, why in report.left_out],
        },
        "begun": tally.begun - report.listening,
        "ended": dict(tally.ended),
        "errors": dict(tally.errors),
        "counts": {PARTICIPLES[verb]: tally.verbs[verb] for verb in PARTICIPLES},
        "deeds": [{**deed._asdict(), "at": iso(deed.at)} for deed in islice(tally.deeds, skipped, None)],
        "under_way": report.under_way,
        "waiting": report.waiting,
        "others": [
            {"definition": name, "action": action or None, "without": without, "with": with_it}
            for name, action, without, with_it in report.changes
        ],
    }
