"""The monitor as a person uses it: a real browser at a real daemon and its real pages (M97)."""

from __future__ import annotations

import re
import time
from typing import Any

from tests.browser.programs import Household, log_in
from tests.browser.watching import Watched
from tests.surfaces.web.queues import add_queues

BASE = "/a/narval"


def follow(page: Any) -> None:
    """Wait until a page is followed."""
    page.locator("body[data-stream=open]").wait_for()


def part(page: Any, name: str) -> Any:
    """A part of the graph that is shown."""
    return page.locator(f"svg [data-part={name}]")


class TestDoor:
    def test_M65_a_login_link_lets_in_once(self, browser: Any, household: Household) -> None:
        link = household.narval("web", "login", "ann").strip()
        context = browser.new_context(base_url=household.address)
        page = context.new_page()
        page.goto(f"{BASE}/")
        page.get_by_role("heading", name="Log in").wait_for()
        log_in(page, link)
        page.goto(f"{BASE}/")
        page.get_by_text("ann", exact=True).first.wait_for()
        other = browser.new_context().new_page()
        other.goto(link)
        other.get_by_role("button", name="Log in").click()
        other.locator(".problem").wait_for()
        other.goto(f"{household.address}{BASE}/")
        other.get_by_role("heading", name="Log in").wait_for()
        other.context.close()
        context.close()

    def test_M65_what_is_sent_after_a_session_has_ended_is_there_again_after_the_login(
        self, browser: Any, household: Household
    ) -> None:
        context = browser.new_context(base_url=household.address)
        page, other = context.new_page(), context.new_page()
        log_in(page, household.narval("web", "login", "ann").strip())
        page.goto("/a/narval/runs")
        follow(page)
        other.goto("/a/narval/memory/add")
        other.locator("textarea").fill("<letter>\n  <to>Ann</to>\n</letter>")
        (number,) = re.findall(r"in session (\d+)", page.request.get("/sessions").text())
        household.narval("web", "sessions", "--end", number)
        household.start("show.still")
        page.get_by_role("link", name="Log in again").wait_for()
        page.get_by_role("link", name="Log in again").click()
        page.get_by_role("heading", name="Your session has ended").wait_for()
        other.get_by_role("button", name="Add").click()
        other.get_by_text("It is kept for an hour").wait_for()
        log_in(other, household.narval("web", "login", "ann").strip())
        assert other.get_by_label("xml").input_value() == "<letter>\n  <to>Ann</to>\n</letter>"
        other.get_by_role("button", name="Send it now").click()
        other.wait_for_url("**/memory/*")
        context.close()


class TestRun:
    def test_M60_a_run_is_seen_live_to_its_end(self, page: Any, household: Household) -> None:
        run = household.start("show.stages")
        page.goto(f"{BASE}/runs/{run}")
        follow(page)
        assert "waits for an element" in page.locator("h1").inner_text()
        household.add("<go stage='1'/>")
        part(page, "second").and_(page.locator(".s-done")).wait_for()
        household.add("<go stage='2'/>")
        page.locator("body[data-stream=over]").wait_for()
        assert "done" in page.locator("h1").inner_text()
        assert "s-done" in part(page, "last").get_attribute("class")
        assert page.locator("#banner").is_hidden()

    def test_M60_what_is_new_is_soon_on_the_screen(self, page: Any, household: Household) -> None:
        page.goto(f"{BASE}/runs")
        follow(page)
        late = []
        with household.client() as client:
            for _ in range(12):
                run = client.ask("start", name="show.still")["eid"]
                begun = time.monotonic()
                page.locator(f"a[href='{BASE}/runs/{run}']").first.wait_for()
                late.append(time.monotonic() - begun)
        assert sorted(late)[len(late) // 2] <= 5.0  # on a machine that runs other tests; alone it takes 0.3

    def test_M32_a_part_is_opened_beside_its_graph(self, page: Any, household: Household) -> None:
        run = household.start("show.still")
        page.goto(f"{BASE}/runs/{run}")
        part(page, "last").locator("a").click()
        page.locator("#panel").get_by_text("last").first.wait_for()
        page.keyboard.press("Escape")
        page.locator("#panel").wait_for(state="hidden")

    def test_M29_why_a_run_waits_stands_on_its_page(self, page: Any, household: Household) -> None:
        run = household.start("demo.await")
        page.goto(f"{BASE}/runs/{run}")
        page.get_by_text("letter[@to='ann' and @urgent='yes']").first.wait_for()
        with household.client() as client:
            client.ask("cancel", run=run)  # so that it takes nobody's letter

    def test_M91_a_run_is_gone_through_by_keyboard_alone(self, page: Any, household: Household) -> None:
        run = household.start("show.still")
        page.goto(f"{BASE}/")
        page.keyboard.press("g")
        page.keyboard.press("r")
        page.wait_for_url(re.compile(f"{BASE}/runs$"))
        page.keyboard.press("/")
        page.keyboard.type(str(run))
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(f"/runs/{run}$"))
        focused = "document.activeElement.closest('[data-part]')?.dataset.part"
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(focused):
                break
        assert page.evaluate(focused) == "first"
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focused) == "never"
        page.keyboard.press("Enter")
        page.locator("#panel").wait_for()
        page.keyboard.press("Escape")
        assert page.evaluate(focused)


