"""Keys of requests: a request that comes again with its key is done once, whoever sends it: a webhook, a
caller, a person at a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping

from narval.agent.turn import Turn
from narval.core.errors import RequestError

KEYS = 1024
"""The most keys that are remembered of one sender, or for one operation, the latest."""

LONGEST_KEY = 200
"""The most characters of a key."""


def check_key(key: str) -> None:
    """Raise RequestError for an invalid key of a request."""
    if len(key) > LONGEST_KEY or not (key.isprintable() or key == ""):
        raise RequestError(f"expected a key of at most {LONGEST_KEY} printable characters, got {key!r:.80}")


class RequestKeys:
    """The latest keys of a sender, or for an operation, as of a turn: facts whose names start with `fact`."""

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
