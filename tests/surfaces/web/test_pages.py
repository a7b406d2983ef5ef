"""What pages show of a home at work: each has what it is there for."""

from __future__ import annotations

import re

import pytest

from narval.surfaces.web.pages.status import LISTED
from tests.ask.test_figures import TELLS
from tests.surfaces.web.household import BASE, PagesOfHome, data


@pytest.fixture(scope="module")
def failed(pages: PagesOfHome) -> int:
    """A run that failed."""
    return pages.over("demo.fail")


@pytest.fixture(scope="module")
def waiting(pages: PagesOfHome) -> int:
    """A plan that waits for a letter."""
    return pages.start("demo.await")


# --- status, agents -------------------------------------------------------------------------------------


def test_M13_what_needs_attention_comes_first_and_leads_there(pages: PagesOfHome, failed: int) -> None:
    text = pages.shows("/", "Needs attention", "recipes/broken.xml:1:48", "there is nobody to talk to")
    assert text.index("Needs attention") < text.index("Figures") < text.index("calls under way")
    (needed,) = re.findall(r'<a href="([^"]*)">[^<]*demo\.fail[^<]*</a>', text)[:1]
    pages.shows(needed.removeprefix(BASE), "there is nobody to talk to")


def test_M14_status_has_runs_calls_and_figures(pages: PagesOfHome, waiting: int) -> None:
    slow = pages.start("demo.slow")
    text = pages.shows("/", f"{BASE}/runs/{waiting}", "talk.slow", f"{BASE}/runs/{slow}", "elements", "turns")
    count = pages.ask("status")["waits_for"]["element"]
    (words,) = re.findall(rf'href="{BASE}/runs\?waiting_for=element">(.*?)</a>', text)
    assert words == ("1 waits for an element" if count == 1 else f"{count} wait for an element")
    pages.ask("cancel", run=slow)


def test_M58_with_one_agent_the_first_page_leads_to_it(pages: PagesOfHome) -> None:
    assert pages.get("//").headers["location"] == f"{BASE}/"
    assert pages.get("//", "person").headers["location"] == f"{BASE}/work"


def test_M12_every_page_has_the_header(pages: PagesOfHome, failed: int) -> None:
    for path in ("/", "/runs", f"/runs/{failed}", "/memory", "/definitions", "/errors", "/work", "/log"):
        text = pages.shows(path, 'role="search"', ">ann<", 'title="operator"', "The same in a terminal")
        assert re.search(r'<a class="count" href="/a/narval/"[^>]*>\d+</a>', text)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/work?view=all", "narval work --all"),
        ("/work?view=done", "narval work --all --state done"),
        ("/definitions/show.stages?kind=recipe", "narval definitions show.stages --kind recipe"),
        ("/runs/{wait}?at=9999", "narval show {wait} --at 9999"),
        ("/runs/{wait}/story?before=9999", "narval history {wait} --story --before 9999"),
        ("/runs/{wait}/parts/begin>answered", "narval part {wait} &#39;begin&gt;answered&#39;"),
    ],
)
def test_M5_the_command_of_a_page_has_its_filter(
    pages: PagesOfHome, waiting: int, path: str, command: str
) -> None:
    at = str(pages.ask("history", run=waiting)[-1]["seq"])
    path, _, query = path.format(wait=waiting).replace("9999", at).partition("?")
    said = f"<code>{command.format(wait=waiting).replace('9999', at)}</code>"
    pages.shows(path, said, **dict([query.split("=")] if query else []))


# --- memory ---------------------------------------------------------------------------------------------


def test_M20_memory_lists_what_fits_and_whence_it_came(pages: PagesOfHome, failed: int) -> None:
    letter = pages.add("<letter to='bob'>Good &lt;day&gt;</letter>")
    xml = "Good &amp;lt;day&amp;gt;&lt;/letter&gt;"
    pages.shows("/memory", f"{BASE}/memory/{letter}", xml, ">letter <b>")
    only = pages.shows("/memory", xml, xpath="letter[@to='bob']")
    assert "error" not in re.findall(r"<code class=\"cut\">(.*?)</code>", only)[0]
    pages.shows("/memory", f'>break</a> of run <a href="{BASE}/runs/{failed}"', xpath="error")


