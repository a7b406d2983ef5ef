"""The `.json` of a page is what the command prints that the page names, byte for byte (M5, M9)."""

from __future__ import annotations

import json
import re
import time

import click
import pytest

from narval.surfaces.cli import main
from narval.surfaces.http.page import PageRoute
from narval.surfaces.web.site import PAGES
from tests.surfaces.cli.command_line import narval
from tests.surfaces.web.household import PagesOfHome, data

MOVING = re.compile(r'"(memory|uptime|age)": [\d.]+|"seconds": \{[^}]*\}')


@pytest.fixture(scope="module")
def samples(pages: PagesOfHome) -> dict[str, str]:
    """Runs and elements by what stands for them in the table below."""
    pages.over("demo.fail")
    numbers = {
        "fail": pages.over("demo.fail"),
        "wait": pages.start("demo.await"),
        "calls": pages.start("show.calls"),
        "order": pages.start("order.order"),
        "door": pages.start("guard.door"),
        "item": pages.start("show.judge"),
        "letter": pages.add("<letter to='ann'>Ä &amp; é</letter>"),
    }
    while len(pages.ask("status")["calls"]) > 1 or not waits_for_signal(pages, numbers["door"]):
        time.sleep(0.01)  # nothing moves between the look of a page and that of a command
    (incident,) = (row for row in pages.ask("incidents") if row["definition"] == "demo.fail")
    version = pages.ask("versions", name="show.stages", kind="recipe")[0]["digest"]
    return {name: str(number) for name, number in numbers.items()} | {
        "incident": incident["incident"],
        "version": version,
    }


def waits_for_signal(pages: PagesOfHome, run: int) -> bool:
    """True once the program of an automaton has ended, and the state waits."""
    return [one["for"] for one in pages.ask("why", run=run)["waiting"]] == ["signal"]


SAME = {
    "/": "status",
    "/runs": "runs --limit 50",
    "/runs?phase=failed&name=demo.fail": "runs --limit 50 --state failed --name demo.fail",
    "/runs?waiting_for=element": "runs --limit 50 --waiting-for element",
    "/runs?error=ValueError&text=nobody": "runs --limit 50 --error ValueError --text nobody",
    "/runs/{fail}": "show {fail}",
    "/runs/{door}": "show {door}",
    "/runs/{order}/cancel": "show {order}",
    "/runs/{wait}/parts/answered": "part {wait} answered",
    "/runs/{wait}/parts/begin>answered": "part {wait} begin>answered",
    "/runs/{calls}/timeline": "timeline {calls}",
    "/runs/{fail}/story": "history {fail} --story --limit 50",
    "/runs/{fail}/history": "history {fail} --limit 100",
    "/runs/{wait}/replay": "history {wait} --replay",
    "/runs/{order}/tokens": "tokens {order}",
    "/memory": "memory --limit 50",
    "/memory?xpath=letter[@to='ann']&current=yes": "memory --limit 50 --current letter[@to='ann']",
    "/memory/{letter}": "element {letter}",
    "/definitions": "definitions",
    "/definitions/show.stages?kind=recipe": "definitions show.stages",
    "/proposals": "proposals",
    "/calendar": "calendar",
    "/calendar?start=2026-03-01&end=2026-03-08": "calendar --from 2026-03-01 --to 2026-03-08",
    "/runs/{fail}/retry": "retry {fail} --dry",
    "/errors": "errors",
    "/errors?all=yes": "errors --all",
    "/errors/{incident}": "errors show {incident}",
    "/work": "work --as ann",
    "/work?view=all": "work --all --as ann",
    "/work/{item}": "work show {item} --as ann",
}
"""The addresses of pages, and the commands that say the same."""


@pytest.mark.parametrize("address", SAME)
def test_M5_json_of_a_page_is_that_of_the_command(
    pages: PagesOfHome, samples: dict[str, str], address: str
) -> None:
    path, _, query = address.format(**samples).partition("?")
    shown = pages.get(f"{path}.json", **dict(pair.split("=", 1) for pair in query.split("&") if pair))
    command = [word.format(**samples) for word in SAME[address].split(" ")]
    said = narval(pages.home.path, *command, "--json")
    assert (shown.status_code, same(shown.content.decode())) == (200, same(said.stdout)), said.stderr


def same(text: str) -> str:
    """A text without what changes from one look to the next: ages, times that go on, and memory used."""
    return MOVING.sub("", text)


def test_M5_json_of_the_log_is_the_lines_of_the_command(pages: PagesOfHome) -> None:
    shown = pages.get("/log.json")
    assert data(shown) == json.loads(narval(pages.home.path, "log", "--json").stdout) != []


@pytest.mark.parametrize("route", [route for route in PAGES if route.command], ids=lambda route: route.name)
def test_M5_the_command_that_a_page_names_is_one(route: PageRoute) -> None:
    command: click.Command = main
    words = re.sub(r"\{\w+\}", "1", route.command).split()[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, found, words = command.resolve_command(click.Context(command), words)
        assert found is not None
        command = found
    assert command.make_context("narval", words, resilient_parsing=True).args == []


def test_M12_pages_name_a_command_where_one_says_the_same() -> None:
    without = [route.name for route in PAGES if not route.is_act and not route.command]
    assert without == ["many_runs", "bulk_page", "search_page"]  # a command acts on one run
