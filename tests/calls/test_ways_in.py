"""Ways in: what comes from outside the home has the label of its way, and what its people give has none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from narval.core.definitions.action.definition import Action
from narval.files.reading import load
from narval.surfaces.python.agent import Agent
from tests.calls.test_labels import PLAN as SAYS
from tests.calls.test_labels_on_their_way import PLAN
from tests.local_site import LocalSite, local_site
from tests.modules.calendar_texts import ics, vevent
from tests.modules.homes import answer, asking
from tests.places import ROOT

MODULE = """
import asyncio
from narval import ActionError, Input, Output, action, call

@action(outputs=[Output("came", "came")], label="river", outside=False)
def comes(): return "<came/>"

@action(label="river", outside=False)
def breaks(): raise ActionError("it said: no", "no", final=True)

@action(outputs=[Output("came", "came")], label="river", source=True)
async def flows():
    yield "<came/>"
    call().caught_up()
    await asyncio.Event().wait()

@action(outputs=[Output("own", "own")], pure=True)
def own(): return "<own/>"

@action(inputs=[Input("came", "came")], outputs=[Output("made", "made")], pure=True)
def makes(came): return "<made/>"
"""
SETTINGS = f"""
[commands.hello]
run = ["/bin/echo", "hello"]
[calendars]
home = {{ path = "data/home.ics" }}
[hooks.build]
sha256 = "{sha256(b"secret").hexdigest()}"
element = "build"
[sources.table]
kind = "csv"
path = "data/table.csv"
"""
RETRIEVES = """PLAN Reads {
  INPUT: String name
  OUTPUT: said
  BODY { retrieve(name, "" : said) }
}
"""


@pytest.fixture
def site() -> Iterator[LocalSite]:
    with local_site() as site:
        yield site


@pytest.fixture
def agent(tmp_path: Path, site: LocalSite) -> Iterator[Agent]:
    feed = '<rss version="2.0"><channel><item><title>a</title><guid>1</guid></item></channel></rss>'
    for path, text in {
        "modules/m.py": MODULE,
        "recipes/flow.plan": PLAN,
        "recipes/says.plan": SAYS,
        "recipes/reads.plan": RETRIEVES,
        "recipes/auto.xml": '<AUTOMATON name="fails"><STATE name="start" command="false"/></AUTOMATON>',
        "data/memory.xml": "<memory><mine/></memory>",
        "data/feed.xml": feed,
        "data/table.csv": "a,b\n1,2\n",
        "data/note.txt": "a note",
        "box/new/1.1.host": "From: a@example.org\nDate: Mon, 2 Nov 2026 08:00:00 +0000\n\nHello",
        "box/cur/.keep": "",
        "box/tmp/.keep": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    (tmp_path / "data/home.ics").write_bytes(
        ics(vevent("boat", f"DTSTART:{tomorrow:%Y%m%d}T090000Z", "SUMMARY:Boat"))
    )
    site.put("/x", "a page")
    with asking(tmp_path, f'{SETTINGS}[services.hub]\nurl = "{site.url}"\n') as agent:
        yield agent


def labels(agent: Agent, eid: int) -> list[str]:
    of = agent.daemon.agent.memory.labels
    return list(of.names(of.of((eid,))))


def shown(agent: Agent, name: str) -> list[list[str]]:
    """The labels of the elements of a name, as the operation `memory` tells them."""
    return [row["labels"] for row in agent.ask("memory", xpath=name)]


@pytest.mark.parametrize(
    ("action", "arguments", "label"),
    [
        ("http.request", "<request service='hub' path='/x'/>", "web"),
        ("http.request", "<request service='hub' path='/none'/>", "web"),
        ("feeds.read", "<feed path='data/feed.xml'/>", "feed"),
        ("feeds.read", "<feed path='data/none.xml'/>", "feed"),
        ("calendar.read", "<calendar name='home'/>", "calendar"),
        ("files.read_text", "<file path='data/note.txt'/>", "file"),
        ("mail.read", "<mailbox path='box'/>", "mail"),
        ("command.run", "<command name='hello'/>", "program"),
    ],
)
def test_what_an_action_that_ships_brings_in_has_its_label(
    agent: Agent, action: str, arguments: str, label: str
) -> None:
    came = answer(agent, action, arguments)
    assert labels(agent, came.eid) == [label]
    assert came.origin is not None
    assert labels(agent, came.origin.run) == [label], "what it does next was decided by that"
    (argument,) = came.origin.inputs
    assert labels(agent, argument) == [], "the author wrote it"


BRINGS_NOTHING_IN = {
    **dict.fromkeys(("mail.send", "mail.write", "notify.tell"), "it tells what was sent, which it was given"),
    **dict.fromkeys(("calendar.add", "calendar.change", "calendar.remove"), "the event as it was given"),
    **dict.fromkeys(
        ("files.write", "files.append", "files.copy", "files.move", "files.delete"), "its report"
    ),
    **dict.fromkeys(("chat.send", "chat.remind"), "it tells what was sent, which it was given"),
    "reminders.done": "the reminder that it was given, at its next time",
    **dict.fromkeys(("mail.move", "mail.flag", "basic.write_file", "model.spent"), "its report"),
}


def test_each_action_that_ships_has_a_label_or_brings_nothing_in() -> None:
    silent = {
        of.full_name
        for of in load(ROOT).library
        if isinstance(of, Action) and not (of.pure or of.label or of.model)
        if of.prototype.outputs
    }
    assert silent == set(BRINGS_NOTHING_IN)


def test_what_a_person_gives_and_what_files_declare_has_none(agent: Agent) -> None:
    agent.add("<mine/>")
    assert shown(agent, "mine") == [[], []]


def test_what_a_webhook_gives_has_its_name(agent: Agent) -> None:
    agent.ask("take_hook", name="build", element=b"<build/>")
    assert shown(agent, "build") == [["hook:build"]]


def test_a_label_is_declared_for_an_action_and_is_of_its_errors_too(agent: Agent) -> None:
    assert labels(agent, answer(agent, "m.comes", "").eid) == ["river"]
    assert labels(agent, answer(agent, "m.breaks", "").eid) == ["river"]
    assert shown(agent, "failure") == [["river"]]


def test_a_source_labels_what_it_gives_and_not_its_run(agent: Agent) -> None:
    came = answer(agent, "m.flows", "")
    assert came.origin is not None
    assert (labels(agent, came.eid), labels(agent, came.origin.run)) == (["river"], [])
    assert labels(agent, answer(agent, "m.makes", "").eid) == ["river"]


def test_a_step_that_was_given_nothing_was_decided_and_says_nothing_of_it(agent: Agent) -> None:
    agent.load(
        "<recipe group='w' name='d' start_step='a' end_step='b'><step id='a' type='action' target='m.comes'/>"
        "<step id='b' type='action' target='m.own'/><transition id='t'><in idref='a'/><out idref='b'/>"
        "</transition></recipe>"
    )
    agent.start("w.d")
    agent.until_idle()
    (own,) = agent.ask("memory", xpath="own")
    assert (own["labels"], own["decided_by"]) == ([], ["river"])


def test_a_program_of_an_automaton_decides_under_its_label(agent: Agent) -> None:
    agent.load(
        "<recipe group='w' name='a' start_step='a' end_step='a'>"
        "<step id='a' type='automaton' target='auto.fails'/></recipe>"
    )
    run = agent.start("w.a")
    agent.until_idle()
    assert labels(agent, run) == ["program"]


def flow(agent: Agent, target: str, **values: str) -> list[str]:
    """The labels of what a dataflow gives."""
    given = "".join(f"<value name='{name}'>{value}</value>" for name, value in values.items())
    agent.load(
        f"<recipe group='w' name='f' start_step='a' end_step='a'><step id='a' type='dataflow' "
        f"target='{target}'><arguments>{given}</arguments></step></recipe>"
    )
    run = agent.start("w.f")
    agent.until_idle()
    assert agent.ask("show", run=run)["state"] == "done"
    made = next(one for one in reversed(agent.memory("*")) if one.origin is not None and one.origin.call)
    return labels(agent, made.eid)


def test_a_dataflow_gives_with_labels_what_it_has_met(agent: Agent) -> None:
    assert flow(agent, "says.Says", word="so") == []
    assert flow(agent, "reads.Reads", name="table") == ["file"]
    agent.ask("take_hook", name="build", element=b"<build/>")
    assert flow(agent, "flow.Tells", pattern="build") == ["hook:build"]
