"""Tables for people: the columns of each, and their layout.

On a terminal rich draws tables, with colours unless NO_COLOR is set, and one line for each row: if it is too
narrow, the last column, which is free text, shrinks first. Elsewhere they are plain text, and nothing is cut
off.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from narval.ask.text import Row, clean, counted, lasted, moment, person, root_attributes, shortened, zone
from narval.core.definitions.reading.durations import duration

SNIPPET = 100
"""The most characters of an element's XML in a line for people, and in a table on a terminal."""

_GAP = 2
"""The spaces between two columns."""

_LEAST = 8
"""The width to which the last column shrinks before the others do."""


class Column(NamedTuple):
    """One column of a table: its title, its cell for a row, and the colour of that cell."""

    title: str
    cell: Callable[[Row], object]
    right: bool = False
    style: Callable[[Row], str] | None = None
    is_moment: bool = False
    """True if the title names the zone of the moments."""
    most: int = 0
    """The most characters of a cell on a terminal; 0 for no limit."""

    @property
    def heading(self) -> str:
        """The text above the column."""
        return f"{self.title} ({zone()})" if self.is_moment else self.title


_PHASES = {"active": "yellow", "done": "green", "failed": "red", "cancelled": "magenta"}
_STATES = {
    state: colour
    for colour, states in {
        "yellow": "running ready fireable end active delayed held",
        "green": "done history fired complete",
        "red": "error erred failed fail discarded",
        "blue": "backtracked",
        "dim": "impossible todo skipped cancelled",
    }.items()
    for state in states.split()
}


def number(key: str) -> Callable[[Row], object]:
    """The cell of a number, empty for 0."""
    return lambda row: row[key] or ""


def of(key: str) -> Callable[[Row], object]:
    """The cell with the value of a key, empty without one."""
    return lambda row: "" if row.get(key) is None else row[key]


def _phase(row: Row) -> str:
    return _PHASES.get(str(row.get("phase")), "")


def _state(row: Row) -> str:
    return _STATES.get(str(row.get("state")), "")


def _state_until(row: Row) -> str:
    return f"{row['state']} until {moment(row['until'])}" if row.get("until") else str(row["state"])


def came_from(row: Row) -> str:
    """The file, or the run and step, that an element came from, and who gave it; "" if nothing is known."""
    origin = row.get("origin")
    if not origin:
        return ""
    hook = f"hook {origin['hook']}" if "hook" in origin else ""
    made = "endorsed" if "endorsed" in origin else hook or origin.get("file")
    made = made or (origin["run"] and f"run {origin['run']} {origin['step']}".rstrip())
    made = made or (origin.get("from") and f"agent {origin['from']}")
    return ", ".join(filter(None, (made, person(origin))))


def _uses(row: Row) -> str:
    if row.get("withdrawn") is not None:
        return "withdrawn"
    if row.get("outdated") or row.get("doubtful"):
        return "outdated" if row["outdated"] else "doubtful"
    return counted(len(row["used_by"]), "use") if row["used_by"] else ""


def _place(row: Row) -> str:
    return f"{row['path']}:{row['line']}" if row.get("line") else str(row.get("path") or "")


def _runs_of(row: Row) -> str:
    """The runs of a definition that are under way, and how the last of them ended."""
    under_way = [f"{row['active']} under way"] if row["active"] else []
    return ", ".join([*under_way, *(f"{count} {phase}" for phase, count in row["ended"].items())])


def _where(row: Row) -> str:
    """The parts of an action's inputs that say where it goes."""
    if row.get("where") is None:
        return "any part" if row["inputs"] else ""
    return ", ".join(row["where"])


def _parameter(slot: Row) -> str:
    name = f"{slot['id']}…" if slot["list"] else str(slot["id"])
    return f"[{name}]" if slot["optional"] else name


def _arc_state(row: Row) -> str:
    return "pending" if row["pending"] else "complete" if row["complete"] else "waiting"


def _waits_for(row: Row) -> str:
    """The sort of thing that a run waits for; for a call at other agents, their names."""
    sort = row.get("waits_for") or ""
    at = f" of {', '.join(row['agents'])}" if sort == "call" and row.get("agents") else ""
    return "" if sort == "nothing" else f"{sort}{at}"


