"""The pages of tasks, letters, webhooks and what dataflows remember: what they show, what is done there."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.surfaces.cli.command_line import narval
from tests.surfaces.web.household import BASE, PagesOfHome, at_work, browsing, data, make_show
from tests.surfaces.web.queues import add_queues, send_in_vain
from tests.surfaces.web.test_acts import refused, text_of

TOKEN = "5f0c6c0e6a5b4d57"
HOOKS = f"""
[hooks.build]
sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
element = "build"
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesOfHome]:
    """The pages of a home with tasks, a dataflow that remembers, a webhook, and another agent."""
    home = make_show(tmp_path_factory.mktemp("tasks") / "home")
    add_queues(home.path)
    with (home.path / "etc" / "narval.toml").open("a") as settings:
        settings.write(HOOKS)
    with at_work(home), browsing(home) as pages:
        yield pages


def put(pages: PagesOfHome, count: int = 1) -> list[dict[str, int]]:
    """Put objects into the queue of w.scan: their cases and objects."""
    sheets = b"".join(b"<sheet n='%d'/>" % n for n in range(count))
    answer = pages.ask("task_put", name="w.scan", elements=[b"<memory>" + sheets + b"</memory>"])
    return list(answer["cases"])


def until(pages: PagesOfHome, path: str, *words: str) -> str:
    """A page, once it has these words."""
    deadline = time.monotonic() + 60
    while True:
        text = pages.get(path).text
        if all(word in text for word in words):
            return str(text)
        assert time.monotonic() < deadline, (words, text)
        time.sleep(0.05)


def test_K67_the_overview_has_queues_who_takes_them_and_windows(pages: PagesOfHome) -> None:
    put(pages, 2)
    pages.ask("task_raise", name="w.scan", event="ev.never")
    pages.ask("task_raise", name="w.scan", event="ev.now")
    text = until(pages, "/tasks", "1 open</span>", "1 shut</span>")
    rows = {row["type"]: row for row in data(pages.get("/tasks.json"))}
    assert (rows["w.scan"]["waiting"], rows["w.scan"]["takes"]) == (2, "programs")
    assert rows["w.scan"]["oldest"] is not None
    assert (rows["w.book"]["waiting"], rows["w.book"]["takes"]) == (0, "operator")
    assert (rows["w.NIGHT"]["waiting"], rows["w.NIGHT"]["global"]) == (None, True)
    for path in ("/tasks/types/w.scan", "/tasks/events?type=w.scan"):
        assert f'href="{BASE}{path}"' in text
    assert f'<a href="{BASE}/tasks" aria-current="page">Tasks</a>' in text, "beside the items of work"
    pages.shows("/work", f'href="{BASE}/tasks"')
    assert f'href="{BASE}/tasks"' not in pages.shows("/work", role="person")
    pages.shows("/tasks/events", "ev.never", "registered", ">shut</span>", ">open</span>", type="w.scan")
    pages.shows("/tasks/events", "No event waits that fits this filter.", type="w.book")
    pages.shows("/tasks/cases", "Cases that are not over", "at w.scan")
    pages.shows("/tasks/cases", "No case is blocked.", state="blocked")
    assert pages.get("/tasks/cases", state="odd").status_code == 400
    assert data(pages.get("/tasks.json", after="w.fork"))[0]["type"] == "w.scan"
    newest, oldest = data(pages.get("/tasks/cases.json"))
    listed = narval(pages.home.path, "task", "cases", "--limit", "1")
    assert f"task cases --limit 1 --before {newest['case']}" in listed.stderr
    further = narval(pages.home.path, "task", "cases", "--limit", "1", "--before", newest["case"], "--json")
    assert [row["case"] for row in json.loads(further.stdout)] == [oldest["case"]]


