"""The command `automaton`: run one file in the foreground, without a home (A16)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import clean, clean_lines
from narval.core.errors import DefinitionError, Fault
from narval.surfaces.cli.command import INTERRUPTED, NOT_WELL, command
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.calls.context import CallContext
    from narval.calls.programs.output import Hear
    from narval.daemon.daemon import Daemon

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command(
    "automaton",
    example="narval automaton build.xml\nnarval automaton --json nightly.xml > states.json",
    local=True,
)
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def automaton(context: click.Context, session: Session, file: Path) -> None:
    """Run the automaton in FILE in the foreground, without a home.

    It runs once, even if it has a `restart`. The output of its programs is printed line by line; relative
    paths are resolved against the folder of FILE. The exit status is 0 on success and 1 on failure. Ctrl-C
    ends all its programs. A file may begin with `#!/usr/bin/env -S narval automaton`.
    """
    import asyncio

    outcome, interrupted = asyncio.run(_run(file, sys.stderr.fileno() if session.as_json else None))
    if session.as_json:
        session.give(outcome, lambda _: None)
    if interrupted:
        context.exit(INTERRUPTED)
    if outcome["phase"] != "done":
        error = outcome["error"] or {"type": outcome["phase"], "message": f"it is {outcome['state']}"}
        click.echo(f"narval: {clean(file)}: {clean_lines(error['message'])}", err=True)
        context.exit(NOT_WELL)


async def _run(file: Path, output: int | None) -> tuple[dict[str, Any], bool]:
    """Run a file to its end; return the run, and whether it was interrupted. Raises DefinitionError."""
    import asyncio

    from narval.ask.runs import acts
    from narval.ask.runs.listing import show
    from narval.daemon.daemon import Daemon

    daemon = await Daemon.open(None)
    try:
        name = await _load(daemon, file)
        daemon.calls.executor.programs.redirect(file.absolute().parent, _printing(output))
        run = (await acts.start(daemon, name))["eid"]
        loop, received, cancelling = asyncio.get_running_loop(), list[int](), list[asyncio.Task[Any]]()

        def end(number: int) -> None:
            received.append(number)
            if len(received) == 1:
                cancelling.append(loop.create_task(acts.cancel(daemon, run, "interrupted")))

        for number in _ENDING:
            loop.add_signal_handler(number, end, number)
        await acts.wait(daemon, run)
        return await show(daemon, run), bool(received)
    finally:
        await daemon.close()


async def _load(daemon: Daemon, file: Path) -> str:
    """Load the automaton of a file with any name; return its name. Its runs do not restart."""
    from msgspec.structs import replace

    from narval.core.source.text import Source
    from narval.core.source.xml import read_xml
    from narval.kinds.automaton.language.definition import Automaton
    from narval.kinds.automaton.language.parser import parse

    try:
        source = Source(str(file), file.read_bytes())
    except OSError as error:
        raise DefinitionError([Fault(str(file), 1, 1, f"cannot be read: {error.strerror}")]) from None
    parsed = parse(source, read_xml(source))
    once = (
        replace(definition, restart=False)
        for definition in parsed.definitions
        if isinstance(definition, Automaton)
    )
    (definition,) = await daemon.reloader.load_parsed(source, parsed._replace(definitions=tuple(once)))
    return definition.full_name


def _printing(output: int | None) -> Any:
    """Print the output of programs, line by line, on the same stream, or on the given one."""

    def listen(call: CallContext) -> Hear:
        unended = [b"", b""]

        def hear(data: bytes, is_error: bool) -> None:
            if not data:
                for is_error in (False, True):
                    _write(unended[is_error], is_error, output)
                return
            whole, newline, rest = (unended[is_error] + data).rpartition(b"\n")
            unended[is_error] = rest
            _write(whole + newline, is_error, output)

        return hear

    return listen


def _write(data: bytes, is_error: bool, output: int | None) -> None:
    handle = output if output is not None else (sys.stderr if is_error else sys.stdout).fileno()
    while data:
        data = data[os.write(handle, data) :]
