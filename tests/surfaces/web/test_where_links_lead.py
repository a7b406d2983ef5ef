"""Where pages lead: each link to a page that is there, and from what waits to what it waits for."""

from __future__ import annotations

import html
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest

from tests.surfaces.http.served_pages import form_of
from tests.surfaces.web.household import BASE, PagesOfHome, at_work, browsing, make_show

STEPS = 500

ALIKE = 2
"""So many addresses that differ in numbers alone are looked at: each week of a calendar leads to another."""

MORE = """\
<cookbook group="more">
  <work group="talk" name="nothing"><title>?</title><outcome name="yes"/></work>
  <work group="more" name="form"><title>How much?</title><for people="ann ben"/>
    <field name="comment" type="text"/><outcome name="yes"/></work>
  <work group="more" name="amount"><title>How much is it?</title><for people="ann ben"/>
    <field name="limit" type="decimal" most="5000" required="yes">How much</field>
    <field name="until" type="date"/><outcome name="yes"/></work>
  <work group="more" name="which"><title>Which of them?</title><for people="ann ben"/>
    <field name="who" type="person" list="yes"/><field name="about" type="element" match="parcel[@so='1']"/>
    <field name="code" length="9" pattern="[0-9]+"/><field name="n" type="integer" least="1" most="10"/>
    <outcome name="yes"/></work>
  <work group="more" name="everybody"><title>Is it so?</title>
    <for people="ben cat"/><outcome name="yes"/></work>
  <recipe group="more" name="fills" start_step="ask" end_step="ask">
    <step id="ask" type="work" target="more.form"/>
  </recipe>
  <recipe group="more" name="asks" start_step="ask" end_step="ask">
    <step id="ask" type="work" target="show.judge"/>
  </recipe>
  <recipe group="talk" name="nothing" start_step="a" end_step="a">
    <step id="a" type="action" target="talk.nothing"/>
  </recipe>
</cookbook>
"""


TASK = """\
TASK TYPE errand
  INVOCATION: AUTO
  INITIAL going
  STATE going EXPOSED
    ON EVENT done GOTO COMMIT
"""

PUT = """\
<al:task-object xmlns:al="http://www.logilab.org/namespaces/Narval/1.2" type="errands.errand">
  <go/>
</al:task-object>
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home with a recipe that asks a person, and one that has the name of an action."""
    home = make_show(tmp_path_factory.mktemp("links") / "home")
    (home.path / "recipes" / "more.xml").write_text(MORE)
    (home.path / "recipes" / "errands.task").write_text(TASK)
    with at_work(home), browsing(home) as pages:
        yield pages


@pytest.fixture(scope="module")
def asking(pages: PagesOfHome) -> int:
    """A plan that waits for an answer of a person."""
    return pages.start("more.asks")


def item_of(pages: PagesOfHome, run: int) -> int:
    return int(pages.ask("why", run=run)["waiting"][0]["runs"][0])


def test_M13_each_thing_that_needs_attention_leads_to_a_page(pages: PagesOfHome, asking: int) -> None:
    pages.over("demo.fail")
    text = pages.shows("/", "waits for people")
    needs = re.findall(r"<li>(.*?)</li>", text.split("live_needs")[1].split("</ul>")[0])
    assert len(needs) >= 3
    for need in needs:
        (url,) = re.findall(r'href="([^"]*)"', need)
        assert pages.get("/" + url).status_code == 200, need
    assert f'href="{BASE}/work/{item_of(pages, asking)}"' in text


def test_M14_runs_are_told_by_kind(pages: PagesOfHome, asking: int) -> None:
    text = pages.shows("/", f'href="{BASE}/runs?kind=work">work</a>')
    counts = pages.ask("status")["kinds"]["work"]
    assert f"{counts['active']} active" in text.split("kind=work")[1]
    assert f"/runs/{item_of(pages, asking)}" in pages.shows("/runs", kind="work")


def test_M50_an_item_shows_what_led_to_it(pages: PagesOfHome, asking: int) -> None:
    item = item_of(pages, asking)
    pages.shows(f"/work/{item}", "What led here", 'data-part="ask"', f'href="{BASE}/runs/{asking}/parts/ask"')
    told = pages.get(f"/work/{item}", "person")
    assert "What led here" not in told.text
    assert f"/runs/{asking}" not in told.text


def test_P52_what_was_typed_is_shown_again_when_another_has_claimed_the_item(pages: PagesOfHome) -> None:
    item = item_of(pages, pages.start("more.fills"))
    typed = {"field.comment": "it took an hour to write this", "outcome": "yes"}
    typed["shown"] = pages.ask("work_item", item=item)["shown"]
    pages.does(f"/work/{item}/claim")
    refused = pages.post(f"/work/{item}/answer", "person", **typed)
    assert refused.status_code == 409
    assert "claimed by ann" in refused.text
    assert typed["field.comment"] in refused.text


