"""Keys of requests: a request that is repeated with its key is done once, whether a webhook, a caller or a
person at a terminal sends it.
"""

from __future__ import annotations

from collections.abc import Mapping

from narval.core.errors import RequestError

KEYS = 1024
"""The most keys remembered per sender or operation, the latest."""

LONGEST_KEY = 200
"""The most characters of a key."""


def check_key(key: str) -> None:
    """Raise RequestError for an invalid key of a request."""
    if len(key) > LONGEST_KEY or not (key.isprintable() or key == ""):
        raise RequestError(f"expected a key of at most {LONGEST_KEY} printable characters, got {key!r:.80}")


class RequestKeys:
    """The latest keys of an agent, by sender or operation, each with the elements or the run that came with
    it.

    Each key is a fact of the agent; those of a sender are read with its first request.
    """

    def __init__(self, facts: Mapping[str, str]) -> None:
        self._facts = facts
        self._senders: dict[str, _Sender] = {}

    def eid(self, sender: str, key: str) -> int | None:
        """The element or run that came with a key; None if none did, or the key is ""."""
        eids = self.eids(sender, key)
        return eids[0] if eids else None

    def eids(self, sender: str, key: str) -> list[int]:
        """The elements that came with a key; none if none did, or the key is ""."""
        recorded = self._of(sender).recorded.get(key, "") if key else ""
        ends = (part.split("-") for part in recorded.split(",") if part)
        return [eid for each in ends for eid in range(int(each[0]), int(each[-1]) + 1)]

    def record(self, facts: list[tuple[str, str]], sender: str, key: str, *eids: int) -> None:
        """Add to the facts of a turn that elements or a run came with a key; do nothing for "".

        Elements are recorded as "12", and as "12-14,17" if several came.
        """
        if not key or not eids:
            return
        spans = [[eids[0], eids[0]]]
        for eid in eids[1:]:
            if eid == spans[-1][1] + 1:
                spans[-1][1] = eid
            else:
                spans.append([eid, eid])
        recorded = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
        number = self._of(sender).add(key, recorded)
        facts.append((f"{sender}/{number % KEYS}", f"{number} {recorded} {key}"))

    def _of(self, sender: str) -> _Sender:
        if sender not in self._senders:
            self._senders[sender] = _Sender(self._facts, sender)
        return self._senders[sender]


class _Sender:
    """The latest keys of one sender: each with its eids as `recorded`, oldest first."""

    def __init__(self, facts: Mapping[str, str], sender: str) -> None:
        rows = (facts[name].split(" ", 2) for slot in range(KEYS) if (name := f"{sender}/{slot}") in facts)
        by_number = sorted((int(number), eids, key) for number, eids, key in rows)
        self.recorded = {key: eids for _, eids, key in by_number}
        self._last = by_number[-1][0] if by_number else 0

    def add(self, key: str, eids: str) -> int:
        """Add the next key, replacing the oldest if there are too many; return its number."""
        if len(self.recorded) >= KEYS:
            del self.recorded[next(iter(self.recorded))]
        self.recorded[key] = eids
        self._last += 1
        return self._last
