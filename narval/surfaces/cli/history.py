"""Commands that look closer at one run: history, part, timeline.

A history is what happened, in sentences, or the lines of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from narval.ask.text import (
    Row,
    clean,
    counted,
    lasted,
    moment,
    moment_exactly,
    moments_of_zone,
    text_of,
    zone,
)
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import asking, command
from narval.surfaces.cli.paging import PAGE
from narval.surfaces.cli.render import answers, reasons
from narval.surfaces.cli.render.tables import Column, listing
from narval.surfaces.cli.runs import at_option, run_argument
from narval.surfaces.cli.session import NOTHING_MORE, SLICE, Connection, Session

NO_LINES = "no lines there"
TOGETHER = 500
"""The entries in one request when all are wanted."""

_JOURNAL = answers.history_line, NO_LINES, moments_of_zone

_EXAMPLE = """\
narval history 12
narval history 12 --limit 20
narval history 12 --journal --follow
narval history 12 --at 87"""


@command("history", example=_EXAMPLE)
@run_argument
@click.option("--story", "as_story", is_flag=True, help="In sentences, with --json too.")
@click.option("--journal", is_flag=True, help="The lines of the journal, as --json gives them.")
@click.option("--follow", is_flag=True, help="Go on until the run is over.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the newest N entries, or lines.")
@click.option("--before", type=int, metavar="SEQ", help="Only those before line SEQ.")
@click.option("--replay", is_flag=True, help="An entry a line, with the parts that it changed.")
@click.option("--after", type=int, metavar="SEQ", help="With --replay: only what came after line SEQ.")
@at_option
def history(session: Session, run: int, as_story: bool, journal: bool, **options: Any) -> None:
    """Show what happened in a run, in order, in sentences.

    The sentences are grouped by part of the run (step, node, state), each time one is entered. --journal
    shows the lines from which they are made: events, their changes, and commands; on a page newest first.
    --json gives these lines, and with --story the sentences.
    """
    follow, at, limit, before = (options[name] for name in ("follow", "at", "limit", "before"))
    if as_story and journal:
        raise click.UsageError("--story and --journal exclude each other")
    if options["after"] is not None and not options["replay"]:
        raise click.UsageError("--after goes with --replay; --before SEQ leaves out what came later")
    if options["replay"]:
        most = {"limit": limit} if limit is not None else {}
        session.give(session.ask("replay", run=run, after=options["after"] or 0, **most), answers.replay)
        return
    if at is not None:
        if follow:
            raise click.UsageError("--at and --follow exclude each other")
        session.give(session.ask("show", run=run, at=at), answers.run)
        return
    is_page = limit is not None or before is not None
    if is_page and follow:
        raise click.UsageError("--follow goes with neither --limit nor --before")
    page = {"before": before, "limit": limit or PAGE}
    if journal or (session.as_json and not as_story):
        _journal(session, run, follow, page if is_page else None)
    elif is_page:
        session.give(session.ask("story", run=run, **page), _tell)
    elif session.as_json:
        session.give(_whole(session, run), _tell)
    else:
        _story(session, run, follow)


def _journal(session: Session, run: int, follow: bool, page: dict[str, Any] | None) -> None:
    """Write the lines of a run's journal."""
    if page is not None:
        session.give(
            session.ask("history", run=run, **page),
            lambda lines: _write(list(map(answers.history_line, lines))),
        )
        return
    with session.connect("look") as connection, session.lines(*_JOURNAL) as write:
        after = 0

        def look() -> None:
            nonlocal after
            after = write(connection.ask("history", run=run, after=after))

        _look_on(connection, run, follow, look)


def _story(session: Session, run: int, follow: bool) -> None:
    """Write the sentences of a run, from one batch of entries after another."""
    with session.connect("look") as connection:
        after, last_part = 0, ""
        is_empty = True

        def look() -> None:
            nonlocal after, last_part, is_empty
            is_more = True
            while is_more:
                answer = connection.ask("story", run=run, after=after, limit=TOGETHER)
                for line in _story_lines(answer["groups"], last_part):
                    if is_empty:
                        click.echo(moments_of_zone())
                    click.echo(line)
                    is_empty = False
                after, is_more = answer["last"], answer["more"]
                last_part = answer["groups"][-1]["part"] if answer["groups"] else last_part

        _look_on(connection, run, follow, look)
        if is_empty:
            click.echo(NO_LINES, err=True)


def _look_on(connection: Connection, run: int, follow: bool, look: Callable[[], None]) -> None:
    """Look at a run once, or after each change until it has ended."""

    def is_active() -> bool:
        return bool(connection.ask("wait", run=run, timeout=0)["phase"] == "active")

    turn = connection.ask("changed")["turn"] if follow else 0
    is_last = False
    while not is_last:
        is_last = not follow or connection.record_only or not is_active()
        look()
        if not is_last:
            turn = connection.ask("changed", after=turn, run=run, wait=SLICE)["turn"]
    if follow and connection.record_only and is_active():
        click.echo(NOTHING_MORE, err=True)


