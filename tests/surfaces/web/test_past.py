"""The page of a definition tries it on the past, and a page follows that to its end (D6)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from narval.surfaces.cli.render.past import told
from tests.ask.trials.test_past_jobs import HOURLY, SLOW
from tests.surfaces.cli.command_line import well
from tests.surfaces.web.household import PagesOfHome, at_work, browsing, data, make_show

POST = """\
<recipe group="post" name="copy" start_step="wait" end_step="say" restart="parallel">
  <step id="wait" type="action" target="talk.nothing"/>
  <step id="say" type="action" target="talk.say"/>
  <transition id="came"><in idref="wait"/><out idref="say"/>
    <condition use="yes"><match>name</match></condition></transition>
</recipe>
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home to which two guests came, one of whom would command a browser."""
    home = make_show(tmp_path_factory.mktemp("past") / "home")
    (home.path / "recipes" / "post.xml").write_text(POST)
    (home.path / "recipes" / "hourly.xml").write_text(HOURLY)
    (home.path / "modules" / "slow.py").write_text(SLOW)
    guests = "<memory><name>Ada</name><name>&lt;b>Bob</name></memory>"
    well(home.path, "add", "-", given=guests)
    with at_work(home), browsing(home) as pages:
        yield pages


def tried(pages: PagesOfHome, name: str, **fields: object) -> str:
    """The address of a trial that has begun."""
    leads = pages.does(f"/definitions/{name}/past", kind="recipe", **fields)
    assert re.fullmatch(r"/past/[0-9a-f]{16}", leads)
    return leads


def over(pages: PagesOfHome, where: str) -> dict[str, object]:
    """A job, once it is over."""
    turn = pages.ask("changed")["turn"]
    while (job := pages.ask("job", job=where.rpartition("/")[2]))["state"] == "running":
        turn = pages.ask("changed", after=turn, wait=60.0)["turn"]
    return dict(job)


def test_a_definition_is_tried_and_the_page_has_the_words_of_the_terminal(pages: PagesOfHome) -> None:
    pages.shows("/definitions/post.copy", "Try it on the past", 'value="30d"')
    where = tried(pages, "post.copy", since="1d")
    job = over(pages, where)
    assert job["state"] == "ended"
    report = data(pages.get(f"{where}.json"))
    assert report == job["report"]
    text = pages.shows(
        where, "post.copy on the past", "ended", "What came", "narval simulate post.copy --since 1d"
    )
    sentences = [line.strip().removesuffix(":") for line in told(report) if line.strip()]
    assert "it would have begun 3 times: 2 done" in sentences
    shown = re.sub(r"&#?\w+;", "", text).casefold()
    for sentence in sentences[1:]:  # the first is the heading
        is_deed = re.match(r"\d{4}-", sentence)
        words = sentence[28:] if is_deed else sentence
        assert re.sub(r"[<>'\"&]", "", words).casefold() in shown, sentence
    assert "<b>Bob" not in text
    assert "&amp;lt;b" in text
    assert ">End it<" not in text
    pages.shows("/definitions/post.copy", where)


def test_one_under_way_is_ended_and_shows_the_report_so_far(pages: PagesOfHome) -> None:
    where = tried(pages, "try.hourly", since="90d")
    pages.shows(where, "running", ">End it</button>", "data-live", "<progress")
    assert pages.does(f"{where}/end") == where
    text = pages.shows(where, "stopped", "Ended before its time: ann ended it")
    assert ">End it<" not in text
    assert pages.does(f"{where}/end") == where
    pages.shows("/definitions/try.hourly", where, "ann ended it")


def test_all_deeds_are_kept_if_that_is_asked_for(pages: PagesOfHome) -> None:
    where = tried(pages, "post.copy", since="1d", all="1")
    assert over(pages, where)["asked"] == {"definition": "post.copy", "since": "1d", "everything": True}


@pytest.mark.parametrize(("since", "why"), [("soon", "expected a duration such as 90d"), ("", "expected")])
def test_a_wrong_moment_is_refused_at_the_form_which_keeps_it(
    pages: PagesOfHome, since: str, why: str
) -> None:
    answer = pages.post("/definitions/post.copy/past", kind="recipe", since=since, all="1")
    assert answer.status_code == 400
    assert re.search(rf'id="since-problem">{why}', answer.text)
    assert f'value="{since}" required autofocus' in answer.text
    assert 'name="all" value="1" checked' in answer.text


def test_it_is_for_operators(pages: PagesOfHome) -> None:
    where = tried(pages, "post.copy", since="1d")
    assert pages.get(where, "reader").status_code == 403
    assert pages.post("/definitions/post.copy/past", "reader", since="1d").status_code == 403
    assert pages.post(f"{where}/end", "reader").status_code == 403
    assert "Try it on the past" not in pages.shows("/definitions/post.copy", role="reader")
    assert pages.get("/past/0123456789abcdef").status_code == 404