def swipe(page: Any, x: float, y: float, right: float = 0, down: float = 0) -> None:
    """Move a finger from a point of the window."""
    touch = page.context.new_cdp_session(page)

    def send(kind: str, *points: tuple[float, float]) -> None:
        touch.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )

    send("touchStart", (x, y))
    for part in range(1, 11):
        send("touchMove", (x + right * part / 10, y + down * part / 10))
    send("touchEnd")


class TestEveryPage:
    def test_M62_eight_tabs_all_load_and_follow_when_looked_at(self, watched: Watched) -> None:
        context = watched.context(base_url=watched.address)
        tabs = [context.new_page() for _ in range(8)]
        for tab in tabs:
            tab.goto(f"{BASE}/runs")
            tab.locator("h1").wait_for(state="attached")
        tabs[-1].locator("body[data-stream=open]").wait_for()
        tabs[0].locator("body[data-stream=paused]").wait_for()
        assert sum(tab.locator("body[data-stream=open]").count() for tab in tabs) <= 4
        tabs[0].evaluate("dispatchEvent(new Event('focus'))")
        tabs[0].locator("body[data-stream=open]").wait_for()

    def test_M89_without_scripts_pages_read(self, watched: Watched, household: Household) -> None:
        run = household.start("show.still")
        page = watched.page(java_script_enabled=False)
        page.goto(f"{BASE}/")
        page.get_by_role("link", name="Runs").click()
        page.locator(f"a[href='{BASE}/runs/{run}']").first.click()
        assert f"Run {run}" in page.locator("h1").inner_text()
        page.get_by_role("link", name="Memory").click()
        assert page.locator("h1").inner_text()

    def test_M28_runs_are_cancelled_together_and_that_is_undone_at_both_widths_and_without_scripts(
        self, watched: Watched, household: Household
    ) -> None:
        run = household.start("show.still")
        wide, narrow = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
        for viewport, scripts in ((wide, True), (narrow, True), (narrow, False)):
            page = watched.page(viewport=viewport, java_script_enabled=scripts)
            page.goto(f"{BASE}/runs")
            page.get_by_label(f"choose run {run}").check()
            page.get_by_role("button", name="Cancel…").click()
            page.get_by_role("button", name="Cancel 1 run").click()
            page.get_by_text("Nothing is done before that").wait_for()
            assert page.get_by_role("link", name="Look again").count() == (not scripts)
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
            page.get_by_role("button", name="Undo").click()
            page.get_by_role("heading", name="Undone: nothing was done").wait_for()
        assert household.data("show", str(run))["phase"] == "active"

    def test_M92_a_telephone_scrolls_no_page_sideways(self, watched: Watched, household: Household) -> None:
        run = household.start("show.still")
        page = watched.page(viewport={"width": 320, "height": 640}, has_touch=True, is_mobile=True)
        for path in ("/", "/runs", f"/runs/{run}", "/memory"):
            page.goto(BASE + path)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 320, (path, wide)

    def test_the_page_of_memory_is_no_wider_for_a_step_with_a_long_name(
        self, watched: Watched, household: Household
    ) -> None:
        step = f"a-step-{'x' * 63}"
        recipe = f"""<recipe group="long" name="copies" start_step="{step}" end_step="{step}">
            <step id="{step}" type="action" target="basic.copy">
              <input id="element"><match>original</match></input></step></recipe>"""
        (household.home / "recipes" / "long.xml").write_text(recipe)
        household.add("<original/>")
        with household.client() as client:
            client.ask("reload")
            client.ask("wait", run=household.start("long.copies"), timeout=60)
        for width in (1440, 390):
            page = watched.page(viewport={"width": width, "height": 800})
            page.goto(f"{BASE}/memory")
            page.get_by_role("link", name=step).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width

    def test_M92_on_a_telephone_an_item_is_answered_without_scrolling(
        self, watched: Watched, household: Household
    ) -> None:
        page = watched.page(viewport={"width": 390, "height": 640}, has_touch=True, is_mobile=True)
        item = household.start("show.judge")
        page.goto(f"{BASE}/work/{item}")
        here = page.locator(".top nav [aria-current]")
        assert here.bounding_box()["x"] + here.bounding_box()["width"] <= 390
        yes = page.get_by_role("button", name="Yes", exact=True)
        assert yes.bounding_box()["y"] + yes.bounding_box()["height"] <= 640
        yes.tap()
        page.wait_for_url(f"**/work?acted={item}")
        assert "Answered yes: Is this to be answered?" in page.locator("main").inner_text()

    def test_M92_on_a_telephone_a_long_question_stands_beside_its_number(
        self, watched: Watched, household: Household
    ) -> None:
        item = household.start("show.long")
        page = watched.page(viewport={"width": 390, "height": 640}, has_touch=True, is_mobile=True)
        page.goto(f"{BASE}/work")
        number, title = page.locator(f'main tbody a[href$="/work/{item}"]').all()
        assert abs(number.bounding_box()["y"] - title.bounding_box()["y"]) < 10

    def test_P53_an_open_item_that_somebody_else_answers_loses_its_form_but_not_what_is_typed(
        self, watched: Watched, household: Household
    ) -> None:
        page = watched.page()
        for typed in ("", "She knows it"):
            item = household.start("show.judge")
            page.goto(f"{BASE}/work/{item}")
            follow(page)
            if typed:
                page.get_by_text("Refuse to answer…").click()
                page.get_by_label("Why").fill(typed)
            household.narval("work", "answer", item, "no")
            page.get_by_text("It is done: no").wait_for()
            assert page.get_by_role("button", name="Yes", exact=True).count() == 0
            assert [field.input_value() for field in page.get_by_label("Why").all()] == [typed] * bool(typed)

    def test_P53_a_form_in_which_somebody_types_loses_its_buttons_while_another_has_the_item(
        self, watched: Watched, household: Household
    ) -> None:
        page = watched.page()
        item = household.start("show.form")
        page.goto(f"{BASE}/work/{item}")
        follow(page)
        yes = page.get_by_role("button", name="Yes", exact=True)
        with page.expect_response("**/save"):
            page.get_by_label("Your words").fill("It took an hour")
        with household.client("ben") as client:
            client.ask("claim", item=item)
            page.get_by_text("This cannot be answered now").wait_for()
            assert yes.count() == 0
            client.ask("release", item=item)
            yes.wait_for()
            client.ask("answer", item=item, outcome="yes")
        page.get_by_text("It is done: yes, answered by ben").wait_for()
        page.get_by_text("This cannot be answered now").wait_for()
        assert yes.count() == 0
        assert page.get_by_label("Your words").input_value() == "It took an hour"

    def test_P51_what_is_typed_is_saved_by_itself_and_after_an_answer_was_refused(
        self, watched: Watched, household: Household
    ) -> None:
        page = watched.page()
        item = household.start("show.form")
        page.goto(f"{BASE}/work/{item}")
        with page.expect_response("**/save"):
            page.get_by_label("Your words").fill("It took an hour")
        page.get_by_label("How much").fill("much")
        with page.expect_response("**/save"):
            page.get_by_role("button", name="Yes", exact=True).click()
        with household.client("ann") as client:
            draft = client.ask("work_item", item=item)["draft"]
        assert draft == {"why": ["It took an hour"], "limit": ["much"]}

    def test_M92_a_swipe_over_a_graph_scrolls_the_page_and_moves_the_graph_sideways_alone(
        self, watched: Watched, household: Household
    ) -> None:
        telephone = {"viewport": {"width": 390, "height": 640}, "has_touch": True, "is_mobile": True}
        page = watched.page(**telephone)
        page.goto(f"/a/narval/runs/{household.start('show.still')}")
        graph = page.locator(".graph.zoomable svg")
        graph.scroll_into_view_if_needed()
        before, seen = page.evaluate("scrollY"), graph.get_attribute("viewBox")
        box = graph.bounding_box()
        swipe(page, box["x"] + 100, box["y"] + box["height"] / 2, down=-100)
        page.wait_for_function("before => scrollY > before", arg=before)
        assert graph.get_attribute("viewBox") == seen
        box = graph.bounding_box()
        swipe(page, box["x"] + 200, box["y"] + box["height"] / 2, right=-100)
        assert graph.get_attribute("viewBox").split()[1:] == seen.split()[1:]
        assert graph.get_attribute("viewBox") != seen


