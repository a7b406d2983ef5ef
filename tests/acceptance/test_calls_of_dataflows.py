"""Dataflows called by recipes, on a date too, and recipes woken by what dataflows found (T46, T47, T60)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.home import Narval, make, until
from tests.local_site import LocalSite, local_site
from tests.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "dataflows.md").read_text(encoding="utf-8")


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as made:
        yield made


def shown(title: str) -> str:
    """The text of a file that the page shows."""
    found = re.search(rf"^```\w* title={re.escape(title)}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def home(folder: Path, site: LocalSite) -> Narval:
    return make(folder / "home", settings=f'fetch_allow = ["{site.place}"]\n')


def test_T18_T22_T46_a_recipe_runs_a_dataflow_on_a_date_and_another_hears_what_it_found(
    tmp_path: Path, site: LocalSite
) -> None:
    narval = home(tmp_path, site)
    assert narval("take", "examples/spider").returncode == 0
    recipe = shown("recipes/morning.xml")
    for asked, given in (
        ("https://www.example.org/", f"{site.url}/"),
        ('hours="7" minutes="0" seconds="0"', 'seconds="0-59"'),
    ):
        assert asked in recipe
        recipe = recipe.replace(asked, given)
    narval.write("recipes/morning.xml", recipe)
    narval.write("recipes/heard.xml", shown("recipes/heard.xml"))
    site.put("/", "<title>News</title><body>one</body>", "<title>News</title><body>two</body>")
    assert narval("check").returncode == 0, narval("check").stdout
    with narval.running():
        narval("start", "morning.look")
        narval("start", "heard.tell")
        until(
            lambda: narval("memory", "note[contains(., 'changed')]").returncode == 0,
            "the change is heard of",
        )
        runs = narval.ask("runs", "--name", "spider.Spider")
        assert runs[0]["parent"]["step"] == "look"
        first = narval.ask("memory", "note")[-1]
        assert f"new: {site.url}/ (News)" in first["xml"]


COUNTS = """
PLAN Count {
  INPUT: TupleStream order, Number least
  OUTPUT: TupleStream total, TupleStream large
  BODY {
    aggregate("amount", "sum", order : sum)
    formatrelation(sum, "sum" : total)
    sprintf("amount >= %s", (least) : condition)
    select(condition, order : large)
  }
}
"""
COUNTING = """
<recipe group="w" name="count" start_step="sum" end_step="shown">
  <step id="sum" type="dataflow" target="orders.Count">
    <arguments><value name="least">20</value></arguments>
  </step>
  <transition id="t"><in idref="sum"/><out idref="shown"/>
    <condition as="total" use="yes">
    <match>relation[@name='total']/tuple[number(sum) &gt; 30]</match></condition>
  </transition>
  <step id="shown" type="action" target="basic.nothing"/>
</recipe>
"""


def test_T4_a_step_gives_elements_to_a_dataflow_and_gets_its_outputs(tmp_path: Path, site: LocalSite) -> None:
    narval = home(tmp_path, site)
    narval.write("recipes/orders.plan", COUNTS)
    narval.write("recipes/w.xml", COUNTING)
    assert narval("check").returncode == 0, narval("check").stdout
    with narval.running():
        large = narval.write("large.xml", "<order><amount type='Number'>30</amount></order>")
        small = narval.write("small.xml", "<order><amount type='Number'>12</amount></order>")
        run = narval("start", "w.count", large, small, "--wait")
        assert run.returncode == 0, run.stderr
        found = {one["xml"] for one in narval.ask("memory", "relation")}
        assert any('name="total"' in xml and ">42<" in xml for xml in found), found
        assert any('name="large"' in xml and ">30<" in xml and "12" not in xml for xml in found), found
