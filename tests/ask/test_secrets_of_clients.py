"""What is called secret goes to no MCP client and to no caller by HTTP that may not have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import narval
from narval.ask.runs.listing import runs
from narval.core.errors import RequestError
from narval.surfaces.python.agent import Agent
from tests.acceptance.home import make
from tests.ask.processes import LINE, nodes

SETTINGS = f"""
[callers.shop]
sha256 = "{"1" * 64}"
[callers.clinic]
sha256 = "{"2" * 64}"
secrets = ["health"]
[agent.offers]
"w.ask" = ["http:shop", "http:clinic"]
"w.shows" = ["http:shop", "http:clinic"]
"""
RIGHTS = """agents = ["narval"]
tools = ["elements", "count", "show", "why", "history", "start", "signal"]
read = ["note"]
recipes = ["w.ask", "w.shows", "w.fail", "w.waits", "line.p"]
"""
RECIPES = """<cookbook group="w">
  <recipe name="ask" start_step="copy" end_step="copy">
    <step id="copy" type="action" target="basic.copy">
      <input id="element"><match>note[@topic='health']</match></input>
    </step>
  </recipe>
  <recipe name="shows" start_step="show" end_step="show">
    <step id="show" type="work" target="w.look">
      <input id="note"><match>note[@topic='health']</match></input>
    </step>
  </recipe>
  <work name="look"><title>Look at: {$note}</title><input id="note"><match>note</match></input>
    <outcome name="ok"/></work>
  <recipe name="copies" start_step="copy" end_step="copy">
    <step id="copy" type="action" target="basic.copy">
      <input id="element"><match>note[@topic='garden']</match></input>
    </step>
  </recipe>
  <recipe name="waits" start_step="n" end_step="end">
    <step id="n" type="action" target="basic.nothing"/>
    <step id="end" type="action" target="basic.nothing"/>
    <transition id="t"><in idref="n"/><out idref="end"/>
      <condition><match>note[@topic='health' and . = 'urine']</match></condition></transition>
  </recipe>
  <recipe name="calls" start_step="call" end_step="call">
    <step id="call" type="action" target="w.listen"/>
  </recipe>
  <recipe name="hears" start_step="call" end_step="call">
    <step id="call" type="action" target="w.hear"/>
  </recipe>
  <recipe name="again" start_step="fail" end_step="fail">
    <step id="fail" type="action" target="w.fall" retries="1" backoff="600"/>
  </recipe>
  <recipe name="lasts" start_step="n" end_step="end">
    <step id="n" type="action" target="basic.nothing"/>
    <step id="end" type="action" target="basic.nothing"/>
    <transition id="t"><in idref="n"/><out idref="end"/>
      <condition for="1h"><match>note[@topic='health']</match></condition></transition>
  </recipe>
  <recipe name="fail" start_step="fail" end_step="fail">
    <step id="fail" type="action" target="w.fail"/>
  </recipe>
</cookbook>"""
MODULE = """
import asyncio
from narval import ActionError, Input, Output, action, call

@action(inputs=[Input("note", "note[@topic='health']")], pure=True)
def fail(note):
    raise ActionError(f"cannot use {note.text}", f"no-{note.text}", final=True)

@action(inputs=[Input("note", "note[@topic='health']")], pure=True)
def fall(note):
    raise ActionError(f"cannot use {note.text}", f"no-{note.text}")

@action(inputs=[Input("note", "note[@topic='health']")], source=True)
async def listen(note):
    call().caught_up()
    await asyncio.Event().wait()
    yield

@action(
    inputs=[Input("note", "note[@topic='health']")],
    outputs=[Output("error", "error", optional=True)],
    source=True,
)
async def hear(note):
    yield f"<error type='no-{note.text}'><message>no {note.text}</message></error>"
    call().caught_up()
    await asyncio.Event().wait()
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    home = make(tmp_path / "home", settings=SETTINGS, module=MODULE, recipes=RECIPES).home
    (home / "etc" / "trust.toml").write_text("""[secret]\nhealth = "note[@topic='health']"\n""")
    (home / "recipes" / "line.xml").write_text(nodes(LINE))
    (home / "etc" / "mcp").mkdir()
    (home / "etc" / "mcp" / "desk.toml").write_text(RIGHTS)
    (home / "etc" / "mcp" / "nurse.toml").write_text(f'{RIGHTS}secrets = ["health"]\n')
    with narval.open(home) as agent:
        agent.add("<note topic='health'>blood</note>")
        agent.add("<note topic='garden'>water</note>")
        yield agent


def use(agent: Agent, client: str, tool: str, **arguments: Any) -> Any:
    return agent.ask("use_tool", client=client, tool=tool, arguments=arguments)["answer"]


