"""The numbers of a daemon: each metric by what was done, as text, and in the rules and the dashboard."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import narval as library
from narval.ask.daemon import metrics as gathered
from narval.ask.daemon.metrics import METRICS, OTHERS
from narval.ask.exposition import openmetrics
from narval.calls import models
from narval.daemon import main_loop
from tests.places import DOCS

RECIPES = """<cookbook>
<recipe group="a" name="well" start_step="one" end_step="one">
  <step id="one" type="action" target="basic.nothing"/>
</recipe>
<recipe group="a" name="waits" start_step="one" end_step="two">
  <step id="one" type="action" target="basic.nothing"/><step id="two" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="one"/><out idref="two"/>
    <condition><match>never</match></condition></transition>
</recipe>
</cookbook>"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/a.xml").write_text(RECIPES)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text('timezone = "UTC"\n')
    return tmp_path


def values(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The samples as a strict reader of OpenMetrics has them, by name and values of labels."""
    text = openmetrics(rows).decode()
    return {
        " ".join((sample.name, *map(str, sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_numbers_tell_what_was_done(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library.open(home, clock=library.SimulatedClock("2026-07-01T12:00:00Z")) as agent:
        agent.start("a.waits")
        for _ in range(3):
            agent.start("a.well")
        agent.until_idle()
        (home / "var").mkdir(exist_ok=True)
        with sqlite3.connect(home / models.FILE) as ledger:
            ledger.execute("CREATE TABLE spent (call INTEGER PRIMARY KEY, model, day, tokens, money)")
            day = "2026-07-01"
            ledger.executemany(
                "INSERT INTO spent (model, day, tokens, money) VALUES (?, ?, ?, ?)",
                [("small", day, 70, 0.5), ("small", day, 30, 0.25), ("small", "2020-01-01", 9, 9.0)],
            )
        ledger.close()
        before = values(agent.ask("metrics"))
        agent.start("a.well")
        agent.until_idle()
        after = values(agent.ask("metrics"))
        monkeypatch.setattr(gathered, "MOST", 0)
        others = values(agent.ask("metrics"))
    assert before["narval_up"] == 1
    assert before["narval_runs_active plan"] == 1
    assert before["narval_runs_ended_total a.well done"] == 3
    assert after["narval_runs_ended_total a.well done"] == 4
    assert others[f"narval_runs_ended_total {OTHERS} done"] == 4
    assert before["narval_watches"] == 1
    assert before["narval_model_day_tokens small"] == 100
    assert before["narval_model_day_money small"] == 0.75
    assert before["narval_store_bytes"] > 0
    assert after["narval_turns_total"] > before["narval_turns_total"]
    assert after["narval_turn_seconds_total"] >= before["narval_turn_seconds_total"] > 0
    assert not any(name.startswith("narval_lease") for name in before), "it shares its store with none"


def test_a_round_that_took_long_needs_attention(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_loop, "STUCK", 0.0)
    monkeypatch.setattr(main_loop, "SLICE", 0.0)
    with library.open(home) as agent:
        agent.start("a.well")
        agent.until_idle()
        [item] = [item for item in agent.ask("attention") if item["what"] == "loop"]
        assert "stuck" in item["text"]
        assert agent.ask("health") == {"well": True, "standby": False, "troubles": []}


def test_a_disk_that_is_full_keeps_the_daemon_from_its_work(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library.open(home) as agent:
        disk = os.statvfs("/")
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*disk[:3], 0, 0, *disk[5:])))
        answer = agent.ask("health")
    assert not answer["well"]
    assert [trouble["what"] for trouble in answer["troubles"]] == ["disk"]


def test_names_and_units_are_as_prometheus_wants_them() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"narval(_[a-z]+)+", metric.name), metric.name
        assert not metric.name.endswith(("_total", "_ms", "_kb", "_count")), metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_rules_and_the_dashboard_name_metrics_there_are() -> None:
    names = {metric.name + "_total" * (metric.kind == "counter") for metric in METRICS}
    folder = DOCS / "how-to/prometheus"
    board = json.loads((folder / "narval-dashboard.json").read_text())
    queries = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    rules = " ".join(re.findall("expr: (.*)", (folder / "narval.rules.yml").read_text()))
    for text in (queries, rules):
        asked = set(re.findall(r"\bnarval_[a-z_]+", text))
        assert asked
        assert asked <= names


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian package prometheus) is not there"
)
def test_promtool_takes_the_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", DOCS / "how-to/prometheus/narval.rules.yml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
