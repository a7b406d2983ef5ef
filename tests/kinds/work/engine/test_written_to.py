"""People are written to about an item by each of its ways: who, when, and what they are told (C9, C10)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from narval.core.definitions.people.directory import Directory, Person
from narval.core.engines.commands import NOTICE, Call
from narval.kinds.work.engine.engine import explain, waiting_for
from narval.kinds.work.engine.listing import could_have, waits_for_nobody
from tests.kinds.work.engine.items import DAY, Office, directory, work

PEOPLE = (
    Person("ann", roles=("approver",), chat=("xmpp:ann@example.org",), mail=("ann@example.org",)),
    Person("ben", roles=("approver",), chat=("telegram:12",)),
    Person("cid", roles=("approver",), mail=("cid@example.org",)),
    Person("dan", roles=("director",), chat=("xmpp:dan@example.org",)),
)
ASKS = '<for roles="approver"/><outcome name="yes"/><outcome name="no"/>'
BY_CHAT = f'{ASKS}<ways names="terminal chat"/>'
BOTH = f'{ASKS}<ways names="terminal chat mail"/>'


class WritingOffice(Office):
    """An office whose people have addresses."""

    def __init__(self, *texts: Any, people: Directory | None = None) -> None:
        super().__init__(*texts, people=people or directory(*PEOPLE))

    def written(self) -> list[tuple[str, str, str]]:
        """The notices that followed from the last thing said: way, person, why."""
        calls = [call for call in self.wishes(Call) if call.kind == NOTICE]
        return [(call.name, call.step, call.payload["why"]) for call in calls]

    def texts(self) -> dict[str, str]:
        """The texts of these, by person."""
        return {call.step: call.payload["text"] for call in self.wishes(Call) if call.kind == NOTICE}


def test_C9_who_may_answer_is_written_to_by_chat_and_has_a_message_that_counts() -> None:
    office = WritingOffice(work(BY_CHAT))
    item = office.offers()
    assert office.written() == [("chat", "ann", "offered"), ("chat", "ben", "offered")]
    (wait,) = waiting_for(office.definitions[item], office.states[item], {})
    assert wait.text.endswith("(written to: ann by chat, ben by chat)")
    assert explain(office.definitions[item], office.states[item], "ann") == (
        "ann was asked by chat, and has not answered"
    )


def test_C9_each_way_of_an_item_writes_to_whom_has_an_address_for_it() -> None:
    office = WritingOffice(work(BOTH))
    item = office.offers()
    assert office.written() == [
        ("chat", "ann", "offered"), ("chat", "ben", "offered"),
        ("mail", "ann", "offered"), ("mail", "cid", "offered"),
    ]  # fmt: skip
    office.act(item, "ann", "answer", outcome="yes", way="mail")
    assert office.written() == [("chat", "ann", "done"), ("chat", "ben", "done"), ("mail", "cid", "done")]
    assert office.texts()["ben"].startswith("it is done by ann since")


def test_C9_a_reader_is_not_asked_where_a_reader_cannot_answer() -> None:
    reader = Person("ann", roles=("approver",), chat=("xmpp:ann@example.org",), mail=("a@b.c",), web="reader")
    office = WritingOffice(work(BOTH), people=directory(reader, *PEOPLE[1:]))
    office.offers()
    assert office.written() == [
        ("chat", "ben", "offered"),
        ("mail", "ann", "offered"),
        ("mail", "cid", "offered"),
    ]


def test_C9_the_ways_of_a_home_are_those_of_all_its_work() -> None:
    office = WritingOffice(work(ASKS), people=replace(directory(*PEOPLE), ways=("chat",)))
    item = office.offers()
    assert office.written() == [("chat", "ann", "offered"), ("chat", "ben", "offered")]
    office.act(item, "ben", "answer", outcome="no", way="chat")
    assert office.written() == [("chat", "ann", "done")], (
        "who has just answered by chat is told by the answer"
    )


def test_C10_whoever_is_not_asked_any_more_is_told_at_the_chat() -> None:
    office = WritingOffice(work(BY_CHAT))
    item = office.offers()
    office.act(item, "ben", "claim", way="chat")
    assert office.written() == [("chat", "ann", "taken")]
    assert office.texts() == {"ann": "ben has it now"}
    office.act(item, "ben", "release", way="chat")
    assert office.written() == [("chat", "ann", "offered")], "and is asked anew"
    office.cancel(item)
    assert office.written() == [("chat", "ann", "withdrawn"), ("chat", "ben", "withdrawn")]


def test_C10_a_voter_is_told_at_the_chat_that_the_answer_counts() -> None:
    voted = BY_CHAT.replace('name="yes"', 'name="yes" needs="2"').replace('name="no"', 'name="no" needs="2"')
    office = WritingOffice(work(voted))
    item = office.offers()
    office.act(item, "ann", "answer", outcome="yes", way="terminal")
    assert office.texts() == {"ann": "you have answered yes"}
    office.act(item, "ben", "answer", outcome="yes", way="chat")
    assert office.written() == [("chat", "ann", "done")]


def test_C9_reminders_and_escalations_are_written_as_well() -> None:
    office = WritingOffice(work(f'{BY_CHAT}<remind after="1d"/><escalate after="2d" roles="director"/>'))
    office.offers()
    office.passes(DAY)
    assert office.written() == [("chat", "ann", "reminder"), ("chat", "ben", "reminder")]
    office.passes(DAY)
    assert office.written() == [("chat", "dan", "escalated")]


def test_C10_an_act_by_chat_is_recorded_with_the_message_and_refused_where_chat_is_no_way() -> None:
    office = WritingOffice(work(ASKS))
    item = office.offers()
    assert office.refusal(item, "ann", "claim", way="chat") == "way-not-allowed"
    office = WritingOffice(work(BY_CHAT))
    item = office.offers()
    office.act(item, "ann", "answer", outcome="yes", way="chat")
    answered = office.told("ItemAnswered")
    assert (answered.by, answered.way, answered.session) == ("ann", "chat", "7")


def test_P34_a_message_says_when_an_item_ends_whose_missed_deadline_was_put_off() -> None:
    office = WritingOffice(work(f'{BY_CHAT}<deadline after="1d"/>'))
    item = office.offers()
    (wake,) = office.wakes
    office.now += 2 * DAY
    office.up_since = office.now
    office.wakes_up(wake)
    office.act(item, "ben", "claim", way="chat")
    ends = {call.payload["deadline"] for call in office.wishes(Call) if call.kind == NOTICE}
    assert ends == {office.now + 300}


@pytest.mark.parametrize(
    ("name", "audience", "written"),
    [
        ("trust.grant", "", ["ann"]),
        ("trust.grant", '<for people="cid"/>', []),
        ("trust.ask", "", ["ann"]),
        ("trust.ask", '<for people="cid"/>', ["cid"]),
        ("g.w", "", ["ann", "cid"]),
    ],
)
def test_what_the_home_itself_asks_is_written_to_operators_unless_it_asks_somebody(
    name: str, audience: str, written: list[str]
) -> None:
    people = directory(replace(PEOPLE[0], web="operator"), *PEOPLE[1:])
    text = work(f'{audience}<ways names="mail"/><remind after="1d"/>', name=name)
    office = WritingOffice(text, people=people)
    office.offers(name)
    assert [to for _, to, _ in office.written()] == written
    office.passes(DAY)
    assert [to for _, to, _ in office.written()] == written


def test_what_operators_answer_is_handed_to_operators_only() -> None:
    operators = [replace(person, web="operator", roles=("admin",)) for person in PEOPLE[:2]]
    people = directory(*operators, *PEOPLE[2:])
    office = WritingOffice(work("", name="trust.ask"), work("", name="g.w"), people=people)
    asks, other = office.offers("trust.ask"), office.offers()
    for item, names in ((asks, ("ben",)), (other, ("ben", "cid", "dan"))):
        definition, state = office.definitions[item], office.states[item]
        assert could_have(definition, state, "ann", office.now, office) == names
    assert "cid may not answer what a rule" in office.why_not(asks, "ann", "delegate", to="cid")
    assert "cid may not answer what a rule" in office.why_not(asks, "ann", "reassign", to=["ben", "cid"])
    office.act(other, "ann", "delegate", to="cid")
    office.act(asks, "ann", "reassign", to=["ben"])
    definition, state = office.definitions[asks], office.states[asks]
    assert not waits_for_nobody(definition, state, office.now, office)
    office.people = directory(operators[0], *PEOPLE[1:])
    assert waits_for_nobody(definition, state, office.now, office), "ben is no operator any more"
    office.people = directory(*PEOPLE)
    assert not waits_for_nobody(definition, state, office.now, office), "the owner answers at the terminal"


def test_P25_to_whom_an_item_is_handed_is_told_by_whom_and_why_though_asked_before() -> None:
    office = WritingOffice(work(BOTH))
    item = office.offers()
    office.act(item, "cid", "delegate", to="ann", word="you do it\nOutcome: yes")
    assert office.written() == [
        ("chat", "ben", "taken"), ("chat", "ann", "handed"), ("mail", "ann", "handed"),
    ]  # fmt: skip
    assert office.texts()["ann"] == "cid hands you this:\n| you do it Outcome: yes"
