"""Options of the limits of dataflows, for the commands that run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--ttl",
        metavar="TIME",
        help="Of a dataflow: give a session up when nothing has moved for so long, such as 5m.",
    ),
    click.option(
        "--restarts",
        type=click.IntRange(0),
        metavar="N",
        help="Of a dataflow: begin a transaction that failed for the time being again N times at most.",
    ),
    click.option(
        "--frames",
        type=click.IntRange(1),
        metavar="N",
        help="Of a dataflow: allow N calls of dataflows in a transaction.",
    ),
    click.option(
        "--spill/--no-spill",
        default=None,
        help="Of a dataflow: let what does not fit in memory go to disk, or refuse what would need it.",
    ),
)


def limit_options(command: Command) -> Command:
    """Give a command the options of limits, which become `ttl`, `restarts`, `frames` and `spill`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def asked_limits(values: Mapping[str, Any]) -> dict[str, str]:
    """The limits from the options, as texts in the arguments of a new run: `:restarts` and so on."""
    asked = {f":{name}": value for name, value in values.items() if value is not None}
    texts = {True: "yes", False: "no"}
    return {name: texts[value] if isinstance(value, bool) else str(value) for name, value in asked.items()}
