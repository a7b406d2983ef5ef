"""The commands backup and restore: the store of a home into a file, and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from narval.ask.text import counted, fault_line
from narval.core.errors import DaemonGoneError, RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Renamed, command
from narval.surfaces.cli.session import Session, reach

STEP = 250_000
"""The rows of a copy between two lines of progress."""

_FILE = click.Path(path_type=Path, dir_okay=False)

_BACKUP = """\
narval backup nightly.db
narval backup ada.db --agent ada"""


@command("backup", example=_BACKUP)
@click.argument("file", type=_FILE)
@click.option(
    "agents",
    "--agent",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.agents,
    help="Only this agent; may be repeated.",
)
def backup(session: Session, file: Path, agents: tuple[str, ...]) -> None:
    """Write a backup of the home's store to FILE.

    It is a snapshot of one moment; the daemon continues to work.

    FILE is a store in SQLite, whatever the database. It appears, or replaces an earlier backup, only when it
    is complete; no other file is replaced. Your own files (recipes, modules, etc) are not in it.
    """
    from narval.files.home import refuse_lost_store
    from narval.files.settings import Settings
    from narval.store.backups.backup import back_up

    home, began, replaces = session.home, time.monotonic(), file.exists()
    settings = Settings.load(home.path)
    names = agents or ((session.agent,) if session.agent else ())
    where = settings.store or home.store
    by_daemon = None if settings.store else _kept_by_daemon(session)
    if by_daemon is None and not settings.store:
        refuse_lost_store(home)
    try:
        copied = back_up(by_daemon or where, file.absolute(), home.is_held, settings.name, names, _progress())
    finally:
        if by_daemon is not None:
            by_daemon.unlink(missing_ok=True)
    summary = {
        "file": str(file.absolute()),
        "agents": list(copied.agents),
        "rows": copied.rows,
        "bytes": file.stat().st_size,
        "seconds": round(time.monotonic() - began, 3),
    }
    size = f"{counted(len(copied.agents), 'agent')}, {counted(copied.rows, 'row')}"
    instead = ", in place of the earlier backup" if replaces else ""
    session.give(summary, lambda _: click.echo(f"{file} has {size}{instead}"))


def _kept_by_daemon(session: Session) -> Path | None:
    """A file with the whole content of the daemon's store, if the store's own file is gone or was replaced;
    None if that file is intact, no daemon runs, or one of 0.1.0 does, which keeps no such copy.
    """
    try:
        daemon = reach(session.home, lambda: None)
        if daemon is None:
            return None
        with daemon:
            path = daemon.ask("keep_store")["path"]
    except DaemonGoneError as error:
        if not session.home.store.exists():
            raise
        click.echo(f"warning: {error}; this is a backup of the file at {session.home.store}", err=True)
        return None
    except RequestError as error:
        if not str(error).startswith("there is no operation") or not session.home.store.exists():
            raise
        return None
    return Path(path) if path is not None else None


_RESTORE = """\
narval restore nightly.db
narval restore nightly.db --force
narval restore nightly.db --agent ada --name ada2"""


@command("restore", example=_RESTORE)
@click.argument("file", type=_FILE)
@click.option(
    "new_name",
    "--name",
    "--as",
    cls=Renamed,
    metavar="NEW",
    default="",
    help="With --agent: its name from now on.",
)
@click.option("--force", is_flag=True, help="Move the store that is there aside.")
def restore(session: Session, file: Path, new_name: str, force: bool) -> None:
    """Restore the backup that `narval backup` wrote to FILE.

    It is the whole home, or with --agent one agent.

    No daemon of the home may run during this. A whole home needs one without a store; --force moves an
    existing store aside. One agent is added to the others, with a number and an id of its own, and is
    suspended: look at it, then `narval agents resume`. Messages between the old agent and others are not sent
    again. If this is killed at any moment, the home is unchanged or fully restored.
    """
    from narval.ask import json_forms
    from narval.core.agent_name import agent_name
    from narval.files.agents.folders import settings_without_effect
    from narval.files.agents.settings import SETTINGS
    from narval.files.settings import Settings
    from narval.store.backups.restore import opened, restore_agent, restore_all

    home, began, aside = session.home, time.monotonic(), None
    name = new_name or session.agent
    if new_name and not session.agent:
        raise click.UsageError("--name NEW goes with --agent NAME")
    if force and name:
        raise click.UsageError("--force goes with all of the home: one agent is added, and nothing replaced")
    try:
        agent_name(name or "narval")
    except ValueError as error:
        raise RequestError(f"expected {error}, got {name!r:.80}") from None
    settings = Settings.load(home.path)
    where = settings.store or home.store
    with home.lock(), opened(file.absolute()) as source:
        if name:
            copied = restore_agent(where, source, session.agent, name, _progress())
        else:
            copied, aside = restore_all(where, source, settings.name, _progress(), force=force)
        stored = source.facts(SETTINGS) if settings.store is None else {}
    if name:
        stored = {name: stored[session.agent]} if session.agent in stored else {}
    faults = settings_without_effect(home.path, stored)
    summary = {
        "agents": list(copied.agents),
        "rows": copied.rows,
        "aside": None if aside is None else str(aside),
        "faults": [json_forms.fault(fault) for fault in faults],
        "seconds": round(time.monotonic() - began, 3),
    }
    size = f"{counted(len(copied.agents), 'agent')}, {counted(copied.rows, 'row')}"
    what = f"{name} is back, suspended" if name else "the home is back"
    suffix = "" if aside is None else f"\nthe store that was there is {aside}"
    session.give(summary, lambda _: click.echo(f"{what}: {size}{suffix}"))
    for fault in faults:
        click.echo(fault_line(json_forms.fault(fault)), err=True)


def _progress() -> Callable[[int], None]:
    """Write progress on standard error after every `STEP` rows."""
    last = 0

    def told(rows: int) -> None:
        nonlocal last
        if rows // STEP > last:
            last = rows // STEP
            click.echo(f"{rows:,} rows …", err=True)

    return told
