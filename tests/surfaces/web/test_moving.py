"""A run moves to the version that is loaded, and back, by its page (issue 42)."""

from __future__ import annotations

import re

import pytest

from tests.surfaces.web.household import BASE, PagesOfHome
from tests.surfaces.web.test_acts import fields_of, text_of

STEP = '<step id="{}" type="action" target="talk.nothing"/>'
BACK = """<transition id="back"><in idref="{}"/><out idref="end"/>
<condition use="yes"><match>returned</match></condition></transition>"""
FIRST = f"""<recipe group="move" name="lend" start_step="lent" end_step="end">
{STEP.format("lent")}{STEP.format("end")}{BACK.format("lent")}</recipe>"""
SECOND = f"""<recipe group="move" name="lend" start_step="out" end_step="end">
{STEP.format("out")}{STEP.format("end")}{STEP.format("remind")}{BACK.format("out")}
<transition id="late"><in idref="out"/><out idref="remind"/><time after="14d"/></transition>
<transition id="reminded"><in idref="remind"/><out idref="end"/></transition></recipe>"""


@pytest.fixture
def lent(pages: PagesOfHome) -> int:
    """A run that waits, and whose file is newer."""
    file = pages.home.path / "recipes" / "move.xml"
    file.write_text(FIRST)
    pages.ask("reload")
    run = pages.start("move.lend")
    file.write_text(SECOND)
    pages.ask("reload")
    return run


def test_it_is_shown_what_would_become_of_it_and_then_done_and_undone(pages: PagesOfHome, lent: int) -> None:
    pages.shows(f"/runs/{lent}", f'href="{BASE}/runs/{lent}/migrate"', "Move to the new version")
    page = pages.shows(f"/runs/{lent}/migrate", "It has no place there", 'id="graph-before"')
    assert 'id="graph-after"' in page
    assert "step lent is done, and the new version has no such step" in text_of(page)
    assert "recipes/move.xml, line 2, column 1 of the version that it follows" in text_of(page)
    assert re.search(r'<select id="name-1" name="name lent">.*<option value="out">out</option>', page)
    assert "Move to the new version</button>" not in page, "nothing can be done as long as it is refused"
    page = pages.shows(f"/runs/{lent}/migrate", "As it would be", **{"name lent": "out"})
    assert "lent as out" in text_of(page)
    assert '14 days after the steps before it have ended, it goes on with "remind".' in text_of(page)
    assert pages.ask("show", run=lent)["newer"], "a look does nothing"
    fields = {**fields_of(page), "names": "lent=out"}
    assert pages.does(f"/runs/{lent}/migrate", **fields) == f"/runs/{lent}"
    assert "newer" not in pages.ask("show", run=lent)
    page = pages.shows(f"/runs/{lent}", "Undo")
    assert "Move to the new version" not in page
    assert pages.does(f"/runs/{lent}/migrate/undo") == f"/runs/{lent}"
    assert pages.ask("show", run=lent)["newer"]
    assert "Undo" not in pages.shows(f"/runs/{lent}", "Move to the new version")
    again = pages.post(f"/runs/{lent}/migrate/undo")
    assert (again.status_code, "was taken back already" in again.text) == (400, True)


def test_both_versions_are_simulated_on_the_page(pages: PagesOfHome, lent: int) -> None:
    leads = pages.does(f"/runs/{lent}/migrate/simulate", names="lent=out", duration="30d")
    assert leads.endswith("#future-title")
    address = leads.removesuffix("#future-title")
    page = text_of(pages.shows(address))
    trial = address.rpartition("=")[2]
    assert "the page of the run shows it" in pages.get(f"/simulate/{trial}").text
    assert "something else" in pages.get(f"/runs/{lent + 1}/migrate", trial=trial).text
    assert "late: its moment has come" in page
    assert "returned" in page
    assert "move.lend is done" in page
    wrong = pages.post(f"/runs/{lent}/migrate/simulate", names="lent=out", duration="soon")
    assert wrong.status_code == 400
    assert "got 'soon'" in text_of(wrong.text)


def test_another_version_than_the_one_that_was_shown_is_not_taken(pages: PagesOfHome, lent: int) -> None:
    page = pages.get(f"/runs/{lent}/migrate", **{"name lent": "out"}).text
    (pages.home.path / "recipes" / "move.xml").write_text(SECOND.replace("14d", "15d"))
    answer = pages.post(f"/runs/{lent}/migrate", **{**fields_of(page), "names": "lent=out"})
    assert answer.status_code == 400
    assert "another version was loaded meanwhile" in answer.text
    assert pages.ask("show", run=lent)["newer"]


def test_nobody_but_operators_moves_a_run(pages: PagesOfHome, lent: int) -> None:
    assert pages.get(f"/runs/{lent}/migrate", role="reader").status_code == 403
    assert pages.post(f"/runs/{lent}/migrate", role="reader").status_code == 403
    pages.shows(f"/runs/{lent}", "the file is newer", role="reader")


def test_a_run_that_cannot_move_says_why(pages: PagesOfHome) -> None:
    run = pages.start("demo.await")
    pages.shows(f"/runs/{run}/migrate", "which is the one that is loaded")
    failed = pages.over("demo.fail")
    pages.shows(f"/runs/{failed}/migrate", "is over, or cannot be read")
