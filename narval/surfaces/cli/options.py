"""Options like those of click, in English only. click looks up translations of its texts, which takes a
fiftieth of each command's time, and there are none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Folder(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no argument here
    """The path of a folder, as a text; an empty one, which would be the current folder, is refused."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Fails for an empty one, and for a folder that may not be read."""
        if value == "":
            self.fail("expected the path of a folder, got an empty one", param, ctx)
        if os.path.exists(value) and not os.access(value, os.R_OK):
            self.fail(f"expected a folder that may be read, got {value!r:.80}", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Let the shell complete it, as the path of a file."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def flag(name: str, help: str, act: Callable[[click.Context], object]) -> click.Option:
    """A flag that runs a function instead of the command."""

    def ending(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            act(context)
            context.exit()

    return click.Option([name], is_flag=True, is_eager=True, expose_value=False, callback=ending, help=help)


_HELP = flag("--help", "Show this message and exit.", lambda context: click.echo(context.get_help()))


class Helped(click.Command):
    """A command with --help."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The option --help."""
        return _HELP