def _error(row: Row) -> str:
    return str(row["error"]["message"]) if row.get("error") else ""


def _calls(row: Row) -> object:
    calls = row.get("calls")
    return len(calls) or "" if isinstance(calls, list) else calls or ""


def plain(*same: str, **keys: str) -> Iterator[Column]:
    """Columns that each show the value of a key: those with the key as title, then others by title."""
    return (Column(title, of(key)) for title, key in (dict(zip(same, same, strict=True)) | keys).items())


RUNS = (
    Column("run", of("eid"), right=True),
    *plain("name", "kind"),
    Column("state", of("state"), style=_phase),
    Column("waits for", _waits_for),
    Column("started", lambda row: moment(row["started"]), is_moment=True),
    Column("lasted", lasted, right=True),
    Column("error", _error, most=200),
)
TOKENS = (
    Column("token", of("id"), right=True),
    Column("node", of("node")),
    Column("state", of("state"), style=_state),
    *plain(guard="guard_action", execution="execution_type"),
    Column("external", lambda row: ":".join(row["external_path"])),
    Column("sets", lambda row: ", ".join(row["sets"])),
    Column("error", of("error"), right=True),
)
ARC_TOKENS = (
    Column("arc token", of("id"), right=True),
    *plain("arc", "from", "to"),
    Column("state", _arc_state),
    Column("execution", of("execution_type")),
    Column("parent", of("parent"), right=True),
    Column("child", of("child"), right=True),
)
WALKED = (
    Column("token", of("id"), right=True),
    Column("on", lambda row: row["node"] if "node" in row else f"{row['from']} → {row['to']}"),
    Column("state", lambda row: row["state"] if "node" in row else _arc_state(row), style=_state),
    Column("execution", of("execution_type")),
)
NODES = (Column("node", of("id")), Column("state", of("state"), style=_state), Column("type", of("type")))
ATTRIBUTES = (
    Column("attribute", lambda row: row.get("name") or row.get("id")),
    Column("value", of("value")),
)
STEPS = (
    Column("step", of("id")),
    Column("state", _state_until, style=_state),
    Column("target", of("target")),
    Column("calls", _calls, right=True),
)
SESSIONS = (
    Column("session", lambda row: str(row["id"]).partition(" ")[2], right=True),
    Column("state", of("state"), style=_state),
    Column("input", of("input"), right=True),
    Column("gave", lambda row: ", ".join(map(str, row["results"]))),
    Column("error", of("error"), right=True),
    Column("kept", lambda row: "kept" if row["kept"] else ""),
)
STREAMS = (Column("stream", of("id")), Column("tuples", lambda row: f"{row['tuples']:,}", right=True))


def _unread(row: Row) -> str:
    """The texts that are no numbers, or the number of tuples that lack the attribute."""
    if not row["texts"]:
        return f"none of {row['count']} tuples has it"
    return f"{row['count']}: {', '.join(map(repr, row['texts']) if row['attribute'] else row['texts'])}"


