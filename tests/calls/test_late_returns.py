"""What comes back to a call that was given up: its run is not told, its history and the log are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import narval
from narval.surfaces.python.agent import Agent

MODULE = """
import time
from pathlib import Path
from narval import action, call

def wait():
    while not (Path(call().home) / "go").exists():
        time.sleep(0.01)

@action
def pay():
    wait()

@action(pure=True)
def look():
    wait()
    raise ValueError("it is dark")
"""
RECIPE = """<recipe group="w" name="{0}" start_step="s" end_step="s">
  <step id="s" type="action" target="w.{0}"/></recipe>"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    home = tmp_path / "home"
    for folder in ("modules", "recipes", "data", "etc"):
        (home / folder).mkdir(parents=True)
    (home / "modules" / "w.py").write_text(MODULE)
    for name in ("pay", "look"):
        (home / "recipes" / f"{name}.xml").write_text(RECIPE.format(name))
    with narval.open(home) as agent:
        yield agent


@pytest.mark.parametrize(
    ("name", "level", "said"),
    [("pay", "WARNING", "what it has done stays done"), ("look", "INFO", "ValueError: it is dark")],
)
def test_what_comes_back_to_a_call_given_up_is_in_history_and_in_the_log(
    agent: Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, level: str, said: str
) -> None:
    caplog.set_level("INFO")
    run = agent.start(f"w.{name}")
    agent.cancel(run)
    agent.until_idle()
    assert agent.run(run)["state"] == "cancelled"
    (tmp_path / "home" / "go").touch()
    book = agent.daemon.calls
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: not book.counts.given_up))
    agent.until_idle()
    assert agent.run(run)["state"] == "cancelled"
    (logged,) = [record for record in caplog.records if "came back" in record.getMessage()]
    assert logged.levelname == level
    assert logged.getMessage().endswith(
        f"w.{name}, which run {run} called in step s and gave up, came back: {said}"
    )
    story = agent.ask("story", run=run)
    assert "came back after it was given up" in str(story)


def test_what_comes_back_late_is_not_given_the_moment_of_the_last_try(agent: Agent, tmp_path: Path) -> None:
    limits = 'timeout="0.05" retries="1" backoff="0"'
    agent.load(
        RECIPE.format("pay").replace('"s" type', f'"s" {limits} type').replace('name="pay"', 'name="x"')
    )
    run = agent.start("w.x")
    agent.until_idle()
    assert agent.run(run)["state"] == "failed"
    (tmp_path / "home" / "go").touch()
    book = agent.daemon.calls
    agent.runner.run(agent.daemon.main_loop.work_until(lambda: not book.counts.given_up))
    agent.until_idle()
    story = str(agent.ask("story", run=run))
    assert story.count("came back after it was given up") == 2
    assert ", which was asked at " not in story
