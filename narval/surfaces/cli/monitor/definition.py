"""The lines about one definition (M41)."""

from __future__ import annotations

from collections.abc import Iterator

from narval.ask.text import Row, clean, clean_lines, fault_line, moment_in_zone
from narval.core.definitions.reading.durations import duration


def definition_lines(answer: Row) -> Iterator[str]:
    """The lines of `narval definitions NAME`."""
    yield f"{clean(answer['kind'])} {clean(answer['name'])}, version {answer['digest'][:12]}"
    if answer["description"]:
        yield f"  {clean(answer['description'])}"
    since = f", loaded {moment_in_zone(answer['loaded'])}" if answer["loaded"] else ""
    yield f"  in {clean(answer['path'])}:{answer['line']}{since}"
    if answer["faulty"]:
        yield "  its file has faults now; this is its last good version"
        for fault in answer["file"]["faults"] if answer["file"] else ():
            yield f"    {clean(fault_line(fault))}"
    for row in answer["takes"]:
        several = " …" if row["list"] else ""
        parts = ", ".join(
            f"{one['input']} of {one['part']}" if one["part"] else one["input"] for one in row["parts"]
        )
        yield f"  takes {clean(' and '.join(row['match']))}{several} ({clean(parts)})"
    for way, title in (("calls", "calls"), ("called_by", "called by")):
        for row in answer[way]:
            yield f"  {title} {clean(row['kind'] or 'definition')} {clean(row['name'])}, {clean(row['what'])}"
    for name, value in answer["settings"].items():
        said = ("yes" if value else "no") if isinstance(value, bool) else clean(value)
        yield f"  {clean(name)}: {duration(value) if isinstance(value, float) else said}"
    under_way = [f"{answer['active']} under way"] if answer["active"] else []
    ended = [f"{count} {phase}" for phase, count in answer["ended"].items()]
    if under_way or ended:
        yield f"  runs: {', '.join([*under_way, *ended])}"
    for row in answer["dates"]:
        run = f", run {row['run']} {row['part'] or ''}".rstrip() if row["run"] else ""
        yield f"  at {moment_in_zone(row['at'])}{run}{': ' if row['text'] else ''}{clean(row['text'])}"
    yield ""
    yield clean_lines(answer["source"])


def action_lines(row: Row) -> Iterator[str]:
    """The lines of `narval actions NAME`: what it takes and gives, what it reaches, and how it is called."""
    yield f"{clean(row['name'])}: {clean(row['description'])}"
    yield f"  in {clean(row['path'])}:{row['line']}"
    for slot in row["inputs"]:
        yield f"  takes {_slot(slot)}"
        if slot["reads"]:
            attributes = (_attribute(name, slot["holds"].get(name)) for name in slot["reads"])
            yield f"    attributes: {clean(', '.join(attributes))}"
    for one in row.get("arguments", ()):
        about = f": {clean(one['description'])}" if one["description"] else ""
        need = ", required" if one["required"] else ""
        yield f"    {clean(one['name'])} ({clean(one['type'])}{need}){about}"
    if row.get("destroys"):
        yield "  destroys or overwrites something, as its server says"
    for slot in row["outputs"]:
        yield f"  gives {_slot(slot)}"
    reaches = row["needs"] or ["nothing outside of memory"]
    if row["needs"] is None:
        reaches = ["anything: its code declares no limits"]
    yield f"  reaches {clean(', '.join(reaches))}"
    if row["where"]:
        yield f"  where it goes: {clean(', '.join(row['where']))}"
    for key, title in _OF_ACTION.items():
        if row.get(key):
            yield f"  {title}: {clean(row[key])}"
    if row.get("asks"):
        yield f"  asks first: {clean(', '.join(row['asks']))}"
    yield ""
    yield "a step that calls it; what is not written there is found in the steps before, or in memory:"
    yield clean_lines(row["example"])


_OF_ACTION = {"label": "label of what it gives", "undo": "undone by", "replaced_by": "replaced by"}


def _attribute(name: str, holds: str | list[str] | None) -> str:
    if holds is None:
        return name
    return f"{name} ({holds if isinstance(holds, str) else ' or '.join(holds)})"


def _slot(slot: Row) -> str:
    words = [word for word in ("optional", "list") if slot[word]]
    told = f" ({', '.join(words)})" if words else ""
    return f"{clean(slot['id'])}: {clean(' and '.join(slot['match']))}{told}"
