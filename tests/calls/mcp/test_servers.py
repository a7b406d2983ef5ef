"""Tools of an MCP server are called as actions: arguments, results, errors, its death (G82, G83)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import narval
from narval.calls.mcp.backend import McpServers
from narval.calls.mcp.conversion import result_of
from narval.calls.mcp.session import McpSession, shown_error
from narval.calls.mcp.transports import StreamEnd
from narval.calls.record import CallRecord
from narval.core.definitions.library import Library
from narval.core.errors import ActionError
from narval.files.check import check_home
from narval.files.home import Home
from tests.acceptance.home import until
from tests.calls.mcp.servers_at_work import RECIPE, HomeWithServer
from tests.places import ROOT
from tests.programs import is_at_work


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeWithServer]:
    made = HomeWithServer(tmp_path_factory.mktemp("mcp"), 'environment = { SAID = "yes" }')
    yield made
    made.close()


@pytest.fixture
def at_work(shared: HomeWithServer) -> HomeWithServer:
    shared.behave("")
    return shared


ARGUMENTS = """<greet name="Ann" times="3" loud="yes" tone="warm"><tags>a</tags><tags>b</tags>
  <address city="Paris" zip="75001"/><pages n="1.5"/><pages n="2"/></greet>"""


def test_an_element_becomes_arguments_by_the_schema(at_work: HomeWithServer) -> None:
    made = at_work.call("greet", ARGUMENTS)
    assert made.name == "greet-result"
    assert json.loads(made.text.removeprefix("hello ")) == {
        "name": "Ann",
        "times": 3,
        "loud": True,
        "tone": "warm",
        "tags": ["a", "b"],
        "address": {"city": "Paris", "zip": 75001},
        "pages": [{"n": 1.5}, {"n": 2}],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('<greet nam="Ann"/>', "did you mean 'name'?"),
        ("<greet loud='no'/>", "the attribute 'name', which it requires"),
        ("<greet name='Ann' times='many'/>", "times: expected a whole number, found 'many'"),
        ("<greet name='Ann' tone='warn'/>", "one of warm, cold, found 'warn'; did you mean 'warm'?"),
        ("<greet name='Ann'><address zip='x'/></greet>", "address/zip: expected a whole number"),
        ("<greet name='Ann'><name>Bob</name></greet>", "name: expected one value, found 2"),
    ],
)
def test_what_is_no_argument_is_told_before_anything_is_sent(
    at_work: HomeWithServer, arguments: str, message: str
) -> None:
    made = at_work.call("greet", arguments)
    assert made.attributes["type"] == "bad-argument"
    assert message in made.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('<greet nam="{$x/@a}"/>', "expected one of its arguments, found 'nam'; did you mean 'name'?"),
        ('<greet loud="no"/>', "expected the attribute 'name', which it requires"),
        ('<greet name="{$x}" tone="warn"/>', "tone: expected one of warm, cold, found 'warn'"),
        ('<greet name="{$x}" times="{$x/@n}"><tags foreach="$t in $x/t">{$t}</tags></greet>', ""),
        (
            '<greet name="{$x}"><address city="{$x}" street="y"/></greet>',
            "address: expected one of its arguments",
        ),
    ],
)
def test_an_argument_that_cannot_fit_is_warned_of_where_it_stands(
    at_work: HomeWithServer, arguments: str, message: str
) -> None:
    step = RECIPE.format(name="q", tool="greet", of=f"<arguments>{arguments}</arguments>")
    text = step.replace('start_step="s"', 'start_step="w"').replace(
        '<step id="s"',
        '<step id="w" type="action" target="basic.nothing"/>'
        '<transition id="t"><in idref="w"/><out idref="s"/>'
        '<condition as="x"><match>x</match></condition></transition>\n<step id="s"',
    )
    (at_work.home / "recipes/q.xml").write_text(f'<cookbook group="q">{text}</cookbook>')
    told = [f"{fault.line}: {fault.message}" for fault in check_home(Home(at_work.home))]
    (at_work.home / "recipes/q.xml").unlink()
    assert len(told) == bool(message)
    assert not message or (told[0].startswith("3: step 's': test.greet: ") and message in told[0])


def test_a_structured_result_becomes_an_element(at_work: HomeWithServer) -> None:
    made = at_work.call("shape")
    assert made.attributes["count"] == "2"
    assert [row.attrib for row in made.tree().iterchildren("rows")] == [{"a": "1"}, {"a": "2.5"}]
    (at,) = made.tree().iterchildren("at")
    assert at.get("x_y") == "true"
    assert [[item.text for item in part] for part in at.iterchildren("list")] == [["1"], []]


def test_a_result_of_several_parts_has_a_child_for_each(at_work: HomeWithServer) -> None:
    """What is bytes is a file that the owner of the home alone may read."""
    parts = [(part.tag, part.text, dict(part.attrib)) for part in at_work.call("parts").tree()]
    digest = hashlib.sha256(b"\0\0\0").hexdigest()
    kept = {"size": "3", "sha256": digest, "file": f"var/mcp-files/{digest[:2]}/{digest}/image.png"}
    assert parts == [
        ("text", "one\ufffd", {}),
        ("image", None, {"type": "image/png", **kept}),
        ("link", None, {"uri": "file:///a", "name": "a"}),
    ]
    file = at_work.home / kept["file"]
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"\0\0\0", 0o600)
    assert [one.name for one in file.parent.iterdir()] == ["image.png"]


def test_a_file_that_nothing_names_any_more_is_removed(
    at_work: HomeWithServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered and names it keeps it, and what is not a day old stays."""
    monkeypatch.setattr("narval.calls.kept_files.SWEEP_EVERY", 0.0)
    names = {digit: f"var/mcp-files/{digit * 2}/{digit * 64}/image.png" for digit in "abcd"}
    for name in names.values():
        file = at_work.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1")
        os.utime(file, (1.0, 1.0) if "d" * 64 not in name else None)
    at_work.agent.add(f"<picture file='{names['a']}'/>")
    at_work.call("greet", f"<greet name='{names['b']}'/>")
    at_work.call("parts")
    until(lambda: not (at_work.home / names["c"]).parents[1].exists(), "the file of nobody is gone")
    assert {digit for digit, name in names.items() if (at_work.home / name).exists()} == {"a", "b", "d"}


