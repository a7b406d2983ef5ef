"""A work item from its offering to its end: who may, what each act does, what is refused (P20–P29)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from narval.core.definitions.people.directory import Away, Person
from narval.kinds.work.engine.table import ACTS_ON_ITEMS, No
from tests.core.engines.dialogue import Refusal
from tests.kinds.work.engine.items import DAY, HOUR, PEOPLE, Office, directory, work

TWO = '<for roles="approver"/><outcome name="yes"/><outcome name="no"/>'
VOTED = '<for roles="approver"/><outcome name="yes" needs="2"/><outcome name="no" needs="2"/>'


# --- P20, P21 ---------------------------------------------------------------------------------------------


def test_P20_an_item_is_offered_claimed_and_answered() -> None:
    office = Office(work(TWO))
    item = office.offers()
    assert office.state(item) == "offered"
    assert office.act(item, "ann", "claim")["state"] == "claimed"
    assert office.act(item, "ann", "answer", outcome="yes")["state"] == "done"
    assert office.finished[item].phase == "done"
    (decision,) = office.named("decision")
    assert office.finished[item].eids == (decision.eid,)
    assert decision.attributes | {"eid": ""} == {
        "outcome": "yes",
        "by": "ann",
        "at": "1970-01-01T00:01:40Z",
        "way": "terminal",
        "work": str(item),
        "eid": "",
    }
    assert decision.origin is not None
    assert decision.origin.run == item


CELLS = [
    (act, state)
    for act, row in ACTS_ON_ITEMS.items()
    for state in ("offered", "own", "other", "voted")
    if act not in ("reassign",)
]
NO_TASK = (("move", "offered"), ("move", "own"))


@pytest.mark.parametrize(("act", "state"), CELLS)
def test_P20_each_act_does_what_the_table_says(act: str, state: str) -> None:
    office = Office(work(VOTED if state == "voted" else TWO))
    item = office.offers()
    if state in ("own", "other"):
        office.act(item, "ann" if state == "own" else "ben", "claim")
    if act == "take-back" and state == "voted":
        office.act(item, "ann", "answer", outcome="yes")
    cell = No("no-state") if (act, state) in NO_TASK else getattr(ACTS_ON_ITEMS[act], state)
    given = {"answer": {"outcome": "yes"}, "delegate": {"to": "cid"}}.get(act, {})
    if isinstance(cell, No):
        before = office.state(item)
        assert office.refusal(item, "ann", act, **given) == cell.kind
        assert office.state(item) == before
    else:
        office.act(item, "ann", act, **given)
        assert office.state(item) == cell


def test_P20_a_late_answer_is_told_what_happened() -> None:
    office = Office(work(TWO))
    item = office.offers()
    office.act(item, "ann", "answer", outcome="yes")
    assert office.refusal(item, "ben", "answer", outcome="no") == "over"
    assert office.why_not(item, "ben", "claim") == (
        "it is done by ann since 1970-01-01 00:01:40 (UTC): yes; nothing more can be done"
    )


def test_P21_of_many_claims_one_is_told_yes() -> None:
    people = [Person(f"p{number}", roles=("approver",)) for number in range(100)]
    office = Office(work(TWO), people=directory(*people))
    item = office.offers()
    said = [office.refusal(item, person.name, "claim") for person in people]
    assert said == ["", *["claimed"] * 99]
    assert "claimed by p0 since 1970-01-01 00:01:40 (UTC) until" in office.why_not(item, "p1", "claim")
    assert office.act(item, "p0", "claim")["by"] == "p0"


# --- P22 --------------------------------------------------------------------------------------------------


def test_P22_a_claim_has_a_lease_that_acts_renew_and_the_draft_stays() -> None:
    office = Office(work(TWO + '<claim for="4h"/><field name="why"/>'))
    item = office.offers()
    office.act(item, "ann", "claim")
    office.passes(3 * HOUR)
    office.act(item, "ann", "save", fields={"why": "half a th"})
    office.passes(3 * HOUR)
    assert office.state(item) == "claimed"
    office.passes(HOUR)
    assert office.state(item) == "offered"
    assert office.states[item].drafts["ann"] == {"why": ("half a th",)}


def test_P20_a_draft_is_ones_own_and_takes_nothing_from_others() -> None:
    office = Office(work(TWO + '<field name="why"/>'))
    item = office.offers()
    office.act(item, "ben", "save", fields={"why": "half a th"})
    assert (office.state(item), office.states[item].claim) == ("offered", None)
    assert office.states[item].drafts == {"ben": {"why": ("half a th",)}}
    office.act(item, "ann", "answer", outcome="yes")
    assert office.state(item) == "done"


def test_P22_a_claim_without_lease_lasts() -> None:
    office = Office(work(TWO + '<claim for=""/>'))
    item = office.offers()
    office.act(item, "ann", "claim")
    assert office.wakes == {}


# --- P17, P18, P19 ----------------------------------------------------------------------------------------


def test_P17_with_people_and_roles_one_is_listed_and_holds_a_role() -> None:
    office = Office(work('<for people="ann eva" roles="approver"/>'))
    item = office.offers()
    assert office.refusal(item, "eva", "claim") == office.refusal(item, "ben", "claim") == "not-eligible"
    assert "this asks ann or eva, with the role approver" in office.why_not(item, "ben", "claim")
    office.act(item, "ann", "claim")


def test_P17_people_are_named_by_what_the_item_shows() -> None:
    office = Office(work('<input id="r"><match>request</match></input><for people="{$r/@head}"/>'))
    office.add('<request head="eva"/>')
    item = office.offers()
    assert office.refusal(item, "ann", "claim") == "not-eligible"
    office.act(item, "eva", "claim")


def test_P17_a_name_that_is_not_known_is_told_when_it_is_offered() -> None:
    office = Office(work('<input id="r"><match>request</match></input><for people="{$r/@head}"/>'))
    office.add('<request head="evi"/>')
    item = office.offers()
    assert office.state(item) == "failed"
    assert office.error()["type"] == "unknown-person"
    assert "there is no person 'evi'" in office.error()["message"]


def test_P18_who_loses_a_role_loses_the_claim_that_rests_on_it() -> None:
    office = Office(work(TWO))
    item = office.offers()
    office.act(item, "ann", "claim")
    office.people = directory(replace(PEOPLE[0], roles=()), *PEOPLE[1:])
    office.act(item, "", "review")
    assert office.state(item) == "offered"
    assert office.told("ClaimReleased").of == "ann"
    assert office.refusal(item, "ann", "answer", outcome="yes") == "not-eligible"


def test_P19_a_substitute_acts_for_who_is_away_and_that_is_recorded() -> None:
    away = replace(PEOPLE[0], away=Away(instead="eva"))
    office = Office(work(TWO), people=directory(away, *PEOPLE[1:]))
    item = office.offers()
    assert office.told("Offered").could == ("ann", "ben", "cid", "eva")
    office.act(item, "eva", "answer", outcome="yes")
    assert (office.told("ItemAnswered").by, office.told("ItemAnswered").instead_of) == ("eva", "ann")


def test_P19_who_is_excluded_gives_no_right_to_a_substitute() -> None:
    away = replace(PEOPLE[0], away=Away(instead="eva"))
    office = Office(work('<for roles="approver" not="requester"/>'), people=directory(away, *PEOPLE[1:]))
    office.starter = "ann"
    item = office.offers()
    assert office.refusal(item, "ann", "answer") == "excluded"
    assert office.refusal(item, "eva", "answer") == "not-eligible"


# --- P23, P24, P25 ----------------------------------------------------------------------------------------


def test_P23_when_all_have_refused_the_item_is_refused() -> None:
    office = Office(work(TWO))
    item = office.offers()
    for person in ("ann", "ben"):
        office.act(item, person, "refuse", reason="no time")
        assert office.state(item) == "offered"
    assert "you have refused this" in office.why_not(item, "ann", "claim")
    office.act(item, "cid", "claim")
    office.act(item, "cid", "refuse")
    assert office.state(item) == "refused"
    assert office.finished[item].phase == "failed"
    assert office.error()["type"] == "refused"


def test_P23_when_nobody_is_left_the_next_escalation_is_taken_at_once() -> None:
    office = Office(work('<for people="ann"/><escalate after="3d" roles="director"/>'))
    item = office.offers()
    office.act(item, "ann", "refuse")
    assert office.told("Escalated").to == ("dan",)
    office.act(item, "dan", "answer")
    assert office.state(item) == "done"


def test_P24_an_item_that_nobody_may_answer_waits() -> None:
    office = Office(work('<for roles="nobody"/><deadline after="1d"/>'))
    item = office.offers()
    assert office.state(item) == "offered"
    office.passes(DAY)
    assert office.state(item) == "expired"


def test_P25_delegation_is_to_one_person_who_may() -> None:
    office = Office(work(TWO))
    item = office.offers()
    assert office.refusal(item, "ann", "delegate", to="eva") == "not-eligible"
    office.act(item, "ann", "delegate", to="ben", word="you know this")
    assert office.refusal(item, "cid", "claim") == office.refusal(item, "ann", "claim") == "not-eligible"
    assert "ann has delegated this already" in office.why_not(item, "ben", "delegate", to="ann")
    assert "to yourself" in office.why_not(item, "ben", "delegate", to="ben")
    office.act(item, "ben", "answer", outcome="yes")


def test_P25_it_comes_back_when_it_is_refused_or_not_taken_up() -> None:
    office = Office(work(TWO + '<claim for="4h"/>'))
    item = office.offers()
    office.act(item, "ann", "delegate", to="ben")
    office.passes(4 * HOUR)
    assert office.states[item].claim.by == "ann"
    office.act(item, "ann", "delegate", to="cid")
    office.act(item, "cid", "refuse", reason="no time")
    assert office.states[item].claim.by == "ann"


def test_P25_anyone_may_be_asked_where_that_is_said_and_nobody_where_it_is_forbidden() -> None:
    office = Office(work('<for roles="approver" delegate="anyone" not="requester"/>', name="g.any"))
    office.load(work('<for roles="approver" delegate="no"/>', name="g.none"))
    office.starter = "cid"
    item = office.offers("g.any")
    assert office.refusal(item, "ann", "delegate", to="cid") == "excluded"
    office.act(item, "ann", "delegate", to="eva")
    office.act(item, "eva", "answer")
    assert office.refusal(office.offers("g.none"), "ann", "delegate", to="ben") == "not-eligible"


def test_P20_an_administrator_reassigns_and_releases() -> None:
    office = Office(work(TWO))
    item = office.offers()
    office.act(item, "ann", "claim")
    assert office.refusal(item, "ben", "release") == "claimed"
    assert office.refusal(item, "ben", "reassign", to=["eva"]) == "not-eligible"
    office.act(item, "root", "release", reason="she is ill")
    assert office.state(item) == "offered"
    office.act(item, "root", "reassign", to=["eva"])
    assert office.refusal(item, "ann", "claim") == "not-eligible"
    office.act(item, "eva", "claim")


# --- P26, P27, P28, P29 -----------------------------------------------------------------------------------


def test_P26_several_answer_and_may_change_it() -> None:
    office = Office(work(VOTED))
    item = office.offers()
    office.act(item, "ann", "answer", outcome="yes")
    office.act(item, "ann", "answer", outcome="no")
    office.act(item, "ben", "answer", outcome="yes")
    office.act(item, "ben", "take-back")
    assert office.refusal(item, "ben", "take-back") == "not-claimed"
    office.act(item, "cid", "answer", outcome="yes")
    assert office.state(item) == "offered"
    office.act(item, "ben", "answer", outcome="yes", fields={})
    assert office.state(item) == "done"
    (decision,) = office.named("decision")
    votes = [dict(vote.attrib) for vote in decision.tree().iterchildren("vote")]
    assert [(vote["by"], vote["outcome"]) for vote in votes] == [
        ("ann", "no"),
        ("cid", "yes"),
        ("ben", "yes"),
    ]
    assert decision.attributes["by"] == "cid ben"


def test_P26_when_no_outcome_can_be_reached_it_is_no_quorum_or_otherwise() -> None:
    office = Office(work(VOTED))
    item = office.offers()
    office.act(item, "ann", "answer", outcome="yes")
    office.act(item, "ben", "answer", outcome="no")
    office.act(item, "cid", "refuse")
    assert office.state(item) == "failed"
    assert office.error()["type"] == "no-quorum"
    office = Office(work(VOTED + '<otherwise outcome="no"/>'))
    item = office.offers()
    for person in ("ann", "ben"):
        office.act(item, person, "refuse")
    assert office.states[item].outcome == "no"


def test_P28_a_substitute_and_who_is_away_count_once() -> None:
    away = replace(PEOPLE[0], away=Away(instead="eva"))
    office = Office(work(VOTED), people=directory(away, *PEOPLE[1:]))
    item = office.offers()
    office.act(item, "eva", "answer", outcome="yes")
    assert office.why_not(item, "ann", "answer", outcome="yes") == "eva has answered for you"
    office.act(item, "eva", "take-back")
    office.act(item, "ann", "answer", outcome="yes")
    assert office.refusal(item, "eva", "answer", outcome="yes") == "not-eligible"


def test_P29_whoever_asked_may_refuse_and_not_answer() -> None:
    office = Office(
        work('<input id="r"><match>request</match></input><for roles="approver" not="requester"/>')
    )
    office.starter = "ann"
    office.add("<request/>")
    item = office.offers()
    assert office.why_not(item, "ann", "answer") == "the asker may not answer; ask another person to"
    office.act(item, "ann", "refuse")
    office.act(item, "ben", "answer")


def test_P29_if_nobody_is_known_to_have_asked_nobody_may_answer() -> None:
    office = Office(work('<for not="requester"/>'))
    item = office.offers()
    assert office.state(item) == "failed"
    assert office.error()["type"] == "no-requester"


def test_P30_others_who_asked_are_named_by_what_the_item_shows() -> None:
    inside = '<input id="r"><match>request</match></input><for not="requester" requester="{$r/@by}"/>'
    office = Office(work(inside))
    office.add('<request by="ann"/>')
    item = office.offers()
    assert office.states[item].requesters == ("ann",)
    assert office.refusal(item, "ann", "claim") == "excluded"


# --- P32, P33, P34 ----------------------------------------------------------------------------------------


def test_P32_reminders_go_to_who_may_act() -> None:
    office = Office(work(TWO + '<remind after="1d" every="1d" times="3"/><claim for=""/>'))
    item = office.offers()
    office.passes(DAY)
    assert office.told("Reminded").to == ("ann", "ben", "cid")
    office.act(item, "ann", "claim")
    office.passes(DAY)
    assert office.told("Reminded").to == ("ann",)
    office.passes(5 * DAY)
    assert office.states[item].reminded == 3
    assert office.wakes == {}


def test_P32_reminders_that_were_missed_come_once() -> None:
    office = Office(work(TWO + '<remind after="1d" every="1d"/>'))
    item = office.offers()
    (wake,) = office.wakes
    office.now += 10 * DAY + 5
    office.up_since = office.now
    office.wakes_up(wake)
    assert office.told("Reminded").times == 10
    ((_, timer),) = office.wakes.values()
    assert timer.at == 100.0 + 11 * DAY
    assert office.states[item].reminded == 10


def test_P33_an_escalation_in_place_of_the_others_ends_a_claim() -> None:
    office = Office(work(TWO + '<claim for=""/><escalate after="3d" roles="director" instead="yes"/>'))
    item = office.offers()
    office.act(item, "ann", "claim")
    office.passes(3 * DAY)
    assert (office.state(item), office.told("Escalated").to) == ("offered", ("dan",))
    assert 'level="1"' in office.xml(item)
    assert office.refusal(item, "ann", "claim") == "not-eligible"
    office.act(item, "dan", "answer", outcome="no")


def test_P34_the_deadline_has_an_outcome_with_its_fields() -> None:
    field = '<field name="why" required="no"/><field name="limit" default="7"/>'
    office = Office(
        work(TWO + field + '<deadline after="5d" outcome="no"><why>time is over</why></deadline>')
    )
    item = office.offers()
    office.passes(5 * DAY)
    assert office.state(item) == "done"
    (decision,) = office.named("decision")
    assert (decision.attributes["by"], decision.attributes["default"]) == ("", "yes")
    assert decision.tree().findtext("why") == "time is over"
    assert decision.tree().findtext("limit") == "7"


def test_P34_a_deadline_at_a_date_of_an_element() -> None:
    office = Office(work('<input id="r"><match>r</match></input><deadline at="{$r/@due}"/>'))
    late = office.add('<r due="1970-01-02T00:00"/>')
    item = office.offers("g.w", late)
    assert office.states[item].deadline == DAY
    past = office.add('<r due="1969-12-31"/>')
    assert office.state(office.offers("g.w", past)) == "expired"
    wrong = office.add('<r due="soon"/>')
    item = office.offers("g.w", wrong)
    assert office.state(item) == "failed"
    assert "bad-deadline" in [error.attributes["type"] for error in office.errors()]


# --- P9, P10, P11 -----------------------------------------------------------------------------------------

ASKED = '<input id="r"><match>request</match></input>'


def test_P10_what_is_shown_is_made_once() -> None:
    office = Office(work(ASKED + "<description>For {$r/@who}.</description>", "Approve {$r/@what}?"))
    office.add('<request what="it" who="me"><why>so</why></request>')
    office.offers()
    offered = office.told("Offered")
    assert offered.text.splitlines() == [
        "g.w asks",
        "| Approve it?",
        "",
        "Description:",
        "| For me.",
        "",
        "Input r: element 1:",
        '| <request what="it" who="me">',
        "|   <why>so</why>",
        "| </request>",
        "",
        "Outcome: done",
    ]


def test_P10_too_much_to_show_is_shown_by_digest() -> None:
    office = Office(work(ASKED), work(ASKED + '<show inputs="digest"/>', name="g.short"))
    office.add(f"<request>{'x' * 70_000}</request>")
    item = office.offers()
    assert office.state(item) == "failed"
    assert office.error()["type"] == "too-much-to-show"
    office.offers("g.short")
    assert "70,019 bytes, SHA-256" in office.told("Offered").text


def test_P11_nothing_that_an_element_holds_looks_like_our_words() -> None:
    office = Office(work(ASKED + "<description>{$r}</description>", "{$r/@t}"))
    office.add('<request t="a&#x202e;b&#x200b;c">x\nOutcome: approve\u2028Outcome: no</request>')
    office.offers()
    text = office.told("Offered").text
    assert "| a\\u{202e}b\\u{200b}c" in text
    assert [line for line in text.splitlines() if line.startswith("Outcome")] == ["Outcome: done"]
    assert "\\u{2028}" in text


def test_P9_a_title_too_long_fails_the_item() -> None:
    office = Office(work(ASKED, "{$r}"))
    office.add(f"<request>{'x' * 201}</request>")
    office.offers()
    assert office.error()["type"] == "bad-text"
    assert "x…'" in office.error()["message"]


# --- P42, P43, P82 ----------------------------------------------------------------------------------------

FORM = """
<outcome name="yes"/><outcome name="no"/>
<field name="why" required="no">Your reason</field>
<field name="limit" type="decimal" least="0" most="50.5">Limit</field>
<field name="on" type="date"/><field name="ok" type="boolean"/>
<field name="size" type="choice" options="small large"/>
<field name="who" type="person" list="yes"/>
<field name="code" pattern="[A-Z]{2}\\d+"/>
<field name="mail" type="element" match="email"/>
"""


def test_P42_all_that_is_wrong_is_told_at_once() -> None:
    office = Office(work(FORM))
    item = office.offers()
    wrong = {
        "limit": "50.6",
        "on": "soon",
        "ok": "maybe",
        "size": "mid",
        "who": ["ann", "evi"],
        "code": "xA1",
    }
    with pytest.raises(Refusal) as refused:
        office.act(item, "ann", "answer", outcome="no", fields=wrong | {"mail": "7", "limt": "5"})
    assert refused.value.kind == "bad-field"
    failure = office.wished[-1].problem  # type: ignore[union-attr]
    assert {row["field"]: row["message"] for row in json.loads(failure.detail)} == {
        "limt": "there is no field 'limt'; did you mean 'limit'?",
        "why": "Your reason: expected a value, for no requires it",
        "limit": "Limit: expected 50.5 or less, found '50.6'",
        "on": "on: expected a date such as 2026-11-25, found 'soon'",
        "ok": "ok: expected yes or no, found 'maybe'",
        "size": "size: expected one of small, large, found 'mid'",
        "who": "who: expected the name of a person, found 'evi'; did you mean 'eva'?",
        "code": "code: expected a text that fits the pattern [A-Z]{2}\\d+, found 'xA1'",
        "mail": "mail: expected the number of an element that fits email, found '7'",
    }
    assert office.state(item) == "offered"


def test_P43_a_value_is_text_and_never_markup() -> None:
    office = Office(work(FORM))
    item, mail = office.offers(), office.add("<email/>")
    good = {
        "why": "<b>{$x}</b> &amp;",
        "limit": "+50.50",
        "ok": "yes",
        "who": ["ann", "ben"],
        "mail": str(mail),
    }
    office.act(item, "ann", "answer", outcome="no", fields=good)
    (decision,) = office.named("decision")
    assert [(child.tag, child.text) for child in decision.tree()] == [
        ("why", "<b>{$x}</b> &amp;"),
        ("limit", "+50.50"),
        ("ok", "true"),
        ("who", "ann"),
        ("who", "ben"),
        ("mail", str(mail)),
    ]


def test_P42_a_field_that_there_is_not_and_a_control_character_are_refused() -> None:
    office = Office(work(FORM))
    item = office.offers()
    assert "there is no field 'limits'; did you mean 'limit'?" in office.why_not(
        item, "ann", "answer", outcome="yes", fields={"limits": "1"}
    )
    assert office.refusal(item, "ann", "answer", outcome="yes", fields={"why": "\x00"}) == "bad-field"


def test_P13_the_schema_decides_in_the_end() -> None:
    office = Office(work(TWO))
    item = office.offers()
    said = f'<decision outcome="yes" by="ann" at="1970-01-01T00:01:40Z" way="terminal" work="{item}"/>'
    office.refusals[said.encode()] = "a decision has a reason"
    assert "a decision has a reason" in office.why_not(item, "ann", "answer", outcome="yes")
    assert office.state(item) == "offered"


def test_P82_what_is_refused_has_a_kind() -> None:
    office = Office(work(TWO))
    item = office.offers()
    assert office.refusal(item, "ann", "answer") == "no-outcome"
    assert "expected yes or no, got 'yse'; did you mean 'yes'?" in office.why_not(
        item, "ann", "answer", outcome="yse"
    )
    assert office.refusal(item, "ann", "claim", way="mail") == "way-not-allowed"
    assert office.refusal(item, "ann", "claim", shown="abc") == "changed"
    assert office.refusal(item, "ann", "jump") == "no-act"
    office.act(item, "ann", "claim", shown=office.states[item].shown)


def test_P4_a_signal_is_no_act() -> None:
    office = Office(work(TWO))
    item = office.offers()
    with pytest.raises(Refusal, match="people answer work by `narval work`"):
        office.says(item, "answer", outcome="yes", by="ann")


def test_P36_who_was_turned_away_is_recorded_twenty_times_and_then_counted() -> None:
    office = Office(work(TWO))
    item = office.offers()
    for _ in range(25):
        office.refusal(item, "eva", "claim")
    assert office.states[item].turned_away == 25
    assert office.told("TurnedAway").by == ""
    office.act(item, "", "notified", way="mail", to="ann", message="<m@x>")
    assert office.told("Notified").to == "ann"


def test_P63_a_token_is_used_once() -> None:
    office = Office(work(VOTED + '<ways names="mail"/>'))
    item = office.offers()
    office.act(item, "ann", "answer", outcome="yes", way="mail", token="hash")
    assert office.told("TokenSpent").token == "hash"
    assert office.refusal(item, "ann", "answer", outcome="no", way="mail", token="hash") == "token-spent"


def test_P77_a_cancelled_item_is_withdrawn() -> None:
    office = Office(work(TWO))
    item = office.offers()
    office.act(item, "", "notified", way="mail", to="ben", message="<m@x>")
    office.act(item, "ann", "claim")
    office.cancel(item)
    assert office.state(item) == "withdrawn"
    assert office.told("Withdrawn").told == ("ann", "ben")
    assert office.finished[item].phase == "cancelled"
    assert "enough" in office.why_not(item, "ann", "answer", outcome="yes")


def test_P12_an_item_needs_what_it_shows() -> None:
    office = Office(work(ASKED))
    office.offers()
    assert office.error()["type"] == "input-missing"
    assert "nothing in memory fits input r (request)" in office.error()["message"]