def test_M29_a_run_tells_what_the_runs_that_it_waits_for_wait_for(pages: PagesOfHome, asking: int) -> None:
    item = item_of(pages, asking)
    shown = pages.shows(
        f"/runs/{asking}", "of show.judge", "waits for a person", f'href="{BASE}/work/{item}"'
    )
    assert "what has changed</a>" not in shown
    pages.shows(f"/runs/{item}", f'href="{BASE}/work/{item}"')


def test_M41_of_several_definitions_of_a_name_that_which_is_started_is_shown(pages: PagesOfHome) -> None:
    run = pages.over("talk.nothing")
    pages.shows("/definitions/talk.nothing", "recipes/more.xml", 'data-part="a"')
    pages.shows("/definitions/talk.nothing", 'data-part="offered"', kind="work")
    (url,) = re.findall(r'href="([^"]*/definitions/[^"]*)"', pages.shows(f"/runs/{run}"))
    pages.shows(url.removeprefix(BASE), 'data-part="a"')
    pages.shows("/definitions/talk.nothing", "modules/talk.py", kind="action")


def test_M32_calls_that_no_part_of_the_graph_makes_have_a_page(pages: PagesOfHome) -> None:
    pages.add(PUT)
    (run,) = pages.ask("runs", kind="task")
    drawn = pages.shows(f"/runs/{run['eid']}", 'class="badge"')
    (top,) = re.findall(r'<rect x="[^"]*" y="([^"]*)"', drawn.split('data-part="going"')[1])[:1]
    (badge,) = re.findall(r'class="badge" x="[^"]*" y="([^"]*)"', drawn)
    assert float(badge) == float(top) - 4  # a long one would cover the name
    server, part = run["parent"]["run"], run["parent"]["step"]
    pages.shows(f"/runs/{server}/parts/{part}", f'href="{BASE}/runs/{run["eid"]}"')
    assert pages.get(f"/runs/{server}/parts/nowhere").status_code == 404


def test_M37_of_a_run_in_which_nothing_failed_a_part_is_asked_for(pages: PagesOfHome) -> None:
    run = pages.over("talk.nothing")
    shown = pages.shows(f"/runs/{run}/retry", "name the step to retry from")
    assert "the part that failed" not in shown
    assert pages.get(f"/runs/{run}/retry", step="nowhere").status_code == 400


def test_M8_no_link_of_any_page_leads_nowhere(pages: PagesOfHome, asking: int) -> None:
    waiting, seen, alike = [(f"/{BASE}/", "")], set[str](), Counter[str]()
    while waiting:
        path, found_on = waiting.pop()
        alike[form_of(path)] += 1
        if alike[form_of(path)] > ALIKE:
            continue
        answer = pages.get(path)
        assert answer.status_code in (200, 303), (path, found_on)
        for link in re.findall(r'<a [^>]*href="([^"#]+)', answer.text):
            url = "/" + urljoin(path[1:], html.unescape(link))
            if (
                "/replay?at=" not in path
                and url not in seen
                and not url.startswith(("//sessions", "//static"))
            ):
                seen.add(url)
                waiting.append((url, path))
    assert len(seen) > 100


def test_M29_a_run_says_that_a_newer_version_is_loaded(pages: PagesOfHome) -> None:
    file = pages.home.path / "recipes" / "more.xml"
    run = pages.over("talk.nothing")
    file.write_text(MORE.replace('id="a"', 'id="b"').replace('step="a"', 'step="b"'))
    pages.ask("reload")
    shown = pages.shows(f"/runs/{run}", "what has changed</a>")
    (url,) = re.findall(r'href="([^"]*/diff[^"]*)"', shown)
    pages.shows(html.unescape(url).removeprefix(BASE), "step id=&#34;b&#34;")


def test_M66_no_link_of_a_person_leads_to_what_is_not_theirs(pages: PagesOfHome) -> None:
    item = item_of(pages, pages.start("more.fills"))
    for path in ("/work", f"/work/{item}", "/runs"):
        text = pages.get(path, "person").text
        for link in re.findall(r'<a [^>]*href="(/a/[^"#]+)', text):
            assert pages.get("/" + html.unescape(link), "person").status_code in (200, 303), (path, link)


def test_P51_a_form_has_the_fields_all_faults_beside_them_and_a_draft_that_is_saved(
    pages: PagesOfHome,
) -> None:
    item = pages.start("more.amount")
    text = pages.shows(f"/work/{item}", "How much", "Save the draft", f'data-draft="{BASE}/work/{item}/save"')
    limit, until = re.findall(r'<input id="f-\w+" type="\w+" name="([^"]+)"', text)
    answer = pages.post(f"/work/{item}/answer", **{limit: "9000", until: "soon", "outcome": "yes"})
    assert answer.text.count('class="field-problem"') == 2, "all faults at once, each beside its field"
    assert 'value="9000"' in answer.text
    assert 'value="soon"' in answer.text
    assert pages.does(f"/work/{item}/save", **{limit: "700"})
    pages.shows(f"/work/{item}", 'value="700"')


