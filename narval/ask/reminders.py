"""Operations on reminders: set, list, forget, snooze (docs/reference/modules/reminders.md).

A reminder is an element, and a recipe that ships waits for its moment. The first reminder starts the recipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree
from msgspec.structs import replace

from narval.agent.declared import outdate_elements, replace_element
from narval.agent.runs import cannot_start
from narval.agent.turn import Turn
from narval.ask.asker import CHAT, PROGRAM, Asker
from narval.ask.documents import raise_if_over_limit, raise_if_refused
from narval.ask.lookup import command
from narval.ask.memory.changing import outdatable
from narval.ask.people import onlooker
from narval.ask.registry import operation
from narval.ask.withholding import is_withheld
from narval.core.definitions.appointment import read_date
from narval.core.definitions.reminder import (
    Reminder,
    iso_moment,
    later,
    read_reminder,
    read_snooze,
    reminder_in,
    shown_moment,
)
from narval.core.elements.element import Element, Origin, Tree
from narval.core.elements.own_elements import xml_safe
from narval.core.engines.registry import runnable
from narval.core.errors import NotFoundError, RequestError
from narval.core.memory.lineage import current
from narval.daemon.daemon import Daemon
from narval.system.clock import is_zone

REMINDER, RECIPE = "reminder", "reminders.tell"
_TAKE = "narval take recipes/reminders.xml"


@operation("people")
async def remind(
    daemon: Daemon, text: str, chat: str = "", maybe: bool = False, *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Set a reminder from a person's text, such as `at 17:30: call Ben`, in their zone.

    It is sent to the `chat` of that name, by default in the ways of the home's `notify` elements. The recipe
    `reminders.tell` is started if it does not wait for reminders yet. With `maybe`, a text about something
    else sets none, and the answer is empty. Raises RequestError for a text that cannot be understood, and if
    no recipe waits for reminders.
    """
    person = onlooker(daemon, asker) or ""
    now, zone = daemon.rounds.clock.now(), _zone(daemon, person)
    try:
        reminder = reminder_in(text, now, zone)
        if reminder is None and not maybe:
            reminder = read_reminder(text, now, zone)
    except ValueError as error:
        raise RequestError(str(error)) from None
    if reminder is None:
        return {}
    xml = _element(reminder, person, chat, zone)

    def work(turn: Turn) -> int:
        raise_if_over_limit(turn, [xml], runs=1)
        raise_if_refused(turn, [xml])
        _listen(daemon, turn, xml, asker)
        return turn.add(xml, asker.origin())

    await _look_for_recipe(daemon)
    eid: int = await daemon.host.submit(work)
    row = _row(daemon, _there(daemon, eid), asker)
    if not chat and not any(_ways(daemon)):
        row["warnings"] = [
            "no way to tell you is set up: add one to data/memory.xml, such as "
            '<notify name="desk" way="desktop"/>'
        ]
    return row


@operation("read")
async def reminders(daemon: Daemon, of_all: bool = False, *, asker: Asker = PROGRAM) -> list[dict[str, Any]]:
    """The asker's upcoming reminders, the next one first; with `of_all` everybody's, for operators."""
    person = onlooker(daemon, asker)
    if of_all and not _may_see_all(daemon, person):
        raise RequestError("only operators see the reminders of others; ask for your own")
    memory = daemon.agent.memory
    elements = (memory.element(eid) for eid in memory.named([REMINDER]) if eid not in memory.outdated)
    rows = [
        _row(daemon, element, asker)
        for element in elements
        if element is not None and (of_all or _is_of(daemon, element, person))
    ]
    return sorted(rows, key=lambda row: (row["at"] is None, _moment(daemon, row["at"]), row["reminder"]))