def test_M20_an_error_in_a_pattern_is_shown_at_its_column(pages: PagesOfHome) -> None:
    answer = pages.get("/memory", xpath="letter[@to=='bob']")
    assert answer.status_code == 400
    assert 'value="letter[@to==&#39;bob&#39;]"' in answer.text  # what was typed is there still
    pattern, sign = re.findall(r"<pre>(.*)\n( *\^)</pre>", answer.text)[0]
    assert pattern.startswith("letter[@to==")
    assert len(sign) == len("letter[@to==")
    refused = pages.get("/memory.json", xpath="letter[@to=='bob']")
    assert (refused.status_code, "letter[@to==" in data(refused)["error"]) == (400, True)


def test_M20_filters_of_memory(pages: PagesOfHome, failed: int) -> None:
    pages.shows("/memory", '<code class="cut">&lt;error', context=failed, xpath="error")
    made = data(pages.get("/memory.json", definition="demo.fail"))
    assert {row["name"] for row in made} == {"error", "failure"}
    assert data(pages.get("/memory.json", since="2100-01-01T00:00")) == []
    command = f"<code>narval memory &#39;error[@type]&#39; --context {failed} --current</code>"
    pages.shows("/memory", command, context=failed, xpath="error[@type]", current="yes")


def test_M21_memory_is_paged_by_eid(pages: PagesOfHome) -> None:
    eids = pages.ask("add", elements=[f"<leaf n='{n}'/>".encode() for n in range(60)])["eids"]
    first = pages.get("/memory.json", xpath="leaf")
    assert [row["eid"] for row in data(first)] == eids[:9:-1]
    older = re.findall(r'<(.*?)>; rel="next"', first.headers["link"])[0]
    older = older.replace("/memory.json?", "/memory?")  # the same on the page
    assert f'href="{older.replace("&", "&amp;")}" rel="next"' in pages.get("/memory", xpath="leaf").text
    text = pages.shows(older.removeprefix(BASE), f"{BASE}/memory/{eids[0]}", ">newest<")
    assert f'{BASE}/memory/{eids[10]}"' not in text
    assert "data-live" not in text  # what is older does not change


def test_M23_M24_an_element_has_its_xml_its_facts_and_its_provenance(pages: PagesOfHome) -> None:
    run = pages.start("demo.greet", elements=[b"<name>Ann</name>"])
    pages.ask("wait", run=run, timeout=60)
    (greeting,) = data(pages.get("/memory.json", xpath="greeting", context=run))
    text = pages.shows(f"/memory/{greeting['eid']}", "Hello Ann", "demo.greet", "talk.say", "Made from")
    (name,) = data(pages.get("/memory.json", xpath="name", context=run))
    assert f'data-part="{name["eid"]}"' in text or f"{BASE}/memory/{name['eid']}" in text
    pages.shows(f"/memory/{name['eid']}", "Made of it", f"{BASE}/memory/{greeting['eid']}")


def test_F13_the_way_of_an_element_can_be_followed_both_ways(pages: PagesOfHome) -> None:
    run = pages.start("demo.greet", elements=[b"<name>Ann</name>"])
    pages.ask("wait", run=run, timeout=60)
    (greeting,) = data(pages.get("/memory.json", xpath="greeting", context=run))
    (name,) = data(pages.get("/memory.json", xpath="name", context=run))
    back = f"/memory/{greeting['eid']}/origin"
    pages.shows(f"/memory/{greeting['eid']}", f"{BASE}{back}")
    pages.shows(
        back, f"{BASE}/memory/{name['eid']}/origin", f"{BASE}/memory/{greeting['eid']}/uses", "demo.greet"
    )
    pages.shows(f"/memory/{name['eid']}/uses", f"{BASE}/memory/{greeting['eid']}/uses", "Hello Ann</span>")
    pages.ask("withdraw", eid=name["eid"], why="it is another")
    pages.shows(f"/memory/{name['eid']}", "withdrawn", "it is another")
    pages.shows(f"/memory/{greeting['eid']}", "doubtful")


