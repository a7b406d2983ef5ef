"""Definitions that call those of other agents, and all that may be wrong with that (G33, G35)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.definitions.library import RunDefinition
from narval.core.definitions.parsing import parse
from narval.core.definitions.remote_calls import RemoteCall
from narval.core.source.text import Source
from narval.files.check import check_home
from narval.files.home import Home

PROCESS = """<process-definition name="p">
<node name="n" type="{0}" isStart="true"><custom>{1}</custom></node></process-definition>"""


def recipe(rest: str, inside: str = "") -> str:
    step = f'<step id="a" target="b.c" {rest}>{inside}</step>'
    return f'<recipe group="g" name="r" start_step="a" end_step="a">{step}</recipe>'


def state(rest: str) -> str:
    return f'<automaton><state name="start" {rest}/></automaton>'


def faults_of(text: str) -> list[str]:
    parsed = parse(Source("recipes/x.xml", text.encode()))
    return [fault.message for fault in parsed.faults]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (recipe('type="recipe" agent="accounts" timeout="1h"'), ("recipe", "step 'a'", 3600.0)),
        (recipe('type="process" agent="accounts"'), ("process", "step 'a'", None)),
        (
            state('type="automaton" target="b.c" agent="accounts" timeout="90"'),
            ("automaton", "state 'start'", 90.0),
        ),
        (
            PROCESS.format("recipe", "<target>b.c</target><agent>accounts</agent><timeout>5</timeout>"),
            ("recipe", "node 'n'", 5.0),
        ),
    ],
)
def test_G33_a_definition_tells_what_it_calls_at_other_agents(
    text: str, call: tuple[str, str, float | None]
) -> None:
    parsed = parse(Source("recipes/x.xml", text.encode()))
    assert not parsed.faults
    (definition,) = parsed.definitions
    assert isinstance(definition, RunDefinition)
    kind, part, timeout = call
    line = 2 if part.startswith("node") else 1
    assert list(definition.remote_calls) == [RemoteCall("accounts", kind, "b.c", part, line, timeout)]
    assert not [found for found in definition.references if found.target == "b.c"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (recipe('type="recipe" agent="Accounts"'), "agent: expected the name of an agent"),
        (recipe('type="action" agent="a"'), "another agent runs recipes, processes and automata only"),
        (recipe('type="recipe" agent="a"', '<output id="o"/>'), "a recipe has no outputs"),
        (recipe('type="recipe" agent="a"', '<input id="i"/>'), "input needs a match that says which"),
        (
            recipe('type="recipe" agent="a"', '<input id="i" newest="3"><match>x</match></input>'),
            "a step cannot set 'newest' of an input: only its target can",
        ),
        (
            recipe('type="recipe" agent="a"', '<input id="i"><match>x[@n=$j/@n]</match></input>'),
            "$j: expected a step or the name of a condition, for nothing else is known where the target is",
        ),
        (state('command="x" agent="a"'), "agent says whose the target is"),
        (
            PROCESS.format("action", "<target>b.c</target><agent>a</agent>"),
            "another agent runs recipes, processes and automata only",
        ),
        (PROCESS.format("recipe", "<target>c</target><agent>a</agent>"), "target: expected a full name"),
        (PROCESS.format("recipe", "<target>b.c</target><agent>A</agent>"), "agent: expected the name of"),
        (
            PROCESS.format("recipe", "<target>b.c</target><agent>a</agent><timeout>1h</timeout>"),
            "timeout: expected a number of seconds",
        ),
    ],
)
def test_G33_each_fault_of_such_a_call_is_told(text: str, fault: str) -> None:
    assert any(fault in found for found in faults_of(text)), faults_of(text)


def test_G35_check_warns_of_a_call_without_a_time_limit(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.recipes.mkdir()
    (tmp_path / "agents/accounts").mkdir(parents=True)
    (home.recipes / "a.xml").write_text(recipe('type="recipe" agent="accounts"'))
    assert [str(fault) for fault in check_home(home)] == [
        "recipes/a.xml:1:1: warning: step 'a': accounts may never answer, and after a day the call is given "
        "up; say how long it may take: timeout"
    ]
    (home.recipes / "a.xml").write_text(recipe('type="recipe" agent="accounts" timeout="1h"'))
    assert not check_home(home)
    (home.recipes / "a.xml").write_text(recipe('type="recipe" agent="acounts" timeout="1h"'))
    [unknown] = check_home(home)
    assert "step 'a': there is no agent 'acounts' here yet; did you mean 'accounts'" in str(unknown)
