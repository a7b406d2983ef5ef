"""When dates that come again come (N25, table 2.9): against a clock read each second, and APScheduler."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.core.definitions.schedule import FIELDS, Schedule, Time, finer_omitted, never, schedule_of
from narval.kinds.recipe.language.vocabulary import WORDS
from tests.examples import examples

PARIS, NEW_YORK = ZoneInfo("Europe/Paris"), ZoneInfo("America/New_York")
LORD_HOWE, APIA = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Pacific/Apia")


def time(**fields: str) -> Time:
    """A date as a recipe writes it: `hours="7,9-11"`."""
    bounds = {name: WORDS["time"].attributes[name].read(text) for name, text in fields.items()}
    return Time(**bounds)


def at(text: str, zone: tzinfo = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def fires(schedule: Schedule, since: str, until: str) -> list[str]:
    """What the wall shows when the schedule fires after `since`, until `until`."""
    found, moment, end = [], at(since, schedule.zone), at(until, schedule.zone)
    while (following := schedule.next(moment)) is not None and following <= end:
        assert following > moment
        moment = following
        found.append(datetime.fromtimestamp(moment, schedule.zone).isoformat(" "))
    return found


# --- the oracle: read the clock at every second ---------------------------------------------------------


def allows(values: tuple[tuple[int, ...], ...], *either: int) -> bool:
    return not values or any(
        first <= value <= last and (value - first) % (step[0] if step else 1) == 0
        for first, last, *step in values
        for value in either
    )


def fits_day(time: Time, day: date) -> bool:
    return (
        allows(time.monthdays, day.day, day.day - monthrange(day.year, day.month)[1] - 1)
        and allows(time.months, day.month)
        and allows(time.years, day.year)
        and allows(time.yeardays, day.timetuple().tm_yday)
        and allows(time.weekdays, day.weekday())
    )


def fits(time: Time, wall: datetime) -> bool:
    return (
        allows(time.seconds, wall.second)
        and allows(time.minutes, wall.minute)
        and allows(time.hours, wall.hour)
        and fits_day(time, wall.date())
    )


@lru_cache
def shown_by_stepping(zone: tzinfo, first: int, last: int) -> list[tuple[int, list[datetime]]]:
    """What a clock shows at each second that it has not shown before, or has just skipped."""
    steps, shown = [], set[datetime]()
    latest = datetime.fromtimestamp(first - 1, zone).replace(tzinfo=None)
    for moment in range(first, last + 1):
        wall = datetime.fromtimestamp(moment, zone).replace(tzinfo=None, fold=0)
        readings = [wall]
        while (skipped := readings[-1] - timedelta(seconds=1)) > latest:
            readings.append(skipped)
        fresh = [each for each in readings if each not in shown]
        shown.update(fresh)
        latest = max(latest, wall)
        steps.append((moment, fresh))
    return steps


def fires_by_stepping(times: tuple[Time, ...], zone: tzinfo, first: int, last: int) -> list[float]:
    """The moments from `first` to `last`: what fits and was not shown before, or has just been skipped."""
    return [
        float(moment)
        for moment, fresh in shown_by_stepping(zone, first, last)
        if any(fits(time, each) for each in fresh for time in times)
    ]


Parts = tuple[tuple[int, ...], ...]


def ranges(least: int, most: int) -> st.SearchStrategy[Parts]:
    pair = st.tuples(st.integers(least, most), st.integers(least, most)).map(
        lambda ends: (min(ends), max(ends))
    )
    single = st.integers(least, most).map(lambda value: (value, value))
    stepped = st.builds(lambda ends, step: (*ends, step), pair, st.integers(1, 9))
    part = st.one_of(single, pair, stepped)
    return st.one_of(st.just(()), st.lists(part, max_size=3).map(lambda found: tuple(sorted(found))))


OF_A_DAY = {name: ranges(*FIELDS[name]) for name in ("seconds", "minutes", "hours")}
DAYS = ("monthdays", "months", "yeardays", "weekdays")
MONTHDAYS = st.one_of(
    ranges(1, 31), st.builds(lambda one, other: one + other, ranges(-31, -1), ranges(1, 31))
)

NIGHTS = (
    (PARIS, "2026-03-29T01:00"),
    (PARIS, "2026-10-25T00:00"),
    (NEW_YORK, "2026-03-08T06:00"),
    (NEW_YORK, "2026-11-01T05:00"),
    (LORD_HOWE, "2026-04-04T14:00"),
    (LORD_HOWE, "2026-10-03T15:00"),
    (UTC, "2026-03-29T01:00"),
    (timezone(timedelta(hours=5, minutes=30)), "2026-03-29T01:00"),
)


@given(
    st.sampled_from(NIGHTS),
    st.lists(st.builds(Time, **OF_A_DAY, weekdays=ranges(5, 6)), min_size=1, max_size=2),
    st.integers(-3600, 3600),
)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_N25_a_schedule_fires_as_a_clock_read_at_every_second(
    night: tuple[tzinfo, str], times: list[Time], begin: int
) -> None:
    zone, shift = night
    # Two hours before the shift the oracle begins to know what was shown already.
    middle = int(at(shift))
    expected = fires_by_stepping(tuple(times), zone, middle - 7200, middle + 7200)
    schedule, moment, last = Schedule(tuple(times), zone), float(middle + begin), middle + 7200
    found = []
    while (following := schedule.next(moment)) is not None and following <= last:
        assert following > moment
        found.append(following)
        moment = following
    assert found == [each for each in expected if each > middle + begin]


@given(
    st.builds(
        Time,
        seconds=st.just(((0, 0),)),
        minutes=st.just(((0, 0),)),
        hours=st.just(((0, 0),)),
        **{**{name: ranges(*FIELDS[name]) for name in DAYS}, "monthdays": MONTHDAYS},
    ),
    st.dates(date(1890, 1, 1), date(2110, 1, 1)),
)
@settings(max_examples=examples(80), deadline=None)
def test_N25_days_are_those_of_a_calendar_read_day_by_day(time: Time, since: date) -> None:
    schedule = Schedule((time,), UTC)
    after = at(f"{since} 12:00")
    days = (since + timedelta(ahead) for ahead in range(1, 366 * 6))
    expected = next((day for day in days if fits_day(time, day)), None)
    found = schedule.next(after)
    if expected is not None:
        assert found == at(f"{expected} 00:00")
    else:
        assert found is None or found > at(f"{since + timedelta(366 * 6 - 1)} 00:00")


APSCHEDULER = {
    "seconds": "second",
    "minutes": "minute",
    "hours": "hour",
    "monthdays": "day",
    "months": "month",
    "years": "year",
    "weekdays": "day_of_week",
}


def cron_part(part: tuple[int, ...]) -> str:
    first, last, *step = part
    if step and step[0] <= last - first:
        return f"{first}-{last}/{step[0]}"
    return f"{first}-{first if step else last}"


def trigger(time: Time) -> CronTrigger:
    """The same date for APScheduler, which has no yeardays."""
    texts = {word: ",".join(map(cron_part, getattr(time, name))) or "*" for name, word in APSCHEDULER.items()}
    return CronTrigger(**texts, timezone=UTC)


@given(
    st.builds(
        Time,
        **OF_A_DAY,
        monthdays=ranges(1, 28),
        months=ranges(1, 12),
        weekdays=ranges(0, 6),
        years=ranges(2020, 2050),
    ),
    st.integers(int(at("2024-01-01 00:00")), int(at("2040-01-01 00:00"))),
)
@settings(max_examples=examples(80), deadline=None)
def test_N25_apscheduler_gives_the_same_moment_in_utc(time: Time, after: int) -> None:
    expected = trigger(time).get_next_fire_time(None, datetime.fromtimestamp(after + 1, UTC))
    found = Schedule((time,), UTC).next(after)
    assert found == (expected.timestamp() if expected else None)


# --- usual dates ----------------------------------------------------------------------------------------


def test_N25_seven_each_morning_of_a_working_day() -> None:
    schedule = schedule_of((time(hours="7", minutes="0", seconds="0", weekdays="0-4"),), "Europe/Paris")
    assert fires(schedule, "2026-10-23 06:00", "2026-10-27 23:00") == [
        "2026-10-23 07:00:00+02:00",
        "2026-10-26 07:00:00+01:00",
        "2026-10-27 07:00:00+01:00",
    ]


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ({"minutes": "*/20"}, ["12:00", "12:20", "12:40", "13:00"]),
        ({"hours": "8-18/4", "minutes": "0"}, ["12:00", "16:00", "08:00", "12:00"]),
        ({"hours": "*/9", "minutes": "30"}, ["18:30", "00:30", "09:30", "18:30"]),
        ({"hours": "13,20-23/2", "minutes": "0"}, ["13:00", "20:00", "22:00", "13:00"]),
    ],
)
def test_N39_steps_are_every_so_manyth_value_of_all_or_of_a_range(
    date: dict[str, str], expected: list[str]
) -> None:
    schedule = Schedule((time(**date, seconds="0"),), PARIS)
    assert [each[11:16] for each in fires(schedule, "2026-03-02 11:59", "2026-03-05 00:00")[:4]] == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("-1", ["2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]),
        ("-2", ["2027-12-30", "2028-01-30", "2028-02-28", "2028-03-30", "2028-04-29"]),
        ("-3--1/2", ["2027-12-29", "2027-12-31", "2028-01-29", "2028-01-31", "2028-02-27"]),
        ("15,-1", ["2027-12-15", "2027-12-31", "2028-01-15", "2028-01-31", "2028-02-15"]),
        ("-31", ["2027-12-01", "2028-01-01", "2028-03-01", "2028-05-01", "2028-07-01"]),
    ],
)
def test_N39_days_of_the_month_are_counted_from_its_last(days: str, expected: list[str]) -> None:
    schedule = Schedule((time(monthdays=days, hours="9", minutes="0", seconds="0"),), PARIS)
    assert [each[:10] for each in fires(schedule, "2027-11-30 12:00", "2028-08-01 00:00")[:5]] == expected


def test_N39_the_last_friday_of_a_month_is_one_of_its_last_seven_days() -> None:
    last_friday = Schedule(
        (time(monthdays="-7--1", weekdays="4", hours="17", minutes="0", seconds="0"),), PARIS
    )
    assert [each[:10] for each in fires(last_friday, "2026-01-01 00:00", "2026-04-01 00:00")] == [
        "2026-01-30",
        "2026-02-27",
        "2026-03-27",
    ]


def test_N25_a_date_that_gives_nothing_is_every_second() -> None:
    assert schedule_of((Time(),), "UTC").next(1000.0) == 1001.0


def test_N25_hours_alone_are_every_second_of_them() -> None:
    schedule = schedule_of((time(hours="7"),), "UTC")
    assert len(fires(schedule, "2026-01-01 00:00", "2026-01-02 00:00")) == 3600


@pytest.mark.parametrize(
    ("after", "expected"), [(999.999, 1000.0), (1000.0, 1001.0), (1000.25, 1001.0), (-0.5, 0.0), (-1.0, 0.0)]
)
def test_N25_the_next_moment_is_strictly_after(after: float, expected: float) -> None:
    assert schedule_of((Time(),), "UTC").next(after) == expected


def test_N25_several_time_nodes_mean_the_earliest() -> None:
    noon = time(hours="12", minutes="0", seconds="0")
    quarter = time(hours="9", minutes="15", seconds="0", weekdays="0")
    gone = time(years="1999")
    assert fires(schedule_of((noon, gone, quarter), "UTC"), "2026-11-22 00:00", "2026-11-24 00:00") == [
        "2026-11-22 12:00:00+00:00",
        "2026-11-23 09:15:00+00:00",
        "2026-11-23 12:00:00+00:00",
    ]


def test_N25_all_fields_must_fit() -> None:
    friday_13 = time(monthdays="13", weekdays="4", hours="0", minutes="0", seconds="0")
    assert fires(schedule_of((friday_13,), "UTC"), "2026-01-01 00:00", "2027-01-01 00:00") == [
        "2026-02-13 00:00:00+00:00",
        "2026-03-13 00:00:00+00:00",
        "2026-11-13 00:00:00+00:00",
    ]


# --- daylight saving ------------------------------------------------------------------------------------


def daily(hour: int, minute: int) -> Time:
    return time(hours=str(hour), minutes=str(minute), seconds="0")


GAPS = [
    (PARIS, daily(2, 30), "2026-03-29 00:00", "2026-03-29 03:00:00+02:00"),
    (PARIS, daily(2, 0), "2026-03-29 00:00", "2026-03-29 03:00:00+02:00"),
    (NEW_YORK, daily(2, 59), "2026-03-08 00:00", "2026-03-08 03:00:00-04:00"),
    (LORD_HOWE, daily(2, 15), "2026-10-04 00:00", "2026-10-04 02:30:00+11:00"),
    (APIA, daily(9, 0), "2011-12-29 10:00", "2011-12-31 00:00:00+14:00"),
    (UTC, daily(2, 30), "2026-03-29 00:00", "2026-03-29 02:30:00+00:00"),
]


@pytest.mark.parametrize(("zone", "each_day", "since", "expected"), GAPS, ids=str)
def test_N25_a_skipped_hour_fires_once_right_after_it(
    zone: tzinfo, each_day: Time, since: str, expected: str
) -> None:
    schedule = Schedule((each_day,), zone)
    assert fires(schedule, since, f"{expected[:10]} 23:59")[0] == expected
    # Nothing comes twice: the next one is an ordinary one.
    following = fires(schedule, expected[:19], "2026-10-31 00:00")[0]
    assert following[11:16] == f"{each_day.hours[0][0]:02}:{each_day.minutes[0][0]:02}"


def test_N25_a_day_that_is_skipped_fires_once_for_all_its_dates() -> None:
    friday = time(weekdays="4", hours="9-17", minutes="0", seconds="0")
    assert fires(Schedule((friday,), APIA), "2011-12-29 00:00", "2012-01-05 23:59") == [
        "2011-12-31 00:00:00+14:00"
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"seconds": "0"}, ["01:58", "01:59", "03:00", "03:01"]),
        ({"seconds": "0", "minutes": "0,58"}, ["01:58", "03:00"]),
        ({"seconds": "0", "minutes": "15,58"}, ["01:58", "03:00"]),
        ({"seconds": "0", "minutes": "10-50", "hours": "2"}, ["03:00"]),
        ({"seconds": "0", "minutes": "59"}, ["01:59", "03:00"]),
        ({"seconds": "0", "minutes": "0", "hours": "4"}, []),
    ],
    ids=str,
)
def test_N25_a_gap_adds_one_moment_at_most(fields: dict[str, str], expected: list[str]) -> None:
    found = fires(Schedule((time(**fields),), PARIS), "2026-03-29 01:57:59", "2026-03-29 03:01:59")
    assert [each[11:16] for each in found] == expected


def test_N25_a_schedule_of_every_second_goes_on_through_a_gap_without_one_more() -> None:
    schedule, shift = Schedule((Time(),), PARIS), at("2026-03-29 01:00")
    moments = [schedule.next(shift + ahead) for ahead in (-2, -1, -0.5, 0, 1)]
    assert moments == [shift - 1, shift, shift, shift + 1, shift + 2]


def test_N25_the_nodes_skipped_in_one_gap_fire_together() -> None:
    schedule = Schedule((daily(2, 10), daily(2, 50), daily(3, 0)), PARIS)
    assert fires(schedule, "2026-03-29 00:00", "2026-03-29 12:00") == ["2026-03-29 03:00:00+02:00"]


FOLDS = [
    (PARIS, daily(2, 30), "2026-10-25", "2026-10-25 02:30:00+02:00"),
    (PARIS, daily(2, 0), "2026-10-25", "2026-10-25 02:00:00+02:00"),
    (NEW_YORK, daily(1, 59), "2026-11-01", "2026-11-01 01:59:00-04:00"),
    (LORD_HOWE, daily(1, 45), "2026-04-05", "2026-04-05 01:45:00+11:00"),
    (UTC, daily(2, 30), "2026-10-25", "2026-10-25 02:30:00+00:00"),
]


@pytest.mark.parametrize(("zone", "each_day", "day", "expected"), FOLDS, ids=str)
def test_N25_a_doubled_hour_fires_in_its_first_pass_only(
    zone: tzinfo, each_day: Time, day: str, expected: str
) -> None:
    assert fires(Schedule((each_day,), zone), f"{day} 00:00", f"{day} 23:59") == [expected]


def test_N25_the_first_pass_is_found_from_the_winter_before_too() -> None:
    """The offset of that winter is the one of the second pass."""
    autumn = time(months="10", monthdays="25", hours="2", minutes="30", seconds="0")
    assert fires(Schedule((autumn,), PARIS), "2026-01-10 00:00", "2026-12-31 00:00") == [
        "2026-10-25 02:30:00+02:00"
    ]


@pytest.mark.parametrize(
    ("zone", "second_pass", "after_it"),
    [
        (PARIS, "2026-10-25T01:00", "2026-10-25 03:00:00+01:00"),
        (NEW_YORK, "2026-11-01T06:00", "2026-11-01 02:00:00-05:00"),
        (LORD_HOWE, "2026-04-04T15:00", "2026-04-05 02:00:00+10:30"),
    ],
    ids=str,
)
@pytest.mark.parametrize("ahead", [-1, 0, 1, 900, 1799])
def test_N25_every_minute_is_silent_in_the_second_pass(
    zone: tzinfo, second_pass: str, after_it: str, ahead: int
) -> None:
    found = Schedule((time(seconds="0"),), zone).next(at(second_pass) + ahead)
    assert found is not None
    assert datetime.fromtimestamp(found, zone).isoformat(" ") == after_it


# --- dates that are rare, and those that never come -------------------------------------------------------


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ({"monthdays": "29", "months": "2"}, "2028-02-29"),
        ({"monthdays": "29", "months": "2", "weekdays": "0"}, "2044-02-29"),
        ({"monthdays": "29", "months": "2", "years": "2097-2400"}, "2104-02-29"),
        ({"monthdays": "29", "months": "2", "weekdays": "2", "years": "2096-9999"}, "2096-02-29"),
        ({"yeardays": "366"}, "2028-12-31"),
        ({"yeardays": "366", "weekdays": "6"}, "2028-12-31"),
        ({"yeardays": "60", "months": "2"}, "2028-02-29"),
        ({"yeardays": "60", "months": "3"}, "2027-03-01"),
        ({"years": "9999", "yeardays": "365"}, "9999-12-31"),
        ({"years": "-10000-1999,2400"}, "2400-01-01"),
    ],
    ids=str,
)
def test_N25_rare_days_are_found(date: dict[str, str], expected: str) -> None:
    built = time(**{"hours": "0", "minutes": "0", "seconds": "0", **date})
    assert schedule_of((built,), "UTC").next(at("2026-11-21 10:00")) == at(f"{expected} 00:00")
    assert not never((built,))


@pytest.mark.parametrize(
    "impossible",
    [
        Time(monthdays=((30, 31),), months=((2, 2),)),
        Time(monthdays=((31, 31),), months=((4, 4), (6, 6), (9, 9), (11, 11))),
        Time(yeardays=((366, 366),), months=((1, 11),)),
        Time(yeardays=((366, 366),), years=((2026, 2027), (2100, 2100))),
        Time(monthdays=((29, 29),), months=((2, 2),), weekdays=((0, 0),), years=((2096, 2096),)),
        Time(years=((-10000, 0),)),
        Time(years=((10000, 10000),)),
    ],
    ids=str,
)
def test_N25_a_date_that_never_comes_is_known_without_a_clock(impossible: Time) -> None:
    assert never((impossible,))
    assert schedule_of((impossible,), "Europe/Paris").next(at("2026-11-21 10:00")) is None
    assert schedule_of((impossible,), "Europe/Paris").next(-1e12) is None
    assert not never((impossible, Time()))
    assert schedule_of((impossible, Time()), "UTC").next(5.0) == 6.0


def test_N25_a_year_gone_by_never_comes_again() -> None:
    past = time(years="1999-2025")
    assert not never((past,))
    assert schedule_of((past,), "America/New_York").next(at("2026-11-21 10:00")) is None
    last = datetime(2025, 12, 31, 23, 59, 59, tzinfo=NEW_YORK).timestamp()
    assert schedule_of((past,), "America/New_York").next(last - 1) == last
    assert schedule_of((past,), "America/New_York").next(last) is None


@given(
    st.builds(Time, **{name: ranges(*FIELDS[name]) for name in DAYS}, years=ranges(*FIELDS["years"])),
    st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Pacific/Apia"]),
)
@settings(max_examples=examples(100), deadline=None)
def test_N25_what_never_comes_has_no_next_and_everything_else_has_one(time: Time, zone: str) -> None:
    first = schedule_of((time,), zone).next(float("-inf"))
    assert (first is None) == never((time,))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("field", FIELDS)
def test_N25_the_bounds_of_every_field_are_understood(field: str, zone: str) -> None:
    for bound in FIELDS[field]:
        found = schedule_of((Time(**{field: ((bound, bound),)}),), zone).next(at("2026-11-21 10:00"))
        if field == "years":
            assert found is None
        else:
            assert found is not None
            assert fits(Time(**{field: ((bound, bound),)}), datetime.fromtimestamp(found, ZoneInfo(zone)))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("after", [float("-inf"), -1e300, -7e10, -62135596800.5])
def test_N25_before_all_moments_the_first_date_is_of_year_2(zone: str, after: float) -> None:
    found = schedule_of((Time(),), zone).next(after)
    assert found is not None
    assert abs(found - at("0002-01-01 00:00")) < 86400


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("after", [at("9999-12-31 23:59:59"), 1e300, float("inf")])
def test_N25_after_all_moments_nothing_comes(zone: str, after: float) -> None:
    assert schedule_of((Time(),), zone).next(after) is None


def test_N25_no_time_at_all_never_comes() -> None:
    assert never(())
    assert schedule_of((), "UTC").next(0.0) is None


# --- dates missed -----------------------------------------------------------------------------------------


def test_N25_a_date_missed_while_nobody_watched_is_noticed() -> None:
    schedule = schedule_of((daily(7, 0),), "Europe/Paris")
    seven = at("2026-11-21 07:00", PARIS)
    assert schedule.missed(seven - 3600, seven + 3600)
    assert schedule.missed(seven - 3600, seven)
    assert not schedule.missed(seven, seven + 3600)
    assert not schedule.missed(seven - 3600, seven - 0.5)
    assert not schedule.missed(seven + 10, seven - 10)


def test_N25_a_date_in_a_gap_slept_through_is_missed() -> None:
    schedule = Schedule((daily(2, 30),), PARIS)
    shift = at("2026-03-29 01:00")
    assert schedule.missed(shift - 1, shift)
    assert not schedule.missed(shift, shift + 7200)


def test_N25_a_date_that_says_skip_is_not_missed_but_still_comes() -> None:
    skipped = Time(hours=((7, 7),), minutes=((0, 0),), seconds=((0, 0),), missed="skip")
    seven = at("2026-11-21 07:00")
    assert schedule_of((skipped,), "UTC").next(seven - 1) == seven
    assert not schedule_of((skipped,), "UTC").missed(seven - 1, seven + 1)
    assert schedule_of((skipped, daily(6, 0)), "UTC").missed(seven - 7200, seven)
    assert not schedule_of((skipped, daily(6, 0)), "UTC").missed(seven - 1, seven)


# --- one schedule for one text ----------------------------------------------------------------------------


def test_N25_the_same_dates_are_the_same_schedule_wherever_they_are_written() -> None:
    one = (Time(hours=((7, 7),), line=3), Time(minutes=((5, 5),), line=4))
    other = (Time(hours=((7, 7),), line=30), Time(minutes=((5, 5),), line=40))
    assert schedule_of(one, "Europe/Paris") is schedule_of(other, "Europe/Paris")
    assert schedule_of(one, "Europe/Paris") is not schedule_of(one, "UTC")
    assert Schedule(one, PARIS) == schedule_of(other, "Europe/Paris")
    assert hash(Schedule(one, PARIS)) == hash(schedule_of(other, "Europe/Paris"))
    assert Schedule(one, PARIS) != Schedule(one[:1], PARIS)
    assert Schedule(one, PARIS) != Schedule(one, UTC)


def test_N25_missed_dates_to_drop_make_another_schedule() -> None:
    assert schedule_of((Time(missed="skip"),), "UTC") != schedule_of((Time(),), "UTC")


def test_N25_a_zone_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="Europe/Atlantis"):
        schedule_of((Time(),), "Europe/Atlantis")


# --- what `check` warns about -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_fields", "omitted"),
    [
        ({}, []),
        ({"seconds": "0"}, []),
        ({"hours": "7"}, ["seconds", "minutes"]),
        ({"hours": "7", "minutes": "0"}, ["seconds"]),
        ({"hours": "7", "seconds": "0"}, []),
        ({"weekdays": "0"}, ["seconds", "minutes", "hours"]),
        ({"yeardays": "1", "hours": "0", "minutes": "0", "seconds": "0"}, []),
        ({"months": "6"}, ["seconds", "minutes", "hours", "monthdays"]),
        ({"years": "2027"}, ["seconds", "minutes", "hours", "monthdays", "months"]),
    ],
    ids=str,
)
def test_N25_a_field_left_out_that_is_finer_than_the_finest_given_is_told(
    given_fields: dict[str, str], omitted: list[str]
) -> None:
    assert finer_omitted((time(**given_fields),)) == omitted
    assert finer_omitted((time(seconds="0"), time(**given_fields))) == omitted


def test_N25_the_moments_of_a_year_come_in_order_and_once() -> None:
    schedule = Schedule((time(seconds="0", minutes="0,20,40"), daily(2, 30)), PARIS)
    found = [datetime.fromisoformat(each) for each in fires(schedule, "2025-12-31 23:59", "2027-01-01 00:00")]
    assert all(one < other for one, other in pairwise(found))
    readings = [each.replace(tzinfo=None) for each in found]
    assert len(set(readings)) == len(readings)
    # A year and its midnight, without the four in the gap: 03:00, which stands for them, comes anyway.
    assert len(readings) == 365 * (24 * 3 + 1) - 4 + 1
