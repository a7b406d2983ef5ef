"""Quiet hours of people: from when to when, in their zone, and what does not wait (C14a)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from narval.core.definitions.people.directory import Person
from narval.people.chat.outbox import quiet_until, waits_until

PARIS = ZoneInfo("Europe/Paris")
ANN = Person("ann", quiet="22:00-07:00", zone="Europe/Paris")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=PARIS).timestamp()


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-29T21:59", None),
        ("2026-11-29T22:00", "2026-11-30T07:00"),
        ("2026-11-30T06:59", "2026-11-30T07:00"),
        ("2026-11-30T07:00", None),
        ("2026-11-30T12:00", None),
        ("2026-03-29T01:30", "2026-03-29T07:00"),
    ],
)
def test_C14a_quiet_hours_end_in_the_zone_of_the_person(now: str, end: str | None) -> None:
    assert quiet_until(ANN, "UTC", at(now)) == (at(end) if end else None)


def test_C14a_quiet_hours_within_a_day_and_the_zone_of_the_home() -> None:
    person = Person("ben", quiet="12:00-14:00")
    noon = datetime(2026, 11, 29, 12, 30, tzinfo=UTC).timestamp()
    assert quiet_until(person, "UTC", noon) == noon + 90 * 60
    assert quiet_until(person, "Asia/Tokyo", noon) is None
    assert quiet_until(Person("cid"), "UTC", noon) is None


def test_C14a_what_cannot_wait_does_not() -> None:
    night = at("2026-11-29T23:00")
    assert waits_until(ANN, "UTC", night) == at("2026-11-30T07:00")
    assert waits_until(ANN, "UTC", night, is_urgent=True) is None
    assert waits_until(ANN, "UTC", night, deadline=at("2026-11-30T06:00")) is None
    assert waits_until(ANN, "UTC", night, deadline=at("2026-11-30T08:00")) == at("2026-11-30T07:00")