def test_what_is_bytes_stands_beside_a_structured_result() -> None:
    """A name of the server's is none of the home's; what is no base64 is refused."""
    sound = {"type": "audio", "data": "AAAA", "mimeType": "../../etc"}
    resource = {"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA", "mimeType": "x/y; z"}}
    made = etree.fromstring(result_of("r", {"n": 1}, [{"type": "text", "text": "1"}, sound, resource]))
    assert (made.get("n"), [part.tag for part in made]) == ("1", ["audio", "resource"])
    assert [part.get("size") for part in made] == ["3", "3"]
    [lines] = etree.fromstring(result_of("r", None, [{**sound, "data": "AA\r\nAA\n"}]))
    assert lines.get("size") == "3"
    with pytest.raises(ActionError, match="expected the audio of a result in base64"):
        result_of("r", None, [{**sound, "data": "?"}])


def test_a_key_of_a_result_names_no_namespace() -> None:
    given = {"xmlns": "urn:of-the-server", "in": {"xmlns": "urn:of-the-server", "it": {}}}
    made = etree.fromstring(result_of("r", given, []))
    assert [node.tag for node in made.iter()] == ["r", "in", "it"]
    assert made.get("_xmlns") == "urn:of-the-server"


def test_of_two_tools_that_would_be_one_action_the_first_is_there() -> None:
    types: Any = pytest.importorskip("mcp_types")

    class Listing:
        async def list_tools(self, params: Any) -> Any:
            named = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("a b", "a_b", "c")]
            return types.ListToolsResult(tools=named)

    client: Any = Listing()
    session = McpSession(client, StreamEnd())
    asyncio.run(session.list_tools())
    assert list(session.tools) == ["a b", "c"]
    assert session.left_out == {"a_b": "it and the tool 'a b' would be one action, 'a_b'"}


def test_a_message_that_the_protocol_does_not_allow_is_told_by_its_place() -> None:
    pydantic: Any = pytest.importorskip("pydantic")
    for sent, place in (
        ({"tools": [1, "x"]}, ", at tools.1: Input should be a valid integer"),
        (1, ": Input"),
    ):
        with pytest.raises(ValueError) as raised:
            pydantic.TypeAdapter(dict[str, list[int]]).validate_python(sent)
        assert shown_error(raised.value).startswith(f"it sent what the protocol does not allow{place}")


def test_what_a_tool_gives_has_the_label_of_its_server(at_work: HomeWithServer) -> None:
    made = at_work.call("parts")
    memory = at_work.agent.daemon.agent.memory
    assert memory.labels.names(memory.labels.of((made.eid,))) == ("mcp:test",)


