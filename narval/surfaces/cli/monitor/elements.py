"""The command element: one element, what it was made from, and what was made from it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from narval.ask.text import Row, article, clean, counted, moment_in_zone, xml_text
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Number, asking
from narval.surfaces.cli.render.tables import came_from


@asking("element", "element", example="narval element 14\nnarval element 14 --json")
@click.argument("eid", type=Number("an element"), shell_complete=completion.elements)
def element(answer: Row) -> None:
    """Show an element, what it came from, and what was made from it.

    Besides its XML: the runs that hold it, when it will be forgotten, its versions, and, with the runs and
    calls that made them, the elements before and after it, 6 steps and 200 elements each way. `narval why
    EID` says what prevents a run from taking it.
    """
    click.echo("\n".join(_lines(answer)))


def _lines(answer: Row) -> Iterator[str]:
    yield f"element {answer['eid']}, {article(answer['name'])} {clean(answer['name'])}: {_made(answer)}"
    yield xml_text(answer["xml"])
    if answer["labels"]:
        yield f"  labels {clean(', '.join(answer['labels']))}"
    if answer["decided_by"]:
        yield f"  decided by {clean(', '.join(answer['decided_by']))}"
    if answer["declared"]:
        yield f"  declared by {clean(answer['declared'])}: it is not forgotten"
    if answer["forgotten"]:
        run, at = answer["forgotten"]["run"], moment_in_zone(answer["forgotten"]["at"])
        yield f"  forgotten at {at}{f', with run {run}' if run else ', if nothing uses it until then'}"
    if answer["withdrawn"] is not None:
        yield f"  withdrawn: {clean(answer['withdrawn'])}"
    elif answer["doubtful"]:
        yield f"  doubtful: made from what was withdrawn; `narval confirm {answer['eid']}` lets it count"
    elif answer["outdated"]:
        yield "  outdated: a newer version has replaced it, or none"
    if answer["before"] or answer["after"]:
        versions = [*reversed(answer["before"]), answer["eid"], *answer["after"]]
        yield f"  versions {' → '.join(map(str, versions))}"
    if answer["used_by"]:
        yield f"  used {counted(len(answer['used_by']), 'time')}: see `narval why {answer['eid']}`"
    for held in answer["held_by"]:
        yield f"  held by run {held['run']} of {clean(held['run_of'])} ({held['state']})"
    if (others := answer["holders"] - len(answer["held_by"])) > 0:
        yield f"  and by {counted(others, 'run')} more"
    for way, title in (("back", "made from"), ("on", "made of it")):
        if answer[way]:
            yield f"{title}:"
        for node in answer[way]:
            yield f"{'  ' * node['depth']}{node['eid']} {_name(node)}{_of(node)}"
        if answer["more"][way]:
            yield "  and more, that is not shown"


def _name(node: Row) -> str:
    return f"{clean(node['name'])}: {_made(node)}" if node["name"] else "(forgotten)"


def _made(row: Row) -> str:
    """The maker of an element, in words, and the moment."""
    call = f" by {clean(row['target'])}" if row["target"] else ""
    run = f" of {clean(row['run_of'])} ({row['state']})" if row["run_of"] else ""
    return ", ".join(filter(None, (f"{clean(came_from(row))}{run}{call}", moment_in_zone(row["added"]))))


def _of(node: Row) -> str:
    """The elements that one was made from, if they are shown."""
    more = f" and {node['more']} more" if node["more"] else ""
    return f", from {', '.join(map(str, node['from']))}{more}" if node["from"] or more else ""