@operation("people")
async def forget_reminder(daemon: Daemon, reminder: int, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Forget a reminder: it is not sent, and does not recur.

    A recurring one may be named by any number under which it was sent. Raises RequestError for one that is
    not the asker's, unless an operator asks.
    """
    person = onlooker(daemon, asker)

    def work(turn: Turn) -> Element:
        element = _own(daemon, reminder, person)
        if element.eid in daemon.agent.memory.outdated:
            raise RequestError(f"reminder {reminder} was told, or forgotten, before; it does not come again")
        outdatable(daemon, element.eid)
        outdate_elements(turn, (element.eid,), "forgotten", asker.origin())
        return element

    return _row(daemon, await daemon.host.submit(work), asker)


@operation("people")
async def snooze(daemon: Daemon, reminder: int, length: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Snooze a reminder for a length of time, such as "1h".

    One already sent comes again after that time, in addition to its series; an upcoming one is delayed by
    that time. Raises RequestError for one that is not the asker's, unless an operator asks.
    """
    person, now = onlooker(daemon, asker), daemon.rounds.clock.now()
    try:
        put_off = read_snooze(length)
    except ValueError as error:
        raise RequestError(str(error)) from None

    def work(turn: Turn) -> int:
        element = _own(daemon, reminder, person, follow=False)
        zone, tree = _zone_of(daemon, element), element.tree()
        tree.attrib.pop("eid", None)
        has_been = element.eid in daemon.agent.memory.outdated
        if has_been:
            tree.attrib.pop("every", None)
        since = now if has_been else _moment(daemon, tree.get("at"))
        try:
            tree.set("at", iso_moment(later(since, put_off, zone), zone))
        except ValueError as error:
            raise RequestError(str(error)) from None
        xml = etree.tostring(tree)
        raise_if_over_limit(turn, [xml], runs=1)
        _listen(daemon, turn, xml, asker)
        if has_been:
            return turn.add(xml, asker.origin())
        outdatable(daemon, element.eid)
        origin = asker.origin() or Origin()
        return replace_element(turn, element.eid, xml, replace(origin, inputs=(element.eid,)))

    await _look_for_recipe(daemon)
    eid: int = await daemon.host.submit(work)
    return _row(daemon, _there(daemon, eid), asker)


# --- the element --------------------------------------------------------------------------------------------


def _element(reminder: Reminder, person: str, chat: str, zone: str) -> bytes:
    values = {"at": iso_moment(reminder.at, zone), "every": reminder.every, "zone": zone}
    values |= {"person": person, "chat": chat}
    element = etree.Element(REMINDER, {name: xml_safe(value) for name, value in values.items() if value})
    element.text = xml_safe(reminder.text)
    return etree.tostring(element)


def _row(daemon: Daemon, element: Element, asker: Asker) -> dict[str, Any]:
    """A reminder for a listing; `at` is None if its moment cannot be read, and `shown` says when. A chat does
    not get the text of a secret one.
    """
    is_untold = asker.way == CHAT and is_withheld(daemon.agent, element.eid, ())
    attributes, now = element.attributes, daemon.rounds.clock.now()
    zone, at = _zone_of(daemon, element), _moment(daemon, attributes.get("at"))
    is_moment = at < _NEVER
    return {
        "reminder": element.eid,
        "at": iso_moment(at, zone) if is_moment else None,
        "shown": shown_moment(at, now, zone) if is_moment else "never: its moment cannot be read",
        "every": attributes.get("every", ""),
        "text": "(secret)" if is_untold else element.text.strip(),
        "person": attributes.get("person", ""),
        "chat": attributes.get("chat", ""),
        "zone": zone,
    }


_NEVER = float("inf")


def _moment(daemon: Daemon, text: str | None) -> float:
    """The moment that a reminder names, as its recipe reads it; after all others if it cannot be read."""
    try:
        return read_date(text or "", daemon.agent.clockwork.zone)
    except ValueError:
        return _NEVER


def _there(daemon: Daemon, eid: int) -> Element:
    element = daemon.agent.memory.element(eid)
    if element is None or element.name != REMINDER:
        listed = f"`{command(daemon, 'reminders')}` lists them"
        raise NotFoundError(f"there is no reminder {eid}; {listed}")
    return element


def _own(daemon: Daemon, eid: int, person: str | None, *, follow: bool = True) -> Element:
    """The reminder of a number that a person may change, in its current version. Raises RequestError."""
    element = _there(daemon, eid)
    if not (_is_of(daemon, element, person) or _may_see_all(daemon, person)):
        listed = f"`{command(daemon, 'reminders')}` lists them"
        raise NotFoundError(f"there is no reminder {eid} of yours; {listed}")
    version = current(daemon.agent.memory, eid) if follow else None
    return element if version is None else _there(daemon, version)


def _is_of(daemon: Daemon, element: Element, person: str | None) -> bool:
    """True for a reminder of a person; those without a person belong to the operators."""
    owner = element.attributes.get("person", "")
    return owner == person if owner and person is not None else _may_see_all(daemon, person)


def _may_see_all(daemon: Daemon, person: str | None) -> bool:
    return person is None or daemon.agent.lookup.people.is_operator(person)


def _zone_of(daemon: Daemon, element: Element) -> str:
    """The zone of a reminder; that of its person if it names none."""
    named = element.attributes.get("zone", "")
    return named if is_zone(named) else _zone(daemon, element.attributes.get("person", ""))


def _zone(daemon: Daemon, person: str = "") -> str:
    """The zone of a person, by default that of the home."""
    who = daemon.agent.lookup.people.person(person)
    return who.zone if who is not None and who.zone else daemon.agent.clockwork.zone


# --- the recipe ---------------------------------------------------------------------------------------------


async def _look_for_recipe(daemon: Daemon) -> None:
    """Read the files of the home if no recipe of reminders is loaded: it may have just been saved."""
    if daemon.follows_files and runnable(daemon.agent.library, RECIPE) is None:
        await daemon.reloader.reload()


def _listen(daemon: Daemon, turn: Turn, xml: bytes, asker: Asker) -> None:
    """Start the recipe of reminders unless it waits for them. Raises RequestError if none waits then."""
    agent = turn.agent
    woken = [agent.runs[run].name for run, _ in agent.watches.index.wakes(Tree(Element(0, xml)))]
    if turn.transaction.record_only:  # runs receive no events, so none waits yet
        woken += [run.name for run in agent.runs.active.values() if run.name == RECIPE]
    if RECIPE in woken or any(job.name == RECIPE for job in agent.clockwork.starts.values()):
        return
    definition = runnable(agent.library, RECIPE)
    if definition is not None:
        if (refused := cannot_start(agent, definition)) is not None:
            raise RequestError(refused[1])
        turn.start(RECIPE, origin=asker.origin())
    elif not woken:
        raise RequestError(f"no recipe waits for reminders; take the one that ships: `{_TAKE}`")


def _ways(daemon: Daemon) -> Iterator[int]:
    """The elements that say how to notify the user of the home."""
    memory = daemon.agent.memory
    return (eid for eid in memory.named(["notify"]) if eid not in memory.outdated)
