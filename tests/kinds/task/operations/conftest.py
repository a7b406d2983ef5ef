"""A home in memory with task types of group w, for what is asked of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.surfaces.python.agent import Agent

TASKS = """
TASK TYPE scan
  INITIAL scanning
  STATE scanning EXPOSED
    ON EVENT scanned GOTO reading
    ON EVENT jammed GOTO EXCEPTION
  STATE reading EXPOSED
    ON EVENT ev.check (word)
      CONDITION
      ACTION { if (word == "good") assert(FORWARD); }
    ON EVENT ev.bring
      CONDITION
      ACTION
    ON EVENT ev.never
      AFTER 1 HRS
      CONDITION
      ACTION
    ON EVENT stored GOTO FORWARD
  ON FORWARD
    route(book);

TASK TYPE book
  INVOCATION: AUTO
  INITIAL booking
  STATE booking EXPOSED
    ON ASSERT { assert(COMMIT); }
    ON EVENT done GOTO COMMIT

TASK TYPE sign
  USERS: ann, ben
  ROLES: clerk
  INITIAL signing
  STATE signing EXPOSED
    ON EVENT fine GOTO COMMIT

TASK TYPE exception
  INITIAL waiting
  STATE waiting EXPOSED
    ON EVENT again GOTO FORWARD
  ON FORWARD
    route(scan);

GLOBAL EVENT NIGHT EVERY 24 HRS
  CONDITION "true"
  AT 21:00:00 ABSOLUTE
  ACTION
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent at 20:00 on a Monday."""
    file = tmp_path / "w.task"
    file.write_text(TASKS)
    with narval.open(clock=narval.SimulatedClock("2026-03-02T20:00:00Z")) as agent:
        agent.load(file)
        agent.until_idle()
        yield agent
