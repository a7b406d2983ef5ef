"""The frame of all commands: common options, an example in each help, error messages, exit status.

The exit status is a promise: 0 success; 1 a problem with the subject of the command; 2 wrong usage; 3 no such
home, or its daemon does not answer; 4 an alteration that may or may not have been made. click gives 2 for
arguments; `EXIT` has those of errors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import click

from narval.core.errors import (
    DaemonGoneError,
    HomeHeldError,
    NarvalError,
    NoHomeError,
    PatternError,
    SurroundingsError,
    UnansweredError,
)
from narval.surfaces.cli import completion
from narval.surfaces.cli.options import Folder, Helped
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NOT_WELL, WRONG_USAGE, NO_HOME, NOT_KNOWN, INTERRUPTED = 1, 2, 3, 4, 130

EXIT: Mapping[type[NarvalError], int] = {
    PatternError: WRONG_USAGE, NoHomeError: NO_HOME, HomeHeldError: NO_HOME, DaemonGoneError: NO_HOME,
}  # fmt: skip
"""The exit status by error class; 1 for any other."""

pass_session = click.make_pass_decorator(Session, ensure=True)


_FINDS = {"run": "`narval runs --name NAME`", "element": "`narval memory NAME`"}
"""The commands that find the number for a name."""


class Number(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """The number of a run, or of an element or a run; for a name the error says which commands find it."""

    name = "integer"

    def __init__(self, of: str) -> None:
        self._of = of

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails for any other text."""
        try:
            return int(value)
        except ValueError:
            finds = [_FINDS[word] for word in _FINDS if word in self._of]
            listed = f"{' and '.join(finds)} {'list' if finds[1:] else 'lists'} those of a name"
            self.fail(f"expected the number of {self._of}, got {value!r:.80}; {listed}", param, ctx)


