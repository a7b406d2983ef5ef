"""The pages that try something out: what would happen is told, and nothing does (M39, M42, M57)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.errors import RequestError
from narval.surfaces.cli.daemon.serving import SCARCE
from narval.surfaces.web.site import PAGES
from tests.surfaces.http.doors import Door
from tests.surfaces.web.household import BASE, PagesOfHome, at_work, browsing, data, make_show

SCENARIO = """\
<scenario at='2026-03-01T08:00' until='2h' memory='empty'>
  <arrive at='+5m'><go stage='1'/></arrive>
  <start recipe='show.stages'/>
  <expect><run recipe='show.stages' phase='done'/></expect>
  <expect><element match='whale'/></expect>
</scenario>
"""


IMPOSSIBLE = """\
<cookbook group="trip">
  <recipe group="trip" name="plan" start_step="ask" end_step="leave">
    <step id="ask" type="action" target="talk.nothing"/>
    <step id="train" type="action" target="talk.nothing"/>
    <step id="plane" type="action" target="talk.nothing"/>
    <step id="leave" type="action" target="talk.nothing"/>
    <transition id="near"><in idref="ask"/><out idref="train"/>
      <condition><match>town[@near]</match></condition></transition>
    <transition id="far"><in idref="ask"/><out idref="plane"/></transition>
    <transition id="booked"><in idref="train"/><in idref="plane"/><out idref="leave"/></transition>
  </recipe>
  <recipe group="trip" name="short" start_step="a" end_step="a" decay="3600">
    <step id="a" type="action" target="talk.nothing"/>
  </recipe>
</cookbook>
"""


STANDING = """\
TASK TYPE errand
  INVOCATION: AUTO
  INITIAL going
  STATE going EXPOSED
    ON EVENT done GOTO COMMIT
"""
"""A task type, whose run is there as long as its file is."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home with a recipe that can never be done, a task type, and a scenario."""
    home = make_show(tmp_path_factory.mktemp("trials") / "home")
    (home.path / "recipes" / "trip.xml").write_text(IMPOSSIBLE)
    (home.path / "recipes" / "trip.task").write_text(STANDING)
    (home.path / "scenarios").mkdir()
    (home.path / "scenarios" / "stages.xml").write_text(SCENARIO)
    with at_work(home), browsing(home) as pages:
        yield pages


def simulated(pages: PagesOfHome, **fields: object) -> str:
    """The address of the result of a simulation."""
    leads = pages.does("/simulate", **fields)
    assert re.fullmatch(r"/simulate/[0-9a-f]{16}", leads)
    return leads


def test_M57_results_and_findings_outlive_the_daemon(tmp_path: Path) -> None:
    home = make_show(tmp_path / "home")
    with browsing(home) as pages:
        with at_work(home):
            result = simulated(pages, definition="show.stages", duration="1h")
            pages.does("/definitions/show.stages/explore", kind="recipe")
        with at_work(home):
            pages.shows(result, "What would change")
            pages.shows("/definitions/show.stages", "looked at in")