def test_M23_versions_of_an_element_lead_to_one_another(pages: PagesOfHome) -> None:
    old = pages.add("<card n='1'/>")
    leads = pages.does("/memory/add", xml="<card n='2'/>", replace=str(old))
    new = leads.rpartition("/")[2]
    pages.shows(f"/memory/{old}", "outdated", f"{BASE}/memory/{new}")
    pages.shows(f"/memory/{new}", "versions before", f"{BASE}/memory/{old}")


# --- runs -----------------------------------------------------------------------------------------------


def test_M27_runs_under_way_are_on_top_and_the_others_newest_first(
    pages: PagesOfHome, failed: int, waiting: int
) -> None:
    text = pages.shows("/runs", "ValueError", "there is nobody to talk to", "Under way")
    assert text.index(f'{BASE}/runs/{waiting}"') < text.index(">Over<") < text.index(f'{BASE}/runs/{failed}"')


def test_M27_filters_of_runs(pages: PagesOfHome, failed: int, waiting: int) -> None:
    for query in ({"phase": "failed"}, {"error": "ValueError"}, {"text": "talk to"}, {"name": "demo.fail"}):
        found = data(pages.get("/runs.json", **query))
        assert {run["name"] for run in found} == {"demo.fail"}, query
    for query in ({"phase": "active"}, {"waiting_for": "element"}):
        assert waiting in [run["eid"] for run in data(pages.get("/runs.json", **query))]
    assert waiting not in [run["eid"] for run in data(pages.get("/runs.json", waiting_for="person"))]
    digest = pages.ask("versions", name="demo.fail", kind="recipe")[0]["digest"]
    assert failed in [run["eid"] for run in data(pages.get("/runs.json", definition=digest[:10]))]


def test_M10_M27_where_no_run_fits_each_filter_says_how_many_it_leaves_out(
    pages: PagesOfHome, failed: int
) -> None:
    fitting = len(data(pages.get("/runs.json", error="ValueError")))
    text = pages.shows("/runs", "No run that is over fits this filter", error="ValueError", phase="done")
    lifted = re.findall(r'Without <b>(.*?)</b> <a href="(.*?)">(.*?)</a>', text)
    assert (lifted[0][0], lifted[0][2]) == ("phase done", f"{fitting} would fit")
    assert lifted[1][0] == "error ValueError"
    pages.shows(lifted[0][1].removeprefix(BASE), f"{BASE}/runs/{failed}")
    assert "Without <b>" not in pages.shows("/runs", error="ValueError")


def reached(pages: PagesOfHome, path: str, link: str) -> set[int]:
    """The runs on a page, on the one that a link of that name leads to, and on all older ones from there."""
    text = pages.shows(path)
    runs = {int(eid) for eid in re.findall(rf'href="{BASE}/runs/(\d+)"', text)}
    leads = re.findall(rf'<a href="{BASE}([^"]*)"[^>]*>{link}</a>', text)
    return runs.union(*(reached(pages, one.replace("&amp;", "&"), "older") for one in leads))


def test_M21_runs_are_paged_by_eid_as_their_headers_say(pages: PagesOfHome) -> None:
    eids = [pages.start("show.stages") for _ in range(55)]
    first = pages.get("/runs.json", name="show.stages", phase="active")
    assert [row["eid"] for row in data(first)] == eids[:4:-1]
    older = re.findall(r'<(.*?)>; rel="next"', first.headers["link"])[0]
    assert older.startswith(f"{BASE}/runs.json?")
    rest = pages.get(older.removeprefix(BASE))
    assert [row["eid"] for row in data(rest)][:5] == eids[4::-1]
    assert "link" not in rest.headers
    for link in ("older", "older ones under way"):  # of all runs, and of those that go on
        assert set(eids) <= reached(pages, "/runs", link), link
    for run in eids:
        pages.ask("cancel", run=run)


