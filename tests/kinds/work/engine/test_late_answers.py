"""Answers that come too late: the claim is gone, others are asked, or the item has ended (P52, P77)."""

from __future__ import annotations

import pytest

from tests.kinds.work.engine.items import HOUR, Office, work

TWO = '<for roles="approver"/><outcome name="yes"/><outcome name="no"/>'


@pytest.mark.parametrize("ends", ["release", "lease", "delegate"])
def test_an_answer_made_while_one_had_the_item_is_refused_once_one_has_it_no_more(ends: str) -> None:
    office = Office(work(TWO + '<claim for="4h"/>'))
    item = office.offers()
    office.act(item, "ann", "claim")
    if ends == "release":
        office.act(item, "root", "release", reason="she is ill")
    elif ends == "lease":
        office.passes(4 * HOUR)
    else:
        office.act(item, "ann", "delegate", to="ben")
        office.act(item, "ben", "refuse")
        office.act(item, "root", "release")
    why = office.why_not(item, "ann", "answer", outcome="yes", claimed="ann")
    assert why.startswith("you no longer have this: ")
    assert {"release": ": root gave it back at", "lease": "the claim of ann ended at", "delegate": "root"}[
        ends
    ] in why
    office.act(item, "ann", "answer", outcome="yes")


def test_who_is_asked_no_more_is_told_by_whom_and_why() -> None:
    office = Office(work(TWO))
    item = office.offers()
    office.act(item, "root", "reassign", to="ben", reason="he knows it")
    why = office.why_not(item, "ann", "answer", outcome="yes")
    assert why.startswith("this asks ben, for root offered it to ben at 1970-01-01 00:01:40")
    assert why.endswith(": he knows it; ben can answer")
