"""Pages of a listing on the command line: --limit and --before, and the command that shows the next page."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from narval.surfaces.cli.session import Session

PAGE = 50
"""The number of rows shown by default."""

ALL = "all"


class Limit(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """A number of rows, from 1, or `all`."""

    name = "N|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or `all`. Fails for anything else."""
        if value == ALL:
            return ALL
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < 1:
            self.fail(f"expected a number from 1, or {ALL}, got {value!r:.80}", param, ctx)
        return number


class Page(NamedTuple):
    """The requested part of a listing: at most `limit` rows (None for all), of eids below `before`."""

    limit: int | None
    before: int | None
    limit_given: bool

    def ask(self, session: Session, operation: str, **query: Any) -> list[dict[str, Any]]:
        """The rows of the page, newest first, and one more if there is one. Raises NarvalError."""
        most = self.limit + 1 if self.limit is not None else None
        rows: list[dict[str, Any]] = session.ask(operation, **query, limit=most, before=self.before)
        return rows if most is not None else rows[::-1]

    def going_on(self, session: Session, before: int) -> str:
        """The running command, with the options to continue before an eid."""
        return _command(session, before)

    def give(
        self,
        session: Session,
        rows: list[dict[str, Any]],
        people: Callable[[Any], object],
        number: str = "eid",
    ) -> None:
        """Write what `ask` gave; if there is more, show people the command for it, which continues below the
        `number` of the last row.
        """
        visible = rows[: self.limit]
        session.give(visible, people)
        if len(visible) < len(rows) and not session.as_json:
            click.echo(
                f"{len(visible)} shown; the next: {self.going_on(session, visible[-1][number])}", err=True
            )


def limit_option(which: str) -> Callable[..., Any]:
    """The option --limit of a listing without eids: the parameter `most`, None for all."""
    help = f"Only the {which} N, or all, rather than {PAGE}."
    return click.option(
        "--limit", "most", type=Limit(), callback=lambda *values: _most(values[-1]), help=help
    )


def _most(limit: int | str | None) -> int | None:
    """The number of rows by --limit; None for all."""
    return None if limit == ALL else PAGE if limit is None else int(limit)


def paged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --limit and --before, which make its parameter `page`."""

    @wraps(function)
    def command(*arguments: Any, limit: int | str | None, before: int | None, **named: Any) -> Any:
        return function(*arguments, page=Page(_most(limit), before, limit is not None), **named)

    asked = click.option("--limit", type=Limit(), help=f"Only the newest N, or all, rather than {PAGE}.")
    below = click.option("--before", type=int, metavar="EID", help="Only those with lower eids.")
    return asked(below(command))


def _command(session: Session, before: int) -> str:
    """The running command, with the options to continue before an eid."""
    context = click.get_current_context()
    words = [*session.words, *_names(context)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if not source or name == "before" or not parameter.expose_value:
            continue
        if isinstance(parameter, click.Option):
            words.append(parameter.opts[-1])
        if not (isinstance(parameter, click.Option) and parameter.is_flag):
            words.append(str(context.params[name]))
    return shlex.join([*words, "--before", str(before)])


def _names(context: click.Context) -> list[str]:
    """The name of a command after those of its groups, without that of the program."""
    return [*_names(context.parent), str(context.info_name)] if context.parent is not None else []