def test_M29_a_run_says_how_it_stands_and_what_failed_on_top(pages: PagesOfHome, failed: int) -> None:
    text = pages.shows(f"/runs/{failed}", "<b>ValueError</b> in break: there is nobody to talk to")
    assert text.index("there is nobody to talk to") < text.index('id="graph"')
    for section in ("Why", "Calls", "Holds", "History"):
        assert f"{section}" in text
    pages.shows(f"/runs/{failed}/history", "Finish", "in sentences")


def test_M29_what_happened_stands_in_sentences_by_part(pages: PagesOfHome, failed: int) -> None:
    fails = "It called talk.fail; it failed after"
    for path in (f"/runs/{failed}", f"/runs/{failed}/story"):
        pages.shows(path, f'>Step <a href="{BASE}/runs/{failed}/parts/break">break</a></h', fails)
    pages.shows(f"/runs/{failed}/story", f'href="{BASE}/runs/{failed}/history?before=')
    run = pages.start("order.order")
    pages.shows(
        f"/runs/{run}/story", f'<h2>Node <a href="{BASE}/runs/{run}/parts/enter">', "Token 1 comes to it"
    )
    letter = pages.add("<letter to='ann' title='&lt;b&gt;bold'/>")
    waiting = pages.start("demo.await")
    pages.shows(f"/runs/{waiting}/story", "It waits for letter[")
    assert letter


def test_M29_why_says_what_a_run_waits_for(pages: PagesOfHome, waiting: int) -> None:
    near = pages.add("<letter to='ann' urgent='no'/>")
    why = pages.shows(f"/runs/{waiting}", "waits for an element", "letter[@to=&#39;ann&#39;")
    assert f"{BASE}/memory/{near}" in why
    assert "@urgent=&#39;yes&#39;" in why


def test_M29_a_run_that_asks_people_says_whom_what_and_until_when(pages: PagesOfHome) -> None:
    run = pages.start("show.asks")
    (item,) = [row["item"] for row in pages.ask("worklist", every=True, name="show.late")]
    link = f'<a href="{BASE}/work/{item}">Is it too late?</a>'
    text = pages.shows(f"/runs/{run}", "asks a person with the role operator, until <time", link)
    assert "a place" not in text
    pages.shows(f"/runs/{item}", "waits for its deadline until <time", "role operator: Is it too late?")
    status = pages.shows("/", '<div class="about">Is it too late?</div>')
    under_way = status[status.index("Calls under way") :]
    assert "show.late" not in under_way[: under_way.index("Next moments")]
    pages.shows("/runs?waiting_for=person", '<div class="about">Is it too late?</div>')
    pages.shows("/calendar", '<div class="about">Is it too late?</div>', "deadline")
    pages.ask("cancel", run=run)


def test_M29_called_runs_lead_back_to_their_callers(pages: PagesOfHome) -> None:
    caller = pages.start("show.calls")
    (called,) = [run["eid"] for run in pages.ask("runs", name="show.stages", state="active", limit=1)]
    pages.shows(f"/runs/{called}", f'{BASE}/runs/{caller}">show.calls</a>')
    pages.shows(f"/runs/{caller}", f'run <a href="{BASE}/runs/{called}">{called}</a> of show.stages, <span')


def test_M32_a_part_has_its_state_conditions_and_tries(pages: PagesOfHome, failed: int, waiting: int) -> None:
    pages.shows(
        f"/runs/{failed}/parts/break",
        "talk.fail",
        "ValueError",
        "there is nobody to talk to",
        "Retry from here",
    )
    pages.shows(f"/runs/{waiting}/parts/answered", "letter[@to=&#39;ann&#39;", "expected")
    pages.shows(f"/runs/{waiting}/parts/begin", "Written to the log meanwhile", "nothing was done")


