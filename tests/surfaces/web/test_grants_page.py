"""The page of a definition shows what it may reach; operators grant it, and take it back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from narval.files.shipped import shipped
from tests.surfaces.web.household import PagesOfHome, at_work, browsing, make_show

SENDS = """\
<automaton group="post" name="carry"><state name="start" command="carrier --now"/></automaton>
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home that asks before a definition reaches outside."""
    home = make_show(tmp_path_factory.mktemp("grants") / "home")
    with home.settings.open("a") as settings:
        settings.write('\ngrants = "ask"\n')
    (home.path / "recipes" / "carry.xml").write_text(SENDS)
    (home.path / "recipes" / "trust.xml").write_text((shipped() / "recipes/trust.xml").read_text())
    with at_work(home), browsing(home) as pages:
        yield pages


def test_an_operator_grants_what_a_definition_needs_and_takes_it_back(pages: PagesOfHome) -> None:
    page = "/definitions/post.carry"
    pages.shows(page, "What it may reach", "asked", "program carrier", "It starts nothing", "Grant this")
    assert "Grant this" not in pages.shows(page, role="reader")
    assert pages.post(f"{page}/grant", "reader").status_code == 403
    assert pages.does(f"{page}/grant") == page
    pages.shows(page, "granted by", "Take back")
    assert pages.ask("grants", name="post.carry")["definitions"][0]["standing"] == "granted"
    (pages.home.path / "recipes" / "carry.xml").write_text(SENDS.replace("--now", "--later"))
    pages.ask("reload")
    pages.shows(page, "granted by", "; its definition has changed since")
    assert pages.does(f"{page}/revoke") == page
    pages.shows(page, "It starts nothing", "Grant this")


def test_the_item_that_asks_is_answered_on_its_page_and_a_rejection_is_shown(pages: PagesOfHome) -> None:
    page = "/definitions/post.carry"

    def items() -> list[int]:
        rows = pages.ask("worklist", every=True, name="trust.grant")
        return [row["item"] for row in rows if "post.carry" in row["title"]]

    (item,) = items()
    pages.shows(f"/work/{item}", "May automaton post.carry reach what it needs?", "program carrier")
    pages.does(f"/work/{item}/answer", outcome="reject")
    pages.shows(page, "rejected", "It starts nothing, and nobody is asked again", "Grant this", "Take back")
    assert items() == []
    assert pages.does(f"{page}/grant") == page
    pages.shows(page, "granted by", "Take back")
