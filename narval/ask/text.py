"""Words and numbers for people, JSON for programs.

Everything from outside is displayed without control characters: the subject of a mail must not control a
terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from narval.core.definitions.reading.durations import duration
from narval.core.source.secrets import without_secrets

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

Row = Mapping[str, Any]

_zone_name: ContextVar[Callable[[], str]] = ContextVar("narval-shown-zone", default=lambda: "")

BIDIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""The codes of characters that reverse the display order of others."""
_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_VISIBLE |= {code: f"\\u{code:04x}" for code in BIDIRECTIONAL}
_BLANK = dict.fromkeys(map(ord, "\t\n\r\v\f"), " ")
_REFERENCE = {code: f"&#x{code:x};" for code in (*range(0x7F, 0xA0), *BIDIRECTIONAL)}
_ESCAPE = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *BIDIRECTIONAL)}


def clean(value: object) -> str:
    """A value on one line, with control characters visible and secrets hidden."""
    return " ".join(without_secrets(str(value)).translate(_VISIBLE | _BLANK).split())


def printable(line: str) -> str:
    """A line of a file, unchanged except that control characters are visible."""
    return line.translate(_VISIBLE)


def clean_lines(text: str) -> str:
    """A text of several lines, with control characters visible and secrets hidden."""
    return "\n".join(line.translate(_VISIBLE) for line in without_secrets(text).expandtabs().splitlines())


def shortened(value: object, most: int) -> str:
    """A value on one line, cut to a number of characters."""
    text = clean(value)
    return text if len(text) <= most else text[: most - 1] + "…"


_HEAD = ("seq", "at", "run", "what", "agent")


def details(line: Row, most: int) -> str:
    """The fields of a history line after its head, each cut to a number of characters."""
    import json  # here: answers for people need no JSON

    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in line.items()
        if key not in _HEAD
    }
    return " ".join(key + "=" + (shortened(text, most) or "''") for key, text in texts.items())


def person(row: Row) -> str:
    """The person that a row is by, with the person who acted for them or the monitor session in brackets."""
    actor = f"{row['way']}, session {row['session']}" if row.get("way") else row.get("actor")
    return f"{row.get('by')} ({actor})" if actor else str(row.get("by") or "")


def root_attributes(xml: str) -> dict[str, str]:
    """The attributes of the root of an element of memory, parsing only its start tag."""
    from xml.parsers import expat  # here: only tables of elements need it

    collected: dict[str, str] = {}
    parser = expat.ParserCreate()

    def start(_: str, attributes: dict[str, str]) -> None:
        collected.update(attributes)
        parser.StartElementHandler = None

    parser.StartElementHandler = start
    parser.Parse(xml, True)
    return collected


def json_bytes(value: Any, *, indent: int | None = 2) -> bytes:
    """A value as JSON in UTF-8."""
    import json  # here: answers for people need no JSON

    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text.translate(_ESCAPE).encode("utf-8", "backslashreplace")


def xml_text(xml: str) -> str:
    """XML that is safe to write to a terminal: control characters that XML permits become references."""
    return xml.translate(_REFERENCE)


def moment(text: str | None) -> str:
    """A moment for people, in the zone of the home, to the second."""
    return moment_exactly(text)[:19]


def moment_in_zone(text: str | None) -> str:
    """A moment for people with the name of its zone, for a sentence without a heading."""
    return f"{moment(text)} {zone()}" if text else ""


def text_of(said: Iterable[str | Row], when: Callable[[str], str]) -> str:
    """A sentence as text: elements with their names and numbers, its moments written by `when`, and moments
    in quoted texts unchanged.
    """
    return "".join(_text_of(piece, when) for piece in said)


def _text_of(piece: str | Row, when: Callable[[str], str]) -> str:
    if isinstance(piece, str):
        return piece
    if "moment" in piece:
        return when(piece["moment"])
    if "element" not in piece:
        return str(piece["title"])
    name, _, about = piece["title"].partition(" · ")
    return f"{name or 'element'} {piece['element']}" + (f" · {about}" if about else "")


def moments_of_zone() -> str:
    """The heading of lines with moments."""
    return f"moments of {zone()}"


def moment_there(text: str) -> str:
    """A moment for people, in its own zone, to the second."""
    return text[:19].replace("T", " ")


def moment_exactly(text: str | None) -> str:
    """A moment for people, in the zone of the home, to the millisecond."""
    if not text:
        return ""
    from datetime import datetime

    return in_shown_zone(datetime.fromisoformat(text)).isoformat(" ", "milliseconds")[:23]