def test_M34_without_scripts_replay_goes_line_by_line(pages: PagesOfHome, failed: int) -> None:
    text = pages.shows(f"/runs/{failed}/replay", ">first<", ">back<", ">last<", 'name="at"')
    assert ">forward<" not in text
    first = re.findall(r'href="\?at=(\d+)">first', text)[0]
    early = pages.shows(f"/runs/{failed}/replay", ">forward<", at=first)
    assert ">back<" not in early
    assert "s-failed" not in re.findall(r'<g id="p0"[^>]*>', early)[0]
    assert "s-failed" in re.findall(r'<g id="p0"[^>]*>', text)[0]


def test_M36_the_waterfall_has_a_bar_for_each_call(pages: PagesOfHome, failed: int) -> None:
    pages.shows(f"/runs/{failed}/timeline", "break talk.fail", '<g class="s-failed">', "longest first")


def test_the_times_of_the_states_of_an_automaton_are_on_the_page_of_its_run(pages: PagesOfHome) -> None:
    run = pages.ask("start", name="guard.door")["eid"]
    pages.shows(f"/runs/{run}", "Time for each state", "held: signal", "never")


def test_the_last_that_a_failed_program_printed_is_on_the_page_of_its_run(pages: PagesOfHome) -> None:
    run = pages.over("disk.copy")
    text = pages.shows(
        f"/runs/{run}", "it said last: “no disk”", '<td data-label="printed last">no disk</td>'
    )
    why = text[text.index('id="live_why"') :]
    assert "it said last: “no disk”" in why[: why.index("</section>")]


# --- definitions ----------------------------------------------------------------------------------------


def test_M40_all_that_is_loaded_by_kind_with_faults(pages: PagesOfHome, failed: int) -> None:
    text = pages.shows("/definitions", "recipes/broken.xml:1:48", "demo.fail", "recipes/show.xml", "failed")
    assert {"recipe", "action", "process", "automaton", "work"} <= set(re.findall(r"<h2>(\w+) <span", text))
    only = pages.shows("/definitions", "guard.door", kind="automaton")
    assert "demo.fail" not in only


def test_M41_a_definition_has_graph_source_calls_and_runs(pages: PagesOfHome, failed: int) -> None:
    pages.shows(
        "/definitions/demo.fail", 'data-part="break"', "talk.fail", f"{BASE}/runs/{failed}", "start_step="
    )
    pages.shows("/definitions/show.stages", "called by</dt><dd><a", "show.calls", "Start…")
    pages.shows("/definitions/talk.say", "Greets who is named.", "Takes", "Gives", kind="action")


def test_a_definition_shows_how_its_last_runs_ended_and_how_long_they_take(
    pages: PagesOfHome, failed: int, waiting: int
) -> None:
    well = pages.start("demo.greet", elements=[b"<name>Ann</name>"])
    pages.ask("wait", run=well, timeout=60)
    took = pages.ask("figures", name="demo.greet")["took"]
    text = pages.shows("/definitions/demo.greet", "p50", "p95", f"<dd>{took['runs']}</dd>")
    assert re.search(rf'href="{BASE}/runs/{well}" class="s-done"><title>run {well}: done after', text)
    text = pages.shows("/definitions/demo.fail", f'href="{BASE}/runs/{failed}" class="s-failed"')
    assert re.search(r"<td>\d{4}-\d\d-\d\d</td><td data-label=\"done\">0</td>", text)
    assert "How it does" not in pages.shows("/definitions/demo.await")  # none of its runs has ended


