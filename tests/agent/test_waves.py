"""What runs ask for at once is done in waves, and what one run asks for in its order."""

from __future__ import annotations

from pathlib import Path

import narval
from narval.agent.loop import WAVE

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
