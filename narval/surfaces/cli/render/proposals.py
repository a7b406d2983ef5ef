"""Proposals for people: first unnamed acts outside, then what each does, needs, and what may happen in it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from narval.ask.text import Row, clean, clean_lines, counted, moment, moment_in_zone
from narval.surfaces.cli.definitions import told_lines
from narval.surfaces.cli.render.past import told as past_lines
from narval.surfaces.cli.render.tables import Column, plain

COLUMNS = (
    *plain("name", "state", "by"),
    Column("at", lambda row: moment(row["at"]), is_moment=True),
    Column("wish", lambda row: " ".join(row["wish"].split())[:60]),
    Column("acts not named", lambda row: row["unnamed"] or "", right=True),
)

_STATES = {
    "drafting": "a model is at it",
    "asks": "it asks something before it can go on",
    "ready": "ready to be accepted",
    "faulty": "not usable: faults are left",
    "failed": "the model gave no usable definition",
    "accepted": "accepted",
}


def lines(row: Row) -> Iterator[str]:
    """The lines to read before accepting a proposal."""
    warnings = sum(fault["warning"] for fault in row["faults"])
    but = f", with {counted(warnings, 'warning')}" if warnings and row["state"] == "ready" else ""
    yield f"proposal {row['name']}: {_STATES.get(row['state'], clean(row['state']))}{but}"
    yield from at_once(row)
    yield from (_grave(sentence) for sentence in row["unnamed"])
    if row["labels"]:
        said = ", ".join(map(clean, row["labels"]))
        yield _grave(f"The model was shown an example of these labels, and may follow what it says: {said}")
    if row["why"]:
        yield f"  {clean(row['why'])}"
    if row["accepted"]:
        yield f"  accepted by {clean(row['accepted']['by'])} at {moment_in_zone(row['accepted']['at'])}"
    yield f"  wish: {clean(' '.join(row['wish'].split()))}"
    yield f"  proposed by {clean(row['by'])} at {moment_in_zone(row['at'])}{_cost(row)}"
    if row["change"]:
        change = row["change"]
        yield f"  changes {clean(change['kind'])} {clean(change['name'])}, in {change['path']}"
    for question, answer in row["answers"]:
        yield f"  asked: {clean(question)}"
        yield f"  answered: {clean(answer)}"
    for number, question in enumerate(row["questions"], 1):
        yield f"  question {number}: {clean(question)}"
    yield from _faults(row)
    if row["told"]:
        yield ""
        yield from told_lines(row["told"])
    if row["state"] in ("ready", "accepted"):
        yield from _needs(row)
    yield from _findings(row)
    if row["past"]:
        yield ""
        yield from past_lines(row["past"]["report"])
    if "memory.xml" in row["texts"]:
        yield ""
        yield "adds to data/memory.xml:"
        yield from (f"  {line}" for line in clean_lines(row["texts"]["memory.xml"]).splitlines())


def at_once(row: Row) -> Iterator[str]:
    """The lines on what it takes as soon as it is accepted, in red if that acts outside."""
    for one in row["at_once"]:
        yield _grave(one["text"]) if one["outside"] else f"  {clean(one['text'])}"


def _grave(sentence: str) -> str:
    return click.style(f"  ! {clean(sentence)}", fg="red", bold=True)


def next_step(row: Row) -> str:
    """The next command."""
    name = row["name"]
    if row["state"] == "asks":
        answers = " ".join('--answer "…"' for _ in row["questions"])
        return f"answer: narval propose --go-on {name} {answers}"
    if row["state"] == "ready":
        tried = "" if row["past"] else f"narval proposals try {name} tries it on the past; "
        dropped = f"narval proposals drop {name} deletes it, and nothing of it was at work"
        return f"{tried}narval accept {name} accepts it; {dropped}; its text is in proposals/{name}/texts"
    if row["state"] == "accepted":
        return f"narval accept --undo {name} takes it back"
    return f"its text is in proposals/{name}/texts, what the model said in proposals/{name}/rounds"


def _cost(row: Row) -> str:
    if not row["model"]:
        return ""
    money = f", {row['money']:g} of money" if row["money"] else ""
    rounds = counted(len(row["rounds"]), "round")
    return f"; {clean(row['model'])}, {rounds}, {row['tokens']:,} tokens{money}"


def _faults(row: Row) -> Iterator[str]:
    for fault in row["faults"]:
        place = f"{clean(fault['path'])}:{fault['line']}:{fault['column']}: " if fault["path"] else ""
        yield f"  {'warning: ' if fault['warning'] else ''}{place}{clean(fault['message'])}"


def _needs(row: Row) -> Iterator[str]:
    outside = list(dict.fromkeys(need["need"] for need in row["needs"] if need["outside"]))
    yield ""
    yield f"needs outside the home: {', '.join(map(clean, outside)) or 'nothing'}"


def _findings(row: Row) -> Iterator[str]:
    if row["findings"]:
        yield ""
        yield "may come to:"
    for finding in row["findings"]:
        yield f"  {finding['severity']}: {clean(finding['message'])}"
        yield from (f"    {clean(line)}" for line in finding["story"])
