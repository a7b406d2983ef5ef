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
from narval.surfaces.cli.options import flag
from narval.system.startup_gc import suspended

_FIRST_SENTENCES = {
    "To begin": {
        "init": "Create a home that is ready to run.",
        "run": "Run the daemon in the foreground.",
        "status": "Tell whether the daemon is running, and what it does.",
        "check": "List all faults in the files of a home; nothing is run.",
        "web": "Serve the pages of this home to a browser.",
        "stop": "Stop the daemon cleanly, and wait until it has ended.",
    },
    "To look": {
        "attention": "List what needs attention, what waits for people first.",
        "why": "Tell what a run waits for, or what happened to an element.",
        "runs": "List runs, newest first.",
        "show": "Show one run: steps, transitions, context, errors, graph.",
        "history": "Show what happened in a run, in order, in sentences.",
        "memory": "List the elements that match XPATH, or all.",
        "element": "Show an element, what it came from, and what was made from it.",
        "errors": "List errors that no one has dealt with.",
        "calendar": "List by day what is due, and what came late.",
        "log": "Show the daemon's own log.",
        "timeline": "Show the calls of a run over time, and its waits.",
        "part": "Show everything about one part of a run, or about an arc.",
        "gantt": "Show the runs of the last hour over time.",
        "figures": "Show how many runs ended each day, and how long they took.",
        "tokens": "List the tokens of a process, on nodes and arcs.",
        "environment": "Show the attributes of a process, or of a token.",
        "remembered": "List what dataflows remember.",
    },
    "To act": {
        "start": "Start a run of the definition NAME and print its eid.",
        "add": "Add elements to memory, and print their eids.",
        "signal": "Send a named signal to a run.",
        "cancel": "End a run, and cancel its calls.",
        "retry": "Retry a run from one of its steps.",
        "renew": "End a run, and restart it with its file as it is now.",
        "migrate": "Move runs to another version of their file.",
        "complete": "Complete a token of a process, which then moves on.",
        "backtrack": "Send a process back to where a token was active.",
        "rerun": "Run the failed node of a token again.",
        "outdate": "Mark elements as outdated: no run takes them any more.",
        "withdraw": "Withdraw an element that was wrong from the start.",
        "confirm": "Confirm a doubtful element: it is valid again.",
        "undo": "Undo what a run has done.",
    },
    "People": {
        "work": "List what you are asked, and answer it.",
        "task": "List the active tasks, or act on them.",
        "remind": "Set a reminder for a time.",
        "reminders": "List your coming reminders, the next one first.",
        "people": "List the people of the home, and what they may do on the web.",
        "chat": "Run the chats of etc/narval.toml, in the foreground.",
        "chats": "List the chats of etc/narval.toml.",
    },
    "Definitions": {
        "definitions": "List what is loaded, from which file, and what did not load.",
        "actions": "List the actions, with their inputs and outputs.",
        "tell": "Describe in plain sentences what a definition does.",
        "simulate": "Show what would happen, without doing it.",
        "edit": "Edit the file of a definition, or take an edit back.",
        "reload": "Make the daemon read its files now.",
        "diff": "Show how the files of the home differ from what ships.",
        "take": "Copy a shipped file into the home, to change it.",
        "propose": "Have a model draft a definition from a wish.",
        "proposals": "List the definitions that are not accepted yet.",
        "accept": "Accept a proposal.",
        "grants": "Show what definitions need outside, and what is granted.",
        "grant": "Grant what a definition needs now.",
        "revoke": "Revoke what was granted.",
        "trust": "Show the rules about what may go where.",
        "automaton": "Run the automaton in FILE in the foreground, without a home.",
        "dataflow": "Run a dataflow of FILE in the foreground, without a home.",
    },
    "Agents and machines": {
        "agents": "List the agents of the home, or add and remove some.",
        "send": "Send elements to AGENT; print the ids of the messages.",
        "letters": "List messages, sent or received, that are not taken yet.",
        "collection": "List the published collections, or publish one.",
        "link": "List the links with other homes, or make and end one.",
        "hooks": "List the webhooks of etc/narval.toml.",
        "mcp": "List the MCP servers of the home, or serve a client.",
    },
    "To keep": {
        "backup": "Write a backup of the home's store to FILE.",
        "restore": "Restore the backup that `narval backup` wrote to FILE.",
        "service": "Write a systemd unit for the daemon of this home.",
        "completion": "Print the script with which a shell completes narval's lines.",
    },
}
"""The first sentence of each command's own help, by the headings of the list, in an order that teaches. The
sentences are repeated here so that the list of commands imports none of them.
"""

_WHERE = {
    "init": "daemon.init", "run": "daemon.run", "status": "daemon.control", "stop": "daemon.control",
    "reload": "daemon.control", "web": "daemon.web", "agents": "daemon.agents", "check": "daemon.homes",
    "collection": "daemon.collection", "simulate": "trials.simulate",
    "start": "memory", "add": "memory", "outdate": "memory", "memory": "memory",
    "trust": "elements", "withdraw": "elements", "confirm": "elements", "undo": "elements",
    "element": "elements", "part": "history", "timeline": "history",
    "figures": "figures", "gantt": "figures",
    "send": "memory", "letters": "memory", "remind": "reminding", "reminders": "reminding",
    "runs": "runs", "show": "runs", "history": "history", "why": "runs", "cancel": "runs", "signal": "runs",
    "retry": "runs", "renew": "runs", "migrate": "migrating",
    "attention": "attention", "errors": "attention", "calendar": "reminding",
    "people": "chat", "hooks": "links",
    "link": "links",
    "chat": "chat", "chats": "chat",
    "definitions": "definitions", "tell": "telling", "edit": "grants",
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
    with suspended():
        command: Command | CommandGroup = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return command


GROUPS = {
    heading: {name: sentence for name, sentence in sentences.items() if name in _MODULE_OF}
    for heading, sentences in _FIRST_SENTENCES.items()
}
"""The summary of each command in the list of commands, by their headings."""

COMMANDS = LazyTable([name for summaries in GROUPS.values() for name in summaries], _command)
"""Each command by its name, imported on use, as most runs need few."""

_HELP = """narval remembers, notices and acts.

It keeps a memory of XML elements, follows recipes that say what to do about them, and can say why it did or
did not. `narval init` makes a home, `narval run` starts its daemon, and every other command works whether a
daemon runs or not.
"""

_VERSION = flag("--version", "Show the version and exit.", lambda _: click.echo(f"narval {__version__}"))

main = Commands(
    name="narval",
    # a group without a command asks for one, and adds nothing
    commands=cast(MutableMapping[str, click.Command], COMMANDS),
    params=[*common_options(), _VERSION],
    groups=GROUPS,
    help=_HELP,
)
