"""`narval migrate --simulate`: the future of runs as they are, and migrated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import click
import msgspec

from narval.ask.text import Row, clean
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
    stays, moves = (_way(way, zone) for way in (fate.as_it_is, fate.migrated))
    is_same = stays == moves and not stays["happens"]
    ways = {"as_it_is": stays, "migrated": moves, "same": fate.same, "is_same": is_same}
    return {"run": fate.run, "name": fate.name, **ways}


def _way(way: Way, zone: tzinfo | None) -> Row:
    why = way.waits and {**way.waits, "newer": None}
    waits = [line for line in reasons.why(why) if line.strip()][1:] if why else []
    alone = [{**line, "at": moment_form(line["at"], zone), "text": _sentence(line)} for line in way.alone]
    return {"phase": way.phase, "happens": alone, "waits": waits}


def _sentence(line: Line) -> str:
    if line.get("asks"):
        step = f" (step {line['caller']['step']})" if line["caller"] else ""
        return f"asks {line['name']}{step}"
    return SENTENCES[line["what"]](line)[0]
