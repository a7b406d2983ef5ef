"""Operations on webhooks: which there are, and the element that one gives, once for each key of a sender."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narval.agent.turn import Turn
from narval.ask.documents import raise_if_over_limit, raise_if_refused
from narval.ask.registry import operation
from narval.core.definitions.suggestions import closest
from narval.core.elements.canonical import canonical_given
from narval.core.elements.element import Element, Origin
from narval.core.errors import ElementError, RequestError
from narval.core.memory.labels import HOOK
from narval.daemon.daemon import Daemon
from narval.files.agents.webhooks import ORIGIN

KEYS = 1024
"""So many keys of senders are remembered of a webhook, the latest."""

LONGEST_KEY = 200
"""The most characters of a key."""


@operation("read")
async def hooks(daemon: Daemon) -> list[dict[str, Any]]:
    """The webhooks of `etc/narval.toml`: the element each gives, its limits, and the digest of its token."""
    return [
        {
            "hook": hook.name,
            "element": hook.element,
            "bytes": hook.bytes,
            "calls": hook.calls,
            "sha256": hook.sha256,
        }
        for hook in daemon.files.settings.hooks.values()
    ]


@operation("write")
async def take_hook(daemon: Daemon, name: str, element: bytes, key: str = "") -> dict[str, Any]:
    """Add the element that a webhook gives; `again` if one with that key of its sender was added before.

    The last 1,024 keys are remembered, each recorded with its element. Raises ElementError for one that is
    none, has another name, or is refused by its schema.
    """
    hook = daemon.files.settings.hooks.get(name)
    if hook is None:
        there = daemon.files.settings.hooks
        raise RequestError(f"there is no webhook {name!r:.80} in etc/narval.toml{closest(name, there)}")
    if len(key) > LONGEST_KEY or not (key.isprintable() or key == ""):
        raise RequestError(f"expected a key of at most {LONGEST_KEY} printable characters, got {key!r:.80}")
    xml = canonical_given(element)
    if (found := Element(0, xml).name) != hook.element:
        raise ElementError("invalid", f"the webhook {name} gives <{hook.element}>, not <{found:.80}>")

    def work(turn: Turn) -> dict[str, Any]:
        keys = {value: (number, eid) for number, eid, value in _keys(turn, name)}
        if key and key in keys:
            return {"hook": name, "eid": keys[key][1], "again": True}
        raise_if_refused(turn, [xml])
        raise_if_over_limit(turn, [xml])
        with turn.transaction.coming_with(turn.agent.memory.labels.number([f"{HOOK}{name}"])):
            eid = turn.add(xml, Origin(step=f"{ORIGIN}{name}"))
        if key:
            number = 1 + max((number for number, _ in keys.values()), default=0)
            turn.transaction.batch.meta.append((f"{ORIGIN}{name}/{number % KEYS}", f"{number} {eid} {key}"))
        return {"hook": name, "eid": eid, "again": False}

    return dict(await daemon.host.submit(work))


def _keys(turn: Turn, name: str) -> Iterator[tuple[int, int, str]]:
    """The keys of a webhook: their numbers, the elements they came with. Those of this turn come last."""
    for fact, value in {**turn.agent.store.meta, **dict(turn.transaction.batch.meta)}.items():
        if fact.startswith(f"{ORIGIN}{name}/"):
            number, eid, key = value.split(" ", 2)
            yield int(number), int(eid), key
