"""The fields of a crontab: what they are translated into, and that this comes when cron says (N25)."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from narval.core.definitions.reading.times import cron
from narval.core.definitions.schedule import Schedule, schedule_of, text_of
from tests.core.definitions.test_schedule import PARIS, fires, time
from tests.examples import examples


def parts_of_cron(least: int, most: int, *words: str) -> st.SearchStrategy[str]:
    """What cron may have in a field: `*`, or a list of numbers, ranges, steps and words."""
    number = st.integers(least, most).map(str)
    pair = st.lists(st.integers(least, most), min_size=2, max_size=2, unique=True).map(sorted)
    span = pair.map(lambda ends: f"{ends[0]}-{ends[1]}")
    stepped = st.builds("{}/{}".format, st.one_of(st.just("*"), span), st.integers(1, most))
    options = [number, span, stepped, *([st.sampled_from(words)] if words else [])]
    listed = st.lists(st.one_of(options), min_size=1, max_size=3)
    # Where a list begins with `*`, the days of the month and the weekdays must both fit.
    return st.one_of(st.just("*"), listed.map(",".join))


CRON = st.builds(
    "{} {} {} {} {}".format,
    parts_of_cron(0, 59),
    parts_of_cron(0, 23),
    parts_of_cron(1, 31, "L"),
    parts_of_cron(1, 12, "jan", "Feb", "MAR-MAY"),
    parts_of_cron(0, 7, "sun", "Mon", "TUE-SAT", "5L", "0L"),
)


@settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(CRON, st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)))
def test_N25_cron_means_what_cronsim_says_it_means_in_utc(text: str, since: datetime) -> None:
    _, _, monthdays, _, weekdays = text.split()
    assume("L" not in weekdays.replace("5L", "").replace("0L", ""))
    assume(not (monthdays != "*" and monthdays.startswith("*") and "L" in weekdays))
    moments, since = CronSim(text, since.replace(tzinfo=UTC)), since.replace(tzinfo=UTC)
    try:
        expected = [moment.timestamp() for moment in islice(moments, 4)]
    except CronSimError:
        expected = []
    assume(len(expected) == 4)
    schedule = schedule_of(cron(text), "UTC")
    found = [since.timestamp()]
    while len(found) <= 4:
        found.append(schedule.next(found[-1]) or 0)
    assert found[1:] == expected


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("0 7 * * 1-5", "weekdays=0-4 hours=7 minutes=0 seconds=0"),
        ("30 2 * * 0,7", "weekdays=6 hours=2 minutes=30 seconds=0"),
        ("0 7 * * sat-sun", "weekdays=5-6 hours=7 minutes=0 seconds=0"),
        ("0 9 * nov-feb fri-mon", "weekdays=0,4-6 months=1-2,11-12 hours=9 minutes=0 seconds=0"),
        ("0 17 L * *", "monthdays=-1 hours=17 minutes=0 seconds=0"),
        ("0 17 * * friL", "weekdays=4 monthdays=-7--1 hours=17 minutes=0 seconds=0"),
        (
            "0 9 13 * 5",
            "monthdays=13 hours=9 minutes=0 seconds=0 or weekdays=4 hours=9 minutes=0 seconds=0",
        ),
        ("0 9 */2 * 5", "weekdays=4 monthdays=*/2 hours=9 minutes=0 seconds=0"),
        ("0 9 30 2 5", "weekdays=4 months=2 hours=9 minutes=0 seconds=0"),
        ("@weekly", "weekdays=6 hours=0 minutes=0 seconds=0"),
        ("@hourly", "minutes=0 seconds=0"),
        ("* * * * *", "seconds=0"),
    ],
)
def test_N25_cron_is_translated_into_fields(text: str, fields: str) -> None:
    assert text_of(cron(text)) == fields


def test_N25_names_of_days_and_months_stand_for_their_numbers() -> None:
    assert time(weekdays="Mon-fri", months="jan,mar-may") == time(weekdays="0-4", months="1,3-5")
    assert time(weekdays="sun-thu") == time(weekdays="0-3,6")


def test_N25_at_changes_of_the_clock_cron_keeps_to_what_dates_do() -> None:
    schedule = Schedule(cron("30 2 * * *"), PARIS)
    assert fires(schedule, "2026-03-28 00:00", "2026-03-30 00:00") == [
        "2026-03-28 02:30:00+01:00",
        "2026-03-29 03:00:00+02:00",
    ]
    assert fires(schedule, "2026-10-25 00:00", "2026-10-26 00:00") == ["2026-10-25 02:30:00+02:00"]
