"""People who do a task: who has it, and where they may move it (K12, K13, K16, K25, K49, KA25)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.asker import NOBODY, Asker
from narval.core.errors import TaskRefusedError, WorkRefusedError
from narval.system.clock import SimulatedClock

PEOPLE = """
[people.ann]
roles = ["helper"]
[people.ben]
roles = ["helper", "signer"]
[people.cleo]
roles = ["boss", "signer"]
[admin]
roles = ["boss"]
"""
DESK = """
TASK TYPE ticket
  ROLES: helper
  INITIAL triage
  STATE triage EXPOSED
    ON EVENT taken GOTO Working_On
    ON EVENT spam GOTO ABORT
  STATE Working_On EXPOSED
    ON EVENT asked GOTO 3
    ON EVENT solved GOTO COMMIT
  STATE 3 waiting EXPOSED
    ON ASSERT { if (obj.slow) raise(ticket, ev.nothing); }
    ON EVENT reply GOTO Working_On
    ON EVENT ev.nothing SYNC
      AFTER 1 HRS CONDITION ACTION

TASK TYPE book
  TASK CODE "desk.ask"
  INITIAL booking
  STATE booking EXPOSED
    ON EVENT booked GOTO COMMIT

TASK TYPE sign
  ROLES: signer
  INITIAL signing
  STATE signing EXPOSED
    ON EVENT signed GOTO COMMIT

TASK TYPE scan
  INITIAL scanning
  STATE scanning EXPOSED
    ON EVENT scanned GOTO COMMIT

TASK TYPE first
  INITIAL open
  STATE open EXPOSED
    ON EVENT done GOTO paid
  STATE paid EXPOSED
    ON ASSERT { raise(second, ev.paid); }
    ON EVENT over GOTO COMMIT

TASK TYPE second
  INVOCATION: AUTO
  INITIAL waiting
  STATE waiting EXPOSED
    ON EVENT ev.paid CONDITION ACTION { assert(shipping); }
    ON EVENT go GOTO shipping
  STATE shipping EXPOSED
    ON EVENT shipped GOTO COMMIT
"""

ASK = """<recipe group="desk" name="ask" start_step="ask" end_step="ask">
  <step id="ask" type="work"><work><title>Which account?</title></work></step>