class TestWhatIsSeen:
    def test_what_waits_is_told_apart_and_elements_have_titles(
        self, watched: Watched, household: Household
    ) -> None:
        letter = household.add("<email subject='Price list?' from='otto' n='7'>Hello</email>")
        asks, waits = household.start("show.asks"), household.start("show.still")
        with household.client() as client:
            states = {run: client.ask("show", run=run)["waits_for"] for run in (asks, waits)}
        assert states == {asks: "person", waits: "element"}
        for width in (1280, 390):
            page = watched.page(viewport={"width": width, "height": 800})
            page.goto(f"{BASE}/runs?name=show.still&phase=active")
            page.locator("td .s-waiting", has_text="waits for an element").first.wait_for()
            page.get_by_text("narval runs --state active --name show.still").wait_for()
            page.goto(f"{BASE}/runs/{waits}")
            page.locator("h1 .s-waiting").wait_for()
            page.goto(f"{BASE}/")
            page.locator("#live_active summary", has_text="at rest").wait_for()
            page.locator("#live_active .s-person", has_text="for a person").first.click()
            page.get_by_text("narval runs --waiting-for person").wait_for()
            page.locator("td .s-person", has_text="waits for a person").first.wait_for()
            page.goto(f"{BASE}/memory?xpath=email")
            page.get_by_text("Price list? · otto").first.wait_for()
            page.goto(f"{BASE}/memory/{letter}")
            assert "Price list? · otto" in page.locator("h1").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth") <= width

    def test_runs_over_time_are_drawn_and_lead_to_runs(self, watched: Watched, household: Household) -> None:
        with household.client() as client:
            failed = client.ask("start", name="demo.fail", wait=True)["eid"]
        for width in (1280, 390):
            page = watched.page(viewport={"width": width, "height": 800})
            page.goto(f"{BASE}/runs")
            page.locator(".ended .s-failed").wait_for()
            box = page.locator(".ended g").last.bounding_box()
            assert 0 <= box["x"] <= width  # today is in view, however narrow
            page.get_by_role("link", name="the last hour over time").click()
            bar = page.locator(".gantt a", has_text=f"{failed} demo.fail").locator(".run")
            bar.wait_for()
            box = bar.bounding_box()
            assert 0 < box["x"] < box["x"] + box["width"] <= width  # it is in view without scrolling
            page.get_by_text("narval gantt").wait_for()
            shown = page.locator(".gantt .names").first.evaluate("e => getComputedStyle(e).display")
            assert shown == "block"  # else a long name is cut without a sign
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.goto(f"{BASE}/definitions/demo.fail")
            page.locator(f".dots a[href='{BASE}/runs/{failed}']").click()
            page.locator("h1", has_text=str(failed)).wait_for()

    def test_M29_M91_the_story_is_read_and_each_stop_of_the_keys_is_something(
        self, watched: Watched, household: Household
    ) -> None:
        letter = household.add("<letter to='ann' urgent='yes' title='Come to tea'/>")
        run = household.start("demo.await")
        with household.client() as client:
            client.ask("wait", run=run, timeout=60)
        for width in (1280, 390):
            page = watched.page(viewport={"width": width, "height": 800})
            page.goto(f"{BASE}/runs/{run}")
            section = page.locator("#live_history")
            section.get_by_role("heading", name="Step end").wait_for()
            section.get_by_text(f"letter {letter}").first.wait_for()
            assert "Come to tea" in section.inner_text()
            drawing = page.locator("#drawing")
            page.get_by_role("link", name="Skip to the graph").focus()
            page.keyboard.press("Enter")
            for _ in range(5):  # larger, smaller, fit, find, and the first of its parts
                page.keyboard.press("Tab")
                assert not drawing.evaluate("(svg) => svg === document.activeElement")
            assert page.evaluate("Boolean(document.activeElement.closest('[data-part]'))")
            page.get_by_role("link", name="all of it").click()
            page.get_by_role("heading", name="Step end").wait_for()
            page.get_by_role("link", name="The lines of the journal").click()
            page.get_by_text("Finish").first.wait_for()
            page.get_by_text(f"narval history {run} --journal --before").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width

    def test_M8_a_part_that_is_open_can_be_mailed(self, page: Any, household: Household) -> None:
        run = household.start("show.still")
        page.goto(f"{BASE}/runs/{run}")
        part(page, "never").locator("a").click()
        page.locator("#panel").get_by_text("never").first.wait_for()
        assert page.url.endswith("?part=never")
        page.goto(page.url)
        page.locator("#panel").get_by_text("never").first.wait_for()


