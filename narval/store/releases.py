"""The releases of narval that can read a store (docs/how-to/upgrade-a-fleet.md).

The tables have a version of their own. What stands in their rows (events, changes, commands, states) may gain
a kind that an older release does not know. A release writes such a record only after the store says that it
needs this release, and the store says so only while no daemon of an older one is at work on it. An older
release refuses the store from then on, by name, and never meets what it cannot read.

A migration of the tables that only adds to them says so in its first line, `-- additive`: a release whose
tables are those of before works on the new ones as well, beside a newer release or after it. The store has
the oldest version of which that holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from narval import __version__
from narval.core.errors import RequestError, StoreError

NEEDS = "needs"
"""The fact of a store that has the oldest release that can read it; without it every release can."""

TABLES_FOR = "tables_for"
"""The fact of a store that has the oldest version of the tables whose programs can work on its own."""


def release(version: str) -> tuple[int, int]:
    """The major and minor number of a version; what is no version is older than all."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def is_older(version: str, other: str) -> bool:
    """True if a version is of an earlier release than another."""
    return release(version) < release(other)


def can_work(facts: Mapping[str, str], version: int, own: int) -> bool:
    """True if a program whose tables are of the version `own` can work on a store with those of `version`."""
    oldest = facts.get(TABLES_FOR, "")
    return version <= own or (oldest.isdecimal() and int(oldest) <= own)


def refuse_newer(name: str, needs: str, version: str = __version__) -> None:
    """Raise StoreError where a store needs a later release than a program is of."""
    if is_older(version, needs):
        raise StoreError(
            f"{name} has records that need narval {needs} or later, and this is {version}; start it with "
            f"narval {needs} or later, or put back a backup from before (narval restore FILE)"
        )


def refuse_older(what: str, needs: str, daemons: Iterable[tuple[str, str]]) -> None:
    """Raise RequestError where daemons, each a home and its version, cannot read what is to be recorded."""
    older = [f"{home} ({version})" for home, version in daemons if is_older(version, needs)]
    if older:
        raise RequestError(
            f"{what} needs narval {needs} on all daemons of the store, and older ones are at work: "
            f"{', '.join(older)}; upgrade them first"
        )