class Renamed(click.Option):
    """An option with other names beside its first one; help shows only the first one."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the option in the help."""
        names = self.opts
        self.opts = names[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def reason_option(help: str, name: str = "why", **settings: Any) -> Callable[..., Any]:
    """The option --reason, or --why, of a command whose operation asks for a reason by this name."""
    return click.option("--reason", "--why", name, cls=Renamed, metavar="TEXT", help=help, **settings)


Pairs = tuple[tuple[str, str], ...]
"""The values of a repeatable option of type `Pair`."""


class RunKind(click.Choice):  # type: ignore[type-arg] # click 8.1 has no argument here
    """A kind of runs; the table of kinds is imported only when one is given, or for help."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The kinds of runs."""
        from narval.core.engines.registry import run_kinds

        return tuple(run_kinds())


class Pair(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """A name and a text, written NAME=TEXT; `name` is how help shows it."""

    def __init__(self, name: str = "NAME=VALUE") -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name and the text. Fails without a name or the equals sign."""
        name, sign, text = value.partition("=")
        if not (name and sign):
            self.fail(f"expected {self.name}, got {value!r:.80}", param, ctx)
        return name, text


class _Explained(Helped):
    """A command whose help ends with an example, with the common options before or after its name.

    A command that `alters` something also has --as; any other refuses it. One that `repeats` may be run again
    if it got no answer. A `local` one asks no daemon, and refuses --peer. An option of its own replaces a
    common one. A command for one `operation` has an option or argument for each of its parameters.
    """

    def __init__(
        self,
        *arguments: Any,
        example: str,
        alters: bool = False,
        operation: str = "",
        local: bool = False,
        repeats: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.repeats = repeats
        self.example, self.alters, self.operation, self.local = example, alters, operation, local
        own = {name for option in self.params for name in option.opts}
        self.params += [each for each in common_options(acting=alters) if own.isdisjoint(each.opts)]

    def refuse_common(self, context: click.Context) -> None:
        """Raise UsageError for --as if nothing is altered, so that no name is ignored, and for --peer if
        nothing is asked.
        """
        session = context.ensure_object(Session)
        if not self.alters and session.acting_as:
            what = f"{self.name} changes nothing, so no name would be recorded"
            raise click.UsageError(f"{what}: leave --as out", context)
        if self.local and session.peer:
            raise click.UsageError(f"{self.name} works on this machine alone: leave --peer out", context)

    def invoke(self, context: click.Context) -> Any:
        """Run the command. An alteration without an answer may have been made all the same."""
        try:
            return super().invoke(context)
        except UnansweredError as error:
            if not self.alters or self.repeats:
                raise DaemonGoneError(error.what) from None
            look = "look (narval memory, narval runs) before you ask again"
            then = "ask again with the same --key: it is done once" if context.params.get("key") else look
            report(UnansweredError(error.what, then))
            context.exit(NOT_KNOWN)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The example."""
        lines = self.example.splitlines()
        with formatter.section("Example" if len(lines) == 1 else "Examples"):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(_Explained):
    """A command that does one thing."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        self.refuse_common(context)
        return super().invoke(context)


class CommandGroup(_Explained, click.Group):
    """A command with subcommands, in the order in which they were added; it also has an action of its own.

    An option of a subcommand may come before its name.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, invoke_without_command=True, **settings)

    def list_commands(self, context: click.Context) -> list[str]:
        """The names in the order in which they were added."""
        return list(self.commands)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; move those before the name of a subcommand behind it."""
        parameters = [each for command in (self, *self.commands.values()) for each in command.params]
        valued = {name for each in parameters if not getattr(each, "is_flag", True) for name in each.opts}
        at = 0
        while at < len(args) and args[at].startswith("-"):
            at += 2 if args[at] in valued else 1
        if args[at:] and args[at] in self.commands:
            args = [args[at], *args[:at], *args[at + 1 :]]
        return super().parse_args(context, args)


class Commands(Helped, click.Group):
    """The group of all commands. A NarvalError ends a command with its message and exit status.

    Help and completion show their summaries, by headings in `groups`, so that neither imports any command.
    """

    def __init__(self, *arguments: Any, groups: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.groups = groups

    def list_commands(self, context: click.Context) -> list[str]:
        """The names in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name and the summary of each command below its heading, all in the same columns."""
        width = max(map(len, self.commands))
        for heading, summaries in self.groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in summaries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin with what was typed."""
        from click.shell_completion import CompletionItem

        rows = (row for summaries in self.groups.values() for row in summaries.items())
        commands = [CompletionItem(name, help=text) for name, text in rows if name.startswith(incomplete)]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        """Read the arguments; write help."""
        with _writing():
            return super().make_context(*arguments, terminal_width=_width(), **settings)

    def invoke(self, context: click.Context) -> Any:
        """Run the command; write the message of an error, and exit with its status."""
        try:
            with _writing():  # in its own context, as the zone of moments depends on the command's home
                return copy_context().run(super().invoke, context)
        except NarvalError as error:
            report(error)
            context.exit(exit_status(error))
        except KeyboardInterrupt:
            context.exit(INTERRUPTED)


def _width() -> int:
    """The width of help, as click finds it with `shutil`, whose import takes a twentieth of the time."""
    columns = os.environ.get("COLUMNS", "")
    try:
        wide = (int(columns) if columns.isdecimal() else 0) or os.get_terminal_size().columns or 80
    except OSError:  # no terminal
        wide = 80
    return max(min(wide, 80) - 2, 50)


@contextmanager
def _writing() -> Iterator[None]:
    """End quietly if the reader of the output goes away; report errors of the operating system in a sentence;
    show arguments without control characters.
    """
    try:
        yield
    except click.UsageError as error:
        from narval.ask.text import clean

        vars(error)["message"] = clean(error.message)  # the message repeats arguments
        raise
    except BrokenPipeError:
        _write_no_more()
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        _write_no_more()
        about = f": {error.filename}" if error.filename is not None else ""
        report(SurroundingsError(f"{error.strerror or error}{about}"))
        raise click.exceptions.Exit(NOT_WELL) from None


def _write_no_more() -> None:
    """Discard the buffers, so that the program does not write them again at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def command(
    name: str,
    *,
    example: str,
    alters: bool = False,
    operation: str = "",
    local: bool = False,
    repeats: bool = False,
) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command, with the session as its first argument and its docstring as help.

    It `alters` something if its effect is recorded; it can then be done in another person's name. It
    `repeats` if the same command, given again, has the same outcome. It is `local` if it asks no daemon.
    """
    facts = {"alters": alters, "operation": operation, "local": local, "repeats": repeats}
    declare = click.command(name, cls=Command, example=example, **facts)
    return lambda function: declare(pass_session(function))


def asking(
    name: str,
    operation: str,
    *,
    example: str,
    alters: bool = False,
    well: Callable[[Any], object] = lambda answer: True,
    ask: Callable[..., Any] | None = None,
) -> Callable[[Callable[[Any], object]], Command]:
    """Make a command that asks an operation; the function writes the answer for people.

    The docstring of the function is the help. The options and arguments have the names of the operation's
    parameters. The exit status is 1 unless the answer is `well`. `ask` replaces the way of asking.
    """

    def command_of(people: Callable[[Any], object]) -> Command:
        @wraps(people)
        def give(session: Session, /, **values: Any) -> None:
            listed = {key: [*value] if isinstance(value, tuple) else value for key, value in values.items()}
            answer = ask(session, **listed) if ask is not None else session.ask(operation, **listed)
            session.give(answer, people)
            if not well(answer):
                raise click.exceptions.Exit(NOT_WELL)

        return command(name, example=example, alters=alters, operation=operation)(give)

    return command_of


def command_group(
    name: str, *, example: str, alters: bool = False
) -> Callable[[Callable[..., Any]], CommandGroup]:
    """Make a function a command with subcommands. It is called with the session only if no subcommand is
    named; by default it alters nothing itself.
    """

    def alone(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.pass_context
        @wraps(function)
        def called(context: click.Context, /, *arguments: Any, **named: Any) -> Any:
            if context.invoked_subcommand is not None:
                return None
            assert isinstance(context.command, CommandGroup)
            context.command.refuse_common(context)
            return function(context.ensure_object(Session), *arguments, **named)

        return called

    declare = click.group(name, cls=CommandGroup, example=example, alters=alters)
    return lambda function: declare(alone(function))


@cache
def common_options(*, acting: bool = True) -> tuple[click.Parameter, ...]:
    """--home, --json, --agent and --peer, which may come before the command's name or after it; --as if it is
    `acting`. All commands share them.
    """
    if acting:
        as_another = click.Option(["acting_as", "--as"], metavar="NAME", help=_AS, **_COMMON)
        return (*common_options(acting=False), as_another)
    return (
        click.Option(["directory", "--home"], type=Folder(), metavar="DIR", help=_HOME, **_COMMON),
        click.Option(["as_json", "--json"], is_flag=True, help=_JSON, **_COMMON),
        click.Option(
            ["agent", "--agent"], metavar="NAME", help=_AGENT, shell_complete=completion.agents, **_COMMON
        ),
        click.Option(
            ["peer", "--peer"], metavar="NAME", help=_PEER, shell_complete=completion.peers, **_COMMON
        ),
    )


def _note(context: click.Context, option: click.Parameter, value: str | bool | None) -> None:
    if value == "":
        what = {"agent": "an agent", "peer": "a peer"}.get(str(option.name), "a person")
        raise click.BadParameter(f"expected the name of {what}, got an empty one", context, option)
    if value and option.name:
        context.ensure_object(Session).note(option.name, value)


_HOME = "The home to use, rather than NARVAL_HOME or ~/.narval."
_AGENT = "The agent to ask, rather than NARVAL_AGENT or the home's own."
_PEER = "The peer to ask, of etc/peers.toml, rather than this home."
_AS = "Do it in the name of NAME: recorded with your own. For the home's owner and root."
_JSON = "Write JSON: one object or one array."
_COMMON: dict[str, Any] = {"expose_value": False, "callback": _note}


def report(error: NarvalError) -> None:
    """Write the message of an error on standard error."""
    from narval.ask.text import clean_lines

    click.echo(f"narval: {clean_lines(str(error))}", err=True)


def exit_status(error: NarvalError) -> int:
    """The exit status of an error."""
    return next((EXIT[kind] for kind in type(error).__mro__ if kind in EXIT), NOT_WELL)