class TestGoneAndBack:
    def test_M1_the_program_of_the_pages_is_killed_and_back(self, page: Any, household: Household) -> None:
        run = household.start("show.stages")
        page.goto(f"{BASE}/runs/{run}")
        follow(page)
        household.kill_web()
        page.locator("#banner:not([hidden])").wait_for()
        assert f"Run {run}" in page.locator("h1").inner_text()
        household.begin_web()
        follow(page)
        household.add("<go stage='1'/>")
        part(page, "second").and_(page.locator(".s-done")).wait_for()
        assert page.locator("#banner").is_hidden()
        household.add("<go stage='2'/>")

    def test_M4_the_daemon_is_killed_and_back(self, page: Any, household: Household) -> None:
        run = household.start("show.stages")
        page.goto(f"{BASE}/runs/{run}")
        follow(page)
        household.kill_daemon()
        page.get_by_text("No daemon at work since").wait_for()
        assert f"Run {run}" in page.locator("h1").inner_text()
        household.begin_daemon()
        begun = time.monotonic()
        page.locator("#banner").wait_for(state="hidden")
        assert time.monotonic() - begun < 15  # 2 s, and what a busy machine adds
        household.add("<go stage='1'/>")
        household.add("<go stage='2'/>")
        page.locator("body[data-stream=over]").wait_for()
        assert "done" in page.locator("h1").inner_text()


