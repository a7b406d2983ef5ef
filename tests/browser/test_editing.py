"""A definition is edited in a browser: as one types, without scripts, and on a telephone (M89, M97)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.browser.programs import Household
from tests.browser.watching import Watched

TEXT = """<recipe group="mine" name="{name}" start_step="s" end_step="s">
  <step id="s" type="action" target="talk.nothing"/>
</recipe>
"""
NUMBERS = itertools.count()
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(params=["wide", "narrow", "plain"])
def looking(request: pytest.FixtureRequest, watched: Watched) -> Any:
    """A page of an operator: wide, narrow, and narrow without scripts."""
    scripts, size = request.param != "plain", WIDE if request.param == "wide" else NARROW
    return watched.page(java_script_enabled=scripts, viewport=size)


def test_a_definition_is_edited_checked_saved_and_taken_back(looking: Any, household: Household) -> None:
    name = f"one{next(NUMBERS)}"
    file = household.home / "recipes" / f"{name}.xml"
    file.write_text(TEXT.format(name=name))
    with household.client() as client:
        client.ask("reload")
    looking.goto(f"/a/narval/definitions/mine.{name}")
    looking.get_by_role("link", name="Edit…").click()
    text, has_scripts = (
        looking.get_by_label("The text of the file"),
        looking.locator("#theme:visible").count(),
    )
    text.fill(TEXT.format(name=name).replace("talk.nothing", "talk.nobody"))
    if not has_scripts:
        looking.get_by_role("button", name="Check").click()
    looking.get_by_text("1 fault", exact=True).wait_for()
    looking.get_by_text("line 2, column").wait_for()
    looking.get_by_role("button", name="Save").click()
    looking.get_by_text("it has faults, and was not saved").wait_for()
    text.fill(TEXT.format(name=name).replace("talk.nothing", "talk.fail"))
    if not has_scripts:
        looking.get_by_role("button", name="Difference").click()
    looking.get_by_text("+ It calls talk.fail.").wait_for()
    assert looking.evaluate("document.documentElement.scrollWidth") <= looking.viewport_size["width"]
    looking.get_by_role("button", name="Save").click()
    looking.get_by_text("It is saved and active.").wait_for()
    assert "talk.fail" in file.read_text()
    looking.get_by_role("button", name="back").click()
    looking.get_by_text("It is saved and active.").wait_for()
    assert file.read_text() == TEXT.format(name=name)
