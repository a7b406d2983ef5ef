"""Tasks of a daemon for a cluster, and the reports on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from narval.calls.cluster.frames import ClusterReply, News
from narval.core.definitions.action.resources import Resources
from narval.core.engines.events import INTERRUPTED, LOOK, Failure


class ClusterTask(NamedTuple):
    """A task for a cluster: calls as bytes, answered one after another.

    A `kept` task outlives the daemon: its result is found by its key after a restart (G69). For a `once` task
    the scheduler records that it has begun; an `only_found` task has begun, and must not begin again.
    """

    key: str
    bodies: list[bytes]
    resources: Resources
    kept: bool
    once: bool
    only_found: bool = False


class ClusterSize(NamedTuple):
    """The threads of a cluster, and the resources of each of its workers."""

    threads: int
    resources: tuple[tuple[tuple[str, float], ...], ...]

    def can(self, resources: Resources) -> bool:
        """True if some worker has these resources."""
        return not resources or any(
            all(dict(there).get(name, 0.0) >= number for name, number in resources)
            for there in self.resources
        )


class LinkListener(Protocol):
    """The owner of a link to a cluster."""

    def joined(self, size: ClusterSize) -> None:
        """Handle that the cluster has joined or changed its size."""

    def away(self, why: str) -> None:
        """Handle that there is no cluster, or no longer one; its tasks may be lost."""

    def replied(self, key: str, replies: list[ClusterReply] | Failure) -> None:
        """Handle the replies to a task's calls, or the reason why there are none."""

    def told(self, news: News) -> None:
        """Handle news of a task or of a call."""


Tell = Callable[[Callable[[LinkListener], None]], None]
"""Takes a function, which is called with the listener of a link, on the daemon's loop."""

LOST = Failure(
    INTERRUPTED,
    "the worker or the scheduler of the cluster that had the call was lost, and it is not to be repeated: "
    + LOOK,
    final=True,
)


def mark_of(key: str) -> str:
    """The name of the scheduler's variable that records that a call has begun."""
    return f"narval-begun-{key}"