UNREAD = (
    Column("no number", lambda row: row["attribute"] or "(lines that do not fit)"),
    Column("in", lambda row: f"{row['key']}, line {row['line']}, {row['session']}"),
    Column("found", _unread),
)
PRINTED = (*plain("session"), Column("printed", of("line")))
OPERATORS = (
    Column("operator", of("id")),
    Column("line", of("line"), right=True),
    Column("state", of("state"), style=_state),
    Column("in", of("taken"), right=True),
    Column("out", of("given"), right=True),
    Column("requests", lambda row: row["requests"] or "", right=True),
)
STATES = (
    Column("state", of("id")),
    Column("is", of("state"), style=_state),
    Column("since", lambda row: moment(row["since"]), is_moment=True),
    Column("ended with", lambda row: "0, up to date" if row.get("skipped") else row.get("label", "")),
    Column("last success", lambda row: moment(row["succeeded"]), is_moment=True),
    Column("ran", lambda row: duration(row["seconds"]["running"]) if row["visits"] else "", right=True),
    Column("visits", of("visits"), right=True),
    Column("runs", of("target"), most=60),
    Column("printed last", lambda row: (row.get("output") or "").rpartition("\n")[2], most=100),
)
TRANSITIONS = (Column("transition", of("id")), Column("state", _state_until, style=_state))
VERSIONS = (
    Column("version", lambda row: row["digest"][:12]),
    Column("since", lambda row: moment(row["loaded"]), is_moment=True),
    Column("", lambda row: "current" if row["current"] else ""),
    Column("runs", of("runs"), right=True),
    Column("under way", of("active"), right=True),
    Column("file", of("path")),
)
DEFINITIONS = (
    *plain("kind", "name"),
    Column("file", lambda row: _place(row) + (" (has faults now)" if row["faulty"] else "")),
    Column("loaded", lambda row: moment(row["loaded"]), is_moment=True),
    Column("runs", _runs_of),
    Column("description", of("description")),
)
ACTIONS = (
    *plain(action="name", runs="runs"),
    Column("outside", lambda row: "yes" if row.get("outside") else ""),
    Column("replaced by", lambda row: row.get("replaced_by") or ""),
    Column("takes", lambda row: ", ".join(map(_parameter, row["inputs"]))),
    Column("gives", lambda row: ", ".join(map(_parameter, row["outputs"]))),
    Column("where", _where, most=60),
    Column("asks first", lambda row: ", ".join(row.get("asks", ()))),
    Column("description", of("description")),
)
COMPARED = (*plain(file="path", state="state"),)
EXAMPLES = (*plain(example="name", subject="subject", about="about"),)
CALLS = (
    Column("run", of("run"), right=True),
    Column("step", of("step")),
    Column("call of", of("target")),
    Column("for", lambda row: "" if row.get("age") is None else duration(row["age"]), right=True),
    Column("progress", lambda row: " of ".join(map(str, row["progress"])) if row.get("progress") else ""),
)
CALLS_OF_RUN = (
    *plain("call", "step"),
    Column("agent", lambda row: row.get("agent", "")),
    Column("inputs", lambda row: ", ".join(map(str, row["inputs"]))),
    Column("gave", lambda row: "under way" if row["gave"] is None else ", ".join(map(str, row["gave"]))),
)
AGENTS = (
    *plain(agent="name", state="state"),
    *(Column(title, of(title), right=True) for title in ("elements", "runs", "calls")),
    *(Column(title, number(title), right=True) for title in ("failed", "asked", "faults")),
    Column("kB", lambda row: f"{row['resident'] // 1000}" if row["resident"] else "", right=True),
    Column("next", lambda row: moment(row["next"]), is_moment=True),
    Column("owner", lambda row: (row["owner"] or "nobody") if "owner" in row else ""),
    Column("epoch", lambda row: row.get("epoch") or "", right=True),
    Column("why", of("why")),
)
LETTERS = (
    *plain("from", "to", "kind", "element"),
    Column("bytes", of("bytes"), right=True),
    Column("sent", lambda row: moment(row["at"]), is_moment=True),
    Column("until", lambda row: moment(row["until"]), is_moment=True),
)
FACETS = (*plain("name"), Column("count", lambda row: f"{row['count']:,}", right=True))
DEAD_LETTERS = (
    Column("letter", of("letter"), right=True),
    *plain("to", "element"),
    Column("at", lambda row: moment(row["at"]), is_moment=True),
    Column("reason", of("reason")),
)
LIMITS = (
    Column("what", of("what")),
    Column("used", lambda row: "" if row["used"] is None else f"{row['used']:,}", right=True),
    Column("limit", lambda row: "" if row["limit"] is None else f"{row['limit']:,}", right=True),
)
REMEMBERED_NAMES = (
    *plain("name"),
    Column("items", of("items"), right=True),
    Column("by", lambda row: ", ".join(row["by"])),
)
REMEMBERED = (
    *plain("key"),
    Column("first", lambda row: moment(row["first"]), is_moment=True),
    Column("last", lambda row: moment(row["last"]), is_moment=True),
    Column("tuple", of("tuple")),
)
LATER = (
    Column("at", lambda row: moment(row["at"]), is_moment=True),
    Column("what", of("what")),
    Column("about", of("about"), most=100),
)

