"""Both transports, as a program of its own and behind a token, in the revisions of both families."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from narval.files.home import Home
from narval.files.settings import Settings, read_settings
from narval.surfaces.cli.daemon.serving import mcp
from narval.surfaces.mcp.http import MOST_BYTES
from tests.certificates import make_certificate
from tests.forked_commands import write_program
from tests.ports import free_port
from tests.surfaces.cli.command_line import narval
from tests.surfaces.mcp.home_of_clients import MODES, OTHER_TOKEN, TOKEN, HomeOfClients, home_at_work, served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeOfClients]:
    with home_at_work(tmp_path_factory.mktemp("home")) as opened:
        write_program(opened.path / "narval")
        yield opened


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 120))


def line(home: HomeOfClients, client: str) -> list[str]:
    return [str(home.path / "narval"), "--home", str(home.path), "mcp", "--client", client]


@asynccontextmanager
async def over_stdio(home: HomeOfClients, mode: str) -> AsyncIterator[Client]:
    command, *words = line(home, "desk")
    parameters = StdioServerParameters(command=command, args=words, env=dict(os.environ))
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


@asynccontextmanager
async def over_http(home: HomeOfClients, mode: str, token: str = TOKEN) -> AsyncIterator[Client]:
    async with served(home) as url, connected(url, mode, token) as client:
        yield client


@asynccontextmanager
async def connected(url: str, mode: str, token: str = TOKEN, verify: Any = True) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, verify=verify) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [over_stdio, over_http])
def test_a_call_goes_there_and_back_with_progress_and_is_cancelled(
    home: HomeOfClients, way: Any, mode: str
) -> None:
    """G74 and G78."""

    async def call() -> None:
        async with way(home, mode) as client:
            assert "add" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("add", {"elements": ["<note>hé</note>"]})
            [eid] = result.structured_content["eids"]
            assert home.ask("element", eid=eid)["labels"] == ["mcp:desk"]
            told: list[Any] = []

            async def progress(done: float, total: float | None, message: str | None) -> None:
                told.append((done, total))

            result = await client.call_tool("trip_plan", {"from": "Rome"}, progress_callback=progress)
            assert result.structured_content["elements"][0]["name"] == "trip"
            assert told
            assert told[-1] == (2, 2)
            newest = home.ask("runs", limit=1)
            calling = asyncio.create_task(client.call_tool("trip_slow", {}))
            while (now := home.ask("runs", limit=1)) == newest or now[0]["name"] != "trip.slow":
                await asyncio.sleep(0.01)
            calling.cancel()
            while home.ask("show", run=now[0]["eid"])["state"] == "running":
                await asyncio.sleep(0.01)
            assert home.ask("show", run=now[0]["eid"])["state"] == "cancelled"

    run(call())


def test_the_program_of_the_pages_prints_where_it_serves_clients(home: HomeOfClients) -> None:
    """G74."""
    address = f"127.0.0.1:{free_port()}"
    (home.path / "etc/narval.toml").write_text(f'[web]\nmcp = "{address}"\n')
    words = [sys.executable, "-m", "narval", "--home", str(home.path), "web", "--port", "0"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None

    async def count(url: str) -> None:
        async with connected(url, MODES[0]) as client:
            assert not (await client.call_tool("count", {})).is_error

    try:
        assert program.stdout.readline().startswith("narval web answers at ")
        assert program.stdout.readline() == f"it serves MCP clients at http://{address}/mcp\n"
        run(count(f"http://{address}/mcp"))
    finally:
        program.terminate()
        program.wait()
        program.stdout.close()


def test_other_machines_are_served_with_tls_alone(home: HomeOfClients, tmp_path: Path) -> None:
    """G74: without it nothing is served."""
    port = free_port()
    file = home.path / "etc/narval.toml"
    file.write_text(f'[web]\nmcp = "0.0.0.0:{port}"\n')
    refused = narval(home.path, "web", "--port", "0")
    assert refused.exit_code == 1
    assert "etc/narval.toml:2:7: web.mcp: expected an address of this machine alone" in refused.output
    certificate, key = make_certificate(tmp_path)
    named = f'mcp_certificate = "{certificate}"\nmcp_key = "{key}"\n'
    file.write_text(f"{file.read_text()}{named}")
    settings, faults = read_settings(home.path)
    assert not faults
    assert settings is not None

    async def count(settings: Settings) -> None:
        beside = mcp(Home(home.path), settings.web)
        assert beside.address == f"https://0.0.0.0:{port}/mcp"
        serving = asyncio.create_task(beside.server.serve([beside.socket]))
        verify = ssl.create_default_context(cafile=certificate)
        for mode in MODES:
            async with connected(f"https://127.0.0.1:{port}/mcp", mode, verify=verify) as client:
                assert not (await client.call_tool("count", {})).is_error
        beside.end()
        beside.server.end()
        await serving

    run(count(settings))
    file.unlink()


def test_a_connection_that_is_lost_cancels_nothing(home: HomeOfClients) -> None:
    """G78, of a program that an interpreter of its own has begun: nothing was imported before."""
    words = [sys.executable, "-m", "narval", *line(home, "desk")[1:]]
    program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None
    assert program.stdout is not None
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    newest = home.ask("runs", limit=1)
    for message in (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "trip_slow", "arguments": {}}},
    ):
        program.stdin.write(json.dumps(message).encode() + b"\n")
    program.stdin.flush()
    while (now := home.ask("runs", limit=1)) == newest:
        pass
    program.stdin.close()
    program.stdout.read()
    assert program.wait() == 0
    assert home.ask("show", run=now[0]["eid"])["state"] == "running"
    home.ask("cancel", run=now[0]["eid"])


def test_a_program_that_writes_rubbish_is_told_so_and_served_on(home: HomeOfClients) -> None:
    """G84."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines = [
        b"rubbish",
        b"\xff\xfe\x00",
        b'{"jsonrpc": "2.0", "id": 9',
        b"[" * 100_000,
        b'{"x": "' + b"y" * (5 * 1024 * 1024) + b'"}',
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}).encode(),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "no/such"}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}).encode(),
    ]
    answers: dict[Any, Any] = {}
    with subprocess.Popen(line(home, "desk"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for one in lines:
            program.stdin.write(one + b"\n")
        program.stdin.flush()
        while not {1, 2, 3, 4} <= answers.keys():
            answer = json.loads(program.stdout.readline())
            answers[answer.get("id")] = answer
        program.stdin.close()
    assert program.returncode == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "narval"
    assert answers[2]["error"]["code"] == -32601
    assert "error" in answers[3]
    assert answers[4]["result"]["tools"]


def test_what_an_input_that_is_a_file_asks_is_answered_and_ends(home: HomeOfClients, tmp_path: Path) -> None:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
    (tmp_path / "asked").write_text(f"{request}\n")
    for path, answers in ((tmp_path / "asked", 1), (Path("/dev/null"), 0)):
        with path.open() as source:
            done = subprocess.run(line(home, "desk"), stdin=source, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout.count(b"serverInfo"), done.stderr) == (0, answers, b"")


def test_without_a_daemon_or_a_client_a_command_says_so(home: HomeOfClients, tmp_path: Any) -> None:
    done = subprocess.run(line(home, "nobody"), input=b"", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"there is no client 'nobody' in etc/mcp/" in done.stderr
    (tmp_path / "recipes").mkdir()
    words = [str(home.path / "narval"), "--home", str(tmp_path), "mcp", "--client", "desk"]
    done = subprocess.run(words, input=b"", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"no daemon is running on this home; start it: narval run" in done.stderr


def test_the_door_knows_tokens_hosts_and_bounds(home: HomeOfClients) -> None:
    """G74 and G84."""

    async def knock() -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        good = {"authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream"}
        async with served(home) as url, httpx2.AsyncClient() as http:
            for headers, status in (
                ({}, 401),
                ({"authorization": "Bearer wrong"}, 401),
                ({"authorization": f"Basic {TOKEN}"}, 401),
                ({**good, "host": "evil.example.org"}, 421),
                ({**good, "origin": "http://evil.example.org"}, 403),
                ({**good, "mcp-session-id": "guessed"}, 404),
                ({**good, "mcp-protocol-version": "1999-01-01"}, 400),
            ):
                answer = await http.post(url, json=message, headers=headers)
                assert answer.status_code == status, (headers, answer.text)
            assert (await http.get(url.replace("/mcp", "/"), headers=good)).status_code == 404
            big = b"x" * (MOST_BYTES + 1)
            headers = {**good, "content-type": "application/json"}
            assert (await http.post(url, content=big, headers=headers)).status_code == 413
            for rubbish in (b"", b"rubbish", b"[]", b'{"jsonrpc": "2.0"}', b"[" * 100_000):
                assert (await http.post(url, content=rubbish, headers=headers)).status_code == 400

    run(knock())


def test_a_session_is_of_the_client_that_opened_it(home: HomeOfClients) -> None:
    """G84."""

    async def steal() -> None:
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        accept = {"accept": "application/json, text/event-stream"}
        async with served(home) as url, httpx2.AsyncClient(headers=accept) as http:
            own = {"authorization": f"Bearer {TOKEN}"}
            opened = await http.post(url, json=begin, headers=own)
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            other = {"authorization": f"Bearer {OTHER_TOKEN}"}
            assert (await http.post(url, json=message, headers={**other, **session})).status_code == 404
            done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(url, json=done, headers={**own, **session})).status_code == 202
            assert "trip_plan" in (await http.post(url, json=message, headers={**own, **session})).text

    run(steal())


def test_a_flood_of_one_client_holds_up_no_other(home: HomeOfClients) -> None:
    """G84: calls and requests under way are bounded, and who asks in another way is answered."""

    async def flood() -> None:
        async with (
            served(home) as url,
            connected(url, MODES[1], OTHER_TOKEN) as other,
            connected(url, MODES[1]) as desk,
        ):
            flooding = [asyncio.create_task(other.call_tool("show", {"run": 1})) for _ in range(40)]
            answer = await desk.call_tool("count", {"xpath": "note"})
            assert not answer.is_error
            results = await asyncio.gather(*flooding, return_exceptions=True)
            refused = [one for one in results if not isinstance(one, BaseException) and one.is_error]
            assert len(refused) + sum(isinstance(one, BaseException) for one in results) == 40
            assert any("too many calls" in one.structured_content["message"] for one in refused)

    run(flood())
