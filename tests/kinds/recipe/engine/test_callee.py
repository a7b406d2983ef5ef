"""The callees of steps, while plans of several versions are under way."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import narval
from narval.core.definitions.library import Library
from narval.kinds.recipe.engine.steps.callee import callee_of
from narval.kinds.recipe.language.definition import Step

MODULE = """
from narval import Output, action

@action(outputs=[Output("given", "{name}")], runs="inline")
def give():
    return "<{name}/>"

@action(runs="inline")
def nothing():
    pass
"""
RECIPE = """
<recipe group="w" name="line" start_step="begin" end_step="give">
  <step id="begin" type="action" target="w.nothing"/>
  <step id="give" type="action" target="w.give"/>
  <transition id="t"><in idref="begin"/><out idref="give"/>
    <condition><match>go</match></condition></transition>
</recipe>
"""


def test_each_plan_calls_the_version_of_an_action_that_it_began_with(tmp_path: Path) -> None:
    module = tmp_path / "w.py"
    with narval.open() as agent:
        runs = []
        for name in ("first", "second", "third"):
            module.write_text(MODULE.format(name=name))
            agent.load(module)
            if not runs:
                agent.load(RECIPE)
            runs += [agent.start("w.line"), agent.start("w.line")]
            agent.until_idle()
        agent.add("<go/>")
        agent.until_idle()
        assert [agent.run(run)["state"] for run in runs] == ["done"] * 6
        given = [element.name for element in agent.memory("first | second | third")]
        assert sorted(given) == ["first", "first", "second", "second", "third", "third"]


def test_a_target_that_the_library_of_the_plan_lacks_is_looked_up_anew_each_time() -> None:
    current: dict[str, Any] = {"w.give": SimpleNamespace(prototype=None)}
    view = SimpleNamespace(library=Library(), definition=lambda kind, name: current.get(name))
    decision: Any = SimpleNamespace(view=view)
    step = Step("give", "action", "w.give")
    assert callee_of(decision, step).failure is None
    current.clear()
    assert callee_of(decision, step).failure is not None
    assert not view.library.built
