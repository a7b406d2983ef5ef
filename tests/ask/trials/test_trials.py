"""Simulations and explorations by child programs: bounded, kept for who asked (M42, M57)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval as library
from narval.ask.trials import child_program
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.ask.work_home import PURCHASE, home_with

STARTS = "<scenario until='1h'><start recipe='purchase.buy'/></scenario>"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return home_with(tmp_path / "home", PURCHASE)


@pytest.fixture
def agent(home: Path) -> Iterator[Agent]:
    with library.open(home) as agent:
        yield agent


def test_M57_a_simulation_tells_the_story_and_what_would_change(agent: Agent) -> None:
    answer = agent.ask(
        "simulate", definition="purchase.buy", elements=[b"<request what='a lamp'/>"], duration="10d"
    )
    changes: dict[str, Any] = answer["report"]["changes"]
    assert changes["added"][0]["xml"] == '<request what="a lamp"/>'
    assert [(row["name"], row["state"]) for row in changes["items"]] == [("purchase.approve", "expired")]
    assert {row["action"] for row in changes["outside"]} >= {"m.buy"}
    assert changes["runs"] == [{"name": "purchase.buy", "phase": "done", "count": 1}]
    assert answer["report"]["happened"]
    assert agent.ask("trial", trial=answer["trial"]) == answer
    assert agent.runs() == []
    with pytest.raises(RequestError, match="there is no result 'x' of yours"):
        agent.ask("trial", trial="x")


def test_M57_an_edited_text_is_played_and_never_saved(home: Path, agent: Agent) -> None:
    text = PURCHASE.replace('deadline after="5d"', 'deadline after="15d"')
    request = [b"<request what='a lamp'/>"]
    answer = agent.ask(
        "simulate",
        definition="purchase.buy",
        elements=request,
        duration="10d",
        edited={"recipes/purchase.xml": text},
    )
    assert [row["state"] for row in answer["report"]["changes"]["items"]] == ["offered"]
    assert (home / "recipes" / "purchase.xml").read_text() == PURCHASE
    assert sorted(path.name for path in home.iterdir() if path.is_symlink()) == []
    with pytest.raises(RequestError, match=r"expected the path of a file with definitions, got '\.\./x'"):
        agent.ask("simulate", definition="purchase.buy", edited={"../x": text})
    with pytest.raises(RequestError, match=r"got 'modules/m\.py'"):
        agent.ask("simulate", definition="purchase.buy", edited={"modules/m.py": "import os"})


def test_M57_one_that_takes_too_long_is_ended_and_that_is_said(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_program, "SECONDS", 0.01)
    with pytest.raises(RequestError, match="it was ended after 0 s"):
        agent.ask("simulate", scenario=STARTS)


def test_M57_what_cannot_be_played_says_why(agent: Agent) -> None:
    with pytest.raises(RequestError, match="expected a definition or a scenario"):
        agent.ask("simulate")
    with pytest.raises(
        RequestError, match=r"there is no definition purchase\.by; did you mean purchase\.buy"
    ):
        agent.ask("simulate", definition="purchase.by")
    with pytest.raises(RequestError, match="scenario"):
        agent.ask("simulate", scenario="<scenari/>")


def test_M42_the_findings_of_an_exploration_are_kept_by_digest(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = agent.ask("explore", kind="recipe", name="purchase.buy")
    assert [row["definition"] for row in found["explored"]] == ["purchase.buy"]
    monkeypatch.setattr(child_program, "SECONDS", 0.0)
    assert agent.ask("explore", kind="recipe", name="purchase.buy") == found
