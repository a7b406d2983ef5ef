"""Calendars read: iCalendar files as `event` elements, whatever is in them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from modules.calendar.occurring import MAX_OF_ONE, Window, events_of
from modules.calendar.parsing import MAX_BYTES, CalendarError
from modules.calendar.recurring import FREQUENCIES, WEEKDAYS, Budget, Rule, RuleError, walls
from tests.examples import examples
from tests.modules.calendar_texts import NOW, PARIS, found, ics, one, starts, vevent

# --- an event ---------------------------------------------------------------------------------------------


def test_an_event_has_what_people_need_of_it() -> None:
    event = one(
        vevent(
            "meeting-1@example.org",
            "DTSTART;TZID=Europe/Paris:20261124T100000",
            "DTEND;TZID=Europe/Paris:20261124T113000",
            "SUMMARY:The boat\\, at l",
            " ast",
            "LOCATION:Harbour",
            "DESCRIPTION:Bring\\n a rope",
            "STATUS:CONFIRMED",
            "CATEGORIES:sea,work",
            "URL:https://example.org/boat",
            'ORGANIZER;CN="Quay: Ada":mailto:ada@example.org',
            "BEGIN:VALARM\r\nTRIGGER:-PT15M\r\nDESCRIPTION:alarm\r\nSUMMARY:alarm\r\nEND:VALARM",
        )
    )
    assert dict(event.attrib) == {
        "key": "home meeting-1@example.org",
        "uid": "meeting-1@example.org",
        "calendar": "home",
        "start": "2026-11-24T10:00:00+01:00",
        "end": "2026-11-24T11:30:00+01:00",
        "summary": "The boat, at last",
        "location": "Harbour",
        "status": "confirmed",
        "categories": "sea, work",
        "url": "https://example.org/boat",
        "organizer": "ada@example.org",
    }
    assert event.findtext("description") == "Bring\n a rope"


def test_a_link_that_is_not_of_the_web_is_left_out_and_odd_letters_do_no_harm() -> None:
    event = one(vevent("a", "DTSTART:20261124T100000Z", "URL:javascript:alert(1)", "SUMMARY:a\x07b\x01<b>"))
    assert event.get("url") is None
    assert etree.fromstring(etree.tostring(event)).get("summary") == "ab<b>"


def test_a_uid_that_is_long_or_odd_becomes_its_digest() -> None:
    keys = [one(vevent(uid)).get("key", "") for uid in ("x" * 1_000, "x" * 1_001, "a\tb")]
    assert len(set(keys)) == 3
    assert all(key.startswith("home sha256:") and len(key) < 100 for key in keys)


# --- times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        pytest.param("DTSTART:20261124T100000Z", "2026-11-24T11:00:00+01:00", id="in UTC"),
        pytest.param(
            "DTSTART:20261124T100000", "2026-11-24T10:00:00+01:00", id="floating: on the home's clock"
        ),
        pytest.param("DTSTART;VALUE=DATE:20261124", "2026-11-24", id="all of a day"),
        pytest.param(
            "DTSTART;TZID=America/New_York:20261124T100000", "2026-11-24T16:00:00+01:00", id="elsewhere"
        ),
        pytest.param(
            "DTSTART;TZID=Eastern Standard Time:20261124T100000", "2026-11-24T16:00:00+01:00", id="Windows"
        ),
        pytest.param(
            "DTSTART;TZID=/freeassociation.sourceforge.net/America/New_York:20261124T100000",
            "2026-11-24T16:00:00+01:00",
            id="with a prefix",
        ),
    ],
)
def test_a_beginning_is_shown_as_clocks_at_home_show_it(start: str, shown: str) -> None:
    assert starts(vevent("a", start)) == [shown]


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (["DTSTART:20261124T100000Z", "DURATION:PT1H30M"], "2026-11-24T12:30:00+01:00"),
        (["DTSTART:20261124T100000Z", "DURATION:P1W"], "2026-12-01T11:00:00+01:00"),
        (["DTSTART:20261124T100000Z"], "2026-11-24T11:00:00+01:00"),
        (["DTSTART;VALUE=DATE:20261124"], "2026-11-25"),
        (["DTSTART;VALUE=DATE:20261124", "DTEND;VALUE=DATE:20261127"], "2026-11-27"),
    ],
)
def test_an_end_is_given_or_reckoned(lines: list[str], end: str) -> None:
    assert one(vevent("a", *lines)).get("end") == end


DESCRIBED = """BEGIN:VTIMEZONE\r
TZID:Ours\r
BEGIN:STANDARD\r
DTSTART:19961027T030000\r
TZOFFSETFROM:+0200\r
TZOFFSETTO:+0100\r
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r
END:STANDARD\r
BEGIN:DAYLIGHT\r
DTSTART:19810329T020000\r
TZOFFSETFROM:+0100\r
TZOFFSETTO:+0200\r
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\r
END:DAYLIGHT\r
END:VTIMEZONE"""


@given(st.datetimes(datetime(1997, 1, 1), datetime(2060, 1, 1)))
@settings(max_examples=examples(60), deadline=None)
def test_a_zone_that_a_file_describes_has_the_offsets_that_it_says(wall: datetime) -> None:
    wall = wall.replace(microsecond=0)
    window = Window.around(wall.replace(tzinfo=PARIS), 2, 2)
    text = f"{wall:%Y%m%dT%H%M%S}"
    described = starts(DESCRIBED, vevent("a", f"DTSTART;TZID=Ours:{text}"), window=window)
    known = starts(vevent("a", f"DTSTART;TZID=Europe/Paris:{text}"), window=window)
    if wall.month not in (3, 10):  # within the hour of a change the two may be of two minds
        assert described == known


def test_a_zone_that_nobody_knows_is_told_and_its_events_are_taken_as_of_the_home() -> None:
    events, faults = found(vevent("a", "DTSTART;TZID=../../etc/passwd:20261124T100000"))
    assert [event.get("start") for event in events.values()] == ["2026-11-24T10:00:00+01:00"]
    (fault,) = faults
    assert "zone '../../etc/passwd' is not known" in fault.text


# --- recurring --------------------------------------------------------------------------------------------

WEEKLY = ["DTSTART;TZID=Europe/Paris:20260105T100000", "RRULE:FREQ=WEEKLY;BYDAY=TU,TH"]


def test_each_occurrence_within_the_window_has_a_key_of_its_own_that_stays() -> None:
    events = found(vevent("a", *WEEKLY, "EXDATE;TZID=Europe/Paris:20261126T100000")).events
    assert [(event.get("start", "")[:10], key) for key, event in events.items()][:2] == [
        ("2026-11-24", "home a 20261124T090000Z"),
        ("2026-12-01", "home a 20261201T090000Z"),
    ]
    assert len(events) == 9


def test_an_occurrence_that_was_moved_keeps_its_key_and_one_that_was_cancelled_is_gone() -> None:
    moved = vevent("a", "DTSTART:20261124T150000Z", "RECURRENCE-ID:20261124T090000Z", "SUMMARY:later")
    gone = vevent("a", "DTSTART:20261126T090000Z", "RECURRENCE-ID:20261126T090000Z", "STATUS:CANCELLED")
    events = found(vevent("a", *WEEKLY), moved, gone).events
    event = events["home a 20261124T090000Z"]
    assert (event.get("start"), event.get("summary")) == ("2026-11-24T16:00:00+01:00", "later")
    assert event.get("recurrence") == "2026-11-24T10:00:00+01:00"
    assert not any("20261126" in key for key in events)


def test_an_occurrence_from_beyond_the_window_that_was_moved_into_it_is_there() -> None:
    moved = vevent("a", "DTSTART:20261125T150000Z", "RECURRENCE-ID:20270223T090000Z")
    assert "home a 20270223T090000Z" in found(vevent("a", *WEEKLY), moved).events


def test_it_stays_at_ten_oclock_when_the_clocks_change() -> None:
    window = Window.around(datetime(2026, 10, 22, tzinfo=PARIS), 0, 6)
    lines = ["DTSTART;TZID=Europe/Paris:20260105T100000", "RRULE:FREQ=DAILY"]
    offsets = {start[11:] for start in starts(vevent("a", *lines), window=window)}
    assert offsets == {"10:00:00+02:00", "10:00:00+01:00"}


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        pytest.param(["RRULE:FREQ=DAILY;UNTIL=20261125T090000Z"], ["23", "24", "25"], id="until, inclusive"),
        pytest.param(["RRULE:FREQ=DAILY;UNTIL=20261125"], ["23", "24", "25"], id="until a day, all of it"),
        pytest.param(["RRULE:FREQ=DAILY;COUNT=4"], ["23", "24"], id="counted from its beginning"),
        pytest.param(["RDATE:20261124T090000Z,20261129T090000Z"], ["24", "29"], id="dates besides"),
        pytest.param(
            ["RRULE:FREQ=DAILY;COUNT=5", "EXDATE;VALUE=DATE:20261124"], ["23", "25"], id="a day left out"
        ),
        pytest.param(
            ["RDATE;VALUE=PERIOD:20261124T090000Z/PT2H", "RRULE:FREQ=DAILY;COUNT=4"],
            ["23", "24"],
            id="twice the same",
        ),
    ],
)
def test_which_days_it_occurs(lines: list[str], days: list[str]) -> None:
    found = starts(vevent("a", "DTSTART;TZID=Europe/Paris:20261121T100000", *lines))
    assert [start[8:10] for start in found if start >= "2026-11-23"] == days


def test_all_day_events_recur_by_days_and_what_began_before_the_window_is_in_it() -> None:
    lines = ["DTSTART;VALUE=DATE:20200101", "DURATION:P2D", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-10"]
    assert starts(vevent("a", *lines)) == ["2026-11-21", "2026-12-22"]


def test_the_version_with_the_highest_sequence_counts() -> None:
    first = vevent("a", "DTSTART:20261124T100000Z", "SEQUENCE:3", "SUMMARY:third")
    second = vevent("a", "DTSTART:20261125T100000Z", "SEQUENCE:1", "SUMMARY:first")
    assert one(first, second).get("summary") == "third"


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high).filter(lambda number: number or low == 0)
    return st.lists(numbers, min_size=1, max_size=3).map(lambda found: ",".join(map(str, found)))


@st.composite
def _rules(draw: st.DrawFn) -> str:
    frequency = draw(st.sampled_from(FREQUENCIES))
    days = st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=3)
    parts = {
        "INTERVAL": st.integers(1, 4).map(str),
        "COUNT": st.integers(1, 30).map(str),
        "BYMONTH": _numbers(1, 12),
        "BYMONTHDAY": _numbers(-31, 31),
        "BYHOUR": _numbers(0, 23),
        "BYDAY": days.map(",".join),
        "WKST": st.sampled_from(WEEKDAYS),
    }
    if frequency == "YEARLY":
        parts |= {"BYWEEKNO": _numbers(1, 53), "BYYEARDAY": _numbers(-366, 366)}
    if frequency in ("YEARLY", "MONTHLY"):
        positions = days.flatmap(
            lambda names: st.sampled_from([1, 2, -1, -2]).map(
                lambda at: ",".join(f"{at}{day}" for day in names)
            )
        )
        parts |= {"BYDAY": st.one_of(parts["BYDAY"], positions), "BYSETPOS": _numbers(-3, 3)}
    chosen = draw(st.lists(st.sampled_from(sorted(parts)), max_size=3, unique=True))
    return ";".join([f"FREQ={frequency}", *(f"{name}={draw(parts[name])}" for name in chosen)])


@given(_rules(), st.datetimes(datetime(2026, 3, 1), datetime(2026, 6, 1)))
@settings(max_examples=examples(60), deadline=None)
def test_rules_are_expanded_as_dateutil_has_it(text: str, start: datetime) -> None:
    start = start.replace(microsecond=0)
    first, last = datetime(2026, 5, 1), datetime(2026, 5, 30)
    try:
        ours = list(walls(Rule.of(text), start, first, last, Budget(100_000)))
    except RuleError:
        return
    try:
        theirs = rrulestr(f"RRULE:{text}", dtstart=start)
    except ValueError:
        return
    if not ours:
        return  # a rule that gives nothing keeps dateutil busy for minutes
    assert ours == theirs.between(first, last, inc=True)


# --- hostile ----------------------------------------------------------------------------------------------

UP_TO = ",".join(map(str, range(60)))
BOMBS = [
    pytest.param(["DTSTART:19000101T000000Z", "RRULE:FREQ=SECONDLY"], id="each second since 1900"),
    pytest.param(["DTSTART:16010101T000000", "RRULE:FREQ=SECONDLY;COUNT=1000000000;BYHOUR=3"], id="a count"),
    pytest.param(["DTSTART:20000101T000000Z", "RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"], id="never"),
    pytest.param(
        ["DTSTART:00010101T000000", "RRULE:FREQ=DAILY;COUNT=999999999;BYMONTH=2;BYMONTHDAY=30"], id="0001"
    ),
    pytest.param(
        [
            "DTSTART:20000101T000000Z",
            f"RRULE:FREQ=DAILY;BYHOUR={UP_TO[:61]};BYMINUTE={UP_TO};BYSECOND={UP_TO};BYSETPOS=-1,1",
        ],
        id="each second by parts",
    ),
    pytest.param(["DTSTART:20000101T000000Z", "DURATION:P99999D", "RRULE:FREQ=MINUTELY"], id="long ones"),
    pytest.param(["DTSTART:20000101T000000Z", "RRULE:" + "FREQ=DAILY;" * 9_000], id="a long rule"),
    pytest.param(["DTSTART:99991231T235959Z", "DURATION:P9999W", "RRULE:FREQ=HOURLY"], id="the end of time"),
    pytest.param(["DTSTART:20261124T100000Z", "RRULE:FREQ=NEVER"], id="no frequency"),
    pytest.param(["DTSTART:20261124T100000Z", "RRULE:FREQ=DAILY;INTERVAL=0"], id="no interval"),
    pytest.param(
        ["DTSTART:20261124T100000Z", "RDATE:" + ",".join(["20261124T100000Z"] * 5_000)], id="many dates"
    ),
    pytest.param(["DTSTART:tomorrow"], id="no date"),
    pytest.param(["DTSTART:20261124T100000Z", "DTEND:20261124T090000Z"], id="ends before it begins"),
    pytest.param(["DTSTART:20261324T990000Z"], id="no such month"),
]


@pytest.mark.parametrize("lines", BOMBS)
def test_a_bomb_costs_its_event_alone(lines: list[str]) -> None:
    events, faults = found(vevent("bomb", *lines), vevent("good", "DTSTART:20261124T100000Z"))
    assert "home good" in events
    assert len(events) <= MAX_OF_ONE + 1
    assert faults or len(events) <= 70


def test_two_thousand_bombs_are_given_up_together() -> None:
    rule = ["DTSTART:20000101T000000Z", "RRULE:FREQ=MINUTELY;BYMONTH=2"]
    bombs = [vevent(f"b{number}", *rule) for number in range(2_000)]
    events, faults = found(vevent("good", "DTSTART:20261124T100000Z"), *bombs)
    assert list(events) == ["home good"]
    assert "too many steps" in faults[-1].text
    assert len(faults) == 20, "so many are told, and no more"


def test_a_zone_that_changes_each_second_is_given_up() -> None:
    zone = DESCRIBED.replace("FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU", "FREQ=SECONDLY")
    events, faults = found(zone, vevent("a", "DTSTART;TZID=Ours:20261124T100000"), vevent("good"))
    assert "home good" in events
    assert any("too many steps" in fault.text for fault in faults)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\xff\xfe",
        b"<html>not found</html>",
        b"BEGIN:VCARD\nEND:VCARD\n",
        b"x" * (MAX_BYTES + 1),
        b"\n" * 600_000,
    ],
)
def test_what_is_no_calendar_is_refused(data: bytes) -> None:
    with pytest.raises(CalendarError):
        events_of([data], "home", Window.around(NOW, 1, 31))


@pytest.mark.parametrize(
    "data",
    [
        b"BEGIN:VCALENDAR\n" * 100_000,
        b"BEGIN:VCALENDAR\n" + b"BEGIN:VEVENT\n" * 100_000,
        b"BEGIN:VCALENDAR\n" + b"END:VEVENT\n" * 100_000,
        b"BEGIN:VCALENDAR\nSUMMARY" + b";" * 1_000_000,
        b"BEGIN:VCALENDAR\nSUMMARY:" + b"\n " * 200_000,
        b'BEGIN:VCALENDAR\nDTSTART;TZID="' + b"\\" * 1_000_000,
    ],
    ids=["calendars", "events", "ends", "parameters", "folds", "backslashes"],
)
def test_what_is_malformed_is_read_as_far_as_it_can_be(data: bytes) -> None:
    events, _ = events_of([data], "home", Window.around(NOW, 1, 31))
    assert events == {}


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_any_change_of_a_file_is_survived(data: st.DataObject) -> None:
    whole = ics(DESCRIBED, vevent("a", *WEEKLY, "SUMMARY:weekly"), vevent("b", "DTSTART;VALUE=DATE:20261124"))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(whole)))
        cut = data.draw(st.integers(0, 12))
        whole = (
            whole[:at]
            + data.draw(st.binary(max_size=6) | st.just(b"\r\nRRULE:FREQ=DAILY"))
            + whole[at + cut :]
        )
    try:
        events, _ = events_of([whole], "home", Window.around(NOW, 1, 31))
    except CalendarError:
        return
    for key, event in events.items():
        assert etree.fromstring(etree.tostring(event)).get("key") == key


@given(
    st.lists(st.text(max_size=30), min_size=4, max_size=4), st.timedeltas(timedelta(0), timedelta(days=25))
)
@settings(max_examples=examples(100), deadline=None)
def test_whatever_icalendar_writes_is_read_as_it_was_meant(texts: list[str], later: timedelta) -> None:
    from icalendar import Calendar, Event

    start = NOW.replace(microsecond=0) + timedelta(seconds=int(later.total_seconds()))
    calendar, event = Calendar(), Event()
    kept = ["".join(letter for letter in text if letter.isprintable()).strip() for text in texts]
    for name, text in zip(("summary", "location", "description"), kept[1:], strict=True):
        event.add(name, text)
    event.add("uid", "a" + kept[0])
    event.add("dtstart", start)
    calendar.add_component(event)
    (read,) = events_of([calendar.to_ical()], "home", Window.around(NOW, 1, 31)).events.values()
    assert datetime.fromisoformat(read.get("start", "")) == start
    assert read.get("summary", "") == " ".join(kept[1].split())
    assert read.findtext("description", "") == kept[3]