PARTS = (
    (STEPS, "steps"), (STATES, "states"), (TRANSITIONS, "transitions"), (NODES, "nodes"), (TOKENS, "tokens"),
    (ATTRIBUTES, "environment"), (SESSIONS, "sessions"), (OPERATORS, "operators"), (STREAMS, "streams"),
    (UNREAD, "unread"), (PRINTED, "printed"),
)  # fmt: skip
"""The tables of a run, by the key in its answer; a kind has some of them."""


def elements(columns: Mapping[str, Sequence[str]]) -> tuple[Column, ...]:
    """The columns of a table of elements; `columns` has, by root name, the attributes shown instead of the
    XML.
    """
    return (
        Column("eid", of("eid"), right=True),
        Column("added", lambda row: moment(row["added"]), is_moment=True),
        Column("from", came_from),
        Column("used", _uses),
        Column("element", lambda row: _element(row, columns.get(row["name"], ())), most=SNIPPET),
    )


def _element(row: Row, names: Sequence[str]) -> str:
    """The name of an element and its attributes `names`; its XML if it has none of them."""
    attributes = root_attributes(row["xml"]) if names else {}
    text = " ".join(f'{name}="{attributes[name]}"' for name in names if name in attributes)
    return f"{row['name']} {text}" if text else str(row["xml"])


# --- tables -------------------------------------------------------------------------------------------------


def listing(columns: Sequence[Column], rows: Sequence[Row], none: str) -> None:
    """Write what a command lists as a table; if there is nothing, the words of `none` on standard error."""
    if rows:
        table(columns, rows)
    else:
        click.echo(clean(none), err=True)


def table(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write a table, without the columns that are empty."""
    listed = list(rows)
    drawn = sys.stdout.isatty()
    cells = [[_text(column, row, cut=drawn) for column in columns] for row in listed]
    indexes = [index for index in range(len(columns)) if any(line[index] for line in cells)]
    columns = [columns[index] for index in indexes]
    cells = [[line[index] for index in indexes] for line in cells]
    if drawn and columns:
        styles = [[column.style(row) if column.style else "" for column in columns] for row in listed]
        _drawn(columns, cells, styles)
    elif columns:
        click.echo("\n".join(_plain(columns, cells)))


def _text(column: Column, row: Row, *, cut: bool) -> str:
    cell = column.cell(row)
    return shortened(cell, column.most) if cut and column.most else clean(cell)


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Write names and values below each other; those without a value are left out."""
    visible = [(name, clean(value)) for name, value in pairs if value not in (None, "", [])]
    width = max((len(name) for name, _ in visible), default=0)
    for name, value in visible:
        click.echo(f"{name:<{width}}  {value}")


def _plain(columns: Sequence[Column], cells: list[list[str]]) -> Iterator[str]:
    lines = [[column.heading for column in columns], *cells]
    widths = [max(_width(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = []
        for column, width, cell in zip(columns, widths, line, strict=True):
            blank = " " * (width - _width(cell))
            padded.append(blank + cell if column.right else cell + blank)
        yield (" " * _GAP).join(padded).rstrip()


def _drawn(columns: Sequence[Column], cells: list[list[str]], styles: list[list[str]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    lines = [[Text(column.heading, "dim") for column in columns]]
    for line, style in zip(cells, styles, strict=True):
        lines.append([Text(cell, colour) for cell, colour in zip(line, style, strict=True)])
    natural = [max(line[index].cell_len for line in lines) for index in range(len(columns))]
    widths = _fitted(natural, console.width - _GAP * (len(columns) - 1))
    for row in lines:
        for column, width, text in zip(columns, widths, row, strict=True):
            text.truncate(width, overflow="ellipsis")
            text.align("right" if column.right else "left", width)
        whole = Text(" " * _GAP).join(row)
        whole.rstrip()
        console.print(whole, no_wrap=True, overflow="ellipsis")


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Widths that fit in a terminal: the last column shrinks first, then the widest."""
    widths = list(natural)
    excess = sum(widths) - room
    if excess > 0:
        cut = min(excess, max(0, widths[-1] - _LEAST))
        widths[-1] -= cut
        excess -= cut
    while excess > 0 and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
        excess -= 1
    return widths


def _width(text: str) -> int:
    """The width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
