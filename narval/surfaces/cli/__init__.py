"""The command line: a command asks the home's daemon, or works on the home itself when none runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, MutableMapping
from typing import cast

import click

from narval import __version__
from narval.ask.lazy_table import LazyTable
from narval.core.kinds import KINDS
from narval.surfaces.cli.command import Command, CommandGroup, Commands, common_options
from narval.surfaces.cli.options import flag
from narval.system.startup_gc import suspended

_COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "To begin": {
        "init": ("daemon.init", "Create a home that is ready to run."),
        "run": ("daemon.run", "Run the daemon in the foreground."),
        "status": ("daemon.control", "Tell whether the daemon is running, and what it does."),
        "check": ("daemon.homes", "List all faults in the files of a home; nothing is run."),
        "web": ("daemon.web", "Serve the pages of this home to a browser."),
        "stop": ("daemon.control", "Stop the daemon cleanly, and wait until it has ended."),
    },
    "To look": {
        "attention": ("attention", "List what needs attention, what waits for people first."),
        "why": ("runs", "Tell what a run waits for, or what happened to an element."),
        "runs": ("runs", "List runs, newest first."),
        "show": ("runs", "Show one run: steps, transitions, context, errors, graph."),
        "history": ("history", "Show what happened in a run, in order, in sentences."),
        "memory": ("memory", "List the elements that match XPATH, or all."),
        "element": ("elements", "Show an element, what it came from, and what was made from it."),
        "errors": ("attention", "List errors that no one has dealt with."),
        "calendar": ("reminding", "List by day what is due, and what came late."),
        "log": ("daemon.control", "Show the daemon's own log."),
        "timeline": ("history", "Show the calls of a run over time, and its waits."),
        "part": ("history", "Show everything about one part of a run, or about an arc."),
        "gantt": ("figures", "Show the runs of the last hour over time."),
        "figures": ("figures", "Show how many runs ended each day, and how long they took."),
        "tokens": ("", "List the tokens of a process, on nodes and arcs."),
        "environment": ("", "Show the attributes of a process, or of a token."),
        "remembered": ("", "List what dataflows remember."),
    },
    "To act": {
        "start": ("memory", "Start a run of the definition NAME and print its eid."),
        "add": ("memory", "Add elements to memory, and print their eids."),
        "signal": ("runs", "Send a named signal to a run."),
        "cancel": ("runs", "End a run, and cancel its calls."),
        "retry": ("runs", "Retry a run from one of its steps."),
        "renew": ("runs", "End a run, and restart it with its file as it is now."),
        "migrate": ("migrating", "Move runs to another version of their file."),
        "complete": ("", "Complete a token of a process, which then moves on."),
        "backtrack": ("", "Send a process back to where a token was active."),
        "rerun": ("", "Run the failed node of a token again."),
        "outdate": ("memory", "Mark elements as outdated: no run takes them any more."),
        "withdraw": ("elements", "Withdraw an element that was wrong from the start."),
        "confirm": ("elements", "Confirm a doubtful element: it is valid again."),
        "undo": ("elements", "Undo what a run has done."),
    },
    "People": {
        "work": ("", "List what you are asked, and answer it."),
        "task": ("", "List the active tasks, or act on them."),
        "remind": ("reminding", "Set a reminder for a time."),
        "reminders": ("reminding", "List your coming reminders, the next one first."),
        "people": ("chat", "List the people of the home, and what they may do on the web."),
        "chat": ("chat", "Run the chats of etc/narval.toml, in the foreground."),
        "chats": ("chat", "List the chats of etc/narval.toml."),
    },
    "Definitions": {
        "definitions": ("definitions", "List what is loaded, from which file, and what did not load."),
        "actions": ("definitions", "List the actions, with their inputs and outputs."),
        "tell": ("definitions", "Describe in plain sentences what a definition does."),
        "simulate": ("trials.simulate", "Show what would happen, without doing it."),
        "edit": ("grants", "Edit the file of a definition, or take an edit back."),
        "reload": ("daemon.control", "Make the daemon read its files now."),
        "diff": ("definitions", "Show how the files of the home differ from what ships."),
        "take": ("definitions", "Copy a shipped file into the home, to change it."),
        "propose": ("proposing", "Have a model draft a definition from a wish."),
        "proposals": ("proposing", "List the definitions that are not accepted yet."),
        "accept": ("proposing", "Accept a proposal."),
        "grants": ("grants", "Show what definitions need outside, and what is granted."),
        "grant": ("grants", "Grant what a definition needs now."),
        "revoke": ("grants", "Revoke what was granted."),
        "trust": ("elements", "Show the rules about what may go where."),
        "automaton": ("", "Run the automaton in FILE in the foreground, without a home."),
        "dataflow": ("", "Run a dataflow of FILE in the foreground, without a home."),
    },
    "Agents and machines": {
        "agents": ("daemon.agents", "List the agents of the home, or add and remove some."),
        "send": ("memory", "Send elements to AGENT; print the ids of the messages."),
        "letters": ("memory", "List messages, sent or received, that are not taken yet."),
        "collection": ("daemon.collection", "List the published collections, or publish one."),
        "link": ("links", "List the links with other homes, or make and end one."),
        "hooks": ("links", "List the webhooks of etc/narval.toml."),
        "mcp": ("mcp", "List the MCP servers of the home, or serve a client."),
    },
    "To keep": {
        "backup": ("daemon.backups", "Write a backup of the home's store to FILE."),
        "restore": ("daemon.backups", "Restore the backup that `narval backup` wrote to FILE."),
        "service": ("daemon.homes", "Write a systemd unit for the daemon of this home."),
        "completion": ("shell", "Print the script with which a shell completes narval's lines."),
    },
}
"""The module of each command in this folder, "" for one of a kind, and the first sentence of its own help, by
the headings of the list, in an order that teaches. The sentences are repeated here so that the list of
commands imports none of them.
"""

_MODULE_OF = {
    name: f"{__name__}.{module}"
    for rows in _COMMANDS.values()
    for name, (module, _) in rows.items()
    if module
} | {name: f"{kind.folder}.{module}" for kind in KINDS.values() for name, module in kind.commands.items()}


def _command(name: str) -> Command | CommandGroup:
    with suspended():
        command: Command | CommandGroup = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return command


GROUPS = {
    heading: {name: sentence for name, (_, sentence) in rows.items() if name in _MODULE_OF}
    for heading, rows in _COMMANDS.items()
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
