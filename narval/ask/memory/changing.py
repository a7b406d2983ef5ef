"""Operations that change memory: add elements, outdate elements."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from narval.agent.declared import LIBRARY, outdate_elements, replace_element
from narval.agent.request_keys import check_key
from narval.agent.turn import Turn
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import admitted, raise_if_over_limit, raise_if_refused
from narval.ask.lookup import files_of, no_element
from narval.ask.registry import operation
from narval.core.definitions.known_attributes import known_attributes, unread_attributes
from narval.core.elements.element import Element, Origin
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

ADD_KEYS = "key/add"
"""The prefix of the facts that record the keys with which elements were added."""


@operation("write")
async def add(
    daemon: Daemon,
    elements: list[bytes],
    replace: int | None = None,
    key: str = "",
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Add elements: of each document the root, or each child of a root `memory`. A `key` used before adds
    nothing and returns the eids of then. The last 1,024 keys are remembered.

    With `replace`, the one given element replaces that element, which is outdated; if `data/memory.xml`
    declares the old one, the new one is declared (N4). `warnings` report attributes that nothing reads, on
    elements that narval or an action interprets.
    """
    schemas, origin = files_of(daemon).schemas, asker.origin()
    parsed = await admitted(schemas, elements)
    check_key(key)
    if replace is not None and len(parsed) != 1:
        raise RequestError(f"one element replaces another: expected one, got {len(parsed)}")

    def added(turn: Turn) -> list[int]:
        raise_if_over_limit(turn, parsed)
        if turn.host_api.schemas is not schemas:
            raise_if_refused(turn, parsed)
        if replace is not None:
            replaceable(daemon, replace)
            made = structs.replace(origin or Origin(), inputs=(replace,))
            return [replace_element(turn, replace, parsed[0], made)]
        return [turn.add(element, origin) for element in parsed]

    def work(turn: Turn) -> list[int]:
        if not key:
            return added(turn)
        keys = turn.agent.request_keys
        if before := keys.eids(ADD_KEYS, key):
            return before
        eids = added(turn)
        keys.record(turn.transaction.batch.meta, ADD_KEYS, key, *eids)
        return eids

    eids, slips = await daemon.host.submit(work), _slips(daemon, parsed)
    return {"eids": eids, "warnings": slips} if slips else {"eids": eids}


LOOKED_AT = 1000
"""The most elements of one request that are checked for such attributes."""


def _slips(daemon: Daemon, elements: list[bytes]) -> list[str]:
    """The warnings about attributes that nothing reads, each once."""
    attributes, warnings = known_attributes(daemon.agent.library), dict[str, None]()
    for element in (Element(0, xml) for xml in elements[:LOOKED_AT]):
        if element.name in attributes:
            unread = unread_attributes(attributes, element.name, element.attributes)
            warnings |= dict.fromkeys(message for _, message in unread)
    return list(warnings)


@operation("write")
async def outdate(
    daemon: Daemon, eids: list[int], reason: str = "", *, asker: Asker = PROGRAM
) -> dict[str, Any]:
    """Outdate elements: no input or condition takes them any more (N18), and `--current` leaves them out.

    An element `outdated` records it, with the reason. Elements that are already outdated stay unchanged.
    """

    def work(turn: Turn) -> dict[str, Any]:
        outdated = turn.agent.memory.outdated
        found = [outdatable(daemon, eid).eid for eid in dict.fromkeys(eids)]
        fresh = tuple([eid for eid in found if eid not in outdated])
        note = outdate_elements(turn, fresh, reason, asker.origin()) if fresh else None
        return {"eids": list(fresh), "note": note}

    return dict(await daemon.host.submit(work))


def replaceable(daemon: Daemon, eid: int) -> Element:
    """The element of that number, which another may replace. Raises RequestError."""
    element = outdatable(daemon, eid)
    if eid in daemon.agent.memory.outdated:
        raise RequestError(f"element {eid} was replaced before: `narval why {eid}` tells by what")
    return element


def outdatable(daemon: Daemon, eid: int) -> Element:
    """The element of that number, which people may outdate. Raises RequestError."""
    memory = daemon.agent.memory
    element = memory.element(eid)
    if element is None:
        raise RequestError(no_element(daemon, eid))
    if memory.is_run(eid):
        raise RequestError(f"{eid} is a run, not an element of its own; `narval cancel {eid}` ends it")
    if memory.declared.get(eid, "").startswith(f"{LIBRARY}:"):
        raise RequestError(
            f"element {eid} ({element.name}) tells what a file of the home says: alter the file"
        )
    if eid in memory.reserved:
        raise RequestError(f"a call under way is replacing element {eid}; ask again when it has ended")
    return element
