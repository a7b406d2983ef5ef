"""The page of agents, and the switch in the header: who sends to whom, and the way to another agent."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from narval.surfaces.http import application
from narval.surfaces.http.page import Shown, Visit, Visitor
from narval.surfaces.web.pages.agents import agents_page
from tests.surfaces.web.household import PagesOfHome, at_work, browsing, data, make_show

MANY = [f"a{number:02}" for number in range(12)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home with many agents, of which `shop` takes nothing, for it is suspended."""
    home = make_show(tmp_path_factory.mktemp("agents") / "home")
    with at_work(home), browsing(home) as pages:
        for name in (*MANY, "shop"):
            pages.ask("add_agent", name=name)
        pages.ask("suspend", name="shop")
        for to in ("shop", "shop", "a00"):
            pages.ask("send", to=to, elements=[b"<order/>"])
        yield pages


def test_who_sends_to_whom_is_a_table_and_a_drawing(pages: PagesOfHome) -> None:
    text = pages.shows(
        "//", "Who sends to whom", ">2 wait<", "Agents that send to one another", 'data-to="shop"'
    )
    row = r'<td><a href="/a/narval/">narval</a></td><td data-label="to"><a href="/a/shop/">shop</a></td>'
    sent = r'<td class="number" data-label="sent">2</td><td class="number" data-label="taken">0</td>'
    assert re.search(row + sent, text)
    assert "Who sends to whom" not in pages.get("//", "person").text
    assert [row["name"] for row in data(pages.get("//.json"))][:2] == ["narval", "a00"]


def test_M58_what_an_agent_holds_that_is_not_in_memory_is_told_in_its_row_and_in_the_drawing(
    pages: PagesOfHome,
) -> None:
    text = pages.shows("//")
    (row,) = re.findall(r'<tr><td><a href="/a/shop/">.*?</tr>', text)
    assert '<td class="number" data-label="under way">0</td>' in row
    assert '<td class="number" data-label="elements">0</td>' in row
    if shutil.which("dot"):
        assert re.search(r">narval</text><text[^>]*>[\d,]+ elements?, \d+ runs?<", text)


@pytest.mark.parametrize(("owned", "asked"), [({}, 2), ({"owner": None, "epoch": None}, 1)])
def test_M58_what_agents_of_other_daemons_hold_is_not_counted_for_a_page(
    owned: dict[str, None], asked: int
) -> None:
    rows = [{"name": name, "state": "passive", "elements": None, **owned} for name in ("ada", "bob")]
    limits: list[int | None] = []

    async def ask(method: str, /, **params: Any) -> Any:
        assert method == "agents"
        limits.append(params.get("limit"))
        return rows

    visit: Any = SimpleNamespace(query={}, ask=ask, visitor=Visitor("", "ben", "person"))
    assert isinstance(asyncio.run(agents_page.handler(visit)), Shown)
    assert len(limits) == asked


def test_where_daemons_share_the_store_a_row_says_who_has_the_agent(
    pages: PagesOfHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "no daemon is at work at its home barn"
    of_barn = {"state": "waits", "owner": None, "why": why}

    def sharing(visitor: Visitor, ask: Any, *rest: Any, **named: Any) -> Visit:
        async def of_several(method: str, /, **params: Any) -> Any:
            answer = await ask(method, **params)
            return [{**row, **of_barn} for row in answer] if method == "agents" else answer

        return Visit(visitor, of_several, *rest, **named)

    assert "<th>owner</th>" not in pages.shows("//")
    monkeypatch.setattr(application, "Visit", sharing)
    text = pages.shows("//", "<th>owner</th>")
    assert re.search(f's-waiting">waits</span> .*{why}.*<td data-label="owner">nobody</td>', text)


def test_M13_the_status_of_a_suspended_agent_says_so_and_how_it_goes_on(pages: PagesOfHome) -> None:
    text = pages.shows("//a/shop/", ">suspended<", "as asked", "<code>narval agents resume shop</code>")
    assert "Nothing needs attention" not in text
    assert "<dt>calls under way</dt><dd>0</dd>" in text


def test_an_agent_is_found_by_its_name_or_a_part_of_it(pages: PagesOfHome) -> None:
    text = pages.shows("//", "narval agents --text a0<", text="a0")
    assert "/a/a09/" in text
    assert "/a/shop/" not in text.partition("Who sends")[0]
    assert pages.get("//", text="a00", to="/runs").headers["location"] == "/a/a00/runs"
    assert pages.get("//", text="sho").headers["location"] == "/a/shop/"
    assert pages.get("//", "person", text="sho", to="/runs").headers["location"] == "/a/shop/work"
    for elsewhere in ("//evil.example", "/../x", "http://evil.example", "/a/b"):
        assert pages.get("//", text="shop", to=elsewhere).headers["location"] == "/a/shop/"
    pages.shows("//", "No agent has “&lt;b&gt;” in its name.", text="<b>")


def test_the_header_leads_to_the_same_page_of_another_agent_and_stays_short(pages: PagesOfHome) -> None:
    text = pages.shows("/runs", '<summary aria-label="Agent narval, switch to another">narval</summary>')
    (switch,) = re.findall(r'<details class="switch">(.*?)</details>', text, re.DOTALL)
    assert re.findall(r'<li><a href="(.*?)">', switch) == [f"/a/{name}/runs" for name in MANY[:9]]
    assert 'name="to" value="/runs"' in switch
    assert 'href="/a/a00/work"' in pages.shows("/work", role="person")
    pages.shows("//a/shop/runs", "switch to another", 'href="/a/narval/runs"')


def test_M5_the_command_of_a_page_names_an_agent_that_is_not_the_homes_own(pages: PagesOfHome) -> None:
    pages.shows("//a/shop/runs?phase=done", "<code>narval runs --state done --agent shop</code>")
    pages.shows("/runs?phase=done", "<code>narval runs --state done</code>")