@pytest.mark.parametrize(("client", "texts"), [("desk", ["water"]), ("nurse", ["water", "blood"])])
def test_a_client_is_told_of_no_secret_element_that_it_may_not_read(
    agent: Agent, client: str, texts: list[str]
) -> None:
    page = use(agent, client, "elements", xpath="note")["elements"]
    assert [row["xml"].partition(">")[2].partition("<")[0] for row in page] == texts
    assert use(agent, client, "count", xpath="note[contains(., 'blood')]")["count"] == len(texts) - 1
    at = "narval://narval/memory?xpath=note"
    assert ("blood" in agent.ask("client_resource", client=client, uri=at)["xml"]) == (client == "nurse")


def test_a_client_is_told_of_its_run_that_holds_a_secret_only_that_it_is_over(agent: Agent) -> None:
    eid = use(agent, "desk", "start", name="w.ask")["eid"]
    agent.until_idle()
    run = agent.ask("client_run", client="desk", run=eid)
    assert (run["state"], run["elements"], run["withheld"]) == ("done", [], 1)
    for tool in ("show", "why", "history"):
        with pytest.raises(RequestError, match="what its home calls secret"):
            use(agent, "desk", tool, run=eid)
    with pytest.raises(RequestError, match="what its home calls secret"):
        agent.ask("client_resource", client="desk", uri=f"narval://narval/run/{eid}")
    assert str(eid) not in agent.ask("client_resource", client="desk", uri="narval://narval/runs")["json"]


def test_an_error_that_quotes_a_secret_is_not_told(agent: Agent) -> None:
    eid = use(agent, "desk", "start", name="w.fail")["eid"]
    agent.until_idle()
    run = agent.ask("client_run", client="desk", run=eid)
    assert (run["state"], run["error"]["type"]) == ("failed", "_OTHER")
    assert "blood" not in str(run)


@pytest.mark.parametrize(("client", "is_told"), [("desk", False), ("nurse", True)])
def test_why_a_run_waits_does_not_tell_of_a_secret_that_is_nearest(
    agent: Agent, client: str, is_told: bool
) -> None:
    eid = use(agent, client, "start", name="w.waits")["eid"]
    agent.until_idle()
    [condition] = use(agent, client, "why", run=eid)["waiting"][0]["conditions"]
    assert (condition["met"], condition["nearest"] is not None) == (False, is_told)
    assert ("blood" in str(condition)) == is_told


def test_runs_and_stories_are_told_without_the_secrets_that_an_asker_may_not_know(agent: Agent) -> None:
    eid = agent.start("w.fail")
    agent.until_idle()
    for secrets, is_told in (([], False), (["garden"], False), (["health"], True), (None, True)):
        [run] = agent.ask("runs", name="w.fail", secrets=secrets)
        shown = agent.ask("show", run=eid, secrets=secrets)
        assert [("blood" in str(each["error"])) for each in (run, shown)] == [is_told] * 2
        assert shown["error"]["type"] == ("no-blood" if is_told else "_OTHER")
    note = agent.memory("note[@topic='health']")[0]
    water = agent.memory("note[@topic='garden']")[0]
    for number in (eid, note.eid):
        with pytest.raises(RequestError, match=f"{number} has secret elements of its home"):
            agent.ask("why", run=number, secrets=[])
    agent.start("w.copies")
    agent.until_idle()
    [copy] = agent.ask("why", run=water.eid)["made_of_it"]
    agent.daemon.agent.memory.labels.add(copy["eid"], ("secret:health",))
    assert (copy["title"], copy["name"]) == ("water", "note")
    [told] = agent.ask("why", run=water.eid, secrets=[])["made_of_it"]
    assert told == copy | {"title": ""}


@pytest.mark.parametrize("name", ["w.calls", "w.again"])
def test_a_run_is_withheld_while_a_call_with_a_secret_is_under_way_or_rests(agent: Agent, name: str) -> None:
    eid = agent.start(name)
    agent.until_idle()
    memory = agent.daemon.agent.memory
    assert not [label for label in memory.labels.names(memory.labels.of((eid,))) if "health" in label]
    assert "blood" in str(agent.ask("why", run=eid))
    with pytest.raises(RequestError, match="so it is withheld here"):
        agent.ask("why", run=eid, secrets=[])
    assert "calls" not in agent.ask("show", run=eid, secrets=[])
    assert "blood" in str(agent.ask("why", run=eid, secrets=["health"]))


