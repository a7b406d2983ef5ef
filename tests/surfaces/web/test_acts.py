"""Acts: each form does what it says, is recorded, and is refused in the words of the command (M26–M53)."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from datetime import datetime

import pytest

from narval.kinds.work.engine.table import ACTS_ON_ITEMS, VALUES
from narval.surfaces.http import bulk
from narval.surfaces.http.page import PageRoute, Visit
from narval.surfaces.web.pages import runs as pages_of_runs
from narval.surfaces.web.site import PAGES
from tests.places import ROOT
from tests.surfaces.cli.command_line import narval, well
from tests.surfaces.web.household import BASE, PagesOfHome, browsing
from tests.surfaces.web.queues import add_queues, hold, send_in_vain


def refused(pages: PagesOfHome, *command: object) -> str:
    """The words in which a command is refused."""
    result = narval(pages.home.path, *command)
    assert result.exit_code != 0
    return result.stderr.strip().removeprefix("narval: ").removeprefix("Error: ")


def fields_of(html: str) -> dict[str, str]:
    """The hidden fields of the forms of a page."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', html))


def text_of(html: str) -> str:
    """The text of a page, as one reads it."""
    bare = re.sub(r"<[^>]*>", "", html)
    for name, sign in (("&#39;", "'"), ("&#34;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        bare = bare.replace(name, sign)
    return bare


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acts on many begin at once."""
    monkeypatch.setattr(bulk, "WAIT", 0.0)


def ended(pages: PagesOfHome, leads: str) -> str:
    """The page of an act on many, once it is over."""
    for _ in range(1_000):
        if pages.get(leads.replace("?", ".json?", 1)).json()["state"] not in ("waiting", "going on"):
            return pages.shows(leads)
        time.sleep(0.01)
    raise AssertionError(pages.shows(leads))


class TestMemory:
    def test_M26_an_element_is_added(self, pages: PagesOfHome) -> None:
        leads = pages.does("/memory/add", xml="<letter to='ann'>Hello</letter>")
        pages.shows(leads, "Hello", "by ann")

    def test_M26_several_are_added_at_once(self, pages: PagesOfHome) -> None:
        assert pages.does("/memory/add", xml="<memory><owl/><owl/></memory>") == "/memory"
        assert len(pages.get("/memory.json", xpath="owl").json()) == 2

    def test_M26_bad_xml_is_told_with_its_place_and_stays_in_the_form(self, pages: PagesOfHome) -> None:
        answer = pages.post("/memory/add", xml="<letter>\n<to></letter>")
        assert answer.status_code == 400
        assert re.search(r"line 2, column \d+: not well-formed XML", answer.text), "the place is told once"
        assert "&lt;letter&gt;\n&lt;to&gt;&lt;/letter&gt;</textarea>" in answer.text

    def test_M26_an_element_is_outdated_for_a_reason(self, pages: PagesOfHome) -> None:
        letter = pages.add("<letter n='old'/>")
        pages.shows(f"/memory/{letter}", "Outdate it")
        assert pages.does(f"/memory/{letter}/outdate", reason="no longer so") == f"/memory/{letter}"
        text = pages.shows(f"/memory/{letter}", "outdated")
        assert "Outdate it" not in text
        nothing = pages.post("/memory/987654/outdate")
        assert refused(pages, "outdate", 987654) in text_of(nothing.text)


class TestRuns:
    def test_M38_a_run_is_cancelled_for_a_reason(self, pages: PagesOfHome) -> None:
        caller = pages.start("show.calls")
        (called,) = [run["eid"] for run in pages.ask("runs", name="show.stages", state="active", limit=1)]
        pages.shows(f"/runs/{caller}/cancel", f"{BASE}/runs/{called}")
        assert pages.does(f"/runs/{caller}/cancel", reason="not wanted") == f"/runs/{caller}"
        pages.shows(
            f"/runs/{caller}",
            "by ann (web, session 1): not wanted",
            "It was cancelled by ann (web, session 1)",
        )
        pages.shows(f"/runs/{caller}/history", "reason=not wanted by=ann way=web")
        pages.shows(f"/runs/{caller}/cancel", "It is over already")
        quoted = "due at 2026-02-01T08:00:00+00:00"
        other = pages.start("show.calls")
        pages.does(f"/runs/{other}/cancel", reason=quoted)
        pages.shows(f"/runs/{other}", f"(web, session 1): {quoted}; it ended at <time datetime=")
        pages.shows(f"/runs/{other}/history", f"reason={quoted} by=ann way=web")
        again = pages.post(f"/runs/{caller}/cancel")
        assert refused(pages, "cancel", caller) in text_of(again.text)
        assert f'<a href="{BASE}/runs/{caller}/cancel">Back to the page of the form</a>' in again.text

    def test_M38_a_signal_is_told_and_what_took_it(self, pages: PagesOfHome) -> None:
        run = pages.start("guard.door")
        wrong = pages.post(f"/runs/{run}/signal", name="open", arguments="wide=yes", xml="<a>")
        assert (wrong.status_code, ">wide=yes</textarea>" in wrong.text) == (400, True)
        assert "not well-formed XML" in wrong.text
        leads = pages.does(f"/runs/{run}/signal", name="open", arguments="wide=yes", xml="")
        pages.shows(leads, "It took <b>open</b>", "taken_by: start")
        pages.ask("wait", run=run, timeout=60)
        again = pages.post(f"/runs/{run}/signal", name="open")
        assert (again.status_code, 'value="open"' in again.text) == (400, True)
        assert refused(pages, "signal", run, "open") in text_of(again.text)
        wrong = pages.post(f"/runs/{run}/signal", name="open", arguments="wide")
        assert "line 1: expected NAME=VALUE, got 'wide'" in text_of(wrong.text)

    def test_M39_a_definition_is_started_with_pasted_and_chosen_elements(self, pages: PagesOfHome) -> None:
        ann = pages.add("<name>Ann</name>")
        pages.shows("/start/demo.greet", "Start demo.greet", "</b> of say", f"name {ann} · Ann")
        for wrong in ("x12", "9" * 5_000):
            answer = pages.post("/start/demo.greet", elements=wrong)
            assert (answer.status_code, "expected numbers of elements" in answer.text) == (400, True)
        for fields in ({"xml": "<name>Ann</name>"}, {"elements": str(ann)}, {"chosen": str(ann)}):
            leads = pages.does("/start/demo.greet", **fields)
            pages.ask("wait", run=int(leads.rpartition("/")[2]), timeout=60)
            pages.shows(leads, "done")
        answer = pages.post("/start/demo.greet", xml="<name>", chosen=str(ann))
        assert f'value="{ann}" selected' in answer.text, "what was chosen stays"
        assert (answer.status_code, "&lt;name&gt;</textarea>" in answer.text) == (400, True)
        answer = pages.post("/start/no.such", xml="")
        assert refused(pages, "start", "no.such") in text_of(answer.text)

    def test_M38_tokens_are_completed_gone_back_to_and_refused(self, pages: PagesOfHome) -> None:
        run = pages.start("order.order", environment={"colour": "red"})
        text = pages.shows(f"/runs/{run}/tokens", "enter", "Complete", "colour", "red")
        (token,) = re.findall(r"/tokens/(\d+)/complete", text)
        assert 'name="arcs"' not in text, "only one arc leaves it"
        wrong = pages.post(f"/runs/{run}/tokens/{token}/complete", arcs="nowhere")
        assert wrong.status_code == 400
        assert refused(pages, "complete", run, "enter", "--arc", "nowhere") in text_of(wrong.text)
        assert pages.does(f"/runs/{run}/tokens/{token}/complete", arcs="") == f"/runs/{run}/tokens"
        text = pages.shows(f"/runs/{run}/tokens", "bill", "Go back to it")
        pages.does(f"/runs/{run}/tokens/{token}/backtrack")
        pages.does(f"/runs/{run}/environment", name="colour", value="blue")
        pages.shows(f"/runs/{run}/tokens", "backtracked", "blue")
        assert pages.post(f"/runs/{run}/tokens/{token}/eat").status_code == 404

    def test_the_arcs_on_which_a_token_may_leave_are_offered(self, pages: PagesOfHome) -> None:
        file = pages.home.path / "recipes" / "ways.xml"
        arcs = "<arc to='a' name='to the left'/><arc to='b' name='right'/>"
        nodes = f"<node name='enter' type='wait' isStart='true'>{arcs}</node><node name='a'/><node name='b'/>"
        file.write_text(f"<process-definition name='ways'>{nodes}</process-definition>")
        pages.ask("reload")
        run = pages.start("ways.ways")
        text = pages.shows(f"/runs/{run}/tokens", '<option value="to the left">', '<option value="right">')
        (token,) = re.findall(r"/tokens/(\d+)/complete", text)
        pages.does(f"/runs/{run}/tokens/{token}/complete", arcs="to the left")
        assert [row["node"] for row in pages.ask("tokens", run=run)["tokens"]] == ["enter", "a"]
        file.unlink()
        pages.ask("reload")

    def test_what_cannot_be_retried_is_not_offered_a_retry(self, pages: PagesOfHome) -> None:
        run, fails = pages.over("disk.copy"), pages.over("demo.fail")
        retry = f'<a class="button" href="{BASE}/runs/{{}}/retry">'
        assert retry.format(run) not in pages.shows(f"/runs/{run}")
        pages.shows(f"/runs/{fails}", retry.format(fails))
        rows = {row["definition"]: row["incident"] for row in pages.ask("incidents")}
        text = pages.shows(f"/errors/{rows['disk.copy']}", f'href="{BASE}/start/disk.copy">Start it again')
        assert "/runs/all/retry" not in text
        pages.shows(f"/errors/{rows['demo.fail']}", "/runs/all/retry")

    def test_M37_a_retry_is_shown_before_it_is_done(self, pages: PagesOfHome) -> None:
        run = pages.over("demo.fail")
        pages.shows(f"/runs/{run}/retry", "Retry from break", "The same version", "Done again")
        assert pages.ask("show", run=run)["state"] == "failed"
        leads = pages.does(f"/runs/{run}/retry", step="")
        pages.shows(leads, f'begun again from break of run <a href="{BASE}/runs/{run}"')
        bad = pages.get(f"/runs/{run}/retry", step="nowhere")
        assert bad.status_code == 400
        assert refused(pages, "retry", run, "--dry", "--from", "nowhere") in text_of(bad.text)

    def test_M28_many_are_shown_first_and_each_result_is_told(
        self, pages: PagesOfHome, at_once: None
    ) -> None:
        waiting = [pages.start("demo.await") for _ in range(3)]
        over = pages.over("demo.fail")
        chosen = "&".join(f"run={run}" for run in (*waiting, over))
        asked = pages.shows(f"/runs/all/cancel?which=chosen&{chosen}", "Cancel 4 runs?", "it is over: failed")
        assert all(pages.ask("show", run=run)["phase"] == "active" for run in waiting)
        pages.ask("cancel", run=waiting[0])  # after it was shown
        told = ended(pages, pages.does("/runs/all/cancel", **fields_of(asked)))
        assert all(word in told for word in ("Cancelled: 2 of 3 runs", "Nothing remains", "Refused"))
        assert f"run {waiting[0]} is not active" in told or "it is over" in told
        assert {pages.ask("show", run=run)["state"] for run in waiting} == {"cancelled"}

    @pytest.mark.usefixtures("at_once")
    def test_M28_all_that_the_filter_shows_are_retried(self, pages: PagesOfHome) -> None:
        first, second = pages.over("demo.fail"), pages.start("demo.await")
        pages.shows("/runs", 'name="phase" value="failed"', phase="failed")
        query = {"which": "all", "phase": "failed", "name": "demo.fail"}
        asked = pages.shows("/runs/all/retry", "begins again from break", **query)
        assert f'{BASE}/runs/{second}"' not in asked
        told = ended(pages, pages.does("/runs/all/retry", **fields_of(asked)))
        assert f">break of run {first}" in told
        pages.shows("/runs/all/retry", "No run was chosen.", which="chosen")

    @pytest.mark.usefixtures("at_once")
    def test_M28_M53_so_many_are_acted_on_by_one_form_and_nothing_is_done_again(
        self, pages: PagesOfHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pages_of_runs, "AT_ONCE", 2)
        failed = sorted((pages.over("demo.fail") for _ in range(5)), reverse=True)
        (incident,) = (row["incident"] for row in pages.ask("incidents") if row["definition"] == "demo.fail")
        others = pages.ask("incidents", incident=incident)[0]["count"] - len(failed)
        leads = f"/runs/all/retry?incident={incident}"
        pages.shows(f"/errors/{incident}", f'href="{BASE}{leads}"')
        begun = pages.ask("status")["turns"]
        asked = pages.shows(
            leads, f"Retry {others + 5} runs?", f"The first 2 of {others + 5}", "Retry the first 2 runs"
        )
        assert pages.ask("status")["turns"] == begun  # looking does nothing
        for handled in (2, 4):
            form = fields_of(asked)
            assert form["these"] == " ".join(map(str, failed[handled - 2 : handled]))
            leads = pages.does("/runs/all/retry", **form)
            told = ended(pages, leads)
            retried = [run for run in pages.ask("runs", name="demo.fail") if run["retry_of"]]
            for run in retried:
                pages.ask("wait", run=run["eid"], timeout=60)
            turns = pages.ask("status")["turns"]
            assert ended(pages, leads).count("break of run") == 2  # looked at again
            assert "Begun again: 0 of 2" in ended(pages, pages.does("/runs/all/retry", **form))  # sent again
            assert pages.ask("status")["turns"] == turns
            (after,) = re.findall(rf'href="{BASE}(/runs/all/[^"]*)">Go on…', told)
            asked = pages.shows(after.replace("&amp;", "&"))
        wrong = pages.post("/runs/all/retry", these="1 2 3")
        assert (wrong.status_code, "expected 2 runs at a time at most" in wrong.text) == (400, True)

    def test_M28_an_act_on_many_waits_ten_seconds_and_is_undone(self, pages: PagesOfHome) -> None:
        run, before = pages.start("demo.await"), time.time()
        leads = pages.does("/runs/all/cancel", these=run)
        assert pages.does("/runs/all/cancel", these=run) == leads  # a form that is sent twice is one act
        text = pages.shows(leads, "Cancel 1 run at ", "Undo", "Asked for by ann", f'{BASE}/runs/{run}"')
        act = pages.get(leads.replace("?", ".json?")).json()
        assert (act["state"], act["left"][0]["eid"]) == ("waiting", run)
        assert 9 < datetime.fromisoformat(act["begins"]).timestamp() - before < 60
        (stop,) = re.findall(rf'action="{BASE}(/runs/all/[^"]*/stop)"', text)
        assert pages.post(stop, "reader").status_code == 403
        assert pages.does(stop) == leads
        pages.shows(leads, "Undone: nothing was done")
        assert pages.ask("show", run=run)["phase"] == "active"
        assert pages.does(stop) == leads  # nothing is left to undo

    @pytest.mark.usefixtures("at_once")
    def test_M28_one_that_goes_on_is_stopped_and_says_what_was_done(
        self, pages: PagesOfHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = [pages.start("demo.await") for _ in range(3)]
        reached, goes_on = threading.Event(), threading.Event()
        do = pages_of_runs._do

        async def slowly(visit: Visit, what: str, eid: int) -> int:
            became = await do(visit, what, eid)
            reached.set()
            while not goes_on.is_set():
                await asyncio.sleep(0.01)
            return became

        monkeypatch.setattr(pages_of_runs, "_do", slowly)
        leads = pages.does("/runs/all/cancel", these=" ".join(map(str, runs)))
        assert reached.wait(60)
        text = pages.shows(leads, "Cancel: 0 of 3 runs", ">Stop</button>")
        (stop,) = re.findall(rf'action="{BASE}(/runs/all/[^"]*/stop)"', text)
        pages.does(stop)
        goes_on.set()
        assert "Cancelled: 1 of 3 runs</h1>\n<p>It was stopped." in ended(pages, leads)
        act = pages.get(leads.replace("?", ".json?")).json()
        assert [row["eid"] for row in act["done"]] == runs[:1]
        assert [row["eid"] for row in act["left"]] == runs[1:]
        states = [pages.ask("show", run=run)["phase"] for run in runs]
        assert states == ["cancelled", "active", "active"]

    def test_M28_an_act_whose_program_died_has_done_nothing_and_says_so(self, pages: PagesOfHome) -> None:
        run = pages.start("demo.await")
        leads = pages.does("/runs/all/cancel", these=run)
        (begins,) = re.findall("begins=([^&]*)", leads)
        with browsing(pages.home) as anew:  # another program, which begins before that moment
            anew.shows(leads, "Nothing was done", "narval web was restarted before", f'{BASE}/runs/{run}"')
            assert anew.post("/runs/all/cancel/0123/stop").status_code == 404
            for other in (leads.replace(begins, "2026-01-01T00%3A00%3A00Z"), leads.replace(begins, "soon")):
                anew.shows(other, "it may have begun", "Each run is listed as it is now")
        pages.does(f"{leads.partition('?')[0]}/stop")
        assert pages.ask("show", run=run)["phase"] == "active"


class TestErrors:
    @pytest.mark.usefixtures("at_once")
    def test_M52_an_incident_is_acknowledged_and_M53_retried(self, pages: PagesOfHome) -> None:
        run = pages.over("demo.fail")
        row = next(row for row in pages.ask("incidents") if row["definition"] == "demo.fail")
        asked = pages.shows("/runs/all/retry", f'{BASE}/runs/{run}"', incident=row["incident"])
        told = ended(pages, pages.does("/runs/all/retry", **fields_of(asked)))
        (again,) = re.findall(rf"runs/(\d+)\">(?:(?!</tr>).)*>break of run {run}<", told)
        pages.ask("wait", run=int(again), timeout=60)
        assert pages.does(f"/errors/{row['incident']}/acknowledge", reason="nobody is at home") == "/errors"
        assert "demo.fail" not in pages.shows("/errors")
        pages.shows("/errors", "acknowledged", all="yes")
        pages.shows(f"/errors/{row['incident']}", "by ann", "nobody is at home")


class TestWork:
    def test_M50_an_item_is_claimed_given_back_and_answered(self, pages: PagesOfHome) -> None:
        item = pages.start("show.judge")
        assert pages.does(f"/work/{item}/claim") == f"/work/{item}"
        pages.shows(f"/work/{item}", "ann has it", "Give it back")
        pages.does(f"/work/{item}/release", reason="no time")
        pages.shows(f"/work/{item}", "offered")
        assert pages.does(f"/work/{item}/answer", outcome="yes") == f"/work?acted={item}"
        pages.shows(f"/work?acted={item}", "Answered yes: ", f'<a href="{BASE}/work/{item}">')
        text = pages.shows(f"/work/{item}", "It is done: <b>yes</b>", "What was done", "by web")
        assert "</button></p>" not in text.partition("Your answer")[2].partition("What was done")[0]

    def test_a_text_of_several_lines_is_an_answer(self, pages: PagesOfHome) -> None:
        item = pages.start("show.form")
        pages.does(f"/work/{item}/answer", outcome="yes", **{"field.why": "An hour\r\nor two"})
        answer = pages.ask("work_log", item=item)[-1]["answer"]
        assert ">An hour\nor two</why>" in pages.ask("element", eid=answer)["xml"]

    def test_who_answers_beside_others_is_told_how_many_have_answered_so(self, pages: PagesOfHome) -> None:
        item = pages.start("show.vote")
        assert "What they answered is shown to those" not in pages.shows(
            f"/work/{item}", "yes needs 2 people."
        )
        assert pages.does(f"/work/{item}/answer", outcome="yes") == f"/work?acted={item}"
        text = pages.shows(f"/work?acted={item}", "Answered yes (1 of 2): ")
        assert f'href="{BASE}/work/{item}"' not in text.partition("live_items")[2], "it is not asked again"
        assert "Next:" not in text
        pages.shows("/work?view=all", "you answered yes (1 of 2)")
        pages.shows("/work?view=answered", "you answered yes (1 of 2)")
        pages.shows(f"/work/{item}", "yes has 1 of 2: ann.")
        shown = "Answered so far: ann. What they answered is shown to those who have answered."
        pages.shows(f"/work/{item}", "yes needs 2 people.", shown, role="person")
        pages.ask("cancel", run=item)

    def test_the_command_tells_the_same_of_an_answer_beside_others(self, pages: PagesOfHome) -> None:
        item = pages.start("show.vote")

        def said(*words: object) -> str:
            return well(pages.home.path, "work", *words, "--as", "ann")

        assert said("answer", item, "yes") == f"item {item} is offered, answered yes (1 of 2)\n"
        assert "Is this to be voted on?" not in said()
        assert "offered, answered yes (1 of 2)" in said("--all")
        assert "offered, answered yes (1 of 2)" in said("--answered")
        assert re.search(r"answered +yes 1 of 2: ann\n", said("show", item))
        pages.ask("cancel", run=item)

    def test_a_vote_is_taken_back(self, pages: PagesOfHome) -> None:
        item = pages.start("show.vote")
        pages.does(f"/work/{item}/answer", outcome="yes")
        text = pages.shows(f"/work/{item}", "Take my answer back")
        (path,) = re.findall(rf'action="{BASE}(/work/{item}/take.back)"', text)
        pages.does(path)
        assert "Take my answer back" not in pages.shows(f"/work/{item}", "offered")
        pages.ask("cancel", run=item)

    def test_each_act_on_items_is_in_the_page_with_the_fields_of_its_row(self) -> None:
        template = (ROOT / "narval/surfaces/web/templates/work_item.html").read_text()
        for name, row in ACTS_ON_ITEMS.items():
            asked = {f'name="{field.asked_as}"' for field in row.fields if field is not VALUES}
            assert {word for word in (f'"{name}"', *asked) if word not in template} == set()

    def test_M50_what_is_refused_is_told_and_the_form_is_shown_again(self, pages: PagesOfHome) -> None:
        item = pages.start("show.judge")
        answer = pages.post(f"/work/{item}/answer", outcome="perhaps")
        assert answer.status_code == 409
        assert refused(pages, "work", "answer", item, "perhaps", "--as", "ann") in text_of(answer.text)
        assert ">Yes</button>" in answer.text
        assert pages.post(f"/work/{item}/eat").status_code == 404

    def test_an_answer_made_for_another_state_is_refused_and_what_was_typed_is_shown_again(
        self, pages: PagesOfHome
    ) -> None:
        item = pages.start("show.form")
        pages.does(f"/work/{item}/claim")
        form = fields_of(pages.get(f"/work/{item}").text)
        pages.does(f"/work/{item}/release", reason="it is mine")
        answer = pages.post(f"/work/{item}/answer", **form, outcome="yes", **{"field.why": "TYPED"})
        assert (answer.status_code, ">TYPED</textarea>" in answer.text) == (409, True)
        assert "you no longer have this: ann gave it back at" in text_of(answer.text)
        pages.does(f"/work/{item}/reassign", to="ben")
        form = fields_of(pages.get(f"/work/{item}", "person").text)
        pages.does(f"/work/{item}/reassign", to="ann", reason="he is away")
        answer = pages.post(f"/work/{item}/answer", "person", **form, outcome="yes", **{"field.why": "TYPED"})
        assert answer.status_code == 409
        assert re.search(r">why</dt><dd[^>]*>TYPED<", answer.text)
        assert re.search("this asks ann, for .* offered it to ann at .*: he is away;", text_of(answer.text))
        assert pages.ask("work_log", item=item)[-1]["did"] == "TurnedAway"
        unseen = {"outcome": "yes", "field.why": "TYPED"}
        answer = pages.post(f"/work/{item}/answer", "person", **unseen)
        assert (answer.status_code, "TYPED" in answer.text) == (404, True)
        assert f"there is no item {item} that you may see" in text_of(answer.text)


class TestRoles:
    OPERATORS = (
        "/runs/{run}/cancel",
        "/runs/{run}/signal",
        "/runs/{run}/retry",
        "/start/demo.await",
        "/memory/add",
    )

    def test_M66_a_reader_is_offered_nothing_and_refused_all_the_same(self, pages: PagesOfHome) -> None:
        run, item = pages.start("demo.await"), pages.start("show.judge")
        letter, process = pages.add("<letter/>"), pages.start("order.order")
        pages.over("demo.fail")
        (row,) = (row for row in pages.ask("incidents") if row["definition"] == "demo.fail")
        for path in (
            "/", "/runs", f"/runs/{run}", f"/runs/{run}/parts/begin", f"/runs/{process}/tokens", "/memory",
            f"/memory/{letter}", "/definitions/demo.await", "/errors", f"/errors/{row['incident']}",
            "/work?view=all", "/log", "/calendar",
        ):  # fmt: skip
            text = pages.shows(path, role="reader")
            assert 'method="post"' not in text, path
            assert not re.search(r">(Add|Start|Cancel|Signal|Retry|Replace)…</a>", text), path
        for path in self.OPERATORS:
            answer = pages.get(path.format(run=run), "reader")
            assert (answer.status_code, "This is for operators; you are a reader" in answer.text) == (
                403,
                True,
            )
        for path in (
            f"/runs/{run}/cancel",
            "/memory/add",
            f"/memory/{letter}/outdate",
            f"/work/{item}/claim",
        ):
            assert pages.post(path, "reader").status_code == 403
        assert pages.ask("show", run=run)["phase"] == "active"

    def test_M66_a_person_has_their_work_alone(self, pages: PagesOfHome) -> None:
        item = pages.start("show.judge")
        text = pages.shows("/work", "Nothing is asked of you.", role="person")
        assert not re.findall(r'href="/a/narval/(?!work)[a-z]', text)
        for path in (
            "/",
            "/runs",
            "/memory",
            "/definitions",
            "/errors",
            "/log",
            "/calendar",
            f"/runs/{item}",
        ):
            assert pages.get(path, "person").status_code == 403
            assert pages.get(f"{path}.json", "person").status_code == 403
        assert pages.post(f"/work/{item}/answer", "person", outcome="yes").status_code == 404


def proposed(pages: PagesOfHome) -> str:
    """Proposals one to three, the digest of their texts, and four, which failed; a model that is away."""
    model = '[models.away]\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n[propose]\nmodel = "away"\n'
    with (pages.home.path / "etc/narval.toml").open("a") as settings:
        settings.write(f"\n{model}")
    step = '<step id="s" type="action" target="talk.nothing"/>'
    text = f'<recipe group="new" name="one" start_step="s" end_step="s">{step}</recipe>'
    for name in ("one", "two", "three", "four"):
        pages.ask("propose", name=name, texts={"new.xml": text}, wish="do nothing")
    about = pages.home.path / "proposals/four/proposal.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "state": "failed", "answers": []}))
    return str(pages.ask("proposal", name="one")["digest"])


def edited(pages: PagesOfHome) -> dict[str, str]:
    """The fields of a form that saves another text of a file, once more than before."""
    with (pages.home.path / "etc/narval.toml").open("a") as settings:
        settings.write("\n[web]\nedit = true\n")
    step = '<step id="s" type="action" target="talk.nothing"/>'
    text = f'<recipe group="edited" name="one" start_step="s" end_step="s">{step}</recipe>\n'
    file = pages.home.path / "recipes" / "edited.xml"
    file.write_text(text)
    pages.ask("reload")
    digest = pages.ask("edit", name="edited.one")["digest"]
    other = f"<!-- once more -->\n{text}"
    pages.does("/definitions/edited.one/edit/save", edited=other, digest=digest)
    return {"edited": f"{text}\n", "digest": pages.ask("edit", name="edited.one")["digest"]}


def outlived(pages: PagesOfHome) -> tuple[list[int], str]:
    """Three runs whose file is newer, the last of which has moved to it, and the version of the file."""
    step = '<step id="{}" type="action" target="talk.nothing"/>'
    condition = "<condition><match>{}</match></condition>"
    way = f'<transition id="t"><in idref="s"/><out idref="e"/>{condition}</transition>'
    steps = f"{step.format('s')}{step.format('e')}"
    file = pages.home.path / "recipes" / "outlived.xml"
    recipe = f'<recipe group="move" name="wait" start_step="s" end_step="e">{steps}{way}</recipe>'
    file.write_text(recipe.format("whale"))
    pages.ask("reload")
    runs = [pages.start("move.wait") for _ in range(3)]
    file.write_text(recipe.format("seal"))
    pages.ask("reload")
    version = pages.ask("migration_plan", run=runs[0])["planned"]["version"]
    pages.ask("migrate", runs=[str(runs[2])])
    return runs, str(version)


@pytest.fixture(scope="module")
def forms(pages: PagesOfHome) -> dict[str, tuple[str, dict[str, str]]]:
    """For each act a path and the fields of a form that is done there."""
    await_, stages, door = (pages.start(name) for name in ("demo.await", "show.stages", "guard.door"))
    process, item, letter, failed = (
        pages.start("order.order"), pages.start("show.judge"), pages.add("<letter/>"), pages.over("demo.fail")
    )  # fmt: skip
    (token,) = pages.ask("tokens", run=process)["tokens"]
    (incident,) = (row["incident"] for row in pages.ask("incidents") if row["definition"] == "demo.fail")
    job = pages.ask("try_on_past", definition="show.stages", since="1d")["job"]
    digest = proposed(pages)
    bulk_act = pages.does("/runs/all/cancel", these=door)
    (moves, simulated, moved), version = outlived(pages)
    add_queues(pages.home.path)
    pages.ask("reload")
    pages.over("flats.Watch")
    send_in_vain(pages, 1)
    return {
        "act_on_object": (f"/tasks/objects/{hold(pages)}/retry", {"to": "w.book"}),
        "act_on_letter": ("/letters/1/drop", {}),
        "forget_remembered_act": ("/remembered/flats/forget", {"key": "7"}),
        "migrate_run": (f"/runs/{moves}/migrate", {"version": version}),
        "undo_migration": (f"/runs/{moved}/migrate/undo", {}),
        "simulate_migration": (f"/runs/{simulated}/migrate/simulate", {"duration": "7d"}),
        "act_on_runs": ("/runs/all/cancel", {"these": str(stages)}),
        "stop_bulk": (f"{bulk_act.partition('?')[0]}/stop", {}),
        "cancel_run": (f"/runs/{await_}/cancel", {"reason": "enough"}),
        "signal_run": (f"/runs/{door}/signal", {"name": "open"}),
        "retry_run": (f"/runs/{failed}/retry", {}),
        "start_run": ("/start/demo.await", {}),
        "set_environment": (f"/runs/{process}/environment", {"name": "colour", "value": "red"}),
        "token_act": (f"/runs/{process}/tokens/{token['id']}/complete", {}),
        "add_element": ("/memory/add", {"xml": "<letter/>"}),
        "outdate_element": (f"/memory/{letter}/outdate", {"reason": "old"}),
        "grant_definition": ("/definitions/show.stages/grant", {}),
        "revoke_definition": ("/definitions/show.stages/revoke", {}),
        "take_example": ("/examples/month/take", {"group": "mine"}),
        "save_edit": ("/definitions/edited.one/edit/save", edited(pages)),
        "take_back_edit": ("/definitions/edited.one/edit/take-back", {"version": "e1"}),
        "explore": ("/definitions/show.stages/explore", {"kind": "recipe"}),
        "simulate": ("/simulate", {"definition": "show.stages", "duration": "1h"}),
        "try_on_past": ("/definitions/show.stages/past", {"kind": "recipe", "since": "1d"}),
        "end_job": (f"/past/{job}/end", {}),
        "propose": ("/proposals", {"wish": "sort my mail"}),
        "accept_proposal": ("/proposals/one/accept", {"digest": digest, "untried": "1"}),
        "unaccept_proposal": ("/proposals/one/undo", {}),
        "drop_proposal": ("/proposals/two/drop", {}),
        "end_drafting": ("/proposals/four/end", {}),
        "try_proposal": ("/proposals/three/past", {"since": "1d"}),
        "answer_proposal": ("/proposals/four/answers", {}),
        "acknowledge_incident": (f"/errors/{incident}/acknowledge", {"reason": "known"}),
        "work_act": (f"/work/{item}/claim", {}),
    }


@pytest.mark.parametrize(
    "route", [route for route in PAGES if route.is_act and not route.looks], ids=lambda route: route.name
)
def test_every_form_that_is_done_leads_to_a_page(
    pages: PagesOfHome, forms: dict[str, tuple[str, dict[str, str]]], route: PageRoute
) -> None:
    path, fields = forms[route.name]
    pages.shows(pages.does(path, **fields))  # which only looks, so that a reload does nothing again


@pytest.mark.parametrize("route", [route for route in PAGES if route.is_act], ids=lambda route: route.name)
def test_every_form_that_is_refused_is_answered_by_a_fault_or_leads_on(
    pages: PagesOfHome, route: PageRoute
) -> None:
    path = re.sub(r"\{(\w+)(:int)?\}", lambda found: "987654" if found[2] else "nothing", route.path)
    answer = pages.post(path.removeprefix("/a/nothing"), name="nothing")
    assert answer.status_code in (400, 404, 409), answer.text


@pytest.mark.parametrize("path", ["/memory/add", "/start/demo.greet"])
def test_M68_every_form_has_the_token_of_its_session(pages: PagesOfHome, path: str) -> None:
    for form in re.findall(r'<form method="post".*?</form>', pages.shows(path), re.DOTALL):
        assert 'name="token" value="token-of-1"' in form