def _whole(session: Session, run: int) -> Row:
    """The whole story of a run in one answer, from several requests."""
    with session.connect("look") as connection:
        answer: Row = connection.ask("story", run=run, after=0, limit=TOGETHER)
        groups = list(answer["groups"])
        while answer["more"]:
            answer = connection.ask("story", run=run, after=answer["last"], limit=TOGETHER)
            groups += answer["groups"]
    return {**answer, "groups": groups}


def _tell(answer: Row) -> None:
    """Write the sentences of a page."""
    _write(list(_story_lines(answer["groups"], "")))
    if answer["older"]:
        click.echo(f"more was earlier: --before {answer['older']}", err=True)


def _write(lines: list[str]) -> None:
    """Write the lines of a page below the zone of their moments; without any, say so."""
    click.echo("\n".join([moments_of_zone(), *lines]) if lines else NO_LINES, err=not lines)


def _story_lines(groups: list[Row], last_part: str) -> Iterator[str]:
    """The groups as lines: a heading for each part, except one that continues the last group."""
    for number, group in enumerate(groups):
        if number or not last_part or group["part"] != last_part:
            yield clean(f"{group['word']} {group['part']}")
        for entry in group["entries"]:
            yield f"{entry['seq']:>6}  {moment_exactly(entry['at'])}  {sentence(entry['said'])}"


def sentence(said: list[Any]) -> str:
    """A sentence on one line: elements with their names and numbers, moments in the form for people."""
    return clean(text_of(said, moment))


def _waited_for(row: Row) -> str:
    if row["target"]:
        return f"{row['kind']} {row['target']}" + (f" of {row['agent']}" if row["agent"] else "")
    return str(row["for"])


def _came_of(row: Row) -> str:
    error = f": {row['error']['type']}: {row['error']['message']}" if row["error"] else ""
    place = f", waits for {row['place']}" if row.get("place") else ""
    return f"{row['outcome']}{error}{place}"


# --- timeline and part --------------------------------------------------------------------------------------


_ROWS = (
    Column("part", lambda row: row["part"]),
    Column("what", _waited_for),
    Column("attempt", lambda row: row["try"] or "", right=True),
    Column("asked", lambda row: moment_exactly(row["asked"]), is_moment=True),
    Column("begun", lambda row: moment_exactly(row["begun"])),
    Column("ended", lambda row: moment_exactly(row["ended"])),
    Column("run", lambda row: row["child"] or "", right=True),
    Column("outcome", _came_of, most=200),
)


@asking("timeline", "timeline", example="narval timeline 12\nnarval timeline 12 --limit 20 --json")
@run_argument
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the newest N.")
def timeline(answer: Row) -> None:
    """Show the calls of a run over time, and its waits.

    A row is an attempt of a call, or a wait for an element or a moment, in the order in which they began.
    """
    listing(_ROWS, answer["rows"], "no calls and no waits")
    if answer["ended"]:
        click.echo(
            f"it lasted {lasted(answer)}, with calls of its own under way for {duration(answer['at_work'])}"
        )
    if answer["left_out"]:
        click.echo(f"{counted(answer['left_out'], 'older row')} left out", err=True)


@asking("part", "part", example="narval part 12 send\nnarval part 12 'send>wait' --json")
@run_argument
@click.argument("id", metavar="ID", shell_complete=completion.parts)
def part(answer: Row) -> None:
    """Show everything about one part of a run, or about an arc.

    Besides what `narval why RUN ID` reports: each attempt of its calls, with time, inputs, results and error,
    and the run that answered. An arc is named by the parts at both ends: send>wait.
    """
    click.echo("\n".join(_part_lines(answer)))


def _part_lines(graph: Row) -> Iterator[str]:
    if "arc" in graph:
        arc = graph["arc"]
        details = ", ".join(filter(None, (arc["text"], arc["state"], arc["badge"])))
        yield f"arc {clean(arc['id'])}: {clean(details)}"
        yield from (f"  {clean(end['id'])} is {end['state']}" for end in graph["ends"])
        return
    yield from reasons.why(graph)
    for row in graph["calls"]:
        times = f"{moment_exactly(row['asked'])} to {moment_exactly(row['ended'])[11:] or 'now'} {zone()}"
        tried = f", attempt {row['try']}" if (row["try"] or 1) > 1 else ""
        yield f"{clean(_waited_for(row))}{tried}: {clean(_came_of(row))}, {times}"
        for slot in row["inputs"]:
            elements = ", ".join(map(_element, slot["elements"]))
            yield f"  {clean(slot['input'] or 'elements')}: {elements}"
        if row["gave"]:
            yield f"  gave {', '.join(map(_element, row['gave']))}"
        if row["child"]:
            yield f"  run {row['child']} answered it"


def _element(row: Row) -> str:
    """An element by its number and title."""
    return f"{row['eid']} {clean(row['title'])}".rstrip()
