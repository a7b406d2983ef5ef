"""Windows of time as sets of moments: operators, clocks, shifts of the clock, daily windows, parameters."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.reading.lexer import Cursor
from narval.core.elements.element import Element
from narval.core.source.text import Source
from narval.core.source.tokens import Token
from narval.kinds.task.engine.server.decision import inside
from narval.kinds.task.language.parser import parse
from narval.kinds.task.language.time_specs import read_time_spec
from narval.kinds.task.language.windows import (
    AllOf,
    AnyOf,
    ClockTime,
    Duration,
    Interval,
    TimeSpec,
    Window,
    windows,
)
from narval.kinds.task.language.words import LEXICON
from tests.examples import examples

ZONE = "Europe/Paris"
PARIS = ZoneInfo(ZONE)
MINUTE, DAY = 60, 86400


def spec_of(text: str, *parameters: str) -> TimeSpec:
    cursor = Cursor(text, LEXICON)
    spec = read_time_spec(cursor, [Token("name", name, 0, len(name)) for name in parameters])
    assert spec is not None
    assert cursor.next.kind == "end"
    assert cursor.ordered() == ()
    return spec


def at(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=PARIS)).timestamp()


def shown(text: str, base: str, **parameters: str) -> str:
    """The windows of a specification, `[…]` where the end belongs to them, by the clock of Paris."""
    spec = spec_of(text, *parameters)
    return " ".join(_shown(window) for window in windows(spec, at(base), ZONE, parameters))


def _shown(window: Interval) -> str:
    ends = [
        "…" if moment == inf else datetime.fromtimestamp(moment, PARIS).strftime("%d/%H:%M:%S")
        for moment in (window.start, window.end)
    ]
    return f"{ends[0]}-{ends[1]}{']' if window.closed else ')'}"


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        ("AT 10 MINS", "2026-11-22T10:00", "22/10:10:00-22/10:10:00]"),
        ("AFTER 10 MINS", "2026-11-22T10:00", "22/10:10:00-…)"),
        ("BEFORE 10 MINS", "2026-11-22T10:00", "22/10:00:00-22/10:10:00)"),
        ("WITHIN 10 MINS", "2026-11-22T10:00", "22/10:00:00-22/10:10:00]"),
        ("AFTER 1 HRS AND BEFORE 2 HRS RELATIVE", "2026-11-22T10:00", "22/11:00:00-22/12:00:00)"),
        ("AT 21:00:00 ABSOLUTE", "2026-11-22T10:00", "22/21:00:00-22/21:00:00]"),
        ("AT 21:00:00", "2026-11-22T21:00", "22/21:00:00-22/21:00:00]"),
        ("AT 21:00:00", "2026-11-22T21:00:01", "23/21:00:00-23/21:00:00]"),
        ("AT 21 00 00", "2026-11-22T22:00", "23/21:00:00-23/21:00:00]"),
        ("AFTER 21:00:00", "2026-11-22T22:00", "23/21:00:00-…)"),
        ("BEFORE 21:00:00", "2026-11-22T22:00", "22/22:00:00-23/21:00:00)"),
        ("BEFORE 21:00:00", "2026-11-22T21:00", ""),
        ("WITHIN 21:00:00", "2026-11-22T21:00", "22/21:00:00-22/21:00:00]"),
        ("AT 21:00:00 RELATIVE", "2026-11-22T10:00", "23/07:00:00-23/07:00:00]"),
        ("AT 21 HRS ABSOLUTE", "2026-11-22T10:00", "22/21:00:00-22/21:00:00]"),
        ("AT 5 SECS AND AT 6 SECS", "2026-11-22T10:00", ""),
        ("AT 5 SECS OR AT 6 SECS", "2026-11-22T10:00", "22/10:00:05-22/10:00:05] 22/10:00:06-22/10:00:06]"),
        ("BEFORE 5 SECS OR AT 5 SECS", "2026-11-22T10:00", "22/10:00:00-22/10:00:05]"),
        ("BEFORE 5 SECS AND AT 5 SECS", "2026-11-22T10:00", ""),
        ("WITHIN 5 SECS AND AT 5 SECS", "2026-11-22T10:00", "22/10:00:05-22/10:00:05]"),
        ("BEFORE 5 SECS AND AFTER 2 SECS OR AT 9 SECS", "2026-11-22T10:00",
         "22/10:00:02-22/10:00:05) 22/10:00:09-22/10:00:09]"),
        ("[AT 1 SECS OR AT 9 SECS] AND BEFORE 5 SECS", "2026-11-22T10:00", "22/10:00:01-22/10:00:01]"),
    ],
)  # fmt: skip
def test_K34_a_specification_is_a_set_of_times(text: str, base: str, expected: str) -> None:
    assert shown(text, base) == expected


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        ("AFTER 09:00:00 AND BEFORE 17:00:00", "2026-11-22T08:00", "22/09:00:00-22/17:00:00)"),
        ("AFTER 09:00:00 AND BEFORE 17:00:00", "2026-11-22T10:00", "22/10:00:00-22/17:00:00)"),
        ("AFTER 09:00:00 AND BEFORE 17:00:00", "2026-11-22T17:00", "23/09:00:00-23/17:00:00)"),
        ("BEFORE 06:00:00 AND AFTER 22:00:00", "2026-11-22T23:00", "22/23:00:00-23/06:00:00)"),
        ("AFTER 22:00:00 AND BEFORE 06:00:00", "2026-11-22T05:00", "22/05:00:00-22/06:00:00)"),
        ("AFTER 22:00:00 AND BEFORE 06:00:00", "2026-11-22T06:00", "22/22:00:00-23/06:00:00)"),
        ("AFTER 22:00:00 AND WITHIN 06:00:00", "2026-11-22T06:00", "22/06:00:00-22/06:00:00]"),
        ("AFTER 02:10:00 AND BEFORE 02:50:00", "2026-03-28T12:00", "30/02:10:00-30/02:50:00)"),
        ("AFTER 02:30:00 AND BEFORE 04:00:00", "2026-03-28T12:00", "29/03:00:00-29/04:00:00)"),
        ("AFTER 09:00:00 AND BEFORE 17:00:00 AND AT 3 HRS", "2026-11-22T08:00", "22/11:00:00-22/11:00:00]"),
    ],
)  # fmt: skip
def test_KA9_clocks_make_a_daily_window_over_midnight_too(text: str, base: str, expected: str) -> None:
    assert shown(text, base) == expected


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        ("AT 02:30:00", "2026-03-28T12:00", "29/03:00:00-29/03:00:00]"),
        ("AT 02:30:00", "2026-03-29T03:00", "29/03:00:00-29/03:00:00]"),
        ("AT 02:30:00", "2026-03-29T03:01", "30/02:30:00-30/02:30:00]"),
        ("AT 02:30:00", "2026-10-24T12:00", "25/02:30:00-25/02:30:00]"),
        ("AT 02:30:00", "2026-10-25T02:31+02:00", "26/02:30:00-26/02:30:00]"),
        ("AT 02:30:00", "2026-10-25T02:30+01:00", "26/02:30:00-26/02:30:00]"),
    ],
)
def test_KA9_a_clock_that_is_skipped_or_shown_twice(text: str, base: str, expected: str) -> None:
    assert shown(text, base) == expected
    assert windows(spec_of("AT 02:30:00"), at("2026-10-24T12:00"), ZONE, {})[0].start == at(
        "2026-10-25T02:30+02:00"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("21:00:00", "22/21:00:00-22/21:00:00]"),
        ("5 MINS", "22/10:05:00-22/10:05:00]"),
        ("1 hrs 5 mins 2 secs", "22/11:05:02-22/11:05:02]"),
        ("PT5M", "22/10:05:00-22/10:05:00]"),
        ("P1DT1H0.5S", "23/11:00:00-23/11:00:00]"),
        ("PT0S", "22/10:00:00-22/10:00:00]"),
        ("P0DT0H", "22/10:00:00-22/10:00:00]"),
        ("0 MINS", "22/10:00:00-22/10:00:00]"),
        (" 90 ", "22/10:01:30-22/10:01:30]"),
        ("0", "22/10:00:00-22/10:00:00]"),
        ("2026-11-23T09:00:00", "23/09:00:00-23/09:00:00]"),
        ("2026-11-23T09:00:00Z", "23/10:00:00-23/10:00:00]"),
        ("2026-11-21T09:00:00", ""),
    ],
)
def test_K36_a_parameter_is_a_time_by_its_text(value: str, expected: str) -> None:
    assert shown("AT t", "2026-11-22T10:00", t=value) == expected


def test_K36_the_qualifier_of_a_parameter_holds_for_it() -> None:
    assert shown("AT t ABSOLUTE", "2026-11-22T10:00", t="21 HRS") == "22/21:00:00-22/21:00:00]"
    assert shown("AT t RELATIVE", "2026-11-22T10:00", t="01:00:00") == "22/11:00:00-22/11:00:00]"
    assert shown("AFTER a AND BEFORE b", "2026-11-22T23:30", a="23:00:00", b="01:00:00") == (
        "22/23:30:00-23/01:00:00)"
    )


@pytest.mark.parametrize(
    "value",
    ["", "soon", "24:00:00", "9:0:0", "-5", "1e9", "P", "PT", "P1Y", "2026-13-01T00:00:00", "HRS", "9" * 400],
)
def test_K36_what_is_no_time_is_refused_with_what_was_expected(value: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as"):
        windows(spec_of("AT t", "t"), 0.0, ZONE, {"t": value})


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("AT t ABSOLUTE", "25 HRS", "expected a time of the day, under 24 hours, got 90000 seconds"),
        ("AT t", "999999999999", "expected no more than a hundred years, got '999999999999'"),
    ],
)
def test_K36_a_time_that_cannot_be_is_refused(text: str, value: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        windows(spec_of(text, "t"), 0.0, ZONE, {"t": value})


@pytest.mark.parametrize(
    ("text", "meant", "other"),
    [
        ("AT 10 MINS", "AT 10 MINS RELATIVE", "AT 10 MINS ABSOLUTE"),
        ("AFTER 21:00:00", "AFTER 21:00:00 ABSOLUTE", "AFTER 21:00:00 RELATIVE"),
        ("BEFORE 21 00 00", "BEFORE 21 00 00 ABSOLUTE", "BEFORE 21 00 00 RELATIVE"),
    ],
)
def test_KA2_without_a_qualifier_a_length_is_relative_and_a_clock_absolute(
    text: str, meant: str, other: str
) -> None:
    base = "2026-11-22T10:00"
    assert shown(text, base) == shown(meant, base) != shown(other, base)


@pytest.mark.parametrize(
    ("value", "meant", "other"), [("2 HRS", "RELATIVE", "ABSOLUTE"), ("02:00:00", "ABSOLUTE", "RELATIVE")]
)
def test_KA2_without_a_qualifier_a_parameter_is_what_its_text_is(value: str, meant: str, other: str) -> None:
    base = "2026-11-22T10:00"
    assert shown("AT t", base, t=value) == shown(f"AT t {meant}", base, t=value)
    assert shown("AT t", base, t=value) != shown(f"AT t {other}", base, t=value)


@pytest.mark.parametrize("time", ["5 SECS", "21:00:00"])
def test_KA3_the_end_of_WITHIN_belongs_to_it_and_that_of_BEFORE_does_not(time: str) -> None:
    base = at("2026-11-22T20:59:55")
    ((within,), (before,)) = (
        windows(spec_of(f"{operator} {time}"), base, ZONE, {}) for operator in ("WITHIN", "BEFORE")
    )
    end = at("2026-11-22T21:00:00") if ":" in time else base + 5
    assert (within.start, within.end) == (before.start, before.end) == (base, end)
    assert (inside([within], end), inside([before], end)) == (within, None)
    assert inside([within], end + 0.001) is None
    assert inside([before], end - 0.001) == before


# --- by a slow reference --------------------------------------------------------------------------------

MINUTES = 4 * 24 * 60
"""The minutes that the reference looks at."""


def is_next(moment: int, clock: int) -> bool:
    """True if the clock of Paris shows a time at a minute for the first time, or has just skipped it."""
    wall, before = (datetime.fromtimestamp(moment - ago, PARIS) for ago in (0, MINUTE))
    reading = (wall.hour * 60 + wall.minute) * 60
    skipped = (before.hour * 60 + before.minute) * 60 < clock < reading and wall.date() == before.date()
    return (reading == clock and not wall.fold) or skipped


def first(base: int, clock: int) -> int:
    return next(base + at * MINUTE for at in range(MINUTES) if is_next(base + at * MINUTE, clock))


def holds(spec: TimeSpec, base: int, moment: int) -> bool:
    """True if a whole minute is in a specification of whole minutes; by looking at all of them."""
    if isinstance(spec, AnyOf):
        return any(holds(inner, base, moment) for inner in spec.specs)
    if isinstance(spec, AllOf):
        return all(holds(inner, base, moment) for inner in spec.specs)
    assert isinstance(spec.value, Duration | ClockTime)
    seconds = int(spec.value.seconds)
    is_clock = isinstance(spec.value, ClockTime) and spec.qualifier != "RELATIVE"
    at = first(base, seconds) if is_clock or spec.qualifier == "ABSOLUTE" else base + seconds
    return {"AT": moment == at, "AFTER": moment >= at, "BEFORE": moment < at, "WITHIN": moment <= at}[
        spec.operator
    ]


def has_daily(spec: TimeSpec) -> bool:
    """True if clocks within make a daily window, which the reference does not know."""
    if isinstance(spec, Window):
        return False
    found = [inner for inner in spec.specs if isinstance(inner, Window)]
    clocks = {inner.operator for inner in found if _is_clock(inner)}
    is_daily = isinstance(spec, AllOf) and "AFTER" in clocks and bool(clocks & {"BEFORE", "WITHIN"})
    return is_daily or any(map(has_daily, spec.specs))


def _is_clock(window: Window) -> bool:
    return window.qualifier == "ABSOLUTE" or (isinstance(window.value, ClockTime) and not window.qualifier)


MINUTES_OF_DAY = st.integers(0, 24 * 60 - 1).map(lambda minutes: float(minutes * MINUTE))
CLOCKS = st.one_of(MINUTES_OF_DAY, st.sampled_from([7200.0, 9000.0, 10800.0]))
WINDOWS = st.builds(
    Window,
    st.sampled_from(["AT", "BEFORE", "AFTER", "WITHIN"]),
    st.one_of(st.builds(Duration, MINUTES_OF_DAY), st.builds(ClockTime, CLOCKS)),
    st.sampled_from(["", "RELATIVE", "ABSOLUTE"]),
)
SPECS: st.SearchStrategy[TimeSpec] = st.recursive(
    WINDOWS,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)
_SPRING, _AUTUMN = (int(datetime(2026, *day, tzinfo=UTC).timestamp()) for day in ((3, 28), (10, 24)))
BASES = st.builds(
    lambda start, minutes: start + minutes * MINUTE,
    st.sampled_from([_SPRING, _AUTUMN]),
    st.integers(0, 3 * 24 * 60),
)


@settings(max_examples=examples(150), deadline=None)
@given(SPECS.filter(lambda spec: not has_daily(spec)), BASES, st.lists(st.integers(0, MINUTES), max_size=20))
def test_K34_windows_are_those_of_a_slow_reference(spec: TimeSpec, base: int, minutes: list[int]) -> None:
    found = windows(spec, float(base), ZONE, {})
    ends = [int(moment) for window in found for moment in (window.start, window.end) if moment != inf]
    looked_at = {base + at_ * MINUTE for at_ in minutes} | {
        end + by for end in ends for by in (-MINUTE, 0, MINUTE)
    }
    for moment in looked_at:
        inside = any(
            window.start <= moment < window.end or (moment == window.end and window.closed)
            for window in found
        )
        assert inside == (moment >= base and holds(spec, base, moment)), (found, moment)
    assert all(one.end < other.start for one, other in pairwise(found))
    assert all(
        window.start < window.end or (window.start == window.end and window.closed) for window in found
    )


@settings(max_examples=examples(100), deadline=None)
@given(MINUTES_OF_DAY, MINUTES_OF_DAY, BASES)
def test_KA9_a_daily_window_is_that_of_a_slow_reference(after: float, before: float, base: int) -> None:
    spec = AllOf((Window("AFTER", ClockTime(after)), Window("BEFORE", ClockTime(before))))
    found = windows(spec, float(base), ZONE, {})
    begun = [base - at_ * MINUTE for at_ in range(24 * 60 + 61) if is_next(base - at_ * MINUTE, int(after))]
    for start in [*begun[:1], first(base, int(after)), first(first(base, int(after)) + MINUTE, int(after))]:
        end = first(start + MINUTE if after >= before else start, int(before))
        if max(base, start) < end:
            assert found == (Interval(float(max(base, start)), float(end)),)
            return
    raise AssertionError(found)


# --- weekdays, and working time ---------------------------------------------------------------------------


def of_week(text: str, base: str, *, zone: str = "Europe/Berlin") -> list[tuple[str, str]]:
    """The windows of a text from a base on, as the clock shows them."""

    def shown(moment: float) -> str:
        return datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%a %H:%M") if moment < inf else "ever"

    begin = datetime.fromisoformat(base).replace(tzinfo=ZoneInfo(zone)).timestamp()
    file = f"""TASK TYPE t INVOCATION: MANUAL INITIAL a STATE a EXPOSED ON EVENT go GOTO COMMIT
        ON EVENT e {text} CONDITION ACTION"""
    (task,) = parse(Source("g.task", file.encode()), None).checked()
    written = Element(0, task.xml).tree().text or ""
    again = parse(Source("g.task", written.encode()), None).checked()
    assert again[0].digest == task.digest, "as it is written it means the same"
    (rule,) = task.events
    return [(shown(w.start), shown(w.end)) for w in windows(rule.before_condition, begin, zone, {})]


SATURDAY = "2026-11-28T12:00"


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        ("AFTER 09:00 AND BEFORE 17:00 ON MON-FRI", SATURDAY, [("Mon 09:00", "Mon 17:00")]),
        ("AFTER 09:00 AND BEFORE 17:00 ON MON-FRI", "2026-11-27T11:00", [("Fri 11:00", "Fri 17:00")]),
        ("AFTER 22:00 AND BEFORE 06:00 ON FRI", "2026-11-28T01:00", [("Sat 01:00", "Sat 06:00")]),
        ("AT 21:00:00 ON FRI", SATURDAY, [("Fri 21:00", "Fri 21:00")]),
        ("AFTER 09:00 ON SUN, TUE", SATURDAY, [("Sun 09:00", "ever")]),
        ("[AFTER 09:00 AND BEFORE 17:00] ON FRI-MON", SATURDAY, [("Sat 12:00", "Sat 17:00")]),
        ("AFTER 17:00 ON FRI AND BEFORE 09:00 ON MON", SATURDAY, [("Sat 12:00", "Mon 09:00")]),
        ("AFTER 17:00 ON FRI AND BEFORE 09:00 ON MON", "2026-11-30T09:00", [("Fri 17:00", "Mon 09:00")]),
        ("BEFORE 09:00 ON MON AND AFTER 17:00 ON FRI", "2026-11-27T18:00", [("Fri 18:00", "Mon 09:00")]),
        ("AFTER 09:00 ON MON AND BEFORE 17:00 ON TUE", "2026-12-01T10:00", [("Tue 10:00", "Tue 17:00")]),
        ("AFTER 09:00 ON MON AND BEFORE 17:00 ON TUE", "2026-12-01T18:00", [("Mon 09:00", "Tue 17:00")]),
        ("AFTER 09:00 ON MON AND BEFORE 08:00 ON TUE, MON", "2026-11-30T08:30", [("Mon 09:00", "Tue 08:00")]),
        ("AFTER 09:00 ON MON-FRI AND BEFORE 08:00 ON MON", SATURDAY, [("Sat 12:00", "Mon 08:00")]),
        ("AFTER 09:00 ON FRI AND BEFORE 17:00", SATURDAY, [("Fri 09:00", "Fri 17:00")]),
        ("AFTER 4 HRS WORKING 09:00 TO 17:00 ON MON-FRI", SATURDAY, [("Mon 13:00", "ever")]),
        (
            "WITHIN 4 HRS WORKING 09:00 TO 12:00, 13:00 TO 24:00 ON SUN",
            SATURDAY,
            [("Sat 12:00", "Sun 14:00")],
        ),
        (
            "AFTER 1 HRS WORKING 09:00 TO 17:00 ON MON-FRI AND BEFORE 12:00 ON MON",
            SATURDAY,
            [("Mon 10:00", "Mon 12:00")],
        ),
    ],
)
def test_K35_windows_name_weekdays_and_working_time(
    text: str, base: str, expected: list[tuple[str, str]]
) -> None:
    assert of_week(text, base) == expected
