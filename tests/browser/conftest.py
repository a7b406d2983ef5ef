"""A real browser for the tests of this folder: one a file, and a new context for each test (M96, M97)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.finding import ADVICE, ARGUMENTS, browser_path
from tests.browser.programs import Household, log_in
from tests.browser.watching import Watched
from tests.places import ROOT

HERE = Path(__file__).parent
SHOTS = ROOT / ".shots"
"""The folder of the pictures of pages at which a test failed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser the tests of this folder are skipped; where CI is set they fail."""
    if browser_path() or os.environ.get("CI"):
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=f"no browser: {ADVICE}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests want a browser, and how to have one."""
    count = sum("no browser" in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if count:
        terminalreporter.write_line(f"{count} tests want a browser: {ADVICE}", yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Keep a picture of what a test that failed was looking at."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if call.when == "call" and report.failed and page is not None:
        SHOTS.mkdir(exist_ok=True)
        name = re.sub(r"[^\w.-]+", "-", item.name)
        try:
            page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
        except Exception as error:  # the page is gone: the test says why
            report.sections.append(("screenshot", str(error)))
        else:
            report.sections.append(("screenshot", str(SHOTS / f"{name}.png")))
    return report


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for a file: while there is one, the loop of playwright runs in this thread, and no other."""
    from playwright.sync_api import sync_playwright

    path = browser_path()
    if path is None:
        pytest.fail(f"no browser: {ADVICE}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def household(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Household]:
    """A home with its daemon and its pages at work, shared by the tests of a file."""
    made = Household(tmp_path_factory.mktemp("browser") / "home")
    try:
        made.begin_daemon()
        made.begin_web()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def session(browser: Any, household: Household) -> Any:
    """The cookies of somebody who has logged in."""
    context = browser.new_context()
    page = context.new_page()
    log_in(page, household.link)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def watched(browser: Any, household: Household, session: Any) -> Iterator[Watched]:
    """Pages of somebody who has logged in; what goes wrong in them fails the test."""
    made = Watched(browser, household.address, session)
    yield made
    made.close()
    assert made.trouble == []


@pytest.fixture
def page(watched: Watched) -> Any:
    """A page of somebody who has logged in."""
    return watched.page()