def test_the_list_of_runs_shows_how_many_ended_each_day(pages: PagesOfHome, failed: int) -> None:
    row = pages.ask("figures")["days"][-1]
    words = ", ".join(f"{row[phase]} {phase}" for phase in ("done", "failed", "cancelled") if row[phase])
    pages.shows("/runs", "Ended each day", f"<title>{row['day']}: {words}</title>", f'{BASE}/runs/gantt"')
    assert "Ended each day" not in pages.shows("/runs", phase="failed")


def test_the_last_hour_has_a_bar_for_each_run_with_its_calls(pages: PagesOfHome) -> None:
    failed, waiting = pages.over("demo.fail"), pages.start("demo.await")
    text = pages.shows(
        "/runs/gantt", f'href="{BASE}/runs/{waiting}"', "waits for an element", "narval gantt<"
    )
    (bar,) = re.findall(rf'<a class="row" href="{BASE}/runs/{failed}">(.*?)</a>', text, re.DOTALL)
    assert f"<title>run {failed} of demo.fail: failed, 1 call</title>" in bar
    assert "<title>break: talk.fail, failed</title>" in bar
    pages.shows("/runs/gantt", f"{BASE}/runs/{failed}/parts/break", "narval gantt --minutes 10<", minutes=10)
    assert {"since", "until", "runs", "left_out", "notices"} == data(pages.get("/runs/gantt.json")).keys()
    assert pages.get("/runs/gantt", minutes=5000).status_code == 400


def test_F9_the_page_of_a_definition_says_what_can_reach_outside(pages: PagesOfHome) -> None:
    pages.shows("/definitions/demo.greet", "What can reach outside", "talk.say", "allowed")
    called = f'at first of <a href="{BASE}/definitions/show.stages?kind=recipe">show.stages</a>'
    pages.shows("/definitions/show.calls", "What can reach outside", called)


def test_D3_a_definition_says_what_it_does(pages: PagesOfHome) -> None:
    text = pages.shows("/definitions/demo.fail", "What it does", "If a step fails, the run has failed.")
    (line,) = set(re.findall(r'calls the action talk.fail.*?href="#(line-\d+)"', text))
    assert f'id="{line}"' in text
    pages.shows("/definitions/talk.say", "What it does", "seen outside the home", kind="action")


def test_a_run_leads_to_the_question_that_the_run_it_called_asks(pages: PagesOfHome) -> None:
    file = pages.home.path / "recipes" / "nest.xml"
    step = "<step id='s' type='recipe' target='show.asks'/>"
    file.write_text(f"<recipe group='show' name='nest' start_step='s' end_step='s'>{step}</recipe>")
    pages.ask("reload")
    run = pages.start("show.nest")
    (item,) = (row["item"] for row in pages.ask("worklist") if row["work"] == "show.late")
    pages.shows(
        f"/runs/{run}",
        f'asks a person with the role operator: <a href="{BASE}/work/{item}">Is it too late?</a>',
    )
    pages.ask("cancel", run=run)
    file.unlink()
    pages.ask("reload")


def test_only_what_a_definition_sets_is_known_of_it(pages: PagesOfHome) -> None:
    shown = pages.shows("/definitions/talk.say", "<dt>function</dt>", kind="action")
    assert not {"<dt>undo</dt>", "<dt>column</dt>"} & set(re.findall(r"<dt>[^<]*</dt>", shown))
    assert "inputs_by_digest" not in data(pages.get("/definitions/show.judge.json", kind="work"))["settings"]


def test_what_a_long_definition_does_is_folded(pages: PagesOfHome) -> None:
    file = pages.home.path / "recipes" / "long.xml"
    steps = "".join(f"<step id='s{n}' type='action' target='talk.say'/>" for n in range(60))
    ways = "".join(
        f"<transition id='t{n}'><in idref='s{n}'/><out idref='s{n + 1}'/></transition>" for n in range(59)
    )
    file.write_text(f"<recipe group='show' name='long' start_step='s0' end_step='s59'>{steps}{ways}</recipe>")
    pages.ask("reload")
    text = pages.shows("/definitions/show.long", "<summary>40 more calls, none of them not allowed</summary>")
    assert re.search(r"<summary>2\d more sentences</summary>", text)
    file.unlink()
    pages.ask("reload")


