"""The command simulate: the story of what would happen, on a copy of memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from narval.ask.text import clean
from narval.core.errors import NoHomeError, RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, command
from narval.surfaces.cli.documents import Progress
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.files.home import Home
    from narval.surfaces.cli.render.simulation import StyledLine
    from narval.trials.simulate.mails import Mails
    from narval.trials.simulate.scenario import Scenario, When
    from narval.trials.simulate.simulated_home import SimulatedHome
    from narval.trials.simulate.trace import Line


def read_moment(context: click.Context, option: click.Parameter, text: str | None) -> When | None:
    """The moment or duration of an option, in the syntax of scenario files. Raises BadParameter."""
    from narval.trials.simulate.parser import read_date, read_when

    if text is None:
        return None
    try:
        return read_date(text) if option.name == "at" else read_when(text)
    except ValueError as error:
        past = "a duration such as 90d, or a date such as 2026-09-01"
        expected = past if option.name == "since" else error.args[0]
        raise click.BadParameter(f"expected {expected}, got {text!r}") from None


@command(
    "simulate",
    example="narval simulate mail.digest --until 30d\n"
    "narval simulate scenarios/triage.xml\n"
    "narval simulate --json        # all the scenarios of the home\n"
    "narval simulate mail.triage --mails ~/Maildir\n"
    "narval simulate new-rule.xml --since 90d",
)
@click.argument(
    "names", metavar="[NAME|SCENARIO]...", nargs=-1, shell_complete=completion.definitions_and_scenarios
)
@click.option("--at", callback=read_moment, metavar="DATE", help="When it starts, rather than now.")
@click.option(
    "--until", callback=read_moment, metavar="WHEN", help="How long time goes on: 2h, 30d, or a date."
)
@click.option(
    "--memory",
    type=click.Choice(["now", "new", "empty"]),
    help="Begin with the memory as it is, as on a first day, or with none.",
)
@click.option(
    "--mails",
    type=click.Path(exists=True, path_type=Path),
    help="Let the mails of a Maildir, an mbox or a folder of .eml files come; no home is needed.",
)
@click.option(
    "--since",
    callback=read_moment,
    metavar="WHEN",
    help="Play what came from outside since then, 90d ago or a date, from the store and its backups.",
)
@click.option(
    "--backup",
    "backups",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --since: a backup that has what is forgotten; none named, those in backups/ of the home.",
)
@click.option(
    "--all", "everything", is_flag=True, help="With --since: a line for each deed, not the newest fifty."
)
@click.option(
    "--progress",
    "in_lines",
    is_flag=True,
    help="With --since: lines of JSON on how far it is, for a program; the last has the report.",
)
@click.option("--brief", is_flag=True, help="Only what it came to, not what happened on the way.")
@click.pass_context
def simulate(
    context: click.Context,
    session: Session,
    names: tuple[str, ...],
    at: When | None,
    until: When | None,
    memory: str | None,
    mails: Path | None,
    since: When | None,
    backups: tuple[Path, ...],
    everything: bool,
    in_lines: bool,
    brief: bool,
) -> None:
    """Show what would happen, without doing it.

    NAME is a definition, which is started; SCENARIO is a file, or the name of one in scenarios/, and defines
    what starts and what arrives. Each is a trial of its own. Without any, all the home's scenarios are
    played. Definitions run on a copy of memory, with a simulated clock; nothing outside is called, and
    nothing in the home is altered. The exit status is 1 if a run failed, a call had no answer, or an
    expectation is not met.

    With --since, NAME is a definition, or FILE has one that the home does not have yet: what came from
    outside in that time is played twice, with and without it. Ctrl-C ends it with the result so far.
    """
    from narval.trials.simulate.mails import TRIAGE, mails_of, with_mails
    from narval.trials.simulate.simulated_home import simulated_home

    if since is not None:
        if at or until or memory or mails or brief:
            raise click.UsageError(
                "--since goes with --backup, --all and --progress alone: "
                "it begins with the memory of that day"
            )
        from narval.surfaces.cli.trials.past import simulate_past

        simulate_past(session, names, since, backups, everything=everything, in_lines=in_lines)
        return
    if backups or everything or in_lines:
        raise click.UsageError("--backup, --all and --progress go with --since: name the day to begin with")
    home = session.home if mails is None else _home_or_new(context, session)
    here = simulated_home(home, session.agent)
    for fault in here.loaded.faults:
        click.echo(f"did not load: {clean(fault)}", err=True)
    asked = {"at": at, "until": until, "memory": memory}
    arguments = {name: value for name, value in asked.items() if value is not None}
    scenarios = [
        msgspec.structs.replace(scenario, **arguments)
        for scenario in _scenarios(home, here, names or ((TRIAGE,) if mails is not None else ()))
    ]
    come = None
    if mails is not None:
        with Progress() as progress:
            come = mails_of(here, mails, lambda read: progress.show(f"read {read:,} mails"))
        scenarios = [with_mails(scenario, come) for scenario in scenarios]
    played = [
        _play(here, scenario, come, shown=not session.as_json, brief=brief, apart=number > 0)
        for number, scenario in enumerate(scenarios)
    ]
    if session.as_json:
        reports = [report for report, _ in played]
        session.give(reports[0] if len(scenarios) == 1 and (names or mails) else reports, click.echo)
    context.exit(0 if all(well for _, well in played) else NOT_WELL)


def _home_or_new(context: click.Context, session: Session) -> Home:
    """The home, or a temporary one if none exists and none is named.

    Raises NoHomeError.
    """
    import tempfile

    from narval.files.new_home import create_home

    try:
        return session.home
    except NoHomeError:
        if session.directory or "NARVAL_HOME" in os.environ:
            raise
    click.echo("there is no home yet: what follows is of one as `narval init --demo` makes it", err=True)
    return create_home(context.with_resource(tempfile.TemporaryDirectory(prefix="narval-home-")))


def _scenarios(home: Home, here: SimulatedHome, names: tuple[str, ...]) -> list[Scenario]:
    """The scenarios to play. Raises RequestError for a name that is neither a definition nor a scenario."""
    from narval.core.engines.registry import runnable
    from narval.trials.simulate import files as finding
    from narval.trials.simulate.scenario import scenario_of

    if not names:
        files = finding.scenario_files(home)
        if not files:
            raise RequestError(f"there are no scenarios in {home.path / 'scenarios'}; name a definition")
        return [finding.read_file(here, path) for path in files]
    scenarios, paths = [], [finding.scenario_named(home, name) for name in names]
    if None in paths and any(paths):
        click.echo("each is a trial of its own: a scenario says itself which definitions start", err=True)
    for name, path in zip(names, paths, strict=True):
        if path is None and runnable(here.loaded.library, name) is None:
            raise RequestError(_unknown(home, here, name))
        scenarios.append(scenario_of(name) if path is None else finding.read_file(here, path))
    return scenarios


def _unknown(home: Home, here: SimulatedHome, name: str) -> str:
    from narval.core.definitions.suggestions import closest
    from narval.core.engines.registry import is_runnable
    from narval.files.alterations import takable
    from narval.files.reading import load
    from narval.files.shipped import shipped
    from narval.trials.simulate import files as finding

    ships = {each.full_name: each.path for each in load(shipped()).library if is_runnable(each.kind)}
    if name in ships and (home.path / ships[name]).exists():
        return f"{name} is in {ships[name]}, which did not load; see why: narval check"
    if name in (*ships, *takable()):
        return f"{name} ships, and is not in the home: narval take {ships.get(name, name)} copies it"
    names = [definition.full_name for definition in here.loaded.library if is_runnable(definition.kind)]
    names += [finding.name_in(home, path) for path in finding.scenario_files(home)]
    meant = closest(name, names) or "; narval definitions lists what is loaded"
    return f"there is no definition and no scenario {name!r}{meant}"


def _play(
    here: SimulatedHome, scenario: Scenario, mails: Mails | None, *, shown: bool, brief: bool, apart: bool
) -> tuple[dict[str, Any], bool]:
    """Play a scenario, and write its story as it unfolds, or, with mails, their outcome; return the report as
    JSON, and whether all went well.
    """
    import asyncio

    from narval.surfaces.cli.render.simulation import StoryWriter, ending, heading, json_form, mails_told
    from narval.trials.simulate.mails import outcome_of
    from narval.trials.simulate.simulation import play_scenario, start_of

    start = start_of(here, scenario)
    story, progress, come = StoryWriter(here.zone), Progress(), 0
    if shown:
        _write([("", None)] if apart else [])
        click.echo(heading(scenario, start, here.zone))

    def tell(lines: list[Line]) -> None:
        nonlocal come
        if mails is not None:
            come += sum(line["what"] == "arrived" for line in lines)
            progress.show(f"{come:,} of {len(mails.elements):,} mails have come")
        elif shown and not brief:
            _write(story.write(lines))

    with progress:
        report = asyncio.run(play_scenario(here, scenario, start, tell))
    outcome = {} if mails is None else {"mails": outcome_of(report, mails)}
    if shown:
        _write(mails_told(outcome["mails"]) if outcome else [])
        _write(ending(report))
    return json_form(report) | outcome if not shown else {}, report.well


def _write(lines: Iterable[StyledLine]) -> None:
    """Write lines of a story, in colour on a terminal."""
    plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
    for text, colour in lines:
        if plain or colour is None:
            click.echo(text)
        else:
            click.secho(text, bold=True) if colour == "bold" else click.secho(text, fg=colour)