def test_K67_an_object_has_its_way_its_times_and_its_events(pages: PagesOfHome) -> None:
    [other] = [row["object"] for row in data(pages.get("/tasks/types/w.scan.json"))[:1]]
    task = pages.ask("task_init", name="w.scan")["task"]
    run = int(task.partition(".")[0])
    object = pages.ask("task_get", task=task, wait=60.0)["object"]
    assert object == other
    pages.shows("/tasks/at-work", f"{BASE}/runs/{run}", f"{BASE}/tasks/objects/{object}", "scanning")
    what = pages.ask("task_where", object=object)["title"]
    assert what.startswith("sheet · ")
    for list_of_objects in ("/tasks/at-work", "/tasks/cases", f"/tasks/objects/{object}"):
        pages.shows(list_of_objects, f">{what}</span>")
    pages.ask("task_assert", task=task, state="reading")
    pages.ask("task_raise", name="w.scan", event="ev.never")
    path = f"/tasks/objects/{object}"
    text = pages.shows(path, "at w.scan", f"task {run}</a>", "It has passed no task yet.", "reading")
    assert text.count("ev.never") >= 1
    rows = data(pages.get(f"{path}.json"))
    assert (rows["object"], rows["task"]) == (object, run)
    pages.ask("task_assert", task=task, state="FORWARD")
    until(pages, path, "<b>FORWARD</b>", "w.book")
    times = pages.ask("task_times", object=object)
    assert [(row["type"], row["state"]) for row in times][:3] == [
        ("w.scan", None), ("w.scan", "scanning"), ("w.scan", "reading")
    ]  # fmt: skip
    assert sum(row["seconds"] for row in times[1:3]) == pytest.approx(times[0]["seconds"], abs=0.01)
    said = narval(pages.home.path, "task", "time", object)
    assert [line.split()[0] for line in said.stdout.splitlines()[1:4]] == ["w.scan", "scanning", "reading"]
    pages.shows("/tasks/log", f"object {object} entered task {run}", object=object)
    pages.shows("/tasks/log", "raised ev.never to w.scan", type="w.scan")
    pages.ask("task_down", task=task)
    for path in ("/tasks/objects/987654", "/tasks/types/no.such"):
        answer = pages.get(path)
        assert (answer.status_code, "987654 is not in memory" in answer.text) == (404, "987654" in path)


def test_K16_a_task_is_stopped_and_a_held_object_goes_on_from_its_page(pages: PagesOfHome) -> None:
    [row] = pages.ask("task_put", name="w.fork", elements=[b"<sheet n='7'/>"])["cases"]
    object, path = row["object"], f"/tasks/objects/{row['object']}"
    task = pages.ask("task_init", name="w.fork")["task"]
    pages.ask("task_get", task=task, wait=60.0)
    pages.shows(path, "Stop the task")
    assert "Stop the task" not in pages.shows(path, role="reader")
    assert pages.does(f"{path}/stop", reason="wrong scanner") == path
    until(pages, path, ">at w.fork</span> in the queue")
    again = pages.post(f"{path}/stop")
    assert (again.status_code, "no task has object" in again.text) == (400, True)
    assert pages.post(f"{path}/eat").status_code == 404
    task = pages.ask("task_init", name="w.fork")["task"]
    pages.ask("task_get", task=task, wait=60.0)
    pages.ask("task_assert", task=task, state="FORWARD")
    until(pages, path, "Let it go on")
    pages.shows("/tasks", "Cannot go on by themselves", f"{BASE}{path}")
    wrong = pages.post(f"{path}/retry", to="no.such")
    assert refused(pages, "task", "retry", row["case"], "--object", object, "--to", "no.such") in text_of(
        wrong.text
    )
    assert pages.does(f"{path}/retry", to="w.book") == path
    until(pages, path, "w.book")


