"""The lines that tell of one definition (M41)."""

from __future__ import annotations

from collections.abc import Iterator

from narval.ask.text import Row, clean, clean_lines, fault_line, moment
from narval.core.definitions.reading.durations import duration


def definition_lines(shown: Row) -> Iterator[str]:
    """The lines of `narval definitions NAME`."""
    yield f"{clean(shown['kind'])} {clean(shown['name'])}, version {shown['digest'][:12]}"
    if shown["description"]:
        yield f"  {clean(shown['description'])}"
    since = f", loaded {moment(shown['loaded'])}" if shown["loaded"] else ""
    yield f"  in {clean(shown['path'])}:{shown['line']}{since}"
    if shown["faulty"]:
        yield "  its file has faults now; this is its last good version"
        for fault in shown["file"]["faults"] if shown["file"] else ():
            yield f"    {clean(fault_line(fault))}"
    for way, title in (("calls", "calls"), ("called_by", "called by")):
        for row in shown[way]:
            yield f"  {title} {clean(row['kind'] or 'definition')} {clean(row['name'])}, {clean(row['what'])}"
    for name, value in shown["settings"].items():
        yield f"  {clean(name)}: {duration(value) if isinstance(value, float) else clean(value)}"
    under_way = [f"{shown['active']} under way"] if shown["active"] else []
    ended = [f"{count} {phase}" for phase, count in shown["ended"].items()]
    if under_way or ended:
        yield f"  runs: {', '.join([*under_way, *ended])}"
    for row in shown["dates"]:
        run = f", run {row['run']} {row['part'] or ''}".rstrip() if row["run"] else ""
        yield f"  at {moment(row['at'])}{run}{': ' if row['text'] else ''}{clean(row['text'])}"
    yield ""
    yield clean_lines(shown["source"])
