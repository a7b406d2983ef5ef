"""Answers of operations, for people: a run, its history, the log, and why something waits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import click

from narval.ask.text import (
    Row,
    article,
    clean,
    clean_lines,
    counted,
    details,
    lasted,
    moment,
    moment_exactly,
    moment_in_zone,
    moment_there,
    moments_of_zone,
    newer_file,
    numbers,
    older_code,
    person,
    shortened,
    text_of,
)
from narval.core.definitions.reading.durations import duration
from narval.core.kinds import KINDS
from narval.surfaces.cli.render.tables import CALLS_OF_RUN, PARTS, SNIPPET, Column, came_from, fields, table


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


def _newer_ways(run: int, newer: Row) -> str:
    """The advice on a run whose file is newer."""
    ways = f"`narval renew {run}` starts it anew; `narval migrate {run}` has it go on by the file"
    return clean(newer.get("stays") or ways)


def _version(run: Row) -> str | None:
    """The sentence on a run whose file is newer, and what to do about it."""
    return f"{newer_file(run)}; {_newer_ways(run['eid'], run['newer'])}" if run.get("newer") else None


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
    """The caller of a run: a step of another run, or another agent (G33)."""
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
        click.echo(f"its beginning is not kept any more; it is shown from line {answer['first']} on")
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


# --- why ----------------------------------------------------------------------------------------------------

_WAITS = {
    "condition": "waits for {text}",
    "time": "waits until {until}",
    "call": "waits for {text} to come back",
    "try": "waits until {until} for {text}",
    "again": "waits for an element that ends it, and until {until} to call {text} again",
    "input": "waits for {text}",
    "join": "waits for {text}",
    "signal": "waits to be told {text}",
    "limit": "is given up at {until}",
    "person": "waits for a person: {text}",
}
_OTHERWISE = {
    "condition": "an element for each condition",
    "call": "a call",
    "try": "another try of a call",
    "again": "its target",
    "input": "an element that may be taken",
    "join": "other steps",
    "signal": "something",
    "person": "work to be done",
}


def why(answer: Row) -> Iterator[str]:
    """The sentences on what a run waits for, or on the story of an element."""
    if "element" in answer:
        yield from _story(answer)
        return
    waiting, reason = answer["waiting"], answer.get("reason")
    if reason:
        said = answer.get("said", [reason])  # a peer of an older version tells the reason alone
        yield f"run {answer['run']} ({answer['state']}): {clean(text_of(said, moment_in_zone))}"
    elif waiting:
        yield f"run {answer['run']} is {answer['state']} and waits for {counted(len(waiting), 'thing')}"
    else:
        yield f"run {answer['run']} is {answer['state']} and waits for nothing: it will go on by itself"
    if answer.get("newer"):
        yield f"it {newer_file(answer)}; {_newer_ways(answer['run'], answer['newer'])}"
    if code := older_code(answer.get("newer_code", ()), answer["run"]):
        yield f"it {code}"
    if answer.get("agent_state") == SUSPENDED:
        how = f"`narval agents resume {clean(answer['agent'])}`"
        yield f"nothing goes on while {clean(answer['agent'])} is {standing(answer)}; {how}"
    for wait in waiting:
        yield from _wait(wait)


def _story(answer: Row) -> Iterator[str]:
    """The story of an element, a line each."""
    by = f", declared by {answer['declared']}" if answer["declared"] else ""
    came = ", ".join(filter(None, (came_from(answer), moment_in_zone(answer["added"]))))
    name = f"{article(answer['name'])} {clean(answer['name'])}"
    title = f" · {clean(answer['title'])}" if answer["title"] else ""
    yield f"element {answer['element']}, {name}{title}: {came}{by}"
    if (answer["origin"] or {}).get("call"):
        yield f"  made by     call {answer['origin']['call']}"
    if answer["labels"]:
        yield f"  labels      {clean(', '.join(answer['labels']))}"
    if answer["decided_by"]:
        yield f"  decided by  {clean(', '.join(answer['decided_by']))}"
    if answer["hearsay"]:
        yield "  hearsay     a language model's answer is in it; what goes outside because of it asks first"
    for before in answer["made_from"]:
        yield f"  made from   {titled(before)}"
    yield from dict.fromkeys(f"  used by     {_use(use)}" for use in answer["used_by"])
    for call in answer["given_to"]:
        yield f"  given to    {clean(call['target'])}, step {clean(call['step'])}{_in_run(call)}"
    for made in answer["made_of_it"][:MOST_LINES]:
        how = "made of it " if made["directly"] else "  and then "
        yield f"  {how} {titled(made)}, {came_from(made)}"
    if answer["made"] > MOST_LINES:
        more = answer["made"] - MOST_LINES
        yield f"              and {more} more: `narval why {answer['element']} --uses`"
    for run in answer["held_by"]:
        yield f"  held by    {_in_run(run).removeprefix(',').removeprefix(' in')}"
    for sent in answer["sent_to"]:
        yield f"  sent to     agent {clean(sent['agent'])}"
    if answer["withdrawn"] is not None:
        yield f"  withdrawn   {clean(answer['withdrawn'])}"
    elif answer["doubtful"]:
        yield f"  doubtful    made from what was withdrawn; to confirm: `narval confirm {answer['element']}`"
    elif answer["outdated"]:
        yield f"  outdated    {_outdated_by(answer['outdated_by'])}"
    for wait in answer["waiting"]:
        why_not = f"; not this one: expected {clean(wait['not'])}" if wait["not"] else ""
        yield f"  wanted by   {clean(wait['id'])}{_in_run(wait)}{why_not}"


def _use(use: Row) -> str:
    """The place where an element was used; one place has a row for each of its inputs or conditions."""
    place = f"transition {use['transition']}" if "transition" in use else f"step {use.get('step')}"
    return f"{clean(place)} of {clean(use['definition'])}{_in_run(use)}"


def titled(row: Row) -> str:
    """An element by its number, name and title."""
    title = f" · {row['title']}" if row.get("title") else ""
    return clean(f"{row['eid']} {row['name'] or '(forgotten)'}{title}")


def _given(inputs: Sequence[int], titles: Row) -> str:
    """The inputs of a call with their titles, the first of many."""
    more = f" and {len(inputs) - MOST_LINES} more" if len(inputs) > MOST_LINES else ""
    names = [f"{eid} {clean(titles.get(str(eid), ''))}".rstrip() for eid in inputs[:MOST_LINES]]
    return f", given {', '.join(names)}{more}" if inputs else ""


def _nearest(condition: Row) -> str:
    """The element that a condition is about, with its title."""
    title = f" ({clean(condition['title'])})" if condition.get("title") else ""
    return f"element {condition['nearest']}{title}"


def _in_run(row: Row) -> str:
    """The run of a row, its definition and its state."""
    if not row.get("run"):
        return ""
    about = f" of {clean(row['run_of'])} ({row['state']})" if row["run_of"] else " (forgotten)"
    return f", in run {row['run']}{about}"


def _outdated_by(by: Row | None) -> str:
    if by is None:
        return "what outdated it is not known any more"
    reason = f": {clean(by['reason'])}" if by["reason"] else ""
    element = titled(by if not by["reason"] else {**by, "title": ""})
    return f"by {element}, {came_from(by)}{reason}"


def _wait(wait: Row) -> Iterator[str]:
    what, zone = wait["for"], wait.get("zone")
    until = f"{moment_there(wait['until'])} ({clean(zone)})" if zone else moment_in_zone(wait["until"])
    text = clean(": ".join(filter(None, (wait.get("text") or _OTHERWISE.get(what), wait.get("about")))))
    form = _WAITS.get(what, "waits for {what} {text}")
    sentence = form.format(what=clean(what), text=text, until=until)
    if wait.get("reckoned"):
        sentence += f", {clean(wait['reckoned'])}"
    if what == "time" and text:
        sentence += f", and then for {text}"
    if until and "{until}" not in form:
        sentence += f", until {until}"
    yield ""
    yield f"{clean(wait['id'])} {sentence}"
    for call in wait.get("calls", ())[:MOST_LINES]:
        yield f"  it is call {call['call']}{_given(call['inputs'], call['titles'])}"
        if call.get("again"):
            yield "  it was called again: the daemon stopped before it came back, perhaps before it began"
        if call.get("place"):
            yield f"  it waits: {clean(call['place'])}"
        if call.get("at"):
            yield from _elsewhere(call["at"])
    asked = {one["item"]: one for one in wait.get("asked", ())}
    for one in asked.values():
        until = f", until {moment_in_zone(one['until'])}" if one["until"] else ""
        yield f"  it asks {clean(one['who'])}{until}: {clean(one['about'])}"
        yield f"  it is item {one['item']}: see `narval work show {one['item']}`"
    for run_of_call in (run for run in wait.get("runs", ()) if run not in asked):
        yield f"  it is run {run_of_call}: see `narval why {run_of_call}`"
    for condition in wait["conditions"]:
        yield from _condition(condition)


def _elsewhere(at: Row) -> Iterator[str]:
    """A call that another agent answers (G37), and what its run waits for."""
    agent, since = clean(at["agent"]), f" since {moment_in_zone(at['since'])}"
    if at["run"] is None:
        yield {
            "gone": f"  there is no agent {agent} any more",
            "answered": f"  {agent} has answered, and that is on its way",
        }.get(at["state"], f"  {agent} has not taken it{since}: it is {_where(at)}")
        return
    how = f"`narval why {at['run']} --agent {agent}`"
    run = f"run {at['run']} of {clean(at['name'])} is {clean(at['state'])}"
    there = f", {_where(at)}" if "home" in at else ""
    yield f"  {agent}{there} has it{since}: {run}, see {how}"
    if at["agent_state"] == SUSPENDED:
        yield f"    nothing goes on while {agent} is suspended; `narval agents resume {agent}`"
    for wait in at["waiting"]:
        yield from (f"    {line}" for line in _wait(wait) if line)


def _where(at: Row) -> str:
    """The state of the agent that has a call, or at which other daemon it is."""
    if "home" not in at:
        return str(at.get("agent_state"))
    return f"at home {clean(at['home'])}" if at["home"] else "at no daemon now"


def _condition(condition: Row) -> Iterator[str]:
    pattern, nearest = clean(condition["pattern"]), condition["nearest"]
    if condition.get("absent"):
        yield f"  {'met    ' if condition['met'] else 'not met'}  none fits {pattern}"
        if nearest:
            yield f"           {_nearest(condition)} does"
        return
    if condition.get("lasting"):
        pattern += f" for {duration(condition['lasting'])}"
    if condition.get("since"):
        yield f"  {'met    ' if condition['met'] else 'not met'}  {pattern}"
        holds = "has lasted since" if condition["met"] else "will have lasted at"
        since, until = moment_in_zone(condition["since"]), moment_in_zone(condition["until"])
        yield f"           {_nearest(condition)} fits since {since}, it {holds} {until}"
        return
    if condition["met"]:
        yield f"  met      {pattern}" + (f"  by {_nearest(condition)}" if nearest else "")
        return
    yield f"  not met  {pattern}"
    failed, value = clean(condition["failed"] or ""), shortened(condition["value"], 200)
    if nearest:
        yield f"           {_nearest(condition)} is nearest: expected {failed}, found {value}"
    elif failed:
        yield f"           expected {failed}, found {value}"
