"""Commands on the files of a home: check, service.

A service is a unit of the user's systemd as narval ships it, with the paths filled in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import clean, counted
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, command
from narval.surfaces.cli.session import Session, in_home
from narval.system.startup_gc import resting

if TYPE_CHECKING:
    from narval.core.errors import Fault
    from narval.files.home import Home
    from narval.files.reach import ReachSources


def _parted(home: Home, paths: tuple[Path, ...]) -> tuple[list[Path], list[Path]]:
    """The scenarios among files and folders, and the rest; by default, the scenarios of the home."""
    from narval.trials.simulate.files import is_scenario_file, scenario_files

    if not paths:
        return scenario_files(home), []
    folders = [path.resolve() for path in paths if path.is_dir()]
    all_scenarios = scenario_files(home) if folders else []
    scenarios = [
        path for path in all_scenarios if any(path.resolve().is_relative_to(folder) for folder in folders)
    ]
    named = [path for path in paths if path.is_file() and is_scenario_file(path)]
    return scenarios + named, [path for path in paths if path not in named]


def _limit(name: str, metavar: str, type: Any, default: float, work: str) -> Callable[..., Any]:
    """A limit of --explore, as an option."""
    help = f"With --explore: {work} at most."
    return click.option(name, metavar=metavar, type=type, default=default, show_default=True, help=help)


_CHECK = """\
narval check
narval check recipes/mail.xml
narval check --explore
narval check --trust mail.triage
narval check --from mail"""


@command("check", example=_CHECK)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--explore", is_flag=True, help="Walk through all that runs of each definition may come to.")
@_limit("--states", "N", click.IntRange(min=1), 20_000, "look at so many states of a definition")
@_limit("--seconds", "S", click.FloatRange(min=0.0, min_open=True), 10.0, "spend so long on a definition")
@click.option("--tell", "tells", is_flag=True, help="Then tell in sentences what the definitions do.")
@click.option(
    "--against",
    metavar="OLD",
    type=click.Path(exists=True, path_type=Path),
    help="With --tell: only the sentences added (+) to the file or folder OLD, and taken away (-).",
)
@click.option(
    "--trust", is_flag=True, help="Tell which labels can come to what goes outside, in place of warnings."
)
@click.option(
    "--from",
    "label",
    metavar="LABEL",
    shell_complete=completion.labels,
    help="With --trust, which it means: only what this label can make definitions do, as in mail.",
)
@click.pass_context
def check(
    context: click.Context,
    /,
    session: Session,
    paths: tuple[Path, ...],
    explore: bool,
    tells: bool,
    against: Path | None,
    trust: bool,
    label: str | None,
    **limits: Any,
) -> None:
    """List all faults in the files of a home; nothing is run.

    That is its definitions, modules, schemas, memory, settings and scenarios. Each is written as
    file:line:column: message. PATHs are files or folders; without any, all of the home is checked. Without
    a home, PATHs are checked as far as possible. A PATH that does not exist here is looked up in the home, so
    printed paths can be used.

    With --explore it also reports what no run of a definition can ever do, and what may happen in one, each
    with the shortest story that leads there. The exit status is 1 if there is a fault, or a proved error of
    exploration; warnings and notes do not count.

    With --tell it then says what the definitions do, as `narval tell` does; with --against OLD, which
    sentences are new and which are gone.

    With --trust it reports, instead of warnings, for each call that can go outside, which labels can reach
    which part of it, and how the rules of etc/trust.toml judge that: allowed, asks, refused, or what it
    depends on. A PATH may then be the name of a definition, and the way of each label is shown. With --from
    LABEL it reports what that label alone can make the home do: `--from mail`, what a stranger's mail can.
    """
    context.with_resource(resting())
    paths = tuple(in_home(session, path) for path in paths)
    trust, names = trust or label is not None, [path for path in paths if not path.exists()]
    _refuse(() if trust else names, explore=explore, tells=tells, trust=trust, against=against)
    files = tuple(path for path in paths if path not in names)
    faults, sources = _faults(session, files, explore=explore, whole=not paths)
    from narval.ask import json_forms

    form = [{**json_forms.fault(fault), "warning": fault.warning} for fault in faults]
    if explore:
        from narval.surfaces.cli.check_reports import explore as explore_all

        well = explore_all(session, faults, form, _count(faults), files, **limits)
        context.exit(0 if well else NOT_WELL)
    more: dict[str, Any] = {}
    lines: Iterable[str] = ()
    if trust:
        named = [str(path) if path in names else path for path in paths]
        more, lines = _reached(session, named, label, sources)
    elif tells:
        more, lines = _told(session, files, against)
    listed = [fault for fault in faults if not (trust and fault.warning)]
    printed = "".join(f"{line}\n" for line in (*map(clean, listed), *lines))
    session.give({"faults": form, **more} if more else form, lambda _: click.echo(printed, nl=False))
    if not session.as_json:
        click.echo(_count(faults) + (_ELSEWHERE if len(listed) < len(faults) else ""), err=True)
    context.exit(NOT_WELL if any(not fault.warning for fault in faults) else 0)


def _refuse(
    missing: Iterable[Path], *, explore: bool, tells: bool, trust: bool, against: Path | None
) -> None:
    """Raise UsageError for a missing path, and for options that exclude each other."""
    for path in missing:
        listed = "`narval definitions` lists each definition with its file"
        why = f"there is no file or folder {clean(path)}; {listed}"
        raise click.BadParameter(why, param_hint="'[PATH]...'")
    if trust and (explore or tells):
        raise click.UsageError("--trust, --tell and --explore: one of them")
    if against is not None and not tells:
        raise click.UsageError("--against goes with --tell")
    if tells and explore:
        raise click.UsageError("--tell and --explore: one of them")


def _faults(
    session: Session, paths: tuple[Path, ...], *, explore: bool, whole: bool
) -> tuple[list[Fault], ReachSources | None]:
    """The faults of files and folders, or of the `whole` home, and what was read of it; without a home, those
    that can be found.
    """
    from narval.files.check import check_alone, check_and_read
    from narval.trials.simulate.files import faults_of_scenarios, is_scenario_file

    files = [path for path in paths if not (path.is_file() and is_scenario_file(path))]
    if files and not explore and session.is_homeless:
        click.echo(_ALONE, err=True)
        return check_alone(files), None
    scenarios, others = _parted(session.home, paths)
    faults, sources = check_and_read(session.home, others) if others or whole else ([], None)
    return sorted({*faults, *faults_of_scenarios(session.home, scenarios)}), sources


def _reached(
    session: Session, named: list[Path | str], label: str | None, sources: ReachSources | None
) -> tuple[dict[str, Any], Iterable[str]]:
    """The labels that reach calls outside, in files or definitions: the answer, and its lines."""
    from narval.surfaces.cli.check_reports import reached_in

    reached = reached_in(session, named, label, sources)
    return {"reach": reached.rows}, reached.lines()


def _told(
    session: Session, paths: tuple[Path, ...], old: Path | None
) -> tuple[dict[str, Any], Iterable[str]]:
    """The sentences about the definitions of files, or of the home: the answer, and its lines."""
    from narval.ask.definitions.definition import changes
    from narval.surfaces.cli.definitions import changed_lines, told_lines, told_of

    home = () if paths else (session.home.recipes, session.home.modules)
    rows, _ = told_of([path for path in paths or home if path.exists()], session)
    if old is None:
        return {"told": rows}, told_lines(rows)
    before, _ = told_of([old], session)
    changed = list(changes(before, rows))
    return {"changes": changed}, changed_lines(changed)


_ALONE = "there is no home: names that neither these files nor narval have are warnings"

_ELSEWHERE = "; `narval check` lists warnings"


def _count(faults: list[Fault]) -> str:
    """The numbers of faults, of files with faults, and of warnings."""
    wrong = [fault for fault in faults if not fault.warning]
    files = len({fault.path for fault in wrong})
    result = f"{counted(len(wrong), 'fault')} in {counted(files, 'file')}" if wrong else "no faults"
    warnings = len(faults) - len(wrong)
    return f"{result}, {counted(warnings, 'warning')}" if warnings else result


_UNITS = """\
narval service > ~/.config/systemd/user/narval.service
narval service --standby > ~/.config/systemd/user/narval.service
narval service --web > ~/.config/systemd/user/narval-web.service"""


@command("service", example=_UNITS)
@click.option("--web", is_flag=True, help="The unit of `narval web`, beside that of the daemon.")
@click.option("--standby", is_flag=True, help="The unit of `narval run --standby`, for a second machine.")
def service(session: Session, web: bool, standby: bool) -> None:
    """Write a systemd unit for the daemon of this home.

    Then `systemctl --user daemon-reload` and `systemctl --user enable --now narval` start it, now and at each
    login; with `loginctl enable-linger` it runs without one.
    """
    if web and standby:
        raise click.UsageError("--web and --standby are units of their own: one of them")
    command, options = ("web", ()) if web else ("run", ("--standby",) if standby else ())
    session.give(
        {"unit": unit(session.home, command, options=options)},
        lambda reply: click.echo(reply["unit"], nl=False),
    )


SERVICE_UNITS = {"run": "narval.service", "web": "narval-web.service"}
"""The unit for each command that can be a service."""


def unit(home: Home, command: str = "run", *, options: Sequence[str] = ()) -> str:
    """The text of the unit of a command for a home, with options of that command."""
    from narval.files.shipped import shipped

    text = (shipped() / "etc" / SERVICE_UNITS[command]).read_text(encoding="utf-8")
    words = (sys.executable, "-m", "narval", "--home", str(home.path), command, *options)
    started = "ExecStart=" + " ".join(map(_quoted, words))
    return "\n".join(started if line.startswith("ExecStart=") else line for line in text.splitlines()) + "\n"


def _quoted(word: str) -> str:
    """A word of a command, quoted for systemd: `%` and `$` are literal."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t'\"\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
