"""`narval simulate --since`: what definitions would have done with what came since a moment."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import Any

import click

from narval.ask.text import clean, json_bytes
from narval.core.definitions.suggestions import closest
from narval.core.engines.registry import is_runnable, runnable
from narval.core.errors import NotFoundError, RequestError
from narval.surfaces.cli.documents import Progress as ProgressLine
from narval.surfaces.cli.render.past import json_form, told
from narval.surfaces.cli.render.simulation import moment_form
from narval.surfaces.cli.session import Session
from narval.system import stopwatch
from narval.trials.past.outcome import NEWEST, PastReport
from narval.trials.past.play import Progress, Tried, play_past, tried
from narval.trials.past.stores import past_stores
from narval.trials.simulate.scenario import When
from narval.trials.simulate.simulated_home import SimulatedHome, simulated_home

PACE = 1.0
"""Seconds between two lines of progress for a program."""

REST = 9
"""The pause between two partial reports, in multiples of the time that one takes."""


def simulate_past(
    session: Session,
    names: Sequence[str],
    since: When,
    backups: Sequence[Path],
    *,
    everything: bool,
    in_lines: bool,
) -> None:
    """Play definitions, by names or files, on what came since a moment, and tell the result; `in_lines`
    reports progress to a program.

    Raises RequestError, DefinitionError, StoreError.
    """
    home = session.home
    here = simulated_home(home, session.agent)
    for fault in here.loaded.faults:
        click.echo(f"did not load: {clean(fault)}", err=True)
    until = time.time()
    start = until - since.after if since.date is None else since.moment(until, here.zone)
    if start >= until:
        raise RequestError(f"--since: expected a moment in the past, found {since.date or 'now'}")
    if not names:
        raise RequestError("--since: expected a definition to try: its name, or its file")
    files = [name for name in names if runnable(here.loaded.library, name) is None]
    for file in files:
        _raise_if_unknown(here, file)
    trial = tried(here.loaded, files, [name for name in names if name not in files])
    with ProgressLine() as line:
        progress = InLines(here.zone) if in_lines else OnTerminal(line)
        most = None if everything else NEWEST
        report = played(session, here, trial, (start, until), progress, backups=backups, most=most)
    form = json_form(report, here.zone)
    if isinstance(progress, InLines):
        progress.end(form, report.tally.arrived)
        return
    if session.as_json:
        session.give(form, click.echo)
    else:
        for sentence in told(form):
            click.echo(sentence)


def played(
    session: Session,
    here: SimulatedHome,
    trial: Tried,
    between: tuple[float, float],
    progress: InLines | OnTerminal,
    *,
    backups: Sequence[Path] = (),
    most: int | None = NEWEST,
) -> PastReport:
    """Play the definitions on what came between two moments, until the end or Ctrl-C.

    Raises RequestError, StoreError, DefinitionError.
    """
    start, until = between
    with (
        _until_interrupted() as interrupted,
        past_stores(session.home, here.settings, session.agent, backups) as stores,
    ):
        progress.begin(trial.names, start, until)
        playing = play_past(
            here,
            trial,
            stores,
            start,
            until,
            most=most,
            stopped=interrupted.is_set,
            read=progress.read,
            told=progress.play,
        )
        with stopwatch.stopped():
            return asyncio.run(playing)


class OnTerminal:
    """Progress as a line on the terminal."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line

    def begin(self, names: Sequence[str], start: float, until: float) -> None:
        """Write nothing yet."""

    def read(self, rows: int) -> None:
        """Write how much of the past was read."""
        self._line.show(f"read {rows:,} rows of the past")

    async def play(self, progress: Progress) -> None:
        """Write how much of it was played."""
        self._line.show(f"{progress.played:,} of {progress.arrivals:,} arrivals played")


class InLines:
    """Progress for a program: a line of JSON for each step, with the report so far."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone, self._next = zone, 0.0

    def begin(self, names: Sequence[str], start: float, until: float) -> None:
        """Write what is played, and the time span."""
        moments = {"since": moment_form(start, self._zone), "until": moment_form(until, self._zone)}
        _give({"definitions": list(names), **moments})

    def read(self, rows: int) -> None:
        """Write how much of the past was read."""
        if time.monotonic() >= self._next:
            _give({"read": rows})
            self._next = time.monotonic() + PACE

    async def play(self, progress: Progress) -> None:
        """Write how much of it was played, and the report so far, with the newest deeds."""
        began = time.monotonic()
        if began < self._next:
            return
        form = json_form(await progress.report(), self._zone, NEWEST)
        _give(_so_far(form, progress.played))
        ended = time.monotonic()
        self._next = ended + max(PACE, REST * (ended - began))

    def end(self, form: dict[str, Any], played: int) -> None:
        """Write the whole report."""
        _give({**_so_far(form, played), "last": True})


def _so_far(form: dict[str, Any], played: int) -> dict[str, Any]:
    """The moment that a play has reached, the arrivals that were played, and the report so far."""
    arrivals = sum(form["came"].values())
    return {"reached": form["until"], "played": played, "arrivals": arrivals, "report": form}


def _give(form: dict[str, Any]) -> None:
    """Write a line of JSON."""
    click.echo(json_bytes(form, indent=None))


def _raise_if_unknown(here: SimulatedHome, file: str) -> None:
    if not Path(file).is_file():
        names = [definition.full_name for definition in here.loaded.library if is_runnable(definition.kind)]
        meant = closest(file, names) or "; narval definitions lists what is loaded"
        raise NotFoundError(f"there is no definition and no file {file!r}{meant}")


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; the next Ctrl-C ends the program, as usual."""
    interrupted, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
