"""A task for people is moved on the page of its item (K49, P50)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.surfaces.web.household import PagesOfHome, at_work, browsing, make_show

DESK = """TASK TYPE ticket
  USERS: ann
  INITIAL new
  STATE new EXPOSED
    ON EVENT taken GOTO checking
  STATE checking EXPOSED
    ON EVENT solved GOTO COMMIT
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home that has a desk."""
    home = make_show(tmp_path_factory.mktemp("web") / "home")
    (home.path / "recipes/desk.task").write_text(DESK)
    with at_work(home), browsing(home) as pages:
        yield pages


def test_K49_a_button_moves_the_task_and_what_may_not_follow_is_told(pages: PagesOfHome) -> None:
    pages.ask("task_put", name="desk.ticket", elements=[b"<ticket/>"])
    rows: list[dict[str, object]] = []
    while not (rows and rows[0]["item"]):
        rows = pages.ask("tasks")
    item = rows[0]["item"]
    pages.shows(f"/work/{item}", "It is in new.", 'value="checking"')
    assert pages.does(f"/work/{item}/move", state="checking") == f"/work/{item}"
    text = pages.shows(f"/work/{item}", "ann has it", "ann moves the task to checking.")
    assert "Move it to" not in text
    again = pages.post(f"/work/{item}/move", state="new")
    assert again.status_code == 409
    assert "the task is moved to no other state now: it is in checking" in again.text
    pages.does(f"/work/{item}/answer", outcome="commit")
