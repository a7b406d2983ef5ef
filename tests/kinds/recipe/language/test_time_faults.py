"""The faults of `time`: fields, steps, appointments, what does not go together (N13, N25, N39, N41, N45)."""

import pytest

from tests.kinds.recipe.language.test_faults import AB, fault_in, faults_in, recipe


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (
            'hours="§24"',
            "expected * or a list of numbers and ranges from 0 to 23, such as 1,3,5-7 or */5, found '24'",
        ),
        ('minutes="§5-3"', "minutes: expected * or a list"),
        ('monthdays="§0"', "numbers and ranges from 1 to 31"),
        ('months="§janvier"', "numbers and ranges from 1 to 12"),
        ('years="§-10001"', "numbers and ranges from -10000 to 10000"),
        ('yeardays="§367"', "numbers and ranges from 1 to 366"),
        ('weekdays="§7"', "numbers and ranges from 0 to 6"),
        ('seconds="§1,"', "numbers and ranges from 0 to 59"),
        (
            'monthdays="§-32"',
            "from 1 to 31, such as 1,3,5-7 or */5, or from -31 to -1, which is the last, found",
        ),
        ('monthdays="§-3-5"', "or from -31 to -1, which is the last"),
        ('monthdays="§-1--3"', "or from -31 to -1, which is the last"),
        ('weekdays="§-1"', "numbers and ranges from 0 to 6"),
        ('minutes="§*/0"', "minutes: expected * or a list"),
        ('minutes="§5/15"', "minutes: expected * or a list"),
        ('minutes="§*,5"', "minutes: expected * or a list"),
        ('weekdays="§mon-fry"', "from 0 to 6, such as 1,3,5-7 or */5, or of names, such as mon or tue-sat"),
        ('cron="§0 7 * *"', "cron: expected minutes, hours, days of the month, months and weekdays of cron"),
        ('cron="0 §25 * * 1-5"', "cron: expected hours as * or a list of numbers and ranges from 0 to 23"),
        ('cron=" 0 7 * * §1-8"', "0 and 7 being Sunday, or as 5L, the last Friday, found '1-8'"),
        ('cron="0 7 §L5 * *"', "cron: expected monthdays as * or a list of numbers and ranges from 1 to 31"),
        ('cron="0 7 §*/2 * 5L"', "expected * for the days of the month beside the last of a weekday"),
        ('cron="§@dayly"', "cron: expected one of @yearly, @annually, @monthly"),
        ('cron="§@reboot"', "to begin with the daemon, write <start-plan> in data/memory.xml"),
        ('cron="§0 7 30 2 *"', "this date never comes; correct cron"),
        (
            'cron="0 7 * * *" hours="§7"',
            "hours: with cron no field may be given; remove it",
        ),
        ('after="3d" cron="§@daily"', "cron: with after only weekdays may be given"),
        ('monthdays="§-31" months="2,4"', "this date never comes; correct monthdays or months"),
        ('monthdays="§30-31" months="2"', "this date never comes; correct monthdays or months"),
        ('months="2" monthdays="§29" years="2025-2027"', "never comes; correct monthdays or months or years"),
        ('yeardays="§366" years="2025"', "never comes; correct yeardays or years"),
        ('years="§-44"', "this date never comes; correct years"),
        ('missed="§never"', "missed: expected once or skip"),
        (
            'after="§soon"',
            'after: expected a length of time such as "3d", "1d 12h" or "15m", of whole days, '
            "no more than a hundred years, found 'soon'",
        ),
        ('after="§0d"', "after: expected a length of time"),
        ('after="§1.5d"', "of whole days"),
        ('after="§101w 99999999d"', "no more than a hundred years"),
        (
            'after="3d" hours="§7"',
            "hours: with after only weekdays may be given; for a date that comes again add another time node",
        ),
        ('after="3d" weekdays="§7"', "numbers and ranges from 0 to 6"),
        ('at="$a/@§" before="15m"', "at is no XPath that narval can try: expected an expression"),
        (
            'at="§2026" after="1h"',
            "expected an expression of an element that a step produced, such as $STEP/@start, found '2026'",
        ),
        (
            'at="§2026-11-25T10:00"',
            "at: expected an expression of an element that a step produced, such as $STEP/@start, "
            "found '2026-11-25T10:00'; for a fixed date give its fields",
        ),
        ('at="§9:30"', "found '9:30'; for a fixed date give its fields"),
        (
            'at="§$c/@start"',
            "$c: expected the id of a step or the name of a condition of this recipe, found 'c'",
        ),
        ("at=\"§if ($a) then $a/@x else ''\"", "at: expected an expression of XPath 1.0, found"),
        ('before="§15m"', "before: what was before its in-steps had ended is past; add at, such as at="),
        (
            'at="$a/@start" before="§15m" after="1h"',
            "before: this time has after as well; remove one of them",
        ),
        ('at="$a/@start" weekdays="§0-4"', "weekdays: with at they say which days count of before or after"),
        ('at="$a/@start" minutes="§0"', "minutes: with at only weekdays may be given"),
    ],
)
def test_N13_fields_of_time_keep_to_table_2_9(time: str, message: str) -> None:
    assert message in fault_in(recipe(AB.replace("</transition>", f"<time {time}/></transition>")))


@pytest.mark.parametrize(
    "time",
    [
        'hours="*"',
        'years="-10--5,2026"',
        'monthdays="29" months="2"',
        'hours=" 1 , 3 - 5 "',
        'minutes="*/5" hours="8-18/2,23"',
        'monthdays="1,-1,-10 - -5 / 2"',
        'after="1w 2d 3h"',
        'after=" 3d " weekdays="0-4" missed="skip"',
        'at="$a/@start" before="15m"',
        'at=" concat($a/@day, \'T\', $a/when/@hour) " before="2d" weekdays="0-4" missed="skip"',
        "",
    ],
)
def test_N25_fields_of_time_may_be_lists_and_ranges(time: str) -> None:
    assert faults_in(recipe(AB.replace("</transition>", f"<time {time}/></transition>"))) == []


def test_N45_a_date_is_of_no_element_that_its_own_transition_takes() -> None:
    own = '<condition as="m"><match>meeting</match></condition><time at="§$m/@start" before="15m"/>'
    assert (
        "at: $m is given by a condition of this transition, which is judged when the date has come; "
        "let a transition before it take the element"
    ) in fault_in(recipe(AB.replace("</transition>", f"{own}</transition>")))
