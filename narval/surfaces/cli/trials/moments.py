"""Moments and durations on the command line, for commands that let time pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from narval.trials.simulate.scenario import When


def read_moment(context: click.Context, option: click.Parameter, text: str | None) -> When | None:
    """The moment or duration of an option, in the syntax of scenario files. Raises BadParameter."""
    from narval.trials.simulate.parser import read_date, read_when

    if text is None:
        return None
    try:
        return read_date(text) if option.name == "at" else read_when(text)
    except ValueError as error:
        past = "a duration such as 90d, or a date such as 2026-09-01"
        expected = past if option.name == "since" else error.args[0]
        raise click.BadParameter(f"expected {expected}, got {text!r}") from None
