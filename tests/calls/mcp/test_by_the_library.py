"""Servers by the library `mcp`, as most are, over both transports: pipes, and HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import narval
from narval.surfaces.python.agent import Agent
from tests.calls.mcp.sdk_program import guarded, server
from tests.calls.mcp.servers_at_work import HomeWithServer
from tests.surfaces.cli.command_line import narval as command
from tests.surfaces.cli.command_line import well

PROGRAM = str(Path(__file__).with_name("sdk_program.py"))

RECIPE = """<cookbook group="t"><recipe name="{tool}" start_step="s" end_step="s">
<step id="s" type="action" target="sums.{tool}">{arguments}</step></recipe></cookbook>"""
ARGUMENTS = "<arguments><add a='2' b='40'/></arguments>"


def called(agent: Agent, tool: str, arguments: str = "") -> str:
    """What a tool gives, as XML, or the error of its call."""
    agent.load(RECIPE.format(tool=tool, arguments=arguments))
    run = agent.start(f"t.{tool}")
    agent.until_idle()
    made = [one for one in agent.memory("error | *[contains(name(), '-result')]") if one.origin]
    (element,) = [one for one in made if one.origin is not None and one.origin.run == run]
    return element.xml.decode()


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application meanwhile; where it is."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    web.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server is that wants a token."""
    with serving(guarded("sesame")) as address:
        yield address


def test_over_pipes(tmp_path: Path) -> None:
    servers = {"mcpServers": {"sums": {"command": sys.executable, "args": [PROGRAM]}}}
    (tmp_path / "etc").mkdir()
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    well(tmp_path, "mcp", "add", str(tmp_path / "mcp.json"))
    with narval.open(tmp_path) as agent:
        assert called(agent, "add", ARGUMENTS).startswith('<add-result sum="42"')
        assert 'result="up"' in called(agent, "climb")


def test_over_http_with_a_token(tmp_path: Path, url: str) -> None:
    servers = {"mcpServers": {"sums": {"url": url, "headers": {"Authorization": "Bearer sesame"}}}}
    (tmp_path / "etc").mkdir()
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    well(tmp_path, "mcp", "add", str(tmp_path / "mcp.json"))
    with narval.open(tmp_path) as agent:
        assert called(agent, "add", ARGUMENTS).startswith('<add-result sum="42"')
        assert 'result="up"' in called(agent, "climb")
    file = tmp_path / "etc/narval.toml"
    by_token = file.read_text()
    file.write_text(by_token.replace("secret =", "headers.Authorization ="))
    (tmp_path / "etc/mcp-sums-token").write_text("Bearer sesame")
    well(tmp_path, "mcp", "tools", "sums", "--refresh")  # a header of any kind may be the secret
    file.write_text(by_token)
    (tmp_path / "etc/mcp-sums-token").write_text("wrong")
    refused = command(tmp_path, "mcp", "tools", "sums", "--refresh")
    assert refused.exit_code == 1
    assert "401" in refused.stderr


def test_each_of_two_calls_at_once_has_its_own_error(tmp_path: Path) -> None:
    """Neither gets the reason of the other, nor does a third that goes well hide them."""
    with serving(failing_at_once(server.streamable_http_app(json_response=True))) as url:
        (tmp_path / "etc").mkdir()
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"sums": {"url": url}}}))
        well(tmp_path, "mcp", "add", str(tmp_path / "mcp.json"))
        with narval.open(tmp_path) as agent:
            for a in (403, 503, 1):
                step = RECIPE.format(tool="add", arguments=f"<arguments><add a='{a}' b='1'/></arguments>")
                agent.load(step.replace('<recipe name="add"', f'<recipe name="r{a}"'))
                agent.start(f"t.r{a}")
            agent.until_idle()
            refused, ill = sorted(error.text for error in agent.memory("error"))
            assert "it answers 403: it refuses what it is asked" in refused
            assert "it answers 503; add may have done its work" in ill
            assert [one.attributes["sum"] for one in agent.memory("add-result")] == ["2"]


def failing_at_once(app: Any) -> Any:
    """An application that waits until three calls of `add` are under way, and then answers them one after
    another: those whose `a` is a status of HTTP with that, and the third as it should.
    """
    under_way, turns = list[int](), [asyncio.Event() for _ in range(3)]

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = await receive()
        said = json.loads(request["body"] or "null")
        of_call = said["params"]["arguments"]["a"] if said and said["method"] == "tools/call" else 0
        if of_call:
            under_way.append(of_call)
            turn = {403: 0, 503: 1}.get(of_call, 2)
            if len(under_way) == 3:
                turns[0].set()
            await turns[turn].wait()
            asyncio.get_running_loop().call_later(0.2, turns[(turn + 1) % 3].set)
            if of_call in (403, 503):
                await send({"type": "http.response.start", "status": of_call, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        pending = [request]

        async def again() -> Any:
            return pending.pop() if pending else await receive()

        await app(scope, again, send)

    return answer


def test_progress_is_that_of_the_call(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    try:
        home.start("sleep")
        work = home.agent.daemon.main_loop.work_until
        for _ in range(1_000):
            home.agent.runner.run(work(lambda: False, deadline=time.monotonic() + 0.02))
            progressed = [record.call.progressed for record in home.agent.daemon.calls]
            if progressed and progressed[0] is not None:
                break
        assert progressed == [(1, 4)]
    finally:
        home.close()
