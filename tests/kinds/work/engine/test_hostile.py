"""Answers that are too long, defaults that do not fit, and who comes too late (P34, P42, P77, P86)."""

from __future__ import annotations

from tests.kinds.work.engine.items import DAY, Office, work

REQUEST = '<input id="r"><match>request</match></input>'
LISTED = '<outcome name="yes"/><outcome name="no"/><field name="many" list="yes"/>'
LONG = "x" * 1_000_000


def test_P86_what_is_too_long_is_refused_and_is_not_recorded() -> None:
    office = Office(work(LISTED))
    item = office.offers()
    answers = {"outcome": "yes", "fields": {"many": ["x" * 60_000] * 5}}
    assert "at most 262,144 characters" in office.why_not(item, "ann", "answer", **answers)
    assert (
        office.refusal(item, "ann", "answer", outcome="yes", fields={"many": [""] * 300_000}) == "bad-field"
    )
    for act, given in (
        ("answer", {"outcome": LONG}),
        ("answer", {"outcome": "yes", "fields": {LONG: "1"}}),
        ("delegate", {"to": LONG}),
        ("refuse", {"reason": LONG}),
    ):
        assert len(office.why_not(item, "ann", act, **given)) < 500
        assert len(str(office.told("TurnedAway"))) < 1_000
    assert office.state(item) == "offered"


def test_P34_at_the_deadline_a_default_that_does_not_fit_is_left_out() -> None:
    fields = (
        '<field name="limit" type="decimal" most="50" default="{$r/@limit}"/>'
        '<field name="ok" type="boolean" default="yes"/>'
    )
    deadline = '<outcome name="yes"/><outcome name="no"/><deadline after="1d" outcome="no"/>'
    office = Office(work(REQUEST + fields + deadline))
    office.add('<request limit="51"/>')
    office.offers()
    office.passes(DAY)
    (decision,) = office.named("decision")
    assert [(child.tag, child.text) for child in decision.tree()] == [("ok", "true")]


def test_P25_a_delegation_comes_back_along_its_chain_and_not_to_who_lost_the_right() -> None:
    office = Office(work('<for roles="approver"/><claim for="1d"/>'))
    item = office.offers()
    office.act(item, "ann", "delegate", to="ben")
    office.act(item, "ben", "delegate", to="cid")
    assert office.refusal(item, "cid", "delegate", to="ann") == "not-eligible"
    office.passes(DAY)
    assert office.told("Claimed").by == "ben"
    office.act(item, "ben", "refuse")
    assert office.told("Claimed").by == "ann"
    assert office.states[item].handed == ()


def test_P32_after_an_escalation_those_who_were_added_are_reminded_too() -> None:
    inside = '<for people="ann"/><escalate after="1d" roles="director"/><remind after="2d"/>'
    office = Office(work(inside))
    office.offers()
    office.passes(2 * DAY)
    assert office.told("Reminded").to == ("ann", "dan")
