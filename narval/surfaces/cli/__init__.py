"""The command line: a command asks the home's daemon, or works on the home itself when none runs."""

from __future__ import annotations

import click

from narval import __version__
from narval.surfaces.cli import automaton, daemon, definitions, homes, memory, runs, simulate, tokens
from narval.surfaces.cli.command import Commands, common_options

COMMANDS = (
    homes.init,
    daemon.run,
    daemon.status,
    daemon.stop,
    daemon.reload,
    homes.check,
    simulate.simulate,
    automaton.automaton,
    memory.start,
    memory.add,
    memory.memory,
    runs.runs,
    runs.show,
    runs.history,
    runs.why,
    runs.cancel,
    runs.signal,
    runs.retry,
    tokens.complete,
    tokens.backtrack,
    tokens.tokens,
    tokens.environment,
    definitions.definitions,
    definitions.actions,
    daemon.log,
    homes.service,
)
"""In the order in which help shows them: that of a first day."""

_HELP = """narval remembers, notices and acts.

It keeps a memory of XML elements, follows recipes that say what to do about them, and can say why it did or
did not. `narval init` makes a home, `narval run` starts its daemon, and every other command works whether a
daemon runs or not.
"""

main = click.version_option(__version__, "--version", prog_name="narval", message="%(prog)s %(version)s")(
    Commands(
        name="narval",
        commands={str(each.name): each for each in COMMANDS},
        params=common_options(),
        help=_HELP,
    )
)