def test_M43_versions_and_their_difference(pages: PagesOfHome) -> None:
    file = pages.home.path / "recipes" / "order.xml"
    text = file.read_text()
    pages.start("order.order")
    file.write_text(text.replace('name="bill"', 'name="invoice"').replace('to="bill"', 'to="invoice"'))
    pages.ask("reload")
    shown = pages.shows("/definitions/order.order", "what has changed since")
    address = re.findall(r'href="([^"]*)">what has changed since', shown)[0].replace("&amp;", "&")
    difference = pages.shows(address.removeprefix(BASE))
    assert re.search(r'<span class="gone">-.*bill', difference)
    assert re.search(r'<span class="add">\+.*invoice', difference)
    file.write_text(text)
    pages.ask("reload")


def test_M41_faults_are_in_their_place_and_the_last_good_version_is_marked(pages: PagesOfHome) -> None:
    file = pages.home.path / "recipes" / "guard.xml"
    text = file.read_text()
    file.write_text(text.replace('signal="open"', 'signl="open"'))
    pages.ask("reload")
    pages.shows(
        "/definitions", "last good version", f'<a href="{BASE}/definitions/guard.door?kind=automaton">'
    )
    assert 'class="mono"><a href="' in pages.get("/definitions").text, "a fault leads to where it is shown"
    pages.shows("/definitions/guard.door", "last good version at work", "with the faults in it", "^ column")
    file.write_text(text)
    pages.ask("reload")


# --- errors, work, log, search --------------------------------------------------------------------------


def test_M52_alike_errors_are_one_row(pages: PagesOfHome, failed: int) -> None:
    again = pages.over("demo.fail")
    text = pages.shows(
        "/errors", "<b>ValueError</b>: there is nobody to talk to", "demo.fail", "recipes/broken.xml"
    )
    address = re.findall(r'href="([^"]*)">demo\.fail</a>', text)
    assert len(address) == 1
    pages.shows(
        address[0].removeprefix(BASE), f"{BASE}/runs/{failed}", f"{BASE}/runs/{again}", "Deal with it"
    )


def test_M50_P50_work_has_the_question_and_the_answers(pages: PagesOfHome) -> None:
    item = pages.start("show.judge")
    pages.shows("/work", "Is this to be answered?", "Claim")
    pages.shows(f"/work/{item}", "Is this to be answered?", ">Yes</button>", ">No</button>", "offered")


def test_M51_the_log_filters_and_leads_to_runs(pages: PagesOfHome, failed: int) -> None:
    pages.shows("/log", "nothing was done", "narval.daemon")
    assert (
        "narval.daemon"
        not in re.findall(
            r"<tbody>.*</tbody>", pages.shows("/log", "nothing was done", text="NOTHING was"), re.DOTALL
        )[0]
    )


def test_M12_search_leads_to_numbers_and_names(pages: PagesOfHome, failed: int) -> None:
    letter = pages.add("<letter/>")
    for words, leads in (
        (failed, f"/runs/{failed}"),
        (letter, f"/memory/{letter}"),
        ("demo.fail", "/definitions/demo.fail?kind=recipe"),
    ):
        assert pages.get("/search", q=words).headers["location"] == BASE + leads
    pages.shows("/search", "No definition, work, error of a run, or element", q="nonsense")


def test_M12_search_lists_what_has_the_words_by_its_sort(pages: PagesOfHome, failed: int) -> None:
    letter = pages.add("<letter subject='Ann&apos;s &quot;new&quot; whale'/>")
    item = pages.start("show.judge")
    pages.shows("/search", f"{BASE}/definitions/show.stages?kind=recipe", q="STAGES")
    pages.shows("/search", f"{BASE}/work/{item}", q="judge")
    error = pages.ask("show", run=failed)["error"]["message"]
    pages.shows("/search", "Runs that failed so", f"{BASE}/runs/{failed}", q=error)
    pages.shows("/search", f'{BASE}/memory/{letter}">letter {letter}</a>', q='Ann\'s "new"')


