"""`narval check` of `.task` files: all their faults at their places, and rules that never fire (K30, K70)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.cli.command_line import narval

FAULTY = """TASK TYPE scan
  INITIAL 1
  STATE 1 scanning EXPOSED
    ON EVENT scanned GOTO procesing
    ON EVENT late AT 25:00:00 CONDITION ACTION
  STATE 2 processing EXPOSED
    ON EVENT done GOTO FORWARD
ON FORWARD route(next);
"""
GOOD = FAULTY.replace("procesing", "processing").replace("route(next)", "route(scan)")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a folder for recipes."""
    (tmp_path / "recipes").mkdir()
    return tmp_path


def checked(home: Path, text: str, *options: str) -> tuple[int, list[str]]:
    (home / "recipes" / "bank.task").write_text(text)
    done = narval(home, "check", *options)
    return done.exit_code, done.output.splitlines()


def test_K70_all_faults_of_a_task_file_are_told_at_once(home: Path) -> None:
    status, lines = checked(home, FAULTY)
    assert status == 1
    assert lines[:-1] == [
        "recipes/bank.task:4:27: there is no state 'procesing'; did you mean 'processing'?",
        "recipes/bank.task:5:22: expected a time of the day from 00:00:00 to 23:59:59, found 25:00:00",
        "recipes/bank.task:8:12: route(next): there is no task 'next'; there is 'scan'",
    ]


def test_K30_a_rule_that_can_never_fire_is_told(home: Path) -> None:
    status, lines = checked(home, GOOD.replace("AT 25:00:00", "AT 5 SECS AND AT 6 SECS"), "--explore")
    assert status == 1
    assert lines[0] == (
        "recipes/bank.task:5:1: the rule of late can never fire: no time is AT 5 SECS AND AT 6 SECS, "
        "when its condition would be judged"
    )
    assert checked(home, GOOD.replace("25:00:00", "21:00:00"), "--explore")[0] == 0
