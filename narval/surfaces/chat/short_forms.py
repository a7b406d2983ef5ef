"""Answers of operations in short forms for a telephone: ten lines at most, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from narval.ask.text import Row, clean, counted, reminder_line, shortened
from narval.core.definitions.reminder import shown_moment
from narval.core.memory.labels import SECRET

MOST_LINES = 10
"""The most lines of an answer."""
MOST_CHARACTERS = 140
"""The most characters of a line."""
_TEXT_LINES = 5
"""The most lines of the text of an item; the message that asks has the whole text."""


def short(text: object) -> str:
    """A value on one short line."""
    return shortened(text, MOST_CHARACTERS)


def _lines(head: str, rows: Iterable[str], more: str = "") -> str:
    """A head and as many rows as fit, with a note on the rest."""
    rows = list(rows)
    room = MOST_LINES - 1 - bool(more)
    if len(rows) > room:
        rows = [*rows[: room - 1], f"… {len(rows) - room + 1} more"]
    return "\n".join(short(line) for line in (head, *rows, *([more] if more else [])))


def when(moment: str | None, now: float, zone: str) -> str:
    """A moment of an answer in short form; "" for None."""
    return shown_moment(datetime.fromisoformat(moment).timestamp(), now, zone) if moment else ""


class Clock:
    """The current moment, and the zone in which moments are shown."""

    def __init__(self, now: float, zone: str) -> None:
        self._now, self._zone = now, zone

    def __call__(self, moment: str | None) -> str:
        """A moment of an answer, in this person's zone; "" for None."""
        return when(moment, self._now, self._zone)


def status(answer: Row, clock: Clock) -> str:
    """The state of the home: what needs attention, what waits for people first."""
    runs, asked = answer["runs"], answer["waits_for"]["person"]
    failed = f", {runs['failed']} failed" if runs["failed"] else ""
    head = f"{counted(runs['active'], 'run')} under way{failed}"
    rows = [f"{'·' if row['grave'] == 'low' else '!'} {row['text']}" for row in answer["attention"]]
    if not rows:
        rows = ["nothing needs attention"]
    if answer["next"]:
        rows.append(f"next: {clock(answer['next'])}")
    return _lines(head, rows, "`work` has what you are asked" if asked else "")


def work(rows: Sequence[Row], clock: Clock) -> str:
    """The items for a person, the most urgent first."""
    if not rows:
        return "nothing is asked of you"
    more = f"see it: `show {rows[0]['item']}`; answer it: `answer {rows[0]['item']} OUTCOME`"
    return _lines("asked of you:", (_item_line(row, clock) for row in rows), more)


def _item_line(row: Row, clock: Clock) -> str:
    times = [row["urged"] or "", f"until {clock(row['deadline'])}" if row["deadline"] else ""]
    until = f" ({', '.join(filter(None, times))})" if any(times) else ""
    claimed = f", {row['claimed']['by']} has it" if row["claimed"] else ""
    return f"{row['item']} {row['title']}{until}{claimed}"


def item(row: Row, clock: Clock) -> str:
    """An item of work: what it asks, and how it is answered."""
    number, outcomes = row["item"], [outcome["name"] for outcome in row["outcomes"]]
    fields = [f"{field['name']}=…" for field in row["fields"]]
    if row["phase"] == "active":
        answer = f"answer {number} {' | '.join(outcomes)} {' '.join(fields)}".rstrip()
    else:
        answer = f"{row['state']}: {row['outcome'] or 'no outcome'}"
    text = [line[1:].strip() for line in row["text"].splitlines() if line.startswith("|")]
    text = [line for line in text if line and line != row["title"]]
    rest = []
    if len(text) > _TEXT_LINES:
        rest = ["… the rest is in the message that asked, or on the pages"]
    return _lines(_item_line(row, clock), [*text[:_TEXT_LINES], *rest], answer)


def runs(rows: Sequence[Row], clock: Clock) -> str:
    """The newest runs."""
    lines = []
    for row in rows:
        error = f": {row['error']['type']}: {row['error']['message']}" if row["error"] else ""
        lines.append(f"{row['eid']} {row['name']} {row['state']}{error} ({clock(row['started'])})")
    return _lines("newest runs:", lines) if lines else "no runs"


def run(row: Row, clock: Clock) -> str:
    """A run: its state, and its parts that are active or failed."""
    head = f"{row['eid']} {row['name']} is {row['state']}"
    ended = f", ended {clock(row['ended'])}" if row["ended"] else f", since {clock(row['started'])}"
    lines = []
    if row["error"]:
        lines.append(f"{row['error']['type']}: {row['error']['message']}")
    lines += [
        f"{part['id']}: {part['state']}"
        for part in row.get("steps", ())
        if part["state"] not in ("done", "todo", "history")
    ]
    number = row["eid"]
    more = f"`why {number}`, `cancel {number}`" if row["phase"] == "active" else f"`why {number}`"
    return _lines(head + ended, lines, more)


def why(answer: Row) -> str:
    """The reason why a run does not continue."""
    from narval.surfaces.cli.render import reasons  # here: it imports what a terminal needs

    lines = [line.strip().replace("`narval ", "`") for line in reasons.why(answer)]
    head, *rows = filter(None, lines)
    return _lines(head, rows)


def element(row: Row) -> str:
    """An element of memory."""
    state = "withdrawn" if row["withdrawn"] else "outdated" if row["outdated"] else ""
    of = f"made by {row['run_of']}" if row.get("run_of") else ""
    if _is_secret(row):
        how = f"not in a chat: `narval memory {row['eid']}`"
        return _lines(f"{row['eid']} {row['name']} is secret", filter(None, (state, of)), how)
    head = " ".join([str(row["eid"]), row["name"], row["title"]])
    return _lines(head, [*filter(None, (state, of)), row["xml"]])


def _is_secret(row: Row) -> bool:
    """True for an element whose text is not shown in a chat."""
    return any(label.startswith(SECRET) for label in row["labels"])


def elements(name: str, rows: Sequence[Row]) -> str:
    """The newest elements of a name."""
    if not rows:
        return f"no {clean(name)} in memory"
    texts = ("(secret)" if _is_secret(row) else row["title"] or row["xml"] for row in rows)
    return _lines(
        f"newest {clean(name)}:", (f"{row['eid']} {text}" for row, text in zip(rows, texts, strict=True))
    )


def reminders(rows: Sequence[Row]) -> str:
    """The reminders to come, the next one first."""
    if not rows:
        return "no reminders to come; for example: remind me at 17:30: call Ben"
    first = rows[0]["reminder"]
    return _lines("reminders:", map(reminder, rows), f"`forget {first}`, `snooze {first} 1h`")


def reminder(row: Row) -> str:
    """A reminder on a line, by its number."""
    return short(reminder_line(row))
