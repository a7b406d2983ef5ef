"""Calls answered in the loop itself, at once: for what takes microseconds (N33).

Nothing can interrupt such an action, so its time limit is not kept.
"""

from __future__ import annotations

from narval.runtime.executors.contract import Work
from narval.runtime.executors.conversion import answer


class Inline:
    """Answers within `start`."""

    queued = 0
    given_up = 0

    def start(self, work: Work) -> None:
        """Answer at once."""
        work.answer(work.call.context().run(answer, work.task))

    def abandon(self, work: Work) -> None:
        """No call is ever under way when the loop could ask for this."""

    async def close(self) -> None:
        """There is nothing to stop."""
