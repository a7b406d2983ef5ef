"""What clients of MCP may do, as the SDK's own client does it, in the revisions of both families."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

pytest.importorskip("mcp")

import mcp_types as types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

import narval
from narval.ask.clients.descriptions import DESCRIPTIONS
from narval.ask.clients.tools import TOOLS, parameters, schema_of_tool
from narval.ask.operations import OPERATIONS
from narval.core.definitions.library import RunDefinition
from narval.core.errors import UnansweredError
from narval.surfaces.mcp.server import ToolServer, answer_of
from tests.surfaces.mcp.home_of_clients import MODES, HomeOfClients, home_at_work

RIDES = """
import asyncio
import narval


@narval.action
async def ride():
    narval.call().progress(1, 4)
    while not (narval.call().home / "go").exists():
        await asyncio.sleep(0.01)
"""
"""An action that says how far it is, and goes on once there is a file `go`."""

RIDE = """<recipe group="trip" name="ride" start_step="ride" end_step="ride"><tool/>
  <step id="ride" type="action" target="rides.ride"/></recipe>"""

NAMED_ALIKE = """
import narval


@narval.action
def owner():
    pass
"""
"""An action with the name of a recipe that only the owner may start: a client calls the recipe."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeOfClients]:
    files = {"modules/rides.py": RIDES, "modules/trip.py": NAMED_ALIKE, "recipes/ride.xml": RIDE}
    with home_at_work(tmp_path_factory.mktemp("home"), files) as opened:
        yield opened


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 120))


async def called(client: Client, tool: str, /, **arguments: Any) -> Any:
    """What a tool answers; it must not refuse."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    text = result.content[0]
    assert isinstance(text, types.TextContent)
    assert json.loads(text.text) == result.structured_content
    return result.structured_content


async def refused(client: Client, tool: str, /, **arguments: Any) -> str:
    """The message by which a tool refuses."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    assert set(result.structured_content) == {"error", "message"}
    return str(result.structured_content["message"])


class Ending:
    """Stands in for a daemon that begins the run of a call, and ends while that is followed."""

    async def ask(self, method: str, /, **params: Any) -> Any:
        if method == "use_tool":
            return {"tool": params["tool"], "agent": "narval", "run": 7, "wait": 60.0}
        if method == "client_tools":
            return []
        raise UnansweredError("the daemon ended before it answered")


