"""Operations on webhooks: their list, and adding the element of a call, once for each key of a sender."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.documents import raise_if_over_limit, raise_if_refused
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import Element, Origin
from narval.core.errors import ElementError, RequestError
from narval.core.memory.labels import HOOK
from narval.daemon.daemon import Daemon
from narval.files.agents.senders import HOOK_ORIGIN

KEYS = 1024
"""The most keys of senders that are remembered for a webhook, the latest."""

STATUSES = (400, 401, 408, 413, 415, 422, 429)
"""The statuses with which a call of a webhook is refused."""

LONGEST_KEY = 200
"""The most characters of a key."""


@operation("read")
async def hooks(daemon: Daemon) -> list[dict[str, Any]]:
    """The webhooks of `etc/narval.toml`: the element of each, its limits, the digest of its token.

    Each has the number of accepted calls, the moment of the last and its element; and the calls refused since
    the daemon began, by the status that was answered.
    """
    meta, refused = daemon.agent.facts, daemon.main_loop.numbers.refused
    return [
        {
            "hook": hook.name,
            "element": hook.element,
            "bytes": hook.bytes,
            "calls": hook.calls,
            "sha256": hook.sha256,
            **_taken(meta.get(f"{HOOK_ORIGIN}{hook.name}")),
            "refused": {str(status): refused[hook.name, status] for status in STATUSES
                        if refused[hook.name, status]},
        }
        for hook in daemon.files.settings.hooks.values()
    ]  # fmt: skip


def _taken(fact: str | None) -> dict[str, Any]:
    """The calls that a webhook has accepted: how many, the moment of the last, and its element."""
    if fact is None:
        return {"taken": 0, "last": None, "eid": None}
    count, at, eid = fact.split(" ")
    return {"taken": int(count), "last": json_forms.moment(float(at)), "eid": int(eid)}


@operation("write")
async def note_refused(daemon: Daemon, name: str, statuses: dict[str, int]) -> dict[str, Any]:
    """Count refused calls of a webhook, by the status that was answered."""
    if name not in daemon.files.settings.hooks:
        raise RequestError(f"there is no webhook {name!r:.80} in etc/narval.toml")
    if wrong := [status for status in statuses if status not in map(str, STATUSES)]:
        raise RequestError(f"expected statuses of {', '.join(map(str, STATUSES))}, got {wrong[0]!r:.20}")
    for status, count in statuses.items():
        daemon.main_loop.numbers.refused[name, int(status)] += max(0, count)
    return {"hook": name}


@operation("write")
async def take_hook(daemon: Daemon, name: str, element: bytes, key: str = "") -> dict[str, Any]:
    """Add the element of a call of a webhook; `again` is true if the sender had used the key before.

    The last 1,024 keys are remembered, each recorded with its element. Raises ElementError for text that is
    not an element, has another name, or is refused by its schema.
    """
    hook = daemon.files.settings.hooks.get(name)
    if hook is None:
        there = daemon.files.settings.hooks
        raise RequestError(f"there is no webhook {name!r:.80} in etc/narval.toml{closest(name, there)}")
    check_key(key)
    xml = canonical_given(element)
    if (found := Element(0, xml).name) != hook.element:
        raise ElementError("invalid", f"the webhook {name} gives <{hook.element}>, not <{found:.80}>")

    def work(turn: Turn) -> dict[str, Any]:
        fact = f"{HOOK_ORIGIN}{name}"
        keys = KeysOfSender(turn, fact)
        if (before := keys.eid(key)) is not None:
            return {"hook": name, "eid": before, "again": True}
        raise_if_refused(turn, [xml])
        raise_if_over_limit(turn, [xml])
        with turn.transaction.coming_with(turn.agent.memory.labels.number([f"{HOOK}{name}"])):
            eid = turn.add(xml, Origin(step=f"{HOOK_ORIGIN}{name}"))
        count = int(keys.meta.get(fact, "0").split(" ")[0])
        turn.transaction.batch.meta.append((fact, f"{count + 1} {turn.at} {eid}"))
        keys.record(key, eid)
        return {"hook": name, "eid": eid, "again": False}

    return dict(await daemon.host.submit(work))


def check_key(key: str) -> None:
    """Raise RequestError for an invalid key of a sender."""
    if len(key) > LONGEST_KEY or not (key.isprintable() or key == ""):
        raise RequestError(f"expected a key of at most {LONGEST_KEY} printable characters, got {key!r:.80}")


class KeysOfSender:
    """The latest keys of a sender, as facts of the store whose names start with `fact`, as of a turn."""

    def __init__(self, turn: Turn, fact: str) -> None:
        self.meta: Mapping[str, str] = {**turn.agent.facts, **dict(turn.transaction.batch.meta)}
        self._turn, self._fact = turn, fact
        rows = (row.split(" ", 2) for name, row in self.meta.items() if name.startswith(f"{fact}/"))
        self._keys = {key: (int(number), eids) for number, eids, key in rows}

    def eid(self, key: str) -> int | None:
        """The element or run that came with a key; None if none did, or the key is ""."""
        eids = self.eids(key)
        return eids[0] if eids else None

    def eids(self, key: str) -> list[int]:
        """The elements that came with a key; none if none did, or the key is ""."""
        recorded = self._keys[key][1] if key and key in self._keys else ""
        ends = (part.split("-") for part in recorded.split(",") if part)
        return [eid for each in ends for eid in range(int(each[0]), int(each[-1]) + 1)]

    def record(self, key: str, *eids: int) -> None:
        """Record the elements or the run that come with a key in this turn; nothing for "".

        Elements are recorded as "12", and as "12-14,17" if several came.
        """
        if not key or not eids:
            return
        number = 1 + max((number for number, _ in self._keys.values()), default=0)
        spans = [[eids[0], eids[0]]]
        for eid in eids[1:]:
            if eid == spans[-1][1] + 1:
                spans[-1][1] = eid
            else:
                spans.append([eid, eid])
        recorded = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
        row = f"{self._fact}/{number % KEYS}", f"{number} {recorded} {key}"
        self._turn.transaction.batch.meta.append(row)