def test_what_a_tool_calls_its_failure_is_one(at_work: HomeWithServer) -> None:
    made = at_work.call("fail")
    assert (made.attributes["type"], made.text) == ("tool-error", "it is full")


def test_a_server_sees_the_variables_of_its_table_and_no_others(
    at_work: HomeWithServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = json.loads(at_work.call("environment").text)
    assert seen["SAID"] == "yes"
    assert set(seen) & {"PYTEST_CURRENT_TEST", "PYTEST_VERSION", "NARVAL_HOME"} == set()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("roots/list", "List roots not supported"),
        ("sampling/createMessage", "Sampling not supported"),
        ("elicitation/create", "Elicitation not supported"),
    ],
)
def test_what_a_server_asks_for_itself_is_refused(at_work: HomeWithServer, method: str, message: str) -> None:
    answer = json.loads(at_work.call("ask", f"<ask method='{method}'/>").text)
    assert "result" not in answer
    assert answer["error"]["message"] == message


def test_a_server_that_dies_is_an_error_and_is_started_again(at_work: HomeWithServer) -> None:
    (at_work.folder / "dies").write_text("1")
    (at_work.folder / "deaths").unlink(missing_ok=True)
    made = at_work.call("die")
    assert made.attributes["type"] == "server-lost"
    first, *printed = made.text.splitlines()
    assert first == (
        "the MCP server test: it ended with status 3; die may have done its work: "
        "look before it is called again; it printed:"
    )
    assert printed == ["a line before", "a line before", ("out of paper " + "y" * 1000)[:300]]
    assert at_work.call("die").text == "alive"


def test_the_secret_of_a_server_stands_in_nothing_that_it_prints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = HomeWithServer(tmp_path, 'secrets = { TOKEN = "mcp-token" }')
    (home.home / "etc/mcp-token").write_text("open-sesame")
    (home.home / "etc/mcp-token").chmod(0o600)
    home.behave("tells")
    with caplog.at_level(logging.DEBUG, "narval"):
        made = home.call("die")
    assert made.text.endswith("it printed:\ncannot log in with …")
    assert "cannot log in with …" in caplog.text
    assert "open-sesame" not in caplog.text
    home.close()


def test_a_call_that_is_over_is_cancelled_at_the_server(at_work: HomeWithServer) -> None:
    cancelled = at_work.folder / "cancelled"
    at_work.call("parts")  # the server is at work, whatever became of it before
    made = at_work.call("sleep", timeout="0.5")
    assert made.attributes["type"] == "timeout"
    at_work.call("parts")  # its answer comes after the server has read what was sent before
    assert cancelled.read_text() == "yes"


