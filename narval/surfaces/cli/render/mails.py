"""The outcome of a simulation for the mails of a folder, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.ask.text import clean, counted, shortened
from narval.surfaces.cli.render.simulation import BOLD, StyledLine

MOST_SHOWN = 10
"""The most letters, and unreadable mails, that are listed; `--json` has all."""


def mails_told(outcome: dict[str, Any]) -> Iterator[StyledLine]:
    """The mails by verdict and rule, the letters that would go out, and the unreadable mails."""
    verdicts = outcome["verdicts"]
    yield "", None
    yield f"{counted(outcome['mails'], 'mail')} of {clean(outcome['folder'])}", BOLD
    rows = [(clean(row["verdict"]), clean(row["rule"]), row) for row in verdicts]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for verdict, rule, row in rows:
        words = (
            f"{verdict:<{widths[0]}}",
            *([f"{rule:<{widths[1]}}"] if widths[1] else []),
            clean(row["why"]),
        )
        yield f"{row['count']:>7,}  {'  '.join(words)}", None
    yield from _first_of("letter", outcome["letters"], "would go out", _mail_line)
    below = f"{outcome['folder']}/"
    yield from _first_of(
        "mail", outcome["unread"], "could not be read", lambda path: clean(path.removeprefix(below))
    )


def _mail_line(letter: dict[str, Any]) -> str:
    return f"{clean(letter['to'])}: {clean(letter['subject'])}"


def _first_of(what: str, things: list[Any], happened: str, shown: Any) -> Iterator[StyledLine]:
    """A number of things, and the first of them."""
    if things:
        yield f"  {counted(len(things), what)} {happened}:", None
        yield from ((f"    {shortened(shown(thing), 100)}", None) for thing in things[:MOST_SHOWN])
    if len(things) > MOST_SHOWN:
        yield f"    and {len(things) - MOST_SHOWN:,} more; --json has them all", None