</recipe>"""


class Desk:
    """A home in which people do tasks, and one ticket."""

    def __init__(self, path: Path) -> None:
        self.clock = SimulatedClock(1_000_000.0)
        self.agent = narval.open(path, clock=self.clock)

    def puts(self, xml: bytes = b"<ticket/>", type: str = "desk.ticket") -> None:
        self.does("cleo", "task_put", type, [xml])
        self.agent.until_idle()
        self.row = self.agent.tasks(type)[0]
        self.item, self.task = self.row["item"], self.row["eid"]

    def does(self, by: str, operation: str, *arguments: Any, **named: Any) -> Any:
        self.agent.asker = Asker(by, NOBODY, "python")
        return getattr(self.agent, operation)(*arguments, **named)

    def refusal(self, by: str, operation: str, *arguments: Any) -> tuple[str, str]:
        with pytest.raises(WorkRefusedError) as raised:
            self.does(by, operation, *arguments)
        return raised.value.kind, str(raised.value)

    def state(self) -> str | None:
        self.agent.until_idle()
        return next((str(row["state"]) for row in self.agent.tasks()), None)


def home_of(tmp_path: Path) -> Path:
    for path, text in {"etc/people.toml": PEOPLE, "recipes/desk.task": DESK, "recipes/desk.xml": ASK}.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(home_of(tmp_path))
    with made.agent:
        yield made


def test_K61_the_list_says_who_is_asked_and_who_has_it(desk: Desk) -> None:
    desk.puts()
    assert (desk.row["asked"], desk.row["claimed_by"]) == ("a person with the role helper", None)
    desk.does("ann", "claim", desk.item)
    (row,) = desk.agent.tasks()
    assert (row["item"], row["claimed_by"], row["code"]) == (desk.item, "ann", None)


def test_K61_the_list_says_which_code_works(desk: Desk) -> None:
    desk.puts(type="desk.book")
    assert (desk.row["item"], desk.row["code"], desk.row["agent"]) == (None, "recipe:desk.ask", None)


def test_K49_a_person_moves_a_task_along_its_edges_and_has_it_by_that(desk: Desk) -> None:
    desk.puts()
    assert desk.does("ann", "work_item", desk.item)["states"] == {
        "now": "triage",
        "moves": ["working-on"],
        "ends": ["commit", "abort"],
    }
    assert desk.does("ann", "move", desk.item, "Working_On")["to"] == "working-on"
    assert desk.state() == "Working_On"
    assert desk.does("ann", "move", desk.item, "waiting")["state"] == "claimed"
    assert desk.state() == "waiting"
    assert [row["did"] for row in desk.agent.work_log(desk.item)] == [
        "Offered",
        "Claimed",
        "TaskMoved",
        "TaskMoved",
    ]
    assert [row["state"] for row in desk.agent.task_log() if "state" in row] == [
        "triage",
        "Working_On",
        "waiting",
    ]
    assert desk.does("ann", "answer", desk.item, "commit")["state"] == "done"
    assert desk.state() is None


def test_K49_where_a_task_may_not_be_moved_is_told_with_where_it_may(desk: Desk) -> None:
    desk.puts()
    kind, why = desk.refusal("ann", "move", desk.item, "waiting")
    assert kind == "no-state"
    assert why.startswith("expected working-on, the states that follow triage, got 'waiting'")
    assert desk.refusal("ann", "move", desk.item, "commit")[1] == "'commit' ends the task: answer with it"
    assert "to end it, answer commit or abort" in desk.refusal("ann", "move", desk.item, "nowhere")[1]
    desk.does("ann", "move", desk.item, "working-on")
    kind, why = desk.refusal("ann", "answer", desk.item, "abort")
    assert (kind, why) == (
        "no-outcome",
        "from Working_On the task cannot end in abort; answer commit, or move it first",
    )
    assert (desk.state(), desk.does("ann", "work_item", desk.item)["state"]) == ("Working_On", "claimed")


def test_K10_K13_KA25_who_may_not_have_the_task_does_not_move_it(desk: Desk) -> None:
    desk.puts()
    assert desk.refusal("cleo", "move", desk.item, "working-on")[0] == "not-eligible"
    desk.does("ann", "move", desk.item, "working-on")
    kind, why = desk.refusal("ben", "move", desk.item, "waiting")
    assert kind == "claimed"
    assert why.startswith("claimed by ann since")
    assert desk.state() == "Working_On"
    assert desk.item not in [row["item"] for row in desk.does("ben", "worklist")]


def test_K9_a_person_holds_several_roles_and_a_role_is_held_by_several(desk: Desk) -> None:
    desk.puts()
    helping = desk.item
    desk.puts(b"<bill/>", "desk.sign")
    signing = desk.item
    seen = {who: [row["item"] for row in desk.does(who, "worklist")] for who in ("ann", "ben", "cleo")}
    assert seen == {"ann": [helping], "ben": [helping, signing], "cleo": [signing]}
    desk.does("ben", "claim", helping)
    desk.does("ben", "claim", signing)
    assert [row["claimed_by"] for row in desk.agent.tasks()] == ["ben", "ben"]


def test_KA26_a_claim_ends_by_its_person_its_lease_or_a_finish_and_each_is_logged(desk: Desk) -> None:
    desk.puts()
    desk.does("ann", "claim", desk.item)
    assert desk.refusal("ben", "claim", desk.item)[0] == "claimed"
    desk.does("ann", "release", desk.item)
    desk.does("ben", "claim", desk.item)
    desk.agent.elapse(hours=24)
    assert desk.agent.tasks()[0]["claimed_by"] is None, "its lease is over"
    desk.does("ann", "claim", desk.item)
    desk.does("cleo", "task_finish", desk.task, "COMMIT", "the customer rang")
    assert desk.state() is None
    assert [row["did"] for row in desk.agent.work_log(desk.item)] == [
        "Offered",
        "Claimed",
        "TurnedAway",
        "ClaimReleased",
        "Claimed",
        "LeaseEnded",
        "Claimed",
        "Withdrawn",
    ]


def test_K49_while_the_code_of_a_state_runs_the_task_is_moved_nowhere(desk: Desk) -> None:
    desk.puts(b"<ticket slow='yes'/>")
    desk.does("ann", "move", desk.item, "working-on")
    desk.does("ann", "move", desk.item, "waiting")
    found = desk.does("ann", "work_item", desk.item)
    assert (found["states"]["moves"], "move" in found["may"]) == ([], False)
    assert desk.refusal("ann", "move", desk.item, "working-on")[0] == "no-state"


def test_K14_the_people_of_a_role_take_what_comes_next_and_nobody_has_it_twice(desk: Desk) -> None:
    desk.puts(b"<memory><ticket n='1'/><ticket n='2'/></memory>")
    items = [row["item"] for row in desk.does("ann", "worklist")]
    assert items == [row["item"] for row in desk.does("ben", "worklist")]
    for person in ("ann", "ben"):
        nearest = next(row for row in desk.does(person, "worklist") if row["state"] == "offered")
        desk.does(person, "claim", nearest["item"])
    assert [row["claimed_by"] for row in desk.agent.tasks()] == ["ann", "ben"]
    assert [[row["item"] for row in desk.does(who, "worklist")] for who in ("ann", "ben")] == [
        [one] for one in items
    ]


def test_K15_who_began_an_automatic_task_watches_it_and_may_stop_it(desk: Desk) -> None:
    run = desk.does("ann", "start", "desk.book")
    desk.agent.until_idle()
    (row,) = desk.agent.tasks()
    assert (row["eid"], row["item"]) == (run, None)
    with pytest.raises(TaskRefusedError) as raised:
        desk.does("ben", "task_stop", run)
    assert raised.value.kind == "not-responsible"
    assert desk.does("ann", "task_stop", run)["state"] == "stopped"


def test_K22_an_object_is_kept_over_a_restart_and_one_task_alone_has_it(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    desk = Desk(home)
    with desk.agent:
        (case,) = desk.does("cleo", "task_put", "desk.scan", [b"<sheet n='1'/>"])["cases"]
    desk = Desk(home)
    with desk.agent:
        desk.agent.until_idle()
        assert [row["object"] for row in desk.agent.task_queue("desk.scan")] == [case["object"]]
        one, other = (desk.agent.task_init("desk.scan")["task"] for _ in range(2))
        assert desk.agent.task_get(one, wait=60.0)["object"] == case["object"]
        assert desk.agent.task_get(other)["object"] is None


def test_K40_a_task_enters_a_state_once_another_has_entered_one(desk: Desk) -> None:
    desk.does("cleo", "task_put", "desk.second", [b"<parcel/>"])
    desk.agent.until_idle()
    assert desk.state() == "waiting"
    desk.does("cleo", "task_put", "desk.first", [b"<invoice/>"])
    task = desk.agent.task_init("desk.first")["task"]
    desk.agent.task_get(task, wait=60.0)
    assert desk.state() == "waiting"
    desk.agent.task_raise("done", task=task, wait=60.0)
    assert desk.state() == "shipping"
