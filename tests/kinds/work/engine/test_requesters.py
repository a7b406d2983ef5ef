"""The people who asked: found over all that something came from, and known not to be known (P30)."""

from __future__ import annotations

from typing import Any

from narval.core.definitions.people.directory import Directory, Person
from narval.core.elements.element import Element, Origin
from narval.kinds.work.engine import offering
from narval.kinds.work.engine.offering import Requesters, requesters
from tests.kinds.work.engine.items import Office, work


class Known:
    """A view of elements by their origins; of run 1 the starter is known."""

    people = Directory((Person("ann", login="al"), Person("ben", login="ben")))

    def __init__(self, starter: str = "", **origins: Any) -> None:
        self.starter = starter
        self.elements = {
            int(name[1:]): Element(int(name[1:]), b"<a/>", origin=o) for name, o in origins.items()
        }

    def started_by(self, run: int) -> str:
        return self.starter

    def element(self, eid: int) -> Element | None:
        return self.elements.get(eid)


def asked(view: Any, *shown: int) -> Requesters:
    return requesters(view, 1, shown)


def test_P30_who_started_it_and_who_added_what_is_shown_or_what_that_came_from() -> None:
    view = Known(
        "cleo",
        e5=Origin(run=3, inputs=(4, 2)),
        e4=Origin(run=2, inputs=(2, 3)),
        e3=Origin(by="ben"),
        e2=None,
    )
    assert asked(view, 5) == Requesters(("cleo", "ben"))
    assert asked(view) == Requesters(("cleo",))
    assert asked(Known(e2=None), 2) == Requesters(())


def test_P30_a_login_is_the_person_whose_it_is() -> None:
    assert set(asked(Known("al")).people) == {"al", "ann"}
    view = Known(e1=Origin(by="al", actor="root"))
    assert asked(view, 1).people == ("al",), "somebody acted for al, by that name"


def test_P30_what_is_forgotten_or_sent_without_a_name_is_not_known() -> None:
    gone = Known("ben", e5=Origin(run=3, inputs=(4,)))
    assert asked(gone, 5) == Requesters(("ben",), "element 4, from which this came, is forgotten")
    sent = Known(e1=Origin(agent="ada", message="m"))
    assert asked(sent, 1).unknown == "element 1 was sent by the agent ada, which did not say for whom"
    named = Known(e1=Origin(agent="ada", message="m", by="ben"))
    assert asked(named, 1) == Requesters(("ben",))


def test_P30_the_work_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(offering, "MOST_ORIGINS", 10)
    line = {f"e{eid}": Origin(run=1, inputs=(eid - 1,)) for eid in range(2, 20)}
    assert asked(Known(e1=None, **line), 19).unknown == "this came from more than 10 elements"


def test_P30_where_it_is_not_known_nobody_may_answer_and_it_says_why() -> None:
    inside = '<input id="r"><match>request</match></input><for not="requester"/>'
    office = Office(work(inside))
    office.starter = "ann"
    eid = office.add("<request/>")
    found = office.element(eid)
    assert found is not None
    found.enter(eid, 0.0, Origin(run=9, inputs=(999,)))
    item = office.offers()
    assert office.state(item) == "failed"
    assert office.error()["type"] == "no-requester"
    assert "element 999, from which this came, is forgotten" in office.error()["message"]


def test_who_is_not_asked_is_told_who_can_answer_without_those_who_may_not() -> None:
    request = '<input id="r"><match>request</match></input>'
    office = Office(work(f'{request}<for people="ann ben" not="requester" requester="ann"/>'))
    office.add("<request/>")
    assert office.why_not(office.offers(), "eva", "answer") == "this asks ann or ben; ben can answer"
