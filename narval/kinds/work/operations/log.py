"""The operation `work_log`: the audit of people's work, read only from journals (P37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.agent.run import Run
from narval.ask.asker import PROGRAM, Asker
from narval.ask.json_forms import moment
from narval.ask.paging import gathered, moment_from
from narval.ask.people import onlooker, who_acts
from narval.ask.registry import operation
from narval.ask.runs.history import lines
from narval.daemon.daemon import Daemon
from narval.kinds.work.engine.engine import changes
from narval.kinds.work.engine.listing import shows_votes
from narval.kinds.work.engine.state import WorkState
from narval.kinds.work.language.definition import WorkDefinition
from narval.kinds.work.operations.items import WorkView

_TOLD = {kind.__name__ for kind in changes.__args__} - {
    "WakeSet",
    "Asked",
    "Renewed",
    "NoticeAsked",
    "TokensVoided",
    "Fruitless",
}
"""The changes of an item that concern people."""

_VOTES = frozenset({"Voted", "VoteChanged", "TurnedAway"})
_NO_ANSWERS = frozenset({"no-answer", "not-authentic"})
"""The kinds of refused acts that reveal no vote."""

_MOMENTS = frozenset({"until", "due", "deadline"})
_NOT_SHOWN = frozenset({"what", "run", "text", "id", "inputs", "defaults", "options"})


@operation("read")
async def work_log(
    daemon: Daemon,
    item: int | None = None,
    person: str | None = None,
    since: str | None = None,
    *,
    asker: Asker = PROGRAM,
) -> list[dict[str, Any]]:
    """The acts on items, in order: who did what, when, by which right and way, and with which result.

    With `item`, only those on that item, else on all that the asker may see; with `person`, only those of
    that person; with `since`, only those from that moment on (ISO 8601, without an offset in the zone of the
    home).
    """
    zone = daemon.agent.clockwork.zone
    start = moment_from(since, zone) or 0.0
    look = WorkView(daemon, onlooker(daemon, asker), who_acts(daemon, asker))
    if item is not None:
        items = [look.item(item)]
    else:
        items = sorted((*look.open_items(), *look.items_over()), key=lambda item: item[0].eid)
    rows = (
        row if _is_for(look.person, row, definition, state) else _without_answer(row)
        for run, definition, state in items
        for row in acts_of(daemon, run)
    )
    late = (row for row in rows if since is None or (moment_from(row["at"], zone) or 0.0) >= start)
    visible = (row for row in late if _concerns(row, person))
    return await gathered(visible, None)


def _is_for(person: str | None, row: dict[str, Any], definition: WorkDefinition, state: WorkState) -> bool:
    """True unless the row is the draft of another, or the vote of another that is not shown yet."""
    if person is None or row["by"] == person or row.get("kind") in _NO_ANSWERS:
        return True
    is_shown = row["did"] not in _VOTES or not definition.is_voted or shows_votes(definition, state, person)
    return row["did"] != "Saved" and is_shown


def _without_answer(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("outcome", "fields", "why")}


def _concerns(row: dict[str, Any], person: str | None) -> bool:
    to = row.get("to") or ()
    return person is None or person in (row["by"], row.get("for"), row.get("of")) or person in to


def acts_of(daemon: Daemon, run: Run) -> Iterator[dict[str, Any]]:
    """The acts on an item, in order, as its journal has them."""
    for line in lines(daemon.agent.store, run.eid):
        if line["what"] not in _TOLD or (line["what"] == "NoticePutOff" and not line.get("why")):
            continue
        details = {name: value for name, value in line.items() if name not in _NOT_SHOWN}
        details["for"] = details.pop("instead_of", "")
        row = {"seq": details.pop("seq"), "at": details.pop("at"), "item": run.eid, "work": run.name}
        for name in _MOMENTS & details.keys():
            details[name] = moment(details[name])
        row |= {"did": line["what"], "by": details.pop("by", "") or None}
        yield row | {name: value for name, value in details.items() if value not in ("", None, [], {}, 0)}
