"""What it takes to read many files, counted and not timed: twice the files are twice the work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from narval.files.loaded import Loaded
from narval.files.reading import Reading, load
from narval.files.settle import settle
from narval.files.snapshot import differences

RECIPE = """<recipe group="g" name="r{0}" start_step="a" end_step="a">
  <step id="a" type="action" target="basic.nothing"/></recipe>"""


def steps_of(work: Callable[[], object]) -> int:
    """The steps of Python that a piece of work takes."""
    count, before = 0, sys.gettrace()

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return step

    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def home_of(folder: Path, files: int) -> Path:
    (folder / "recipes").mkdir(parents=True)
    (folder / "modules").mkdir()
    for number in range(files):
        (folder / "recipes" / f"{number}.xml").write_text(RECIPE.format(number))
        (folder / "modules" / f"m{number}.py").write_text("")
    return folder


def settled(home: Path) -> Callable[[], object]:
    collection = Reading(home).library().collections[0]
    return lambda: settle(Loaded(), [collection], 0.0)


def told(home: Path) -> Callable[[], object]:
    loaded = load(home)
    assert len(loaded.library) > 0
    return lambda: list(differences([], [loaded]))


@pytest.mark.parametrize("work", [settled, told])
def test_what_is_settled_and_the_differences_of_twice_the_files_take_twice_the_steps(
    tmp_path: Path, work: Callable[[Path], Callable[[], object]]
) -> None:
    few, many = (steps_of(work(home_of(tmp_path / str(files), files))) for files in (50, 100))
    assert 0 < few < many < 2.2 * few
