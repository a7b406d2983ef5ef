"""What runs ask for at once is done in waves, and what one run asks for in its order."""

from __future__ import annotations

from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import narval
from narval.agent.loop import WAVE, TurnBudget, perform_in_waves

MODULE = """
import asyncio
from narval import action

@action(runs="inline")
def nothing():
    pass

@action(source=True)
async def waits():
    await asyncio.Event().wait()
    yield "<never/>"
"""


def test_a_call_that_is_given_up_in_the_wave_before_its_own_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    many = [f"s{number}" for number in range(2 * WAVE)]
    steps = "".join(f'<step id="{name}" type="action" target="m.nothing"/>' for name in ["begin", *many])
    leads = "".join(f'<out idref="{name}"/>' for name in [*many, "source"])
    recipe = f"""<recipe group="w" name="many" start_step="begin" end_step="s0">{steps}
      <step id="source" type="action" target="m.waits"/>
      <transition id="all"><in idref="begin"/>{leads}</transition></recipe>"""
    with narval.open() as agent:
        agent.load(tmp_path / "m.py")
        agent.load(recipe)
        run = agent.start("w.many")
        agent.until_idle()
        assert agent.run(run)["state"] == "done"


def test_what_a_run_asks_for_next_comes_behind_all_that_it_asked_for_before() -> None:
    asked = ["1.a", *(f"{run}.a" for run in range(2, 2 * WAVE)), "1.b"]
    outer = [(SimpleNamespace(eid=int(each.partition(".")[0])), each) for each in asked]

    def tell(run: int, event: str) -> None:
        if event.endswith(".a"):
            outer.append((SimpleNamespace(eid=run), f"{run}.c"))

    turn: Any = SimpleNamespace(transaction=SimpleNamespace(outer=outer), tell=tell)
    made: list[str] = []

    def perform(run: Any, command: Any) -> Any:
        made.append(command)
        return command

    perform_in_waves(turn, TurnBudget(len(asked) + 10, inf), perform)
    assert made.index("1.a") < made.index("1.b") < made.index("1.c")
    assert made.index("2.c") < made.index(f"{WAVE + 1}.a")
    assert len(made) == len(asked) + 10
    assert {*asked} <= {*made, *(command for _, command in outer)}
    perform_in_waves(turn, TurnBudget(len(asked) * 2, inf), perform)
    assert sorted(made) == sorted([*asked, *(f"{run}.c" for run in range(1, 2 * WAVE))])
