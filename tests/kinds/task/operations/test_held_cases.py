"""Cases that cannot continue by themselves: who is told, and how a person lets them go on (KA16, KA20)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.surfaces.cli.session import Session
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import narval as command

DESK = """
TASK TYPE triage
  INVOCATION: AUTO
  INITIAL looking
  STATE looking EXPOSED
    ON ASSERT { assert(FORWARD); }
    ON EVENT seen GOTO FORWARD
  ON FORWARD
    if (obj.prio == "high") route(stop); else route(keep);

TASK TYPE keep
  INVOCATION: AUTO
  INITIAL keeping
  STATE keeping EXPOSED
    ON ASSERT { assert(COMMIT); }
    ON EVENT kept GOTO COMMIT

TASK TYPE pay
  INVOCATION: AUTO
  COMPENSATED BY refund
  INITIAL paying
  STATE paying EXPOSED
    ON ASSERT { assert(FORWARD); }
    ON EVENT paid GOTO FORWARD
  ON FORWARD route(stop);

TASK TYPE refund
  INVOCATION: COMPENSATION
  TASK CODE "exec: false"
  INITIAL refunding
  STATE refunding EXPOSED
    ON EVENT refunded GOTO FORWARD

TASK TYPE stop
  INVOCATION: AUTO
  INITIAL stopping
  STATE stopping EXPOSED
    ON ASSERT { assert(ABORT); }
    ON EVENT stopped GOTO ABORT
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "desk.task").write_text(DESK)
    with narval.open(clock=narval.SimulatedClock("2026-03-02T20:00:00Z")) as agent:
        agent.load(tmp_path / "desk.task")
        yield agent


def put(agent: Agent, type: str, xml: str) -> tuple[int, int]:
    """An object that is put to a type, and its case, once nothing more happens by itself."""
    (case,) = agent.task_put(f"desk.{type}", [xml.encode()])["cases"]
    agent.until_idle()
    return case["object"], case["case"]


def attention(agent: Agent) -> list[str]:
    return [row["text"] for row in agent.ask("attention")]


def test_held_objects_need_attention_until_they_go_on_and_are_in_the_log(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    put(agent, "triage", "<ticket n='1'/>")
    object, case = put(agent, "triage", "<ticket n='2'/>")
    (line,) = attention(agent)
    assert line.startswith("2 errors desk.triage at desk.triage, the last: ")
    assert f"`narval task retry {case}` puts it to desk.triage again" in line
    assert f"narval add FILE --replace {object}" in line
    (row,) = agent.ask("incidents")
    assert (row["part"], row["count"], row["state"]) == ("desk.triage", 2, "open")
    (wait,) = agent.ask("why", run=case)["waiting"]
    assert f"`narval task retry {case}`" in wait["text"]
    logged = [record for record in caplog.records if f"narval task retry {case}" in record.getMessage()]
    assert [record.levelname for record in logged] == ["WARNING"]
    agent.cancel(case)
    agent.until_idle()
    (line,) = attention(agent)
    assert line.startswith("desk.triage at desk.triage: ")


def test_a_compensator_that_failed_needs_attention(agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    _, case = put(agent, "pay", "<order/>")
    (line,) = attention(agent)
    assert "desk.refund, which compensates desk.pay, failed" in line
    assert f"`narval task retry {case}` undoes it again, `narval cancel {case}`" in line
    assert any(
        f"narval task retry {case}" in record.getMessage() and record.levelname == "WARNING"
        for record in caplog.records
    )
    agent.cancel(case)
    agent.until_idle()
    assert attention(agent) == []


def test_the_command_fails_with_the_reason_if_an_object_is_held_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"case": 12, "state": "held", "again": [{"object": 14, "why": "no route"}]}
    monkeypatch.setattr(Session, "ask", lambda *_, **__: answer)
    result = command(tmp_path, "task", "retry", "12")
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        ["case 12 is held", "object 14 cannot go on again: no route"],
    )


TICKET = """
TASK TYPE ticket
  ROLES: helper
  WORK <work><title>Ticket</title><deadline after="1h" outcome="exception"/></work>
  INITIAL new
  STATE new EXPOSED
    ON EVENT solved GOTO COMMIT
    ON EVENT hard GOTO EXCEPTION
"""


def test_a_task_that_its_deadline_sends_to_exception_is_logged_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for path, text in {
        "etc/people.toml": '[people.ann]\nroles = ["helper"]\n',
        "recipes/desk.task": TICKET,
    }.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    with narval.open(tmp_path, clock=narval.SimulatedClock("2026-03-02T20:00:00Z")) as agent:
        object, _ = put(agent, "ticket", "<ticket/>")
        agent.elapse(hours=1)
    (line,) = [one for one in caplog.messages if one.startswith("run ") and "failed" in one]
    assert line.endswith(f"failed: it ended in state EXCEPTION with object {object}")


def test_a_held_object_goes_on_as_a_person_has_mended_it(agent: Agent) -> None:
    object, case = put(agent, "triage", "<ticket n='1'/>")
    again = agent.task_retry(case)
    assert (again["state"], [row["why"] for row in again["again"]]) == (
        "held",
        ["obj.prio is neither an attribute nor a child of the object"],
    )
    (mended,) = agent.ask("add", elements=[b"<ticket n='1' prio='low'/>"], replace=object)["eids"]
    assert agent.task_retry(case, object=mended)["again"] == []
    agent.until_idle()
    assert agent.run(case)["state"] == "committed"
    assert attention(agent) == []
