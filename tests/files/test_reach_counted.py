"""What it costs to tell which labels reach which calls, counted in calls of functions (F9)."""

from __future__ import annotations

from pathlib import Path

from narval.ask.memory.trust import reached
from narval.files.home import Home
from narval.files.reach import read_sources
from tests.counting import CountedCalls
from tests.files.test_reach import READS, recipe, told, write

CHAIN = 80


def test_F9_a_long_chain_of_calls_costs_little_more_for_each_that_is_called(tmp_path: Path) -> None:
    """Each recipe sends what the one before gives, which is all that any before it has made."""
    letter = "<arguments><letter to='{$x/@by}' about='{$x/@about}'/></arguments>"
    for at in range(CHAIN):
        called = f"recipe:w.r{at - 1}" if at else "m.read"
        steps = (
            f"x {called}",
            "reply m.reply",
            f"send m.send {letter}".replace("{{", "{").replace("}}", "}"),
        )
        write(tmp_path, f"recipes/r{at}.xml", recipe(f"r{at}", *steps))
    told(tmp_path, READS)  # everything that is read once is read
    sources = read_sources(Home(tmp_path))
    with CountedCalls("call") as counted:
        rows = reached(sources.reach, sources.reach.definitions, sources.rules)
    assert len(rows) == CHAIN
    assert counted.number < 2_500 * CHAIN
