"""The lines about one definition (M41)."""

from __future__ import annotations

from collections.abc import Iterator

from narval.ask.text import Row, clean, clean_lines, fault_line, moment
from narval.core.definitions.reading.durations import duration


def definition_lines(answer: Row) -> Iterator[str]:
    """The lines of `narval definitions NAME`."""
    yield f"{clean(answer['kind'])} {clean(answer['name'])}, version {answer['digest'][:12]}"
    if answer["description"]:
        yield f"  {clean(answer['description'])}"
    since = f", loaded {moment(answer['loaded'])}" if answer["loaded"] else ""
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
        yield f"  {clean(name)}: {duration(value) if isinstance(value, float) else clean(value)}"
    under_way = [f"{answer['active']} under way"] if answer["active"] else []
    ended = [f"{count} {phase}" for phase, count in answer["ended"].items()]
    if under_way or ended:
        yield f"  runs: {', '.join([*under_way, *ended])}"
    for row in answer["dates"]:
        run = f", run {row['run']} {row['part'] or ''}".rstrip() if row["run"] else ""
        yield f"  at {moment(row['at'])}{run}{': ' if row['text'] else ''}{clean(row['text'])}"
    yield ""
    yield clean_lines(answer["source"])
