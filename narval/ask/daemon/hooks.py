"""Operations on webhooks: list them, and add the element of a call, once for each key of a sender."""

from __future__ import annotations

from typing import Any

from narval.agent.request_keys import check_key
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

STATUSES = (400, 401, 408, 413, 415, 422, 429)
"""The statuses with which a call of a webhook is refused."""


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
    """The calls that a webhook has accepted: their number, the moment of the last, and its element."""
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
        fact, facts, keys = f"{HOOK_ORIGIN}{name}", turn.transaction.batch.meta, turn.agent.request_keys
        if (before := keys.eid(fact, key)) is not None:
            return {"hook": name, "eid": before, "again": True}
        raise_if_refused(turn, [xml])
        raise_if_over_limit(turn, [xml])
        with turn.transaction.coming_with(turn.agent.memory.labels.number([f"{HOOK}{name}"])):
            eid = turn.add(xml, Origin(step=f"{HOOK_ORIGIN}{name}"))
        last = next((text for each, text in reversed(facts) if each == fact), turn.agent.facts.get(fact))
        count = _taken(last)["taken"]
        facts.append((fact, f"{count + 1} {turn.at} {eid}"))
        keys.record(facts, fact, key, eid)
        return {"hook": name, "eid": eid, "again": False}

    return dict(await daemon.host.submit(work))