def test_M12_search_has_the_elements_of_that_name_first_with_their_number(pages: PagesOfHome) -> None:
    for number in range(14):
        newest = pages.add(f"<swallow nest='reed {number}'/>")
    other = pages.add("<bird kind='swallow'/>")
    text = pages.shows(
        "/search", "14 elements named swallow", f'{BASE}/memory?xpath=swallow">All 14', q="swallow"
    )
    assert text.index(f"{BASE}/memory/{newest}") < text.index("Other elements with it")
    assert text.index("Other elements with it") < text.index(f"{BASE}/memory/{other}")
    text = pages.shows("/search", "Elements with it", "More of them", q="reed")
    assert "named reed" not in text


def test_alike_runs_that_ended_lately_are_one_row_of_the_status(pages: PagesOfHome) -> None:
    for _ in range(3):
        run = pages.over("disk.copy")
    rows = pages.shows("/", "Ended lately")
    rows = rows[rows.index("Ended lately") :]
    assert rows.count(">disk.copy<") == 1
    assert f"{BASE}/runs/{run}" in rows
    assert re.search(rf'href="{BASE}/runs\?name=disk.copy&amp;phase=failed">and \d+ more<', rows)


def test_runs_that_only_tell_of_failures_are_counted_and_shown_on_demand(
    pages: PagesOfHome, failed: int
) -> None:
    (pages.home.path / "recipes" / "notify.xml").write_text(TELLS.replace("basic.", "talk."))
    pages.ask("reload")
    told = pages.over("notify.failures")
    for path, others in (
        ("/runs", "/runs?notices=yes"),
        ("/runs/gantt", "/runs/gantt?minutes=60&amp;notices=yes"),
    ):
        text = pages.shows(path, "that only tell", f'of failures. <a href="{BASE}{others}">Show')
        assert f"{BASE}/runs/{told}" not in text
        with_them = pages.shows(others.replace("&amp;", "&"), f"{BASE}/runs/{told}", " --notices</code>")
        assert "that only tell" not in with_them
    assert f"{BASE}/runs/{told}" in pages.shows("/runs", name="notify.failures")


def test_what_is_not_so_of_a_definition_is_said_in_words(pages: PagesOfHome) -> None:
    pages.shows("/definitions/guard.door", "<dt>restart</dt><dd>no</dd>")


def test_M14_what_waits_for_a_person_is_listed_however_many_began_since(pages: PagesOfHome) -> None:
    asks, *others = [pages.start(name) for name in ("show.asks", *["demo.await"] * 14)]
    text = pages.shows("/", f'<a href="{BASE}/runs/{asks}">show.asks</a>')
    assert text.index(f"{BASE}/runs/{asks}") < text.index(f"{BASE}/runs/{others[-1]}")
    for run in (asks, *others):
        pages.ask("cancel", run=run)


def test_M14_what_ended_last_is_listed_however_many_began_since(pages: PagesOfHome) -> None:
    late = pages.start("demo.await")
    others = [pages.start("demo.await") for _ in range(4 * LISTED + 1)]
    pages.ask("cancel", run=late)
    assert f"{BASE}/runs/{late}" in pages.shows("/", "Ended lately")
    for run in others:
        pages.ask("cancel", run=run)


def test_M14_what_ended_last_is_first_though_it_began_long_before(pages: PagesOfHome) -> None:
    failed = pages.start("demo.slow")
    others = [pages.over(name) for name in ("disk.copy", "demo.fail")]
    pages.ask("cancel", run=failed)
    text = pages.shows("/", "Ended lately")
    places = [text.index(f'{BASE}/runs/{run}"') for run in (failed, *others[::-1])]
    assert places == sorted(places)