def test_G32_letters_are_listed_paged_sent_again_and_dropped(pages: PagesOfHome) -> None:
    pages.shows("/letters", "No letter waits")
    pages.shows("/letters", "There is no dead letter.", dead="yes")
    send_in_vain(pages, 3, lambda: pages.shows("/letters", "ada</td>", "note"))
    until(pages, "/letters?dead=yes", *(f"letter {n}</span>" for n in (1, 2, 3)))
    text = pages.shows("/letters", "Send again", "note", "could not be sent", "Drop", dead="yes")
    letters = [row["letter"] for row in data(pages.get("/letters.json", dead="yes"))]
    assert letters == sorted(letters, reverse=True)
    assert f"{BASE}/letters/{letters[0]}/resend" in text
    assert [row["letter"] for row in pages.ask("letters", dead=True, limit=1, before=str(letters[0]))] == [
        letters[1]
    ]
    said = narval(pages.home.path, "letters", "--dead", "--limit", 1)
    assert f"--before {letters[0]} has the next" in said.stderr
    assert pages.does(f"/letters/{letters[0]}/drop") == "/letters?dead=yes"
    assert pages.post(f"/letters/{letters[1]}/resend").status_code == 404, "there is no agent ada"
    assert narval(pages.home.path, "agents", "add", "ada").exit_code == 0
    assert pages.does(f"/letters/{letters[1]}/resend") == "/letters?dead=yes"
    assert letters[0] not in [row["letter"] for row in pages.ask("letters", dead=True)]
    gone = pages.post(f"/letters/{letters[0]}/drop")
    assert (gone.status_code, refused(pages, "letters", "drop", letters[0]) in text_of(gone.text)) == (
        404,
        True,
    )
    assert pages.post(f"/letters/{letters[0]}/eat").status_code == 404


def test_a_webhook_tells_what_it_took_last_and_what_it_refused(pages: PagesOfHome) -> None:
    text = pages.shows("/hooks", "<b>build</b>", "never", f'href="{BASE}/memory?xpath=build"')
    assert TOKEN not in text
    ask = partial(pages.ask, acting_as="", name="build")
    eid = ask("take_hook", element=b"<build n='1'/>", key="k")["eid"]
    assert ask("take_hook", element=b"<build n='1'/>", key="k")["again"]
    ask("note_refused", statuses={"401": 2, "429": 1})
    pages.shows("/hooks", f"element {eid}</a>", "<b>2</b> a wrong token, <b>1</b> too many a minute")
    [row] = data(pages.get("/hooks.json"))
    assert (row["taken"], row["eid"], row["refused"]) == (1, eid, {"401": 2, "429": 1})
    assert "2 × 401, 1 × 429" in narval(pages.home.path, "hooks").stdout


def test_T49_what_dataflows_remember_is_listed_and_forgotten(pages: PagesOfHome) -> None:
    pages.shows("/remembered", "No dataflow remembers anything")
    pages.over("flats.Watch")
    text = until(pages, "/remembered", ">60</td>", "flats.Watch")
    assert f'href="{BASE}/remembered/flats"' in text
    first = pages.get("/remembered/flats.json")
    assert len(data(first)) == 50
    assert 'skip=50>; rel="next"' in first.headers["link"]
    text = pages.shows("/remembered/flats", "Forget all", "price", skip=50)
    key = re.findall(r'name="key" value="(\d+)"', text)[0]
    assert pages.does("/remembered/flats/forget", key=key) == "/remembered/flats"
    assert key not in [row["key"][0] for row in pages.ask("remembered", name="flats")]
    assert pages.does("/remembered/flats/forget") == "/remembered"
    assert pages.get("/remembered/flats").status_code == 404


ADDRESSES = {
    "/tasks": "task types --limit 50",
    "/tasks?after=w.book": "task types --limit 50 --after w.book",
    "/tasks/at-work": "task --limit 50",
    "/tasks/cases?state=active": "task cases --limit 50 --state active",
    "/tasks/events?type=w.scan": "task events w.scan --limit 50",
    "/tasks/types/w.scan": "task queue w.scan --limit 50",
    "/letters?dead=yes": "letters --dead --limit 50",
    "/hooks": "hooks",
    "/remembered": "remembered --limit 50",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_M5_json_of_these_pages_is_that_of_the_command(pages: PagesOfHome, address: str) -> None:
    path, _, query = address.partition("?")
    shown: Any = pages.get(f"{path}.json", **dict([query.split("=")] if query else []))
    assert shown.content.decode() == narval(pages.home.path, *ADDRESSES[address].split(), "--json").stdout
