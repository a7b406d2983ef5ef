"""Deadlines and reminders that come while no daemon is running (P32, P34)."""

from __future__ import annotations

from lxml import etree

from narval.core.definitions.wall import in_utc
from narval.kinds.work.engine.explain import explain, render, waiting_for
from narval.kinds.work.engine.listing import Worklist
from tests.kinds.work.engine.items import DAY, Office, work

TWO = '<for roles="approver"/><outcome name="yes"/><outcome name="no"/>'
DATE = '<deadline after="86460s"/>'


def test_P32_missed_reminders_of_working_time_are_counted_in_it() -> None:
    office = Office(work(TWO + '<remind after="4h 9-17" every="4h 9-17" times="3"/>'))
    office.offers()
    (wake,) = office.wakes
    office.now = office.up_since = 1.5 * DAY  # missed: at 13 and at 17 o'clock
    office.wakes_up(wake)
    assert office.told("Reminded").times == 2
    ((_, timer),) = office.wakes.values()
    assert timer.at == DAY + 13 * 3600


def test_P34_a_deadline_that_was_missed_comes_five_minutes_after_the_start() -> None:
    office = Office(work(TWO + '<deadline after="1d"/>'))
    item = office.offers()
    (wake,) = office.wakes
    office.now += 2 * DAY
    office.up_since = office.now - 1
    office.wakes_up(wake)
    assert office.state(item) == "offered"
    office.passes(298)
    office.act(item, "ann", "claim")
    office.passes(1)
    assert office.state(item) == "expired"


def test_P34_a_deadline_that_was_missed_is_put_off_once_and_told_so() -> None:
    office = Office(work(TWO + '<deadline after="1d"/>'))
    item = office.offers()
    (wake,) = office.wakes
    office.now += 2 * DAY
    office.up_since = office.now
    office.wakes_up(wake)
    ends = office.now + 300
    _, limit = waiting_for(office.definitions[item], office.states[item], {})
    assert (limit.what, limit.until) == ("limit", ends)
    drawn = render(office.definitions[item], office.states[item], ())
    assert etree.fromstring(drawn).get("deadline") == in_utc(ends)
    office.passes(200)
    office.up_since = office.now
    office.passes(100)
    assert (office.state(item), office.now) == ("expired", ends)
    why = explain(office.definitions[item], office.states[item], None)
    assert why == ("no person answered before ", ends)


def test_P34_a_moment_that_was_put_off_and_missed_too_is_put_off_anew() -> None:
    office = Office(work(TWO + '<deadline after="1d"/>'))
    item = office.offers()
    for _ in range(2):
        (wake,) = office.wakes
        office.now += 2 * DAY
        office.up_since = office.now
        office.wakes_up(wake)
        assert (office.state(item), office.states[item].ends_at) == ("offered", office.now + 300)
    office.passes(300)
    assert office.state(item) == "expired"


def test_P35_an_item_whose_deadline_was_put_off_is_in_the_list_by_the_moment_at_which_it_ends() -> None:
    office = Office(work(TWO + '<deadline after="1d"/>', name="g.w"), work(TWO + DATE, name="g.v"))
    index = Worklist()
    missed = office.offers("g.w")
    (wake,) = office.wakes
    other = office.offers("g.v")
    office.now += DAY + 1
    office.up_since = office.now
    office.wakes_up(wake)
    for item in (missed, other):
        index.put(item, office.definitions[item], office.states[item])
    assert index.all() == [other, missed]