@pytest.mark.parametrize("mode", MODES)
def test_a_call_whose_daemon_ends_while_its_run_is_followed_names_the_run(mode: str) -> None:
    async def call() -> None:
        server = ToolServer(Ending(), lambda ctx: "desk")
        async with Client(server.server, mode=mode) as client:
            result = await client.call_tool("trip.ride", {})
            assert result.is_error
            assert result.structured_content is not None
            assert (result.structured_content["error"], result.structured_content["run"]) == (
                "UnansweredError",
                7,
            )
            assert "it began run 7, which continues" in str(result.content)

    run(call())


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_those_that_the_file_names_with_schemas_of_their_operations(
    home: HomeOfClients, mode: str
) -> None:
    """G75: by whom it may be used."""

    async def look() -> None:
        async with home.connected("desk", mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "send" not in tools
        assert "simulate" not in tools
        assert "trip_hidden" not in tools
        assert "trip_plain" not in tools
        assert tools["add"].input_schema["required"] == ["elements"]
        limit = tools["elements"].input_schema["properties"]["limit"]
        assert (limit["type"], limit["default"]) == ("integer", 50)
        assert limit["description"].startswith("The most elements")
        assert (tools["add"].description or "").startswith("Add elements to narval's memory")
        assert "among" not in tools["elements"].input_schema["properties"]
        assert tools["elements"].annotations is not None
        assert tools["elements"].annotations.read_only_hint
        assert tools["trip_plan"].description == "Plan a trip."
        assert tools["trip_plan"].input_schema == {
            "type": "object",
            "properties": {
                "from": {"type": "string"},
                "days": {"type": "integer", "description": "How long it is."},
                "class": {"type": "string", "enum": ["first", "second"]},
                "on": {"type": "string", "format": "date"},
                "wish": {"type": "string", "description": "An XML element."},
            },
            "additionalProperties": False,
            "required": ["from"],
        }

    run(look())


@pytest.mark.parametrize("name", TOOLS)
def test_each_tool_says_what_it_does_when_to_use_it_and_the_form_of_each_argument(name: str) -> None:
    """G75: to a model that has read nothing of narval."""
    description = DESCRIPTIONS[name]
    assert description.about != OPERATIONS[name].doc
    assert "Use it" in description.about
    assert tuple(description.arguments) == parameters(name)
    for argument, about in description.arguments.items():
        assert about.rstrip().endswith("."), argument
        assert schema_of_tool(name, ("a",))["properties"][argument]["description"] == about


def test_there_is_no_description_of_what_is_no_tool() -> None:
    assert list(DESCRIPTIONS) == list(TOOLS)


def test_a_result_says_how_many_elements_were_withheld() -> None:
    run = {"eid": 7, "name": "w.ask", "state": "done", "active": False, "error": None, "elements": []}
    assert answer_of(run | {"withheld": 1})["withheld"] == 1
    assert "withheld" not in answer_of(run)


def test_values_of_an_argument_may_have_blanks() -> None:
    """G77."""
    with narval.open() as agent:
        agent.load(
            '<recipe group="trip" name="go" start_step="s" end_step="s"><tool element="trip">'
            '<argument name="city" one-of="New York | Rome | New York"/>'
            '<argument name="n" type="integer" one-of="1|2"/></tool>'
            '<step id="s" type="action" target="basic.nothing"/></recipe>'
        )
        definition = agent.daemon.agent.library.find("trip.go")
        assert isinstance(definition, RunDefinition)
        assert definition.tool is not None
        properties = definition.tool.schema["properties"]
        assert (properties["city"]["enum"], properties["n"]["enum"]) == (["New York", "Rome"], [1, 2])
        assert definition.tool.given({"city": "New York"}) == b'<trip city="New York"/>'


@pytest.mark.parametrize("mode", MODES)
def test_what_a_client_adds_has_its_name_as_origin_and_label(home: HomeOfClients, mode: str) -> None:
    """G80: it can be told where it came from."""

    async def add() -> None:
        async with home.connected("desk", mode) as client:
            [eid] = (await called(client, "add", elements=["<note topic='a'>hé</note>"]))["eids"]
            found = (await called(client, "elements", xpath="note[@topic='a']", limit=1))["elements"][0]
            assert (found["eid"], found["labels"], found["origin"]["by"]) == (eid, ["mcp:desk"], "mcp:desk")
            started = await called(client, "start", name="trip.plain", elements=["<note topic='b'/>"])
            shown = await called(client, "show", run=started["eid"])
            assert shown["by"] == "mcp:desk"
            given = home.ask("element", eid=shown["context"][0])
            assert given["labels"] == ["mcp:desk"]

    run(add())


def test_what_is_not_named_is_refused_before_anything_is_done(home: HomeOfClients) -> None:
    """G80 and G77: nothing is done where anything does not fit."""

    async def ask() -> None:
        home.ask("add", elements=[b"<secret/>"])
        async with home.connected("desk", "legacy") as client:
            before = home.ask("count")["count"]
            assert "may not add <secret>; it may add note" in await refused(
                client, "add", elements=["<memory><note/><secret/></memory>"]
            )
            assert "may not add <start-plan>" in await refused(
                client, "add", elements=["<start-plan recipe='trip.plan'/>"]
            )
            assert "may not start 'trip.hidden'" in await refused(client, "start", name="trip.hidden")
            assert "call it as a tool" in await refused(client, "start", name="trip.owner")
            assert "has no tool 'send'" in await refused(client, "send", to="narval", elements=["<note/>"])
            assert "has no tool 'grant'" in await refused(client, "grant", name="x")
            assert "takes no argument 'replace'" in await refused(
                client, "add", elements=["<note/>"], replace=1
            )
            assert "takes no argument 'among'" in await refused(client, "elements", among=["secret"])
            assert "expected xpath to be" in await refused(client, "count", xpath=3)
            assert "needs the argument 'elements'" in await refused(client, "add")
            assert "may not ask the agent 'finance'" in await refused(client, "count", agent="finance")
            assert (await called(client, "count", xpath="secret"))["count"] == 0
            assert (await called(client, "elements", xpath="secret"))["elements"] == []
            assert (await called(client, "elements", limit=1000))["elements"] == [
                row
                for row in (await called(client, "elements", limit=1000))["elements"]
                if row["name"] in ("note", "trip")
            ]
            secret = home.ask("elements", xpath="secret")["elements"][0]["eid"]
            assert "there is no run" in await refused(client, "why", run=secret)
            page = await called(client, "elements", xpath="secret")
            assert page.keys() == {"elements", "older"}, "how many there are is nobody's business"
            note = (await called(client, "elements", xpath="note"))["elements"][0]["eid"]
            story = await called(client, "why", run=note)
            assert story["element"] == note
            assert not story.keys() & {"made_of_it", "made", "used_by", "held_by", "waiting", "origin"}
            assert home.ask("count")["count"] == before

    run(ask())


def test_a_client_reaches_no_run_of_another(home: HomeOfClients) -> None:
    """G84: numbers that are guessed tell nothing."""

    async def ask() -> None:
        async with home.connected("desk", "legacy") as client:
            eid = (await called(client, "start", name="trip.slow"))["eid"]
        own = home.ask("start", name="trip.slow")["eid"]
        async with home.connected("other", "legacy") as client:
            for run_of, tool, more in (
                (eid, "show", {}),
                (eid, "cancel", {}),
                (own, "signal", {"name": "go"}),
                (own, "history", {}),
            ):
                message = await refused(client, tool, run=run_of, **more)
                assert message == f"there is no run {run_of} that the client other has started"
            assert (
                "too many calls: other may make 5 a minute"
                in [await refused(client, "show", run=1) for _ in range(3)][-1].split(";")[0]
            )
        assert home.ask("show", run=eid)["state"] == home.ask("show", run=own)["state"] == "running"
        async with home.connected("desk", "legacy") as client:
            await called(client, "signal", run=eid, name="go")
            assert (await called(client, "show", run=eid))["state"] == "done"

    run(ask())


@pytest.mark.parametrize("mode", MODES)
def test_a_recipe_is_a_tool(home: HomeOfClients, mode: str) -> None:
    """G77: its arguments are one element, and what it gives is the answer."""

    async def call() -> None:
        async with home.connected("desk", mode) as client:
            told: list[Any] = []

            async def progress(done: float, total: float | None, message: str | None) -> None:
                told.append((done, total))

            arguments = {"from": "Évry", "days": 3, "on": "2026-12-01", "wish": "<sea warm='yes'/>"}
            result = await client.call_tool("trip_plan", arguments, progress_callback=progress)
            answer = result.structured_content
            assert answer["state"] == "done"
            assert not answer["active"]
            [trip] = answer["elements"]
            assert trip["xml"] == (
                f'<trip from="Évry" days="3" on="2026-12-01" eid="{trip["eid"]}"><sea warm="yes"/></trip>'
            )
            if mode == "legacy":  # within a program the other has no progress: test_transports
                assert told[-1] == (2, 2)
                assert len({done for done, _ in told}) == len(told)
            assert home.ask("element", eid=trip["eid"])["labels"] == ["mcp:desk"]
            for arguments, message in (
                ({}, "the argument 'from' is missing"),
                ({"from": "a", "days": "3"}, "expected days to be a whole number, got '3'"),
                ({"from": "a", "days": True}, "expected days to be a whole number, got True"),
                ({"from": "a", "class": "third"}, "expected class to be one of first, second, got 'third'"),
                ({"from": "a", "on": "tomorrow"}, "expected on to be a date such as 2026-03-01"),
                ({"from": "a", "wish": "<a"}, "expected wish to be what XML can carry"),
                ({"from": "a\x00"}, "expected from to be what XML can carry"),
                ({"from": "a", "to": "b"}, "there is no argument 'to'; there are from, days"),
            ):
                assert message in await refused(client, "trip_plan", **arguments)

    run(call())


def test_a_client_is_told_what_calls_say_of_their_progress(home: HomeOfClients) -> None:
    """G78: as fractions of the steps."""

    async def call() -> None:
        async with home.connected("desk", "legacy") as client:
            told: list[Any] = []

            async def progress(done: float, total: float | None, message: str | None) -> None:
                told.append((done, total, message))
                if done == 0.25:
                    (home.path / "go").touch()

            await client.call_tool("trip_ride", {}, progress_callback=progress)
            assert told[-2:] == [(0.25, 1, "ride"), (1, 1, "done")]

    run(call())


@pytest.mark.parametrize("mode", MODES)
def test_a_user_agrees_to_one_call_with_what_it_shows(home: HomeOfClients, mode: str) -> None:
    """G79: the text that is shown is what is agreed to."""
    shown: list[str] = []

    def answering(action: Any, **content: Any) -> Any:
        async def answer(ctx: Any, params: Any) -> types.ElicitResult:
            shown.append(params.message)
            return types.ElicitResult(action=action, content=content or None)

        return answer

    async def call() -> None:
        before = home.ask("runs", name="trip.mine")
        async with home.connected("desk", mode) as client:
            if mode == "legacy":
                assert "whom this client cannot ask" in await refused(client, "trip_mine", **{"from": "Rome"})
            else:  # the protocol has an error for that
                with pytest.raises(MCPError, match="whom this client cannot ask") as lacking:
                    await client.call_tool("trip_mine", {"from": "Rome"})
                assert lacking.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
                assert lacking.value.error.data == {"requiredCapabilities": {"elicitation": {}}}
        for action in ("decline", "accept"):
            no = answering(action, approve=False)
            async with home.connected("desk", mode, elicitation_callback=no) as client:
                assert "its user did not agree" in await refused(client, "trip_mine", **{"from": "Rome"})
        assert home.ask("runs", name="trip.mine") == before
        yes = answering("accept", approve=True)
        async with home.connected("desk", mode, elicitation_callback=yes) as client:
            answer = await called(client, "trip_mine", **{"from": "Rome"})
            assert answer["elements"][0]["name"] == "trip"
        assert shown[-1] == 'Start trip.mine with:\n\n<trip from="Rome"/>'

    run(call())


def test_an_answer_of_a_user_is_for_the_call_that_asked(home: HomeOfClients) -> None:
    """G79: with the revision without a handshake the answer comes with the call."""

    async def answer(ctx: Any, params: Any) -> types.ElicitResult:
        raise AssertionError("this client answers by itself")

    async def call() -> None:
        async with home.connected("desk", MODES[1], elicitation_callback=answer) as client:
            yes = {"approve": types.ElicitResult(action="accept", content={"approve": True})}
            asked = await client.session.call_tool("trip_mine", {"from": "Rome"}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            for arguments, state in (
                ({"from": "Oslo"}, asked.request_state),
                ({"from": "Rome"}, asked.request_state),  # it counts no more
                ({"from": "Rome"}, "made up"),
            ):
                with pytest.raises(MCPError, match="call it again"):
                    await client.session.call_tool(
                        "trip_mine", arguments, input_responses=yes, request_state=state
                    )
            state = None
            for responses in (yes, {}):  # an answer without a question, and a question without an answer
                again = await client.session.call_tool(
                    "trip_mine", {"from": "Rome"}, input_responses=responses, request_state=state,
                    allow_input_required=True,
                )  # fmt: skip
                assert isinstance(again, types.InputRequiredResult)
                assert again.request_state != state
                state = again.request_state

    run(call())


@pytest.mark.parametrize("outcome", ["approve", "reject"])
def test_the_owner_agrees_on_the_worklist_and_no_client_can(home: HomeOfClients, outcome: str) -> None:
    """G79: the text that is shown is what is agreed to."""

    async def call() -> None:
        async with home.connected("desk", "legacy") as client:
            calling = asyncio.create_task(client.call_tool("trip_owner", {"from": f"Oslo {outcome}"}))
            while not (items := home.ask("worklist", every=True)):
                await asyncio.sleep(0.01)
            [item] = items
            eid = item["item"]
            assert "mcp:desk belongs to no person in etc/people.toml" in await refused(
                client, "answer", item=eid, outcome=outcome
            )
            shown = home.ask("work_item", item=eid)
            assert f'from="Oslo {outcome}"' in json.dumps(shown, ensure_ascii=False).replace('\\"', '"')
            home.ask("answer", item=eid, outcome=outcome)
            result = await calling
            answer = result.structured_content
            if outcome == "approve":
                names = [one["name"] for one in answer["elements"]]
                assert answer["name"] == "trip.owner"
                assert names == ["trip"]
                assert home.ask("show", run=answer["run"])["state"] == "done"
                assert (await called(client, "show", run=answer["run"]))["state"] == "done"
                assert "mcp:desk" in home.ask("element", eid=answer["elements"][0]["eid"])["labels"]
            else:
                assert result.is_error
                assert answer["message"] == "it was not started: the owner of the home did not agree"
                assert "by" not in answer
                assert [run["name"] for run in home.ask("runs", limit=1)] == ["mcp.ask"]

    run(call())


@pytest.mark.parametrize("mode", MODES[:1])  # the other has its connection for that: test_transports
def test_a_cancelled_call_cancels_the_run_it_started(home: HomeOfClients, mode: str) -> None:
    """G78: once it is recorded."""

    async def call() -> None:
        async with home.connected("desk", mode) as client:
            calling = asyncio.create_task(client.call_tool("trip_slow", {}))
            newest = home.ask("runs", limit=1)
            while (now := home.ask("runs", limit=1)) == newest or now[0]["name"] != "trip.slow":
                await asyncio.sleep(0.01)
            eid = now[0]["eid"]
            calling.cancel()
            while home.ask("show", run=eid)["state"] == "running":
                await asyncio.sleep(0.01)
            ended = home.ask("show", run=eid)
            assert ended["state"] == "cancelled"

    run(call())


def test_a_proposal_is_checked_and_nothing_runs_it(home: HomeOfClients) -> None:
    """G81: nor can a client alter what another has proposed."""
    recipe = """<recipe group="x" name="y" start_step="a" end_step="a">
      <step id="a" type="action" target="basic.nothing"/></recipe>"""

    async def call() -> None:
        async with home.connected("desk", "legacy") as client:
            assert await called(client, "check", texts={"y.xml": recipe}) == {"result": []}
            faults = (await called(client, "check", texts={"y.xml": recipe.replace("nothing", "nothin")}))[
                "result"
            ]
            assert [(fault["path"], fault["line"]) for fault in faults] == [("y.xml", 2)]
            answer = await called(client, "propose", name="idea", texts={"y.xml": recipe}, wish="do it")
            assert (answer["path"], answer["faults"], answer["by"]) == ("proposals/idea", [], "mcp:desk")
            findings = [finding["message"] for finding in answer["findings"]]
            assert findings == ["nobody handles errors of a: the plan fails"]
            folder = home.path / "proposals/idea"
            assert (folder / "texts/y.xml").read_text() == recipe
            assert (folder / "wish.txt").read_text() == "do it"
            for name, texts, message in (
                ("idea", {"y.py": "import os"}, "expected the name of a file that ends in"),
                ("idea", {"time.tools": '{"server": "time"}'}, "got 'time.tools': narval mcp tools"),
                ("idea", {"../y.xml": recipe}, "expected the name of a file that ends in"),
                ("../idea", {"y.xml": recipe}, "expected a name of a to z"),
                ("idea", {"y.xml": "<!-- " + "x" * 65_536 + " -->"}, "expected at most 65,536 bytes"),
                ("idea", {}, "expected 1 to 20 texts"),
            ):
                assert message in await refused(client, "propose", name=name, texts=texts)
                if name == "idea":
                    assert message in await refused(client, "check", texts=texts)
            home.ask("propose", name="owners", texts={"y.xml": recipe})
            assert "another client has" in await refused(
                client, "propose", name="owners", texts={"y.xml": recipe}
            )
            for number in range(19):
                await called(client, "propose", name=f"n{number}", texts={"y.xml": recipe})
            assert "as many as one may have" in await refused(
                client, "propose", name="more", texts={"y.xml": recipe}
            )
            await called(client, "propose", name="idea", texts={"y.xml": recipe})  # in place of its own
        home.ask("reload")
        assert "x.y" not in str(home.ask("definitions"))
        assert sorted(path.name for path in (home.path / "proposals").iterdir() if path.name[0] == ".") == []

    run(call())
