"""The outcome of a simulated migration, in sentences: the events that only one of the two ways has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from narval.ask.text import Row, clean, counted, zone

MOST_LISTED = 20
"""The most runs that are listed one by one, and the most events of each."""

WAYS = (("as_it_is", "as it is"), ("migrated", "migrated"))
"""The two ways, and the words for them."""


def fates_told(simulated: Row) -> Iterator[str]:
    """The lines on the future of runs, as they are and migrated."""
    until = f"{_shown(simulated['until'])} {zone()}"
    yield f"Until {until}, if nothing comes from outside but what a scenario says:"
    if simulated["stopped"]:
        yield f"  it was ended before its time: {clean(simulated['stopped'])}"
    rows = simulated["runs"]
    for row in rows[:MOST_LISTED]:
        yield from _of_run(row)
    if len(rows) > MOST_LISTED:
        for way, words in WAYS:
            phases = Counter(row[way]["phase"] for row in rows)
            in_phase = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()))
            yield f"  all {len(rows)} runs, {words}: {in_phase}"


def _of_run(row: Row) -> Iterator[str]:
    named = f"run {row['run']} of {clean(row['name'])}"
    if row["is_same"]:
        what = f"{counted(row['same'], 'event')} either way" if row["same"] else "nothing either way"
        yield f"  {named}: the same happens, {what}"
        return
    yield f"  {named}:"
    for way, words in WAYS:
        yield f"    {words} ({_phase(row[way])}):"
        yield from (f"      {clean(line)}" for line in _way(row[way], other=row[_other(way)]))
    if row["same"]:
        yield f"    {counted(row['same'], 'event')} either way"


def _other(way: str) -> str:
    return WAYS[1][0] if way == WAYS[0][0] else WAYS[0][0]


def _phase(way: Row) -> str:
    return "still under way" if way["phase"] == "active" else str(way["phase"])


def _way(way: Row, other: Row) -> Iterator[str]:
    happens: Sequence[Row] = way["happens"]
    for line in happens[:MOST_LISTED]:
        yield f"{_shown(line['at'])}  {line['text']}"
    if len(happens) > MOST_LISTED:
        yield f"and {counted(len(happens) - MOST_LISTED, 'more event')}"
    if way["waits"] != other["waits"]:
        yield from way["waits"]
    elif not happens:
        yield "nothing else than in the other"


def _shown(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M:%S}"
