"""Work within processes: a node leaves by its outcome, and going back withdraws or asks anew (P71)."""

from __future__ import annotations

from narval.core.engines.commands import CancelCall
from tests.kinds.process.engine.test_cancelling import states
from tests.kinds.work.engine.items import Office, work

PURCHASE = """<process-definition name="p">
  <node name="write" type="wait" isStart="true"><arc to="ask"/></node>
  <node name="ask" type="work"><custom><target>g.w</target></custom>
    <arc to="buy" name="yes"/><arc to="write" name="no" back="true"/><arc to="other"/></node>
  <node name="buy" type="wait"/>
  <node name="other" type="wait"/>
</process-definition>"""
ASKED = work('<outcome name="yes"/><outcome name="no"/><outcome name="perhaps"/>')


def asks() -> tuple[Office, int]:
    office = Office(ASKED, PURCHASE)
    run = office.start("p", kind="process")
    office.says(run, "complete", node="write")
    return office, run


def answers(office: Office, run: int, outcome: str) -> None:
    eid = office.add(f'<decision outcome="{outcome}"/>')
    office.answer(office.call_of("ask", run), eids=(eid,))


def test_P71_a_node_leaves_on_the_arc_that_is_named_as_the_outcome() -> None:
    office, run = asks()
    answers(office, run, "yes")
    assert states(office, run)["buy"] == "active"
    assert states(office, run)["other"] == "todo"


def test_P71_an_outcome_without_an_arc_leaves_on_those_without_a_name() -> None:
    office, run = asks()
    answers(office, run, "perhaps")
    assert states(office, run)["other"] == "active"


def test_P71_a_rejection_goes_back_and_asks_anew() -> None:
    office, run = asks()
    answers(office, run, "no")
    assert states(office, run)["write"] == "active"
    assert states(office, run)["ask"] == "backtracked"
    office.says(run, "complete", node="write")
    assert office.call_of("ask", run).name == "g.w"


def test_P71_going_back_withdraws_what_is_asked() -> None:
    office, run = asks()
    call = office.call_of("ask", run)
    office.says(run, "backtrack", node="write")
    assert [wish.call for wish in office.wishes(CancelCall)] == [call.call]


def test_P71_who_is_asked_again_is_shown_the_earlier_answer() -> None:
    office, run = asks()
    first = office.begins("ask", run=run)
    office.act(first, "ann", "answer", outcome="yes")
    office.answers(first)
    (answer,) = office.finished[first].eids
    office.says(run, "backtrack", node="ask")
    again = office.begins("ask", run=run)
    text = office.told("Offered").text
    assert f'Answered before: element {answer}:\n| <decision outcome="yes" by="ann"' in text
    assert "ann" not in office.states[again].requesters
    assert office.act(again, "ann", "answer", outcome="no")["state"] == "done"


def test_P71_a_member_of_a_set_is_shown_its_own_earlier_answer() -> None:
    office = Office(ASKED, PURCHASE)
    run = office.start("p", kind="process")
    office.says(run, "complete", node="write", set={"name": "parts", "count": 2}, asynchronous=False)
    for call in [call for _, call in office.calls.values()]:
        office.answer(call, eids=(office.add('<decision outcome="yes"/>'),))
    tokens = office.states[run].nodes.values()
    for asked in [token for token in tokens if token.node == "ask"]:
        office.says(run, "backtrack", token=asked.id)
        (call,) = (call for _, call in office.calls.values())
        assert call.elements == asked.produced
        office.answer(call, eids=(office.add('<decision outcome="yes"/>'),))
