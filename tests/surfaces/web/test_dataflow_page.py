"""The page of a dataflow under way: what its operators and streams carried so far, as it goes on (T53)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.surfaces.web.household import PagesOfHome, at_work, browsing, make_show

PLAN = """
PLAN Long {
  OUTPUT: Stream out
  BODY {
    makestream2("[{\\"n\\": 1}, {\\"n\\": 2}, {\\"n\\": 3}]" : ones)
    select("n > 1", ones : out)
    print(out) ENABLE: printed
    sleep("600000") WAIT: printed
  }
}
PLAN Steps {
  BODY {
    sleep("300") ENABLE: first
    sleep("300") WAIT: first ENABLE: second
    sleep("600000") WAIT: second
  }
}
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home with dataflows that do not end."""
    home = make_show(tmp_path_factory.mktemp("flows") / "home")
    (home.path / "recipes" / "homes.plan").write_text(PLAN)
    with at_work(home), browsing(home) as pages:
        yield pages


def states_of(pages: PagesOfHome, run: int) -> list[str]:
    """The states of the operators of a run."""
    return [row["state"] for row in pages.ask("show", run=run)["operators"]]


def until_its_operators_are(pages: PagesOfHome, run: int, states: list[str]) -> None:
    """Wait for the operators of a run."""
    deadline = time.monotonic() + 60
    while states_of(pages, run) != states:
        assert time.monotonic() < deadline, states_of(pages, run)
        time.sleep(0.02)


def test_T53_the_graph_and_its_table_have_what_passed_so_far(pages: PagesOfHome) -> None:
    run = pages.start("homes.Long")
    until_its_operators_are(pages, run, ["finished", "finished", "finished", "finishing"])
    text = pages.shows(f"/runs/{run}", '<td class="nowrap" data-label="passed">3 in, 2 out</td>')
    assert '<text class="badge"' in text
    assert '>ones<tspan class="badge" dx="5">3</tspan></text>' in text
    assert '<span class="dim">(ones: 3)</span>' in text
    pages.shows(f"/runs/{run}/parts/select-1", "it is finished: 3 tuples in, 2 out")
    pages.ask("cancel", run=run)


def test_T53_M6_who_follows_hears_that_it_goes_on_and_nothing_while_it_rests(pages: PagesOfHome) -> None:
    run = pages.start("homes.Steps")
    until_its_operators_are(pages, run, ["finishing", "waiting", "waiting"])
    turn, history, states = pages.ask("changed")["turn"], pages.ask("history", run=run), list[str]()
    while states != ["finished", "finished", "finishing"]:
        news = pages.ask("changed", after=turn, wait=20)
        assert (news["runs"], news["elements"], news["lost"]) == ([run], False, False)
        turn = news["turn"]
        states = states_of(pages, run)
    assert pages.ask("history", run=run) == history, "no turn told of it"
    assert pages.ask("changed", after=turn, wait=0.8)["runs"] == []
    pages.ask("cancel", run=run)
