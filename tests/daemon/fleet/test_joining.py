"""Joining a store: a daemon of the same home that was killed is waited for, one that renews on is refused."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from narval.core.errors import ElsewhereError
from narval.daemon.fleet import joining
from narval.files.settings import Settings
from narval.store.postgresql.leases import Leases

PEOPLE = cast("Any", SimpleNamespace(digest="people"))


class OnceThere:
    """A daemon of the home that renews so many times more, and then no more; after some looks it is over."""

    def __init__(self, renewals: int, looks: int = 8) -> None:
        self._renewals, self._looks = renewals, looks
        self.until = 0.0

    def join(self, *_: object) -> str:
        self._looks -= 1
        if self._looks < 0:
            return "joined"
        raise ElsewhereError("expected no other daemon of the home")

    def find(self, _: str) -> tuple[None, SimpleNamespace]:
        if self._renewals > 0:
            self._renewals -= 1
            self.until += 0.5
        return None, SimpleNamespace(daemon=1, until=self.until, address="here")


def joins(daemon: OnceThere, monkeypatch: pytest.MonkeyPatch, *, standby: bool = False) -> object:
    for name in ("LOOKS", "STANDBY_LOOKS"):
        monkeypatch.setattr(joining, name, 0.0)
    leases = cast("Leases", daemon)
    return asyncio.run(joining.join(leases, Settings(name="attic"), PEOPLE, standby=standby))


@pytest.mark.parametrize("renewals", [0, 1, 2, 3])
def test_G48_a_daemon_that_was_killed_is_waited_for_though_renewals_were_under_way(
    renewals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the first of three is what the first look sees
    assert joins(OnceThere(renewals), monkeypatch) == "joined"


def test_G48_a_daemon_that_renews_on_is_told_at_once_and_a_standby_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    living = OnceThere(100, looks=50)
    with pytest.raises(ElsewhereError):
        joins(living, monkeypatch)
    assert living.until == 2.0
    assert joins(OnceThere(100, looks=50), monkeypatch, standby=True) == "joined"