def test_what_is_to_be_tried_again_does_not_say_the_words_of_an_error_that_is_secret(agent: Agent) -> None:
    eid = agent.start("w.again")
    agent.until_idle()
    (line,) = [row["text"] for row in agent.ask("attention") if "w.again" in row["text"]]
    assert line.startswith(f"fail in run {eid} of w.again will be tried again at ")
    assert line.endswith("): _OTHER (secret)")
    eid = agent.start("w.hears")
    agent.until_idle()
    (line,) = [row["text"] for row in agent.ask("attention") if "tells of trouble" in row["text"]]
    assert line == f"w.hear in run {eid} of w.hears tells of trouble: _OTHER (secret)"


def test_a_condition_that_has_to_last_tells_no_moment_of_an_element_that_is_secret(agent: Agent) -> None:
    eid = agent.start("w.lasts")
    agent.until_idle()
    [condition] = agent.ask("why", run=eid)["waiting"][0]["conditions"]
    assert None not in (condition["nearest"], condition["since"], condition["until"])
    [condition] = agent.ask("why", run=eid, secrets=[])["waiting"][0]["conditions"]
    assert [condition[part] for part in ("nearest", "since", "until")] == [None] * 3
    assert condition["lasting"] == 3600


def test_a_page_of_runs_without_secrets_is_not_answered_from_the_rows_of_the_store() -> None:
    assert runs.page({"limit": 5}) is not None
    assert runs.page({"limit": 5, "secrets": []}) is None


def test_what_needs_attention_does_not_say_the_words_of_an_error_that_is_secret(agent: Agent) -> None:
    agent.start("w.fail")
    agent.until_idle()
    (line,) = [row["text"] for row in agent.ask("attention") if "w.fail" in row["text"]]
    assert "blood" not in line
    assert "failed at fail: _OTHER (secret)" in line


@pytest.mark.parametrize(("client", "question"), [("desk", None), ("nurse", "Look at: blood")])
def test_a_question_to_people_that_says_a_secret_is_told_to_whom_may_have_it(
    agent: Agent, client: str, question: str | None
) -> None:
    eid = use(agent, client, "start", name="w.shows")["eid"]
    agent.until_idle()
    run = agent.ask("client_run", client=client, run=eid)
    assert (run["waits_for"], run.get("asks")) == ("person", question)
    for tool in ("show", "why"):
        if question is not None:
            assert question in str(use(agent, client, tool, run=eid))
            continue
        with pytest.raises(RequestError, match="what its home calls secret"):
            use(agent, client, tool, run=eid)


@pytest.mark.parametrize(("client", "titles"), [("desk", []), ("nurse", ["Look at: blood"])])
def test_the_worklist_leaves_out_what_a_client_may_not_have(
    agent: Agent, client: str, titles: list[str]
) -> None:
    people = (f'[people.{one}]\nlogin = "mcp:{one}"\n' for one in ("desk", "nurse"))
    home = agent.daemon.home.path
    (home / "etc" / "people.toml").write_text("".join(people))
    rights = home / "etc" / "mcp" / f"{client}.toml"
    rights.write_text(rights.read_text().replace('"elements",', '"elements", "worklist",'))
    agent.ask("reload")
    agent.start("w.shows")
    agent.until_idle()
    assert [row["title"] for row in use(agent, client, "worklist")] == titles


def test_a_signal_does_not_give_what_a_run_with_a_secret_answers(agent: Agent) -> None:
    eid = use(agent, "desk", "start", name="line.p")["eid"]
    agent.until_idle()
    agent.ask("set_environment", run=eid, values={"found": "blood"})
    memory = agent.daemon.agent.memory
    memory.labels.add(eid, ("secret:health",))
    assert use(agent, "desk", "signal", run=eid, name="environment") == {"run": eid, "signal": "environment"}
    with pytest.raises(RequestError, match="holds what its home calls secret"):
        use(agent, "desk", "signal", run=eid, name="rerun", arguments={"node": "a"})
    memory.labels.remove(eid, ("secret:health",))
    shown = use(agent, "desk", "signal", run=eid, name="environment")["environment"]
    assert shown["found"] == "blood"


def test_who_may_have_a_secret_has_it(agent: Agent) -> None:
    eid = use(agent, "nurse", "start", name="w.ask")["eid"]
    agent.until_idle()
    run = agent.ask("client_run", client="nurse", run=eid)
    assert [row["xml"].partition(">")[2].partition("<")[0] for row in run["elements"]] == ["blood"]
    assert "withheld" not in run
    assert use(agent, "nurse", "show", run=eid)["state"] == "done"


@pytest.mark.parametrize(("caller", "texts"), [("shop", []), ("clinic", ["blood"])])
def test_a_caller_by_http_is_given_what_is_secret_only_if_it_may_have_it(
    agent: Agent, caller: str, texts: list[str]
) -> None:
    run = agent.ask("call_offered", caller=caller, definition="w.ask", elements=[b"<order/>"], wait=10.0)
    assert [row["xml"].partition(">")[2].partition("<")[0] for row in run["elements"]] == texts