def test_P51_a_form_offers_what_fits_and_says_its_limits_before_it_is_refused(pages: PagesOfHome) -> None:
    fits, _ = pages.add("<parcel so='1' title='A chair'/>"), pages.add("<parcel so='2' title='A table'/>")
    item = pages.start("more.which")
    text = pages.shows(f"/work/{item}", "at least 1, at most 10", "at most 9 characters", "several, one in")
    text = pages.shows(f"/work/{item}", "must fit the pattern [0-9]+", 'list="f-who-choices" aria-label=')
    offered = dict(re.findall(r'<datalist id="([\w-]+)">(.*?)</datalist>', text))
    assert re.findall('value="(.*?)"', offered["f-who-choices"]) == ["ann", "ben", "cat"]
    assert offered["f-about-choices"] == f'<option value="{fits}">parcel · A chair</option>'
    assert offered["to-delegate-choices"] == '<option value="ben">ben</option>'
    by_ben = pages.shows(f"/work/{item}", role="person")
    assert "f-about-choices" not in by_ben, "who may not read the home is not told what is in memory"
    assert "A chair" not in by_ben


def test_P53_a_reader_who_may_answer_is_told_where(pages: PagesOfHome) -> None:
    item = pages.start("more.everybody")
    pages.shows(
        f"/work/{item}", "on these pages you are a reader", f"narval work answer {item}", role="reader"
    )
    assert "you are a reader" not in pages.shows(f"/work/{item}", role="person")


def test_P53_who_has_an_item_stands_in_a_part_that_changes_without_the_form(pages: PagesOfHome) -> None:
    item = pages.start("more.amount")
    pages.does(f"/work/{item}/claim")
    text = pages.shows(f"/work/{item}", "ann has it since")
    live = re.search(r'<div id="live_state">(.*?)</div>', text, re.DOTALL)
    assert live is not None
    assert "ann has it since" in live[1]
    assert "<form" not in live[1], "what is being typed is not touched"


def test_P53_the_form_goes_from_an_open_page_once_somebody_else_has_answered(pages: PagesOfHome) -> None:
    item = pages.start("more.amount")
    ended = '<div id="live_answer">', '<section class="card" aria-labelledby="led-title">'
    assert f'action="{BASE}/work/{item}/answer"' in pages.shows(f"/work/{item}", ended[0]).split(ended[0])[1]
    pages.ask("answer", item=item, outcome="yes", fields={"limit": ["7"]})
    answer = pages.shows(f"/work/{item}", "It is done: <b>yes</b>").split(ended[0])[1].split(ended[1])[0]
    assert "<form" not in answer


@pytest.mark.skipif(shutil.which("dot") is None, reason="without Graphviz the table is the page")
def test_M84_the_page_of_a_thousand_parts_is_small(pages: PagesOfHome) -> None:
    steps = "".join(f'<step id="s{n}" type="action" target="talk.nothing"/>' for n in range(STEPS))
    ways = "".join(
        f'<transition id="t{n}"><in idref="s{(n - 1) // 2}"/><out idref="s{n}"/></transition>'
        for n in range(1, STEPS)
    )
    head = f'<recipe group="large" name="tree" start_step="s0" end_step="s{STEPS - 1}">'
    (pages.home.path / "recipes" / "large.xml").write_text(f"{head}{steps}{ways}</recipe>")
    pages.ask("reload")
    shown = pages.shows(f"/runs/{pages.over('large.tree')}", 'id="drawing"')
    assert shown.count("data-part=") == 2 * STEPS - 1
    assert len(shown.encode()) <= 500_000


def test_an_undo_that_failed_does_not_lead_to_a_start_of_what_was_to_be_undone(pages: PagesOfHome) -> None:
    file = pages.home.path / "recipes" / "back.xml"
    step = "<step id='a' type='action' target='talk.nothing' undo='talk.fail'/>"
    file.write_text(f"<recipe group='back' name='back' start_step='a' end_step='a'>{step}</recipe>")
    pages.ask("reload")
    undone = pages.ask("undo", run=pages.over("back.back"), why="a mistake")
    pages.ask("wait", run=undone["undoing"], timeout=60)
    (row,) = (row for row in pages.ask("incidents") if row["definition"] == "back.back")
    text = pages.shows(f"/errors/{row['incident']}", "cannot be retried. Do what it was to do")
    assert f"{BASE}/start/" not in text
    file.unlink()
    pages.ask("reload")
