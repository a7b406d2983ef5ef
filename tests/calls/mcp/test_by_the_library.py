"""Servers by the library `mcp`, as most are, over both transports: pipes, and HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

import narval
from narval.surfaces.python.agent import Agent
from tests.calls.mcp.sdk_program import guarded
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


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the server is that wants a token."""
    config = uvicorn.Config(guarded("sesame"), host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join()


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
    (tmp_path / "etc/mcp-sums-token").write_text("wrong")
    refused = command(tmp_path, "mcp", "tools", "sums", "--refresh")
    assert refused.exit_code == 1
    assert "401" in refused.stderr


def test_progress_is_that_of_the_call(tmp_path: Path) -> None:
    home = HomeWithServer(tmp_path)
    try:
        home.start("sleep")
        for _ in range(1_000):
            home.agent.runner.run(asyncio.sleep(0.02))
            progressed = [record.call.progressed for record in home.agent.daemon.calls]
            if progressed and progressed[0] is not None:
                break
        assert progressed == [(1, 4)]
    finally:
        home.close()