class TestSimulation:
    def test_M57_a_definition_is_simulated_and_nothing_happens(self, pages: PagesOfHome) -> None:
        pages.start("demo.await")  # what goes on in the home is none of it
        pages.shows("/simulate", 'value="show.stages"', "which is not saved", definition="show.stages")
        result = simulated(
            pages, definition="show.stages", xml="<go stage='1'/>", start="2026-03-01T08:00", duration="1h"
        )
        text = pages.shows(result, "What would change", "The story", "1 run of show.stages", "2026-03-01")
        assert "&lt;go stage=&#34;1&#34;/&gt;" in text
        assert "show.stages starts" in text
        assert pages.ask("runs", name="show.stages", limit=5) == []
        assert pages.get("/memory.json", xpath="go").json() == []
        report = data(pages.get(f"{result}.json"))
        assert report["changes"]["runs"] == [{"name": "show.stages", "phase": "done", "count": 1}]

    @pytest.mark.parametrize(
        "given", [{"scenario": SCENARIO}, {"name": "stages"}], ids=["pasted", "of the home"]
    )
    def test_M57_a_scenario_is_played(self, pages: PagesOfHome, given: dict[str, str]) -> None:
        pages.shows("/simulate", '<option value="stages">stages</option>')
        text = pages.shows(simulated(pages, **given), "did not go well", "an empty memory", "Expected")
        assert re.search(r'class="met">.*show\.stages', text)
        assert re.search(r'class="unmet">.*whale.*line 5', text)

    def test_M57_runs_that_are_forgotten_by_the_end_are_told_too(self, pages: PagesOfHome) -> None:
        result = simulated(pages, definition="trip.short", duration="2d")
        pages.shows(result, "1 run of trip.short", "1 run forgotten")

    def test_M57_an_edited_text_is_played_and_never_saved(self, pages: PagesOfHome) -> None:
        file = pages.home.path / "recipes" / "show.xml"
        before = file.read_text()
        edited = before.replace("go[@stage='1']", "go[@stage='9']").replace("\n", "\r\n")
        result = simulated(
            pages,
            definition="show.stages",
            xml="<go stage='9'/>",
            duration="1h",
            edits="show.stages",
            edited=edited,
        )
        pages.shows(result, "with another text of <code>recipes/show.xml</code>", "show.stages", "done")
        assert data(pages.get(f"{result}.json"))["changes"]["runs"][0]["phase"] == "done"
        assert file.read_text() == before
        same = simulated(pages, definition="show.stages", duration="1h", edits="show.stages", edited=before)
        assert "with another text" not in pages.shows(same)

    def test_M57_what_is_wrong_is_said_and_the_form_keeps_what_was_typed(self, pages: PagesOfHome) -> None:
        answer = pages.post("/simulate", definition="show.stage", xml="<go stage='1'/>", duration="1h")
        assert answer.status_code == 400
        assert "did you mean show.stages" in answer.text
        assert 'aria-current="page">Definitions</a>' in answer.text
        assert "&lt;go stage=&#39;1&#39;/&gt;" in answer.text
        assert 'name="duration" value="1h"' in answer.text
        assert "expected a definition or a scenario" in pages.post("/simulate").text
        wrong = pages.post("/simulate", scenario="<scenario><start/></scenario>")
        assert (wrong.status_code, "scenario.xml:1:" in wrong.text) == (400, True)
        assert "narval-trial-" not in wrong.text
        assert "there is no scenario" in pages.post("/simulate", name="../../etc/x").text
        wrong = pages.post("/simulate", definition="show.stages", start="soon")
        assert ">expected a date, such as 2026-11-21" in wrong.text, "it names no option of a command"

    def test_M57_a_result_is_for_who_asked_and_for_operators_alone(self, pages: PagesOfHome) -> None:
        result = simulated(pages, definition="show.stages", duration="1h")
        assert pages.get(result, "reader").status_code == 403
        assert pages.post("/simulate", "reader", definition="show.stages").status_code == 403
        assert pages.get("/simulate/0123456789abcdef").status_code == 404
        with pytest.raises(RequestError, match="there is no result"):
            pages.ask("trial", trial="../sessions")

    def test_M39_starting_shows_first_what_it_would_do(self, pages: PagesOfHome) -> None:
        text = pages.shows("/start/show.stages")
        assert f'name="definition" value="show.stages" formaction="{BASE}/simulate"' in text
        letter = pages.add("<go stage='1'/>")
        result = simulated(
            pages, definition="show.stages", elements=letter, xml="", environment="", duration="1h"
        )
        assert data(pages.get(f"{result}.json"))["changes"]["runs"][0]["phase"] == "done"


def test_M74_a_session_has_twenty_an_hour(tmp_path: Path) -> None:
    door = Door(tmp_path, scarce=SCARCE)
    browser = door.login()
    for path, most in (("/a/narval/simulate", 20), ("/a/narval/definitions/x/explore", 20)):
        answers = [browser.post(path, data={"token": door.token}) for _ in range(most + 1)]
        assert [answer.status_code for answer in answers] == [503] * most + [429]
        assert answers[-1].headers["retry-after"] == "3600"
    for name in SCARCE:
        assert [route for route in PAGES if route.is_act and route.path.endswith(f"/{name}")]


class TestExploration:
    def test_M42_what_cannot_be_stands_in_the_list_the_graph_and_the_source(self, pages: PagesOfHome) -> None:
        where = "/definitions/trip.plan"
        assert ">Explore<" not in pages.shows(where, "has not been explored yet", role="reader")
        pages.shows(where, "has not been explored yet", ">Explore</button>", kind="recipe")
        assert pages.does(f"{where}/explore", kind="recipe") == f"{where}?kind=recipe"
        text = pages.shows(where, "can never run", "How it comes to that", "recipes/trip.xml:6:")
        assert re.search(r'<span class="gone"> *\^ error: step &#39;leave&#39; can never run', text)
        assert "cannot be" in text
        assert re.search(r"<td>leave</td><td><span class=\"state s-failed\">cannot be", text)
        assert ">Explore</button>" not in text

    def test_M42_where_nothing_is_found_that_is_said(self, pages: PagesOfHome) -> None:
        kind = data(pages.get("/definitions/order.order.json"))["kind"]
        pages.does("/definitions/order.order/explore", kind=kind)
        pages.shows("/definitions/order.order", "its graph alone was looked at")

    def test_M42_what_cannot_be_explored_says_why(self, pages: PagesOfHome) -> None:
        answer = pages.post("/definitions/trip.plan/explore", kind="nonsense")
        assert (answer.status_code, "there is no" in answer.text) == (404, True)
