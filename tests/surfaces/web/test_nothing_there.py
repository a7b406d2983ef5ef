"""What pages say where there is nothing: no row, no such thing, no daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.errors import SilentError
from narval.files.home import Home
from narval.surfaces.control.async_client import AsyncClient
from tests.ask.test_figures import TELLS
from tests.surfaces.cli.command_line import make_home
from tests.surfaces.web.household import BASE, OTHERS, PagesOfHome, at_work, browsing, data

EMPTY = {
    "/": ("Nothing needs attention.", "Nothing waits for a moment."),
    "/runs": ("A run is one execution of a definition.", "Put a file into the folder", "/proposals#examples"),
    "/runs/gantt": ("No run was under way in that time.",),
    "/runs?waiting_for=person": ("No run that is under way fits this filter.",),
    "/runs?phase=failed": ("No run that is over fits this filter.", 'href="/a/narval/runs">Show all'),
    "/memory?xpath=whale": ("No element fits this.", 'href="/a/narval/memory">Look at all of memory'),
    "/errors": ("There are no open errors.", "/errors?all=yes"),
    "/errors?all=yes": ("Nothing has failed that is still known.",),
    "/work": ("Nothing is asked of you.", "/work?view=all"),
    "/work?view=refused": ("There is no such item.", 'href="/a/narval/work"'),
    "/calendar": ("No moment is set in these days.", "Look further"),
    "/log?text=whale": ("left out by this filter.", 'href="/a/narval/log">Show all'),
    "/definitions?name=whale": ("left out by this filter.", 'href="/a/narval/definitions">Show all'),
    "/definitions/demo.slow": ("It has no run.", "Nothing of it waits for a moment."),
    "/tasks": ("There is no task type",),
    "/tasks/at-work": ("No task is at work.", 'href="/a/narval/tasks"'),
    "/tasks/cases": ("No case is under way.", "kind=task-case"),
    "/tasks/cases?state=held": ("No case is held.", 'href="/a/narval/tasks/cases">Show all'),
    "/tasks/events": ("No event waits.",),
    "/tasks/log": ("Nothing is logged",),
    "/proposals": ("There is no proposal.", "This takes a language model", 'href="#examples">begin from'),
    "/letters": ("No letter waits",),
    "/letters?dead=yes": ("There is no dead letter.",),
    "/hooks": ("There is no webhook", "etc/narval.toml"),
    "/remembered": ("No dataflow remembers anything",),
    "/search": ("Type the number of a run or an element",),
}


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home in which nothing has happened."""
    home = Home(make_home(tmp_path_factory.mktemp("empty") / "home"))
    (home.path / "etc" / "people.toml").write_text(OTHERS["etc/people.toml"])
    with at_work(home), browsing(home) as pages:
        yield pages


@pytest.mark.parametrize("address", EMPTY)
def test_M10_what_is_empty_says_why(nothing: PagesOfHome, address: str) -> None:
    path, _, query = address.partition("?")
    nothing.shows(path, *EMPTY[address], **dict([query.split("=")] if query else []))


def test_M10_a_memory_without_elements_says_what_an_element_is(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "people.toml").write_text(OTHERS["etc/people.toml"])
    home = Home(tmp_path)
    with at_work(home), browsing(home) as pages:
        pages.shows("/memory", "Memory is empty.", f'href="{BASE}/memory/add">Add one', "narval add")
        assert "/memory/add" not in pages.shows("/memory", "Memory is empty.", role="reader")


GONE = {
    "/runs/987654": "there is no run 987654",
    "/runs/987654/story": "there is no run 987654",
    "/runs/987654/history": "there is no run 987654",
    "/runs/987654/parts/a": "there is no run 987654",
    "/runs/987654/timeline": "there is no run 987654",
    "/runs/987654/replay": "there is no run 987654",
    "/runs/987654/cancel": "there is no run 987654",
    "/memory/987654": "there is no element 987654",
    "/definitions/no.such": "there is no definition",
    "/definitions/no.such/diff": "there is no definition",
    "/errors/00000000": "there is no incident",
    "/tasks/objects/987654": "987654 is not in memory",
    "/tasks/types/no.such": "there is no task type",
    "/work/987654": "there is no item 987654",
    "/nonsense": "There is no such page.",
}


def test_a_home_in_which_nothing_has_run_leads_to_what_comes_next(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    (home.path / "etc").mkdir(parents=True)
    (home.path / "etc" / "people.toml").write_text(OTHERS["etc/people.toml"])
    leads = ("<code>recipes/</code>", f'href="{BASE}/proposals"', f'href="{BASE}/proposals#examples"')
    with at_work(home), browsing(home) as pages:
        pages.shows("/", "Nothing has run here yet.", *leads)
        assert "left out" not in pages.shows("/definitions", "No definition is loaded yet.", *leads)
        pages.shows("/proposals", 'id="examples"')


def test_a_home_in_which_only_failures_are_told_has_run_something(tmp_path: Path) -> None:
    home = Home(make_home(tmp_path / "home"))
    (home.path / "etc" / "people.toml").write_text(OTHERS["etc/people.toml"])
    (home.path / "recipes" / "notify.xml").write_text(TELLS)
    with at_work(home), browsing(home) as pages:
        pages.start("notify.failures")
        assert "Nothing has run here" not in pages.shows("/runs", "No run is over yet.")


@pytest.mark.parametrize("path", GONE)
def test_M8_what_is_not_there_is_told_with_404(nothing: PagesOfHome, path: str) -> None:
    answer = nothing.get(path)
    assert (answer.status_code, GONE[path] in answer.text) == (404, True), answer.text
    assert answer.text.rstrip().endswith("</html>")
    told = nothing.get(f"{path}.json")
    assert (told.status_code, GONE[path] in data(told)["error"]) == (404, True)


def test_M8_an_agent_that_is_not_there_is_told_too(nothing: PagesOfHome) -> None:
    answer = nothing.get("//a/nobody/runs")
    assert (answer.status_code, "nobody" in answer.text) == (404, True)


def test_M4_without_a_daemon_pages_say_how_to_start_it(tmp_path: Path) -> None:
    home = Home(make_home(tmp_path / "home"))
    with browsing(home) as pages:
        for path in ("/", "/runs", "/runs/7", "/memory", "/definitions", "/errors", "/work", "/log"):
            answer = pages.get(path)
            assert answer.status_code == 503
            assert "No daemon at work" in answer.text
            assert f"start it: narval --home {home.path} run" in answer.text
            assert "no daemon" in data(pages.get(f"{path}.json"))["error"]
        assert pages.post("/runs/7/cancel").status_code == 503


def test_M4_a_page_of_a_daemon_that_is_silent_says_so_and_is_not_loaded_again_by_itself(
    nothing: PagesOfHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    async def silent(_: AsyncClient, method: str, /, **params: object) -> None:
        asked.append(method)
        raise SilentError("the daemon has not answered for 60 seconds")

    monkeypatch.setattr(AsyncClient, "ask", silent)
    answer = nothing.get("/memory")
    assert (answer.status_code, len(asked)) == (504, 1)  # the frame of the page does not wait as long again
    assert "Not answered" in answer.text
    assert "the daemon has not answered for 60 seconds" in answer.text
    for word in ("http-equiv", "No daemon", "narval run", "/kept"):
        assert word not in answer.text


def test_M4_pages_go_on_with_a_daemon_that_is_back(tmp_path: Path) -> None:
    home = Home(make_home(tmp_path / "home"))
    with browsing(home) as pages:
        for _ in range(2):
            with at_work(home):
                pages.shows("/", "Nothing needs attention.")
            assert pages.get("/").status_code == 503
