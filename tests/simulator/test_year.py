"""A simulated year of the shipped assistant: it answers every day, its store is bounded, its memory flat."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.places import ROOT

MAILS = 3


def months(days: int, restarts: int) -> list[dict[str, Any]]:
    """What is kept after each month."""
    line = [sys.executable, "-m", "tests.simulator.year", str(days), str(MAILS), str(restarts)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(each) for each in done.stdout.splitlines()]


def is_bounded(known: list[dict[str, Any]]) -> None:
    """From the second month on nothing grows but the keys of what must not be taken twice (N37)."""
    for before, after in itertools.pairwise(known):
        sent, answered = (after[each] - before[each] for each in ("sent", "answered"))
        assert answered == sent - sent // 10, after  # every tenth came through a list
        assert after["active"] == before["active"]
        assert after["daemons"] == 1, "nothing holds those that ended"
    early, late = known[0], known[-1]
    assert late["runs"] <= early["runs"] + 8
    assert late["elements"] <= early["elements"] + 8
    assert late["marks"] <= early["marks"] + 30
    assert late["moments"] <= early["moments"] + 10
    assert late["store"] <= early["store"] * 1.3


def test_two_months_with_restarts_answer_every_mail_and_leave_nothing_behind() -> None:
    is_bounded(months(60, restarts=10))


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_year_with_restarts_answers_every_mail_and_leaves_nothing_behind() -> None:
    known = months(360, restarts=10)
    is_bounded(known)
    assert known[-1]["resident"] <= known[1]["resident"] * 1.3
    assert known[-1]["objects"] <= known[1]["objects"] * 1.1


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_year_of_one_daemon_leaves_its_memory_as_it_was() -> None:
    known = months(360, restarts=0)
    is_bounded(known)
    assert known[-1]["resident"] <= known[1]["resident"] * 1.15
    assert known[-1]["objects"] <= known[1]["objects"] * 1.1