STEPS = """PLAN Steps { BODY {
  sleep("1500") ENABLE: first
  makestream2("[{\\"n\\": 1}, {\\"n\\": 2}]" : all) WAIT: first
  print(all) ENABLE: printed
  sleep("600000") WAIT: printed
} }
"""


def test_T53_the_counts_of_a_dataflow_go_on_as_one_looks(page: Any, household: Household) -> None:
    (household.home / "recipes" / "steps.plan").write_text(STEPS)
    with household.client() as client:
        client.ask("reload")
    run = household.start("steps.Steps")
    page.goto(f"{BASE}/runs/{run}")
    follow(page)
    page.locator("svg .badge", has_text="2 in, 0 out").wait_for()
    page.locator("svg tspan.badge", has_text="2").first.wait_for()
    page.get_by_text("As a table").click()
    page.locator("td", has_text="2 in, 0 out").wait_for()
    with household.client() as client:
        client.ask("cancel", run=run)


def test_K67_tasks_are_found_beside_work_and_followed_at_both_widths(
    watched: Watched, household: Household
) -> None:
    add_queues(household.home)
    with household.client() as client:
        client.ask("reload")
    for width in (1280, 390):
        page = watched.page(viewport={"width": width, "height": 800})
        page.goto(f"{BASE}/work")
        page.get_by_role("link", name="Tasks", exact=True).click()
        page.wait_for_url("**/tasks")
        follow(page)
        with household.client() as client:
            [row] = client.ask("task_put", name="w.fork", elements=[b"<sheet n='7'/>"])["cases"]
            page.locator("tr", has_text="w.fork").locator("td[data-label=wait]", has_text="1").wait_for()
            task = client.ask("task_init", name="w.fork")["task"]
            client.ask("task_get", task=task, wait=60.0)
            client.ask("task_assert", task=task, state="FORWARD")
        page.get_by_role("link", name=str(row["object"]), exact=True).click()
        page.get_by_label("Where it goes, if not to its task again").fill("w.book")
        page.get_by_role("button", name="Let it go on").click()
        page.locator("#live_place", has_text="at w.book").wait_for()
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        page.goto(f"{BASE}/memory")
        for name in ("Letters", "Webhooks", "Remembered", "Elements"):
            page.get_by_role("link", name=name, exact=True).click()
            page.locator(".sections a[aria-current]", has_text=name).wait_for()
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
