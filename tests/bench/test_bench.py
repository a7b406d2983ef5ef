"""What `make bench` measures hangs together: marks name figures there are, ratios are of one round."""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench_main
from bench import backlog_script, curves, mails, report
from bench.marks import Figure, Lines, Mark, marks, suites

CASES = {case.name: case for suite in suites() for case in suite.cases}


@pytest.mark.parametrize("mark", marks(), ids=lambda mark: f"{mark.workload}: {mark.what}")
def test_a_mark_is_about_cases_that_are_measured(mark: Mark) -> None:
    figures = {figure.case for figure in (*mark.of, *mark.over)}
    assert any(figures <= {case.name for case in suite.cases} for suite in suites()), "of one suite"
    assert mark.met(0.0) in (None, True, False)


def test_each_case_of_ours_is_a_module_here() -> None:
    modules = {case.command.split()[0] for case in CASES.values() if case.is_ours}
    assert all(importlib.util.find_spec(f"bench.{module}") for module in modules)


def test_curves_are_of_cases_that_are_measured() -> None:
    drawn = {case for plot in curves.PLOTS for curve in plot.curves for case in curve.cases.values()}
    assert drawn <= CASES.keys()


def test_ratios_are_of_one_round_and_the_table_has_their_median() -> None:
    fast: list[Lines] = [{"W1-1000x10": {"per_second": ours}, "W1-1000x10/transitions": {"per_second": peer}}
                         for ours, peer in ((50.0, 10.0), (20.0, 40.0), (30.0, 5.0))]  # fmt: skip
    table = report.table({"W1": fast})
    assert "| W1 1000x10 | steps a second, over transitions | ≥ 0.95× | 5× | 0.5 – 6 | in part |" in table


@pytest.mark.parametrize(
    ("rounds", "said"), [((1.5, 0.95, 2), "met"), ((1.5, 0.9, 2), "in part"), ((1.5, 0.9, 0.8), "**missed**")]
)
def test_a_mark_is_met_where_every_round_met_it(rounds: tuple[float, ...], said: str) -> None:
    lines: list[Lines] = [
        {"W1-1000x10": {"per_second": ours}, "W1-1000x10/transitions": {"per_second": 1.0}} for ours in rounds
    ]
    assert report.table({"W1": lines}).splitlines()[-1].endswith(f"| {said} |")


def test_a_suite_of_one_round_is_not_published(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(suite.rounds >= report.LEAST_ROUNDS for suite in suites())
    once, twice = list[Lines]([{}]), list[Lines]([{}, {}])
    assert report.published({"W1": once, "W2": twice}) == {"W2": twice}
    monkeypatch.setattr(sys, "argv", ["bench", "W1", "W3", "--rounds", "1", "--write"])
    with pytest.raises(SystemExit):
        bench_main.main()
    assert "expected 2 rounds or more to write, got 1 of W1, W3" in capsys.readouterr().err


LEAVES = """
import subprocess
from bench import programs
programs.GRACE = 0.05
with programs.none_left():
    subprocess.run(["sh", "-c", "setsid sh -c 'echo $$; trap : INT; while :; do sleep 600; done' & wait"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_measurement_that_is_interrupted_leaves_no_program_behind(number: int) -> None:
    measuring = subprocess.Popen([sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, text=True)
    assert measuring.stdout is not None
    left = int(measuring.stdout.readline())
    measuring.send_signal(number)
    assert measuring.wait() != 0
    assert not Path(f"/proc/{left}").exists()


def test_a_mark_without_its_peer_is_left_out() -> None:
    mark = Mark("W", "", (Figure("ours", "x"),), (Figure("peer", "x"),), ">=1", "")
    assert mark.value({"ours": {"x": 1.0}}) is None
    assert mark.value({"ours": {"x": 1.0}, "peer": {"x": 2.0}}) == 0.5


def test_answers_that_differ_are_told() -> None:
    line = {"workload": "W3-10", "n": 5, "seconds": 1.0, "per_second": 5.0, "rss_mb": 1.0}
    table = report.table({"W3": [{"ours": {**line, "digest": 1}, "theirs": {**line, "digest": 2}}]})
    assert "DISAGREE W3-10" in table


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    found = {"W1": [{"a": {"x": 1}}, {"a": {"x": 2}, "b": {"error": "no"}}]}
    report.keep(tmp_path / "lines", {"python": "3"}, found)
    assert report.kept(tmp_path / "lines") == ({"python": "3"}, found)


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize(
    ("command", "workload"),
    [
        ("steps 3x4 memory elements", "W1b-3x4"),
        ("steps 2x3 power", "W2-2x3"),
        ("conditions index 50 40", "W3-50"),
        ("conditions beyond 50 40", "W3-beyond-50"),
        ("conditions turn 50 40", "W3-turn-50"),
        ("agents activation 5 2", "W11-activation-5"),
    ],
)
def test_a_measurement_checks_its_results_and_prints_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    workload: str,
) -> None:
    module, *arguments = command.split()
    monkeypatch.setenv("BENCH_TMP", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    importlib.import_module(f"bench.{module}").main()
    line = json.loads(capsys.readouterr().out)
    assert line["peer"] == "narval"
    assert line["workload"] == workload
    assert line["n"] > 0


def test_the_script_answers_the_mails_that_ask_for_it(tmp_path: Path) -> None:
    asked = mails.fill(tmp_path, 20)
    answered: set[str] = set()
    answers = [
        backlog_script.answer(path.read_bytes(), answered) for path in sorted((tmp_path / "new").iterdir())
    ]
    assert asked == 18 == len(list(filter(None, answers))) == len(answered)
    assert answers[1] is not None
    assert answers[1]["To"] == "bela.1@example.net"