def test_a_tool_that_changed_is_not_called(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    try:
        home.behave("changed")
        made = home.call("parts")
        assert made.attributes["type"] == "tool-changed"
        assert "narval mcp tools test --accept parts" in made.text
        servers = home.agent.daemon.calls.executor.servers
        assert servers is not None
        library = home.agent.daemon.agent.library
        assert [row["tool"] for row in servers.shown(library)["changed"]] == ["test.parts"]
        (told,) = [row["text"] for row in home.agent.ask("attention") if row["what"] == "tool"]
        assert told.startswith("test.parts is not called: its MCP server has changed it; look")
        kept = {"server": "test", "tools": [{"name": "parts", "description": "of now"}]}
        (home.home / "recipes/mcp/test.tools").write_text(json.dumps(kept))  # as somebody accepts it
        home.agent.ask("reload")
        assert home.agent.ask("status")["mcp"]["changed"] == []
    finally:
        home.close()


def test_a_server_that_says_that_its_tools_changed_is_looked_at_again(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    try:
        for tool in ("parts", "environment"):
            home.call(tool)
        home.behave("changed")
        assert home.call("parts").name == "parts-result"  # nobody has said so
        home.behave("changed announce")
        assert home.call("environment").name == "environment-result"
        servers = home.agent.daemon.calls.executor.servers
        assert servers is not None
        library = home.agent.daemon.agent.library
        while len(servers.changed(library)) < 2:
            home.agent.runner.run(asyncio.sleep(0.01))
        assert sorted(row["tool"] for row in servers.shown(library)["changed"]) == [
            "test.environment",
            "test.parts",
        ]
        assert home.call("parts").attributes["type"] == "tool-changed"
    finally:
        home.close()


def test_a_call_of_an_idempotent_tool_is_made_again(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path, 'idempotent = ["die"]\ntools = ["die"]')
    try:
        (tmp_path / "dies").write_text("2")
        assert home.call("die").text == "alive"
        assert (tmp_path / "deaths").read_text() == "3"
        assert home.call("parts").attributes["type"] == "tool-not-allowed"
        pid = int((tmp_path / "pid").read_text())
    finally:
        home.close()
    assert not is_at_work(pid)


def test_a_call_that_the_daemons_end_cut_off_is_made_again_only_where_that_does_no_harm(
    tmp_path: Path,
) -> None:
    home = HomeWithServer(tmp_path, 'idempotent = ["die"]')
    home.call("environment")
    home.behave("mute")
    once = home.start("parts")
    again = [home.start("parts", **{"on-restart": "retry"}), home.start("die"), home.start("shape")]
    while sum(record.state == "running" for record in home.agent.daemon.calls) < 4:
        home.agent.runner.run(asyncio.sleep(0.01))
    home.agent.close()
    home.agent = narval.open(home.home, by="ann")
    try:
        while home.agent.daemon.agent.runs[once].active:
            home.agent.runner.run(asyncio.sleep(0.01))
        assert home.of(once).attributes["type"] == "interrupted"
        assert all(home.agent.daemon.agent.runs[run].active for run in again)
    finally:
        home.close()


def test_a_call_that_waits_for_the_start_of_its_server_is_made_again_by_the_next_daemon(
    tmp_path: Path,
) -> None:
    home = HomeWithServer(tmp_path)
    home.behave("mute")  # the server does not even say that it is there
    run = home.start("parts")
    while not home.agent.daemon.calls.counts.queued:
        home.agent.runner.run(asyncio.sleep(0.01))
    answer = home.agent.ask("why", run=run)
    (place,) = [call["place"] for wait in answer["waiting"] for call in wait["calls"]]
    assert place == "the MCP server test is starting"
    home.agent.close()
    home.behave("")
    home.agent = narval.open(home.home, by="ann")
    try:
        home.agent.until_idle()
        assert home.of(run).name == "parts-result"
    finally:
        home.close()


def test_the_time_of_a_step_runs_while_its_server_starts(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    home.behave("mute")
    try:
        made = home.call("parts", timeout="0.1")
        assert made.attributes["type"] == "timeout"
    finally:
        home.close()


def test_a_server_that_dies_before_a_call_is_sent_has_not_done_its_work(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    home.behave("mute")
    run = home.start("parts")
    try:
        while not (tmp_path / "pid").exists() or not (pid := (tmp_path / "pid").read_text()):
            home.agent.runner.run(asyncio.sleep(0.01))
        os.kill(int(pid), signal.SIGKILL)
        home.agent.until_idle()
        made = home.of(run)
        assert made.attributes["type"] == "server-lost"
        assert "may have done its work" not in made.text
    finally:
        home.close()


def test_a_server_that_dies_while_a_call_is_announced_has_not_done_its_work(
    at_work: HomeWithServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work.call("parts")  # the server is at work
    go = McpServers.go
    waiting = []

    def go_late(servers: McpServers, record: CallRecord) -> None:
        os.kill(int((at_work.folder / "pid").read_text()), signal.SIGKILL)
        waiting.append(asyncio.ensure_future(go_without(servers, record)))

    async def go_without(servers: McpServers, record: CallRecord) -> None:
        while servers.shown(Library())["running"]:
            await asyncio.sleep(0.001)
        go(servers, record)

    monkeypatch.setattr(McpServers, "go", go_late)
    made = at_work.call("die", **{"on-restart": "error"})
    assert made.attributes["type"] == "server-lost"
    assert "may have done its work" not in made.text


def test_a_tool_that_destroys_is_called_once_somebody_agrees(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    try:
        refused = home.call("drop")
        assert "narval take recipes/tools.xml" in refused.text
        home.agent.load(ROOT / "recipes/tools.xml")
        run = home.start("drop", '<drop board="north wall" text="No &quot;dogs&quot;"/>')
        home.agent.until_idle()
        (item,) = home.agent.worklist()
        said = "\"board north wall · text No 'dogs'\""
        assert item["title"].endswith(f".drop with {said}?"), "what it is given, in the words of others"
        assert "its MCP server says that it destroys" in json.dumps(home.agent.work_item(item["item"]))
        home.agent.answer(item["item"], "approve")
        home.agent.until_idle()
        assert home.of(run).text == "done"
    finally:
        home.close()


def test_a_tool_that_destroys_may_be_approved_for_good(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path, 'approved = ["drop"]')
    try:
        assert home.call("drop").text == "done"
    finally:
        home.close()
