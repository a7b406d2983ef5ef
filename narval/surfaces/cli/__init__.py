"""The command line: a command asks the home's daemon, or works on the home itself when none runs."""

from __future__ import annotations

import importlib
from collections.abc import MutableMapping
from typing import cast

import click

from narval import __version__
from narval.ask.lazy_table import LazyTable
from narval.core.kinds import KINDS
from narval.surfaces.cli.command import Command, CommandGroup, Commands, common_options

_ORDER = [
    "init", "run", "status", "stop", "reload", "web", "agents", "check", "collection", "simulate",
    "automaton", "dataflow", "start", "add", "outdate", "withdraw", "confirm", "undo", "trust", "memory",
    "element", "part", "timeline", "send", "letters", "runs", "show", "history", "why", "cancel", "signal",
    "retry", "renew", "migrate", "attention", "errors", "calendar", "work", "people", "hooks", "task",
    "complete", "backtrack", "rerun", "tokens", "environment", "remembered", "definitions", "tell",
    "propose", "proposals", "accept", "grants", "grant", "revoke", "actions", "diff",
    "take", "mcp", "log", "backup", "restore", "service", "completion",
]  # fmt: skip
"""The commands in the order in which help shows them: that of a first day."""

_WHERE = {
    "init": "daemon.init", "run": "daemon.run", "status": "daemon.control", "stop": "daemon.control",
    "reload": "daemon.control", "web": "daemon.web", "agents": "daemon.agents", "check": "daemon.homes",
    "collection": "daemon.collection", "simulate": "trials.simulate",
    "start": "memory", "add": "memory", "outdate": "memory", "memory": "memory",
    "trust": "trust", "withdraw": "withdrawing", "confirm": "withdrawing", "undo": "withdrawing",
    "element": "monitor.elements", "part": "monitor.runs", "timeline": "monitor.runs",
    "send": "memory", "letters": "memory",
    "runs": "runs", "show": "runs", "history": "runs", "why": "runs", "cancel": "runs", "signal": "runs",
    "retry": "runs", "renew": "runs", "migrate": "migrating",
    "attention": "monitor.attention", "errors": "monitor.errors", "calendar": "monitor.calendar",
    "people": "monitor.people", "hooks": "monitor.hooks",
    "definitions": "definitions", "tell": "telling",
    "propose": "proposing", "proposals": "proposing", "accept": "proposing",
    "grants": "grants", "grant": "grants", "revoke": "grants", "actions": "definitions",
    "diff": "definitions", "take": "definitions",
    "mcp": "mcp", "log": "daemon.control", "backup": "daemon.backups", "restore": "daemon.backups",
    "service": "daemon.homes", "completion": "shell",
}  # fmt: skip
"""The module of each command in this folder."""

_MODULE_OF = {name: f"{__name__}.{module}" for name, module in _WHERE.items()} | {
    name: f"{kind.folder}.{module}" for kind in KINDS.values() for name, module in kind.commands.items()
}


def _command(name: str) -> Command | CommandGroup:
    command: Command | CommandGroup = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return command


COMMANDS = LazyTable(sorted(_MODULE_OF, key=_ORDER.index), _command)
"""Each command by its name, imported when it is given: most need little."""

_HELP = """narval remembers, notices and acts.

It keeps a memory of XML elements, follows recipes that say what to do about them, and can say why it did or
did not. `narval init` makes a home, `narval run` starts its daemon, and every other command works whether a
daemon runs or not.
"""

main = click.version_option(__version__, "--version", prog_name="narval", message="%(prog)s %(version)s")(
    Commands(
        name="narval",
        # a group asks for what it is given, and adds nothing
        commands=cast(MutableMapping[str, click.Command], COMMANDS),
        params=common_options(),
        help=_HELP,
    )
)
