"""A top-level run that fails leaves a `failure` in memory, whatever its kind (N26)."""

from __future__ import annotations

import pytest

import narval

ACTION = """
from narval import action

@action
def fails():
    raise ValueError("never well")
"""
RECIPE = """<recipe group="w" name="r" start_step="s" end_step="s">
  <step id="s" type="action" target="w.fails"/></recipe>"""
CALLS = """<recipe group="w" name="outer" start_step="c" end_step="c">
  <step id="c" type="recipe" target="w.r"/></recipe>"""
TAKES = """<cookbook group="w"><recipe name="takes" start_step="c" end_step="z">
  <step id="c" type="recipe" target="w.r"/><step id="z" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="c" on-error="yes"/><out idref="z"/></transition></recipe></cookbook>"""


@pytest.fixture
def agent(tmp_path):
    module = tmp_path / "w.py"
    module.write_text(ACTION)
    with narval.open() as agent:
        for source in (module, RECIPE, CALLS, TAKES):
            agent.load(source)
        yield agent


def failures(agent, name):
    run = agent.start(name)
    agent.until_idle()
    return run, [found.attributes for found in agent.memory("failure")]


def test_it_names_run_definition_step_and_error(agent):
    run, (failure,) = failures(agent, "w.r")
    (error,) = agent.memory("error")
    assert failure == failure | {
        "run": str(run), "kind": "plan", "name": "w.r", "step": "s", "type": "ValueError",
        "error": str(error.eid),
    }  # fmt: skip
    (told,) = agent.memory("failure")
    assert told.text == "never well"
    assert told.eid in agent.run(run)["context"], "it is forgotten with its run"


def test_a_run_that_was_called_has_none_of_its_own(agent):
    run, (failure,) = failures(agent, "w.outer")
    assert (failure["run"], failure["name"], failure["type"]) == (str(run), "w.outer", "ValueError")


def test_an_error_that_a_link_takes_up_is_no_failure(agent):
    run, found = failures(agent, "w.takes")
    assert (agent.run(run)["phase"], found) == ("done", [])


def test_a_run_that_was_cancelled_did_not_fail(agent):
    agent.load(RECIPE.replace('name="r"', 'name="slow"').replace("w.fails", "basic.pause"))
    agent.add("<pause seconds='600'/>")
    agent.cancel(agent.start("w.slow"))
    agent.until_idle()
    assert agent.memory("failure") == []


def test_an_automaton_that_failed_has_one_too(agent):
    agent.load("<AUTOMATON group='w' name='lamp'><STATE name='start' command='sh'>exit 3</STATE></AUTOMATON>")
    run, (failure,) = failures(agent, "w.lamp")
    assert (failure["run"], failure["kind"], failure["name"]) == (str(run), "automaton", "w.lamp")
