"""The graph of a run: any kind there is, one that a row registers, and never a state that the run denies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.kinds import KINDS
from tests.house.countdown import ROW
from tests.surfaces.web.household import BASE, PagesOfHome, at_work, browsing, make_show

COUNTDOWNS = "launch from 3 call talk.nothing\nwaits from 5 call talk.slow\n"


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PagesOfHome]:
    """The pages of a home with a kind that no page knows."""
    monkeypatch.setitem(KINDS, "countdown", ROW)
    home = make_show(tmp_path / "home")
    (home.path / "recipes" / "c.countdown").write_text(COUNTDOWNS)
    with at_work(home), browsing(home) as pages:
        yield pages


def test_M30_a_kind_that_a_row_registers_is_on_every_page(counting: PagesOfHome) -> None:
    run = counting.start("c.waits")
    counting.shows("/", "c.waits")
    counting.shows("/runs", "c.waits", "countdown-run")
    counting.shows(f"/runs/{run}", 'data-part="tick"', "talk.slow", "4 left", "tick</a></b> waits for")
    counting.shows(f"/runs/{run}/parts/tick", "tick is counting: 4 of 5 are left")
    counting.shows(f"/runs/{run}/timeline", "tick talk.slow")
    counting.shows(f"/runs/{run}/replay", 'data-part="tick"')
    counting.shows("/definitions", "c.launch", "c.countdown")
    counting.shows("/definitions/c.launch", 'data-part="tick"', "launch from 3")
    assert counting.post(f"/runs/{run}/signal", name="jump").status_code == 400
    counting.shows(counting.does(f"/runs/{run}/signal", name="skip"), "It took <b>skip</b>")
    counting.does(f"/runs/{run}/cancel", reason="enough")
    over = counting.shows(f"/runs/{run}", "cancelled")
    assert "s-active" not in over


STARTED = {
    "demo.await": ("begin", "s-done"),
    "demo.slow": ("wait", "s-active"),
    "show.calls": ("call", "s-active"),
    "order.order": ("enter", "s-waiting"),
    "guard.door": ("start", "s-waiting"),
    "show.judge": None,
}
"""Definitions of each kind, with a part that looks so while a run of it goes on."""


@pytest.mark.parametrize("name", STARTED)
def test_M30_M31_each_kind_is_drawn_and_nothing_is_at_work_in_a_run_that_is_over(
    pages: PagesOfHome, name: str
) -> None:
    run = pages.start(name)
    text = pages.shows(f"/runs/{run}", '<svg id="drawing" role="group"')
    drawn = pages.ask("drawn", run=run)
    assert set(re.findall(r'data-part="([^"]*)"', text)) == {part["id"] for part in drawn["parts"]}
    if looked := STARTED[name]:
        part, look = looked
        assert f'class="p {look}" data-part="{part}"' in text
    for part in drawn["parts"]:
        pages.shows(f"/runs/{run}/parts/{part['id']}")
        assert f'href="{BASE}/runs/{run}/parts/{part["id"]}"' in text
    for arc in drawn["arcs"]:
        assert re.search(rf'data-from="{re.escape(arc["from"])}" data-to="{re.escape(arc["to"])}"', text)
    pages.ask("cancel", run=run)
    over = pages.shows(f"/runs/{run}", "cancelled")
    assert "s-active" not in over
    assert "s-waiting" not in over
    assert "data-live" not in over  # nothing will change any more
