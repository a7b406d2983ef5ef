"""An act of a page is shown with the person, the way and the session, where it is recorded (M67)."""

from __future__ import annotations

import re
from typing import Any

from tests.surfaces.web.household import PagesOfHome

HOW = ("by=ann", "way=web", "session=1")


def lines(pages: PagesOfHome, run: int, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pages.get(f"/runs/{run}/history.json").json()
    return [line for line in found if line["what"] == what]


def test_M67_the_history_of_a_run_has_each_act_with_its_session(pages: PagesOfHome) -> None:
    run = int(pages.does("/start/order.order").rpartition("/")[2])
    (token,) = re.findall(r"/tokens/(\d+)/complete", pages.shows(f"/runs/{run}/tokens"))
    pages.does(f"/runs/{run}/tokens/{token}/complete", arcs="")
    pages.does(f"/runs/{run}/tokens/{token}/backtrack")
    pages.does(f"/runs/{run}/environment", name="colour", value="blue")
    pages.does(f"/runs/{run}/cancel", reason="not wanted")
    pages.shows(f"/runs/{run}/history", *HOW)
    acts = [line for what in ("Started", "Signalled", "Cancelled") for line in lines(pages, run, what)]
    assert len(acts) == 5
    assert {(line["by"], line["way"], line["session"]) for line in acts} == {("ann", "web", "1")}
    pages.shows(f"/runs/{run}", "cancelled by ann (web, session 1): not wanted")
    pages.shows(f"/runs/{run}/replay", "cancelled by ann (web, session 1): not wanted")


def test_M67_a_signal_and_a_retry_too(pages: PagesOfHome) -> None:
    door = pages.start("guard.door")
    pages.post(f"/runs/{door}/signal", name="open", arguments="", xml="")
    failed = pages.over("demo.fail")
    again = int(pages.does(f"/runs/{failed}/retry", step="").rpartition("/")[2])
    for run, what in ((door, "Signalled"), (again, "Started")):
        pages.shows(f"/runs/{run}/history", *HOW)
        assert [line["session"] for line in lines(pages, run, what)] == ["1"]


def test_M67_elements_that_were_added_or_tell_of_an_act_have_it_in_their_origin(pages: PagesOfHome) -> None:
    leads = pages.does("/memory/add", xml="<letter to='ann'>Hello</letter>")
    pages.shows(leads, "by ann (web, session 1)")
    letter = int(leads.rpartition("/")[2])
    pages.does(f"/memory/{letter}/outdate", reason="no longer so")
    (note,) = pages.get("/memory.json", xpath=f"outdated[@elements='{letter}']").json()
    assert (note["origin"]["way"], note["origin"]["session"]) == ("web", "1")
    pages.over("demo.fail")
    row = next(row for row in pages.ask("incidents") if row["definition"] == "demo.fail")
    pages.does(f"/errors/{row['incident']}/acknowledge", reason="known")
    pages.shows(f"/errors/{row['incident']}", "by ann (web, session 1)", "known")
