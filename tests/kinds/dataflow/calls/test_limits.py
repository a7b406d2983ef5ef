"""Limits of dataflows: by the settings of a home, and by those that a run is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.cli.command_line import make_home, narval

PLANS = """
PLAN Main { OUTPUT: Stream out; BODY {
  makestream2("[{\\"n\\": 1}]" : ones)
  Inner(ones : more)
  Inner(more : out)
} }
PLAN Inner { INPUT: Stream in; OUTPUT: Stream out; BODY { select("n > 0", in : out) } }
PLAN Apart { OUTPUT: Stream out; BODY {
  makestream2("[{\\"n\\": 1}, {\\"n\\": 2}]" : all)
  select("n > 1", all : some)
  difference(all, some : out)
} }
PLAN Fails { OUTPUT: Stream out; BODY { wait_for_it("x" : out) } }
"""
MODULE = """
from narval import ActionError, operator

@operator(inputs="String a", outputs="TupleStream out", io_bound=True)
def wait_for_it(a):
    raise ActionError("it is down", "down")
"""
WOULD_SPILL = (
    "difference of flows.Apart, line 11: what waits there comes from the source that it waits for, and may "
    "not go to disk; allow it by spill = true in [dataflows]"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = make_home(tmp_path / "home")
    (made / "recipes" / "flows.plan").write_text(PLANS)
    (made / "modules" / "down.py").write_text(MODULE)
    return made


def foreground(home: Path, plan: str, *options: object) -> tuple[int, str]:
    found = narval(home, "dataflow", home / "recipes" / "flows.plan", plan, *options)
    return found.exit_code, found.stderr


def test_TA34_TA41_T43_a_session_has_the_limits_that_it_is_started_with(home: Path) -> None:
    assert foreground(home, "Main") == (0, "")
    assert foreground(home, "Apart") == (0, "")
    status, told = foreground(home, "Main", "--frames", 2)
    assert (status, "expected at most 2 frames in a transaction" in told) == (1, True), told
    status, told = foreground(home, "Apart", "--no-spill")
    assert (status, WOULD_SPILL in told) == (1, True), told
    status, told = foreground(home, "Fails", "--restarts", 0)
    assert (status, "it is down (in wait_for_it-1 of flows.Fails, line 13)" in told) == (1, True), told
    assert foreground(home, "Fails", "--ttl", "soon")[0] == 2


def test_TA34_TA41_T43_the_settings_of_a_home_have_them_too_and_a_start_goes_before(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("[dataflows]\nrestarts = 0\nframes = 2\nspill = false\n")
    for plan, why in (("Main", "at most 2 frames"), ("Apart", WOULD_SPILL), ("Fails", "it is down")):
        status, told = foreground(home, plan)
        assert (status, why in told) == (1, True), told
    failed = narval(home, "start", "flows.Apart", "--wait")
    assert failed.exit_code == 1
    assert "would-spill" in narval(home, "memory", "error").output
    well = narval(home, "start", "flows.Apart", "--spill", "--wait")
    assert well.exit_code == 0, well.output
    well = narval(home, "start", "flows.Main", "--frames", "3", "--wait")
    assert well.exit_code == 0, well.output


def test_a_limit_that_is_none_is_refused(home: Path) -> None:
    (home / "etc" / "narval.toml").write_text("[dataflows]\nrestarts = -1\n")
    found = narval(home, "check")
    assert "2:12: dataflows.restarts: expected a whole number, 0 or more, found -1" in found.output
