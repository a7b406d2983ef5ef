"""Answers of operations, for people: a run, its history, and the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

from narval.ask.text import (
    Row,
    article,
    clean,
    clean_lines,
    details,
    lasted,
    moment,
    moment_exactly,
    moment_in_zone,
    moments_of_zone,
    newer_file,
    numbers,
    older_code,
    person,
)
from narval.core.kinds import KINDS
from narval.surfaces.cli.render.tables import CALLS_OF_RUN, PARTS, SNIPPET, Column, fields, table


def run(answer: Row) -> None:
    """Write one run with its parts."""
    parent, error, again = answer.get("parent"), answer.get("error"), answer.get("retry_of")
    seq = answer.get("seq")
    fields(
        [
            ("run", f"{answer['eid']}, {article(answer['kind'])} {answer['kind']} of {answer['name']}"),
            ("as of", f"line {seq}, {moment_exactly(answer['at'])}" if seq is not None else None),
            ("state", answer["state"]),
            ("started", moment_in_zone(answer["started"])),
            ("ended", moment(answer["ended"])),
            ("lasted", lasted(answer)),
            ("parent", _caller(parent) if parent else None),
            ("by", person(answer)),
            ("retry of", f"run {again['run']}, from step {again['step']}" if again else None),
            ("definition", answer["definition"]),
            ("version", _version(answer)),
            ("code", older_code(answer.get("newer_code", ()), answer["eid"]) or None),
            ("error", fault_of(error) if error else None),
            ("undoing", answer.get("undoing")),
            ("context", numbers(answer.get("context") or ())),
        ]
    )
    for columns, key in (*PARTS, *_tables_of(answer["kind"])):
        if answer.get(key):
            click.echo()
            table(columns, answer[key])
    section("", CALLS_OF_RUN, answer.get("calls", ()))


def newer_ways(run: int, newer: Row) -> str:
    """The advice on a run whose file is newer."""
    ways = f"`narval renew {run}` restarts it; `narval migrate {run}` has it go on by the file"
    return clean(newer.get("stays") or ways)


def _version(run: Row) -> str | None:
    """The sentence on a run whose file is newer, with the possible acts."""
    return f"{newer_file(run)}; {newer_ways(run['eid'], run['newer'])}" if run.get("newer") else None


def runs(rows: Sequence[Row], write: Callable[[Sequence[Row]], None]) -> None:
    """Write a listing of runs, and which of them keep an older version than their file."""
    write(rows)
    old = [row for row in rows if row.get("newer")]
    for row in old[:MOST_LINES]:
        click.echo(f"run {row['eid']} of {clean(row['name'])} {_version(row)}")
    if len(old) > MOST_LINES:
        click.echo(f"and {len(old) - MOST_LINES} more: --json tells all")


def _tables_of(run_kind: str) -> Sequence[Any]:
    """The tables of a run's parts that only its kind has."""
    kind = next((kind for kind in KINDS.values() if kind.tables and run_kind in kind.runs), None)
    return import_module(f"{kind.folder}.{kind.tables}").PARTS if kind is not None else ()


def _caller(parent: Row) -> str:
    """The caller of a run: a step of another run, or another agent."""
    return (
        f"agent {clean(parent['agent'])}"
        if "agent" in parent
        else f"step {parent['step']} of run {parent['run']}"
    )


def fault_of(error: Row) -> str:
    """The error of a run in one sentence."""
    where = f" in step {error['step']}" if error.get("step") else ""
    at = f"{error['place']}, " if error.get("place") else ""
    return clean(f"{error['type']}{where}: {error['message']} ({at}element {error['eid']})")


SUSPENDED = "suspended"
MOST_LINES = 10
"""The most lines of a section that are shown."""


def standing(answer: Row) -> str:
    """The state of an agent, and why it is suspended."""
    why = f": {clean(answer['agent_why'])}" if answer["agent_why"] else ""
    return f"{answer['agent_state']}{why}"


def section(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write a table below the others, with a line on the rows it leaves out."""
    if not rows:
        return
    click.echo(f"\n{title}" if title else "")
    table(columns, rows[:MOST_LINES])
    if len(rows) > MOST_LINES:
        click.echo(f"and {len(rows) - MOST_LINES} more: --json tells all")


def history_line(line: Row) -> str:
    """One line of a run's history."""
    head = f"{line['seq']:>6}  {moment_exactly(line['at'])}  {clean(line['what']):<16}"
    return f"{head}  {details(line, SNIPPET)}".rstrip()


_LEVELS = {"debug": "bright_black", "warning": "yellow", "error": "red", "critical": "red"}


def replay(answer: Row) -> None:
    """Write the entries of a run, each with the parts that it changed."""
    if not answer["whole"]:
        click.echo(f"its beginning is no longer kept; it is shown from line {answer['first']} on")
    if answer["entries"]:
        click.echo(moments_of_zone())
    for entry in answer["entries"]:
        stands = ", ".join(f"{clean(part[0])} {part[1]} {clean(part[3])}".rstrip() for part in entry["parts"])
        text = f"{entry['seq']:>6}  {moment_exactly(entry['at'])}  {clean(entry['what'])}"
        click.echo(text + (f"  → {stands}" if stands else ""))
    if answer["fault"]:
        click.echo(answer["fault"], err=True)
    elif not answer["entries"]:
        click.echo("no entries there", err=True)
    if answer["more"]:
        click.echo(f"more entries follow: --after {answer['entries'][-1]['seq']}", err=True)


def retry_plan(plan: Row) -> None:
    """Write what a retry would do."""
    carried = [f"{part['id']} ({part['state']})" for part in plan["kept"]]
    again = [f"{eid}" for one in plan["reused"] for eid in one["elements"]]
    fields(
        [
            ("from", plan["from"]),
            ("kept", ", ".join(carried) or "nothing"),
            ("done again", ", ".join(plan["again"]) or "nothing"),
            ("used again", ", ".join(f"element {eid}" for eid in again) or "nothing"),
            ("definition", plan["definition"]),
            ("before", plan["before"] if plan["before"] != plan["definition"] else None),
        ]
    )
    click.echo("".join(f"{clean(line)}\n" for line in plan["differences"]), nl=False)


def log_line(line: Row) -> str:
    """One line of the log."""
    level = f"{clean(line['level']):<8}"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        level = click.style(level, fg=_LEVELS.get(line["level"]))
    head = f"{moment_exactly(line['at'])}  {level}  {clean(line['logger'])}  "
    head += f"run {line['run']} {clean(line['step'])}: " if "run" in line else ""
    return head + clean_lines(line["message"]).replace("\n", "\n    ")