def lasted(run: Row) -> str:
    """The time from the beginning of a run to its end, waits included, once it has ended."""
    if not (run.get("started") and run.get("ended")):
        return ""
    from datetime import datetime

    began, ended = (datetime.fromisoformat(run[key]) for key in ("started", "ended"))
    return duration((ended - began).total_seconds())


def newer_file(run: Row) -> str:
    """The sentence on a run whose file is newer than the version that it keeps; "" for any other."""
    newer = run.get("newer")
    if not newer:
        return ""
    since = moment_in_zone(newer["since"])
    of = f"the version of {since}" if since else f"version {run['definition'][:12]}"
    return f"waits with {of}; the file is newer"


def older_code(files: Iterable[str], run: int) -> str:
    """The sentence on a run that keeps older versions of these files of modules; "" for none."""
    listed = ", ".join(files)
    again = f"`narval renew {run}` restarts it"
    return f"keeps {listed} as read when it began; the file is newer: {again}" if listed else ""


def fault_line(fault: Row) -> str:
    """A fault, with its place in front."""
    return f"{fault['path']}:{fault['line']}:{fault['column']}: {fault['message']}"


def size(count: int) -> str:
    """A number of bytes in a suitable unit."""
    value, place, units = float(count), 0, ("bytes", "kB", "MB", "GB", "TB")
    while value >= 999.5 and place < len(units) - 1:
        value, place = value / 1000, place + 1
    return f"{value:.1f} {units[place]}" if place and value < 10 else f"{value:.0f} {units[place]}"


def zone() -> str:
    """The name of the zone in which moments are displayed to people."""
    name = _shown_zone()
    return name.key if name is not None else zone_of_machine()


def zone_of_machine() -> str:
    """The name of the machine's zone; both names if it has summer time."""
    import time

    standard, summer = time.tzname
    return f"{standard}/{summer}" if time.daylight and summer != standard else standard


def show_moments_in(zone_name: Callable[[], str]) -> None:
    """Display moments in the zone of that name from now on; "" means the zone of the machine.

    The name is requested when the first moment is displayed.
    """
    _zone_name.set(cache(zone_name))


def in_shown_zone(moment: datetime) -> datetime:
    """The same moment, in the zone in which moments are displayed to people."""
    return moment.astimezone(_shown_zone())


def _shown_zone() -> ZoneInfo | None:
    """The zone in which moments are displayed to people; None for the machine's."""
    name = _zone_name.get()()
    if not name:
        return None
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def when_reminded(row: Row) -> str:
    """The moment of a reminder, and how often it comes again."""
    again = f", every {row['every']}" if row["every"] else ""
    return f"{row['shown']}{again}"


def reminder_line(row: Row) -> str:
    """A reminder on a line, by its number."""
    return f"{row['reminder']} {when_reminded(row)}: {row['text']}"


def counted(count: int, thing: str, things: str | None = None) -> str:
    """`1 fault`, `3 faults`, `1,200 faults`."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


class WayIn(NamedTuple):
    """A label, and the steps by which it reaches parts of a call."""

    label: str
    steps: tuple[str, ...]


MOST_NUMBERS = 100
"""The most numbers of elements that are listed one by one."""


def numbers(eids: Sequence[int]) -> str:
    """The numbers of elements; of very many, their count, the first and the last."""
    if len(eids) <= MOST_NUMBERS:
        return ", ".join(map(str, eids))
    return f"{counted(len(eids), 'element')}, {min(eids)} to {max(eids)}: --json tells all"


def ways_in(call: Row) -> dict[WayIn, list[str]]:
    """The ways of labels to those parts of a `reach` call that are not simply allowed, each with the parts it
    leads to.
    """
    parts: dict[WayIn, list[str]] = {}
    for part in call["parts"]:
        name = "/".join(filter(None, (part["input"], part["path"]))) or "that it is called"
        for one in part["labels"]:
            if one["prospect"] != "allowed" and one.get("way"):
                parts.setdefault(WayIn(one["label"], tuple(one["way"])), []).append(name)
    return parts


def of_others(row: Row) -> str:
    """`1 definition that agent bob and 2 more follow waits`: the sentence on grants for other agents."""
    waits = "waits" if len(row["withheld"]) == 1 else "wait"
    follow = f"and {row['others']} more follow" if row["others"] else "follows"
    return f"{counted(len(row['withheld']), 'definition')} that agent {row['agent']} {follow} {waits}"


def article(noun: str) -> str:
    """The article before a noun: `a process`, `an automaton`."""
    return "an" if noun[0] in "aeiou" else "a"
