"""A run whose beginning is no longer kept is replayed from where it can be shown, which is said (M34)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narval.agent import run as runs
from tests.surfaces.cli.command_line import data, well
from tests.surfaces.web.household import PagesOfHome, at_work, browsing, make_show

GONE = "its beginning is no longer kept"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home that keeps twenty entries of a run, and saves its state each ten."""
    home = make_show(tmp_path_factory.mktemp("web") / "home")
    settings: Path = home.path / "etc" / "narval.toml"
    settings.write_text(settings.read_text() + "history_entries = 20\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "SNAPSHOT_AFTER", 10)
        with at_work(home), browsing(home) as pages:
            yield pages


@pytest.fixture(scope="module")
def run(pages: PagesOfHome) -> int:
    """A run that was told much, and then came to its end."""
    run = pages.start("show.stages")
    for number in range(45):
        pages.ask("signal", run=run, name=f"s{number}")
    pages.ask("add", elements=[b"<go stage='1'/>"])
    pages.ask("wait", run=run, timeout=60)
    return run


def moved(told: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, list[Any]]:
    now = {part[0]: part[1:] for part in told["parts"]}
    for entry in entries:
        now.update({part[0]: part[1:] for part in entry["parts"]})
    return now


def test_M34_the_operation_begins_where_the_run_can_be_shown(pages: PagesOfHome, run: int) -> None:
    told = pages.ask("replay", run=run)
    entries = told["entries"]
    assert (told["whole"], told["fault"], told["more"]) == (False, None, False)
    assert told["first"] > pages.ask("history", run=run)[0]["seq"]
    assert entries[0]["seq"] > told["first"]
    assert entries[-1]["what"].endswith("The run is done.")
    for count, entry in enumerate(entries, 1):
        drawn = pages.ask("drawn", run=run, at=entry["seq"])["parts"]
        assert moved(told, entries[:count]) == {
            part["id"]: [part["state"], part["tone"], part["badge"]] for part in drawn
        }
    over = pages.ask("replay", run=run, after=entries[-1]["seq"])
    assert (over["entries"], moved(over, [])) == ([], moved(told, entries))


def test_M34_the_command_and_the_page_say_so(pages: PagesOfHome, run: int) -> None:
    assert GONE in well(pages.home.path, "history", run, "--replay").lower()
    assert data(pages.home.path, "history", run, "--replay") == pages.get(f"/runs/{run}/replay.json").json()
    text = pages.shows(f"/runs/{run}/replay", "The beginning of this run is no longer kept", ">first<")
    assert "s-done" in text
    first = pages.ask("replay", run=run)["first"]
    pages.shows(f"/runs/{run}/replay", 'data-part="first"', at=first)
    early = pages.get(f"/runs/{run}/replay", at=1)
    assert (early.status_code, "what was before is no longer kept" in early.text) == (400, True)
