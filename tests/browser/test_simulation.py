"""What a definition would do, and what it cannot, in a real browser, with and without scripts (M89, M97)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ask.trials.test_past_jobs import HOURLY, SLOW
from tests.browser.programs import Household
from tests.browser.watching import Watched

BASE = "/a/narval"


@pytest.fixture(scope="module")
def slow(household: Household) -> str:
    """The name of a definition that takes its time with ninety days."""
    (household.home / "modules" / "slow.py").write_text(SLOW)
    (household.home / "recipes" / "hourly.xml").write_text(HOURLY)
    with household.client() as client:
        client.ask("reload")
    return "try.hourly"


@pytest.fixture(params=["scripts", "no scripts"])
def looking(request: pytest.FixtureRequest, watched: Watched) -> Any:
    """A page of somebody who has logged in."""
    return watched.page(java_script_enabled=request.param == "scripts")


def test_M57_what_is_to_be_started_is_tried_first(looking: Any, household: Household) -> None:
    looking.goto(f"{BASE}/start/show.stages")
    looking.get_by_label("Elements that it is given").fill("<go stage='1'/>")
    looking.get_by_role("button", name="What would it do?").click()
    looking.get_by_role("heading", name="What would change").wait_for()
    looking.get_by_text('<go stage="1"/>', exact=True).first.wait_for()
    looking.get_by_text("Try it otherwise").click()
    looking.get_by_label("Until when").fill("a while")
    looking.get_by_role("button", name="Simulate").click()
    looking.locator(".problem").wait_for()
    assert looking.get_by_label("A definition, by its name").input_value() == "show.stages"
    assert "<go stage" in looking.get_by_label("lements that it is given").input_value()
    looking.get_by_label("Until when").fill("2h")
    looking.get_by_role("button", name="Simulate").click()
    looking.get_by_text("show.stages starts").wait_for()
    assert household.data("runs", "--name", "show.stages") == []


def test_M42_a_definition_is_explored_from_its_page(looking: Any) -> None:
    looking.goto(f"{BASE}/definitions/show.stages")
    explore = looking.get_by_role("button", name="Explore")
    if explore.count():  # its findings are kept: the second time they are there
        explore.click()
    looking.get_by_text("nobody handles errors of first, second, last").first.wait_for()
    looking.get_by_text("How it comes to that").first.click()
    looking.get_by_text("action talk.nothing of first ends in an error").first.wait_for()


def test_a_trial_on_the_past_is_followed_and_ended(looking: Any, slow: str) -> None:
    looking.goto(f"{BASE}/definitions/{slow}")
    looking.get_by_label("Since").fill("a while")
    looking.get_by_role("button", name="Try it").click()
    looking.get_by_text("expected a duration such as 90d").wait_for()
    assert looking.get_by_label("Since").input_value() == "a while"
    looking.get_by_label("Since").fill("90d")
    looking.get_by_role("button", name="Try it").click()
    looking.get_by_role("heading", name=f"{slow} on the past").wait_for()
    progress = looking.get_by_text("arrivals played, up to")
    if looking.evaluate("document.body.dataset.stream === undefined"):  # nobody follows without scripts
        while not progress.count():
            looking.reload()
    progress.wait_for()
    if looking.locator("body[data-stream]").count():
        before = progress.inner_text()
        looking.wait_for_function(
            "before => document.querySelector('.progress').innerText.trim() !== before.trim()", arg=before
        )
    looking.get_by_role("button", name="End it").click()
    looking.get_by_text("Ended before its time: ann ended it").wait_for()
    looking.get_by_role("heading", name="What it would have done").wait_for()
    assert looking.get_by_role("button", name="End it").count() == 0
