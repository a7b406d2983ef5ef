"""A run of a thousand parts: its page stays small, and its table is a page of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.surfaces.web.household import BASE, PagesOfHome, at_work, browsing, make_show

STEPS = 500


def large() -> str:
    steps = "".join(f'<step id="s{n}" type="action" target="talk.nothing"/>' for n in range(STEPS))
    ways = "".join(
        f'<transition id="t{n}"><in idref="s{(n - 1) // 2}"/><out idref="s{n}"/></transition>'
        for n in range(1, STEPS)
    )
    return f'<recipe group="large" name="tree" start_step="s0" end_step="s{STEPS - 1}">{steps}{ways}</recipe>'


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    home = make_show(tmp_path_factory.mktemp("large") / "home")
    (home.path / "recipes" / "large.xml").write_text(large())
    with at_work(home), browsing(home) as pages:
        yield pages


@pytest.mark.skipif(shutil.which("dot") is None, reason="without Graphviz the table is the page")
def test_M84_the_page_of_a_thousand_parts_is_small(pages: PagesOfHome) -> None:
    run = pages.over("large.tree")
    shown = pages.shows(f"/runs/{run}", 'id="drawing"', 'href="?as=table">As a table</a>')
    assert shown.count("data-part=") == 2 * STEPS - 1
    assert len(shown.encode()) <= 500_000
    assert f'<td><a href="{BASE}/runs/{run}/parts/s7">' not in shown


@pytest.mark.skipif(shutil.which("dot") is None, reason="without Graphviz the table is the page")
def test_M90_the_table_of_a_large_graph_is_a_link_away(pages: PagesOfHome) -> None:
    run = pages.start("large.tree")
    for path, query in (
        (f"/runs/{run}", {}),
        (f"/runs/{run}/replay", {"at": pages.ask("history", run=run)[-1]["seq"]}),
        ("/definitions/large.tree", {"kind": "recipe"}),
    ):
        asked = "&amp;".join(f"{name}={value}" for name, value in query.items())
        table = pages.shows(path, f'href="?{asked}">As a graph</a>', ">s499<", **query, **{"as": "table"})
        assert 'id="drawing"' not in table
