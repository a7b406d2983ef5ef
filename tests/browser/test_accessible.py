"""Every page for everyone: axe, in both colour schemes, narrow and wide, with data (M90)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from narval.surfaces.http.page import PageRoute
from narval.surfaces.web.site import PAGES
from tests.browser.programs import Household
from tests.browser.watching import Watched
from tests.surfaces.web.queues import add_queues
from tests.surfaces.web.test_moving import FIRST, SECOND

LOOKS = [route for route in PAGES if not route.is_act]

COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules that another colour scheme can break."""

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECKS: tuple[tuple[int, str, dict[str, object]], ...] = (
    (320, "light", {"runOnly": TAGS}),
    (320, "dark", {"runOnly": COLOURS}),
    (1280, "light", {"runOnly": TAGS}),
    (1280, "dark", {"runOnly": COLOURS}),
)
"""The widths and the colour schemes that a page is checked in, and what for."""


Samples = dict[str, dict[str, str]]

PROPOSED = """<recipe group="mine" name="rest" start_step="s" end_step="s">
<step id="s" type="action" target="basic.nothing"/></recipe>"""


EDITED = """<recipe group="edited" name="one" start_step="s" end_step="s">
  <step id="s" type="action" target="talk.nothing"/>
</recipe>
"""


@pytest.fixture(scope="module")
def watched(browser: Any, household: Household, session: Any) -> Iterator[Watched]:
    """Pages of somebody who has logged in; what goes wrong in them fails the test."""
    made = Watched(browser, household.address, session)
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(watched: Watched) -> Any:
    """A page that goes from one address to the next: a context for each would cost as much as a look."""
    return watched.page()


@pytest.fixture(scope="module")
def samples(household: Household) -> Samples:
    """A value of each parameter of a path, under ""; others for a page that wants them, under its name."""
    run, process = household.start("show.still"), household.start("order.order")
    item = household.start("show.judge")
    recipe = household.home / "recipes" / "move.xml"
    with household.client() as client:
        recipe.write_text(FIRST)
        client.ask("reload")
        moved = household.start("move.lend")
        recipe.write_text(SECOND)
        client.ask("reload")
        (household.home / "recipes" / "edited.xml").write_text(EDITED)
        client.ask("reload")
    with household.client() as client:  # who runs the tests owns the home
        digest = client.ask("edit", name="edited.one")["digest"]
        client.ask("save_edit", name="edited.one", text=f"<!-- anew -->\n{EDITED}", digest=digest)
    add_queues(household.home)
    with household.client() as client:
        client.ask("reload")
        sheets = [b"<sheet n='1'/>", b"<sheet n='2'/>"]
        object = client.ask("task_put", name="w.scan", elements=sheets)["cases"][0]["object"]
        task = client.ask("task_init", name="w.scan")["task"]
        client.ask("task_get", task=task, wait=60.0)
        client.ask("task_assert", task=task, state="reading")
        client.ask("task_raise", name="w.scan", event="ev.never")
        client.ask("start", name="flats.Watch", wait=True)
    element = household.add("<letter to='ann'>Hello</letter>")
    with household.client() as client:
        client.ask("add_agent", name="shop")
        client.ask("suspend", name="shop")
        client.ask("send", to="shop", elements=[b"<order/>"])
        failed = client.ask("start", name="demo.fail", wait=True)["eid"]
        incident = client.ask("incidents")[0]["incident"]
        version = client.ask("show", run=run)["definition"]
    with household.client("ann") as client:  # a result is shown to who asked for it
        texts = {"mine.xml": PROPOSED}
        client.ask("propose", name="mine", texts=texts, wish="do nothing")
        trial = client.ask("simulate", definition="show.still", elements=[], duration="1h")["trial"]
        job = client.ask("try_on_past", definition="show.still", since="1d")["job"]
    given = {
        "agent": "narval", "run": str(run), "item": str(item), "eid": str(element), "id": "last",
        "kind": "recipe", "name": "show.still", "incident": str(incident),
        "trial": trial, "job": job, "what": "cancel",
    }  # fmt: skip
    many = {"?": f"?run={run}&run={process}"}
    gone = {"act": "0123", "?": f"?these={run}+{process}&begins=2026-01-01T00:00:00Z"}
    others = {"many_runs": many, "bulk_page": gone, "retry_page": {"run": str(failed)}}
    others["tokens_page"] = {"run": str(process)}
    others["definition_page"] = {"name": "demo.fail"}
    others["proposal_page"] = {"name": "mine"}
    others |= {"edit_page": {"name": "edited.one"}, "example_page": {"name": "invoice"}}
    others["queue_page"] = {"name": "w.scan"}
    others["object_page"] = {"object": str(object)}
    others["remembered_items_page"] = {"name": "flats"}
    others["migrate_page"] = {"run": str(moved)}
    return {"": given, "difference_page": {"?": f"?old={version}"}, **others}


def address(route: PageRoute, samples: Samples) -> str:
    """An address of a page with samples for its parameters."""
    given = samples[""] | samples.get(route.name, {})
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda found: given[found[1]], route.path) + given.get("?", "")


ALIKE = """() => {
  const seen = {};
  for (const row of document.querySelectorAll("main tbody tr, main li")) {
    const nodes = [row.parentNode, row, ...row.querySelectorAll("*")];
    const shape = nodes.map(node => `${node.tagName} ${node.getAttribute("class")}`).join();
    seen[shape] = (seen[shape] ?? 0) + 1;
    if (seen[shape] > 4) row.remove();
  }
}"""
"""Takes rows away that are like four before them: of one template, with the same elements and classes."""

CHECK = "options => axe.run(document, options).then(found => found.violations)"


@pytest.mark.parametrize("route", LOOKS, ids=lambda route: route.name)
def test_M60_M90_axe_finds_no_violation_and_a_page_is_made_anew(
    route: PageRoute, page: Any, watched: Watched, samples: Samples
) -> None:
    watched.trouble.clear()
    answer = page.goto(address(route, samples))
    assert answer.status == 200, page.locator("main").inner_text()
    page.locator("main").wait_for()
    if page.locator("body[data-live]").count():
        page.locator("body[data-stream=open], body[data-stream=over]").wait_for()
    page.evaluate(ALIKE)
    page.evaluate(AXE_SCRIPT)
    if route.name == "log_page":  # a short one
        page.locator(".switch summary").click()
    found: list[str] = []
    for width, scheme, options in CHECKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        for broken in page.evaluate(CHECK, {**options, "resultTypes": ["violations"]}):
            nodes = "; ".join(node["html"][:160] for node in broken["nodes"][:3])
            found.append(f"{scheme} {width}: {broken['id']}: {broken['help']}: {nodes}")
    assert found == []
    assert page.locator("#banner").inner_text() == ""
    assert watched.trouble == []


def test_an_agent_is_chosen_in_the_header_of_each_page(watched: Watched, samples: Samples) -> None:
    for width in (1280, 390):
        page = watched.page(viewport={"width": width, "height": 800})
        page.goto("/a/narval/runs")
        page.locator(".switch summary").click()
        box = page.locator(".switch > div").bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        page.locator(".switch").get_by_role("link", name="shop").click()
        page.wait_for_url("**/a/shop/runs")
        page.locator(".switch summary").click()
        page.get_by_label("The name of an agent").fill("nar")
        page.keyboard.press("Enter")
        page.wait_for_url("**/a/narval/runs")
        page.goto("/")
        page.locator("[data-part=shop] rect").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.trouble == []
