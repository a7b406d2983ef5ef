"""`narval migrate --simulate`: the future of runs as they are, and migrated.

For people the outcome is told in sentences: the events that only one of the two ways has.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import click
import msgspec

from narval.ask.text import Row, clean, counted, zone
from narval.surfaces.cli.render import reasons
from narval.surfaces.cli.render.simulation import SENTENCES, moment_form
from narval.surfaces.cli.session import Session
from narval.system import stopwatch
from narval.trials.simulate.files import read_file
from narval.trials.simulate.forked import Fate, Way, play_migration
from narval.trials.simulate.scenario import Scenario, When
from narval.trials.simulate.simulated_home import simulated_home
from narval.trials.simulate.trace import Line

LONG = 30 * 86_400.0
"""The default time to simulate, in seconds."""


def simulated(
    session: Session, runs: Sequence[int], how: Mapping[str, Any], until: When | None, scenario: Path | None
) -> Row:
    """The future of runs as they are, and migrated as the arguments `how` say, in plain data.

    Raises RequestError, DefinitionError, StoreError.
    """
    here = simulated_home(session.home, session.agent)
    for fault in here.loaded.faults:
        click.echo(f"did not load: {clean(fault)}", err=True)
    played = read_file(here, scenario) if scenario is not None else Scenario("")
    played = msgspec.structs.replace(
        played, memory="now", at=None, until=until or played.until or When(LONG), expectations=()
    )
    with stopwatch.stopped():
        trial = asyncio.run(play_migration(here, played, session.agent, runs, how))
    zone = here.zone
    return {
        "from": moment_form(trial.as_it_is.start, zone),
        "until": moment_form(min(trial.as_it_is.end, trial.migrated.end), zone),
        "stopped": trial.as_it_is.stopped or trial.migrated.stopped or None,
        "runs": [_fate(fate, zone) for fate in trial.fates],
    }


def _fate(fate: Fate, zone: tzinfo | None) -> Row:
    stays, moves = (_way_row(way, zone) for way in (fate.as_it_is, fate.migrated))
    is_same = stays == moves and not stays["happens"]
    ways = {"as_it_is": stays, "migrated": moves, "same": fate.same, "is_same": is_same}
    return {"run": fate.run, "name": fate.name, **ways}


def _way_row(way: Way, zone: tzinfo | None) -> Row:
    why = way.waits and {**way.waits, "newer": None}
    waits = [line for line in reasons.why(why) if line.strip()][1:] if why else []
    alone = [{**line, "at": moment_form(line["at"], zone), "text": _sentence(line)} for line in way.alone]
    return {"phase": way.phase, "happens": alone, "waits": waits}


def _sentence(line: Line) -> str:
    if line.get("asks"):
        step = f" (step {line['caller']['step']})" if line["caller"] else ""
        return f"asks {line['name']}{step}"
    return SENTENCES[line["what"]](line)[0]


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
    for (way, words), (other, _) in zip(WAYS, reversed(WAYS), strict=True):
        yield f"    {words} ({_phase(row[way])}):"
        yield from (f"      {clean(line)}" for line in _way_lines(row[way], row[other]))
    if row["same"]:
        yield f"    {counted(row['same'], 'event')} either way"


def _phase(way: Row) -> str:
    return "still under way" if way["phase"] == "active" else str(way["phase"])


def _way_lines(way: Row, other: Row) -> Iterator[str]:
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
