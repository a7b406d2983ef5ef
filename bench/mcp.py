"""W16: calls of a client of MCP, from the client to the answer, beside an echo server of the SDK alone.

    python -m bench.mcp [stdio | http | recipes]

`stdio` and `http`: a client of the SDK calls `count` of a home, whose daemon runs, and the echo server, in
turn; `call_us` and `echo_us` are the medians of the rounds, `processor_us` and `echo_processor_us` the time
of the processor that the programs behind the client took for a call. `recipes`: calls of a recipe that is a
tool, several at once. `server_mb` is what the program that serves has resident at the end.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import psutil
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from bench import programs
from bench.measure import argument, emit, home, memory_of, now, scratch
from narval.files.agents.senders import token_digest

ROUNDS, CALLS, WARM = 7, 100, 50
AT_ONCE, OF_RECIPES = 8, 900
TOKEN = "a-token"
CLIENT = f"""
sha256 = "{token_digest(TOKEN)}"
agents = ["narval"]
tools = ["count"]
read = ["note"]
recipes = ["w.echo"]
calls = 6000
"""
RECIPES = """<recipe group="w" name="echo" start_step="s" end_step="s">
  <tool element="said"><argument name="text"/></tool>
  <step id="s" type="action" target="basic.copy"><input id="element"><match>said</match></input></step>
</recipe>"""


def echo(port: int) -> None:
    """Serve the tool that gives back what it was given: over the pipes, or at a port."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("echo")

    @server.tool()
    def count(xpath: str) -> dict[str, str]:
        """Give it back."""
        return {"xpath": xpath}

    if not port:
        server.run("stdio")
        return
    import uvicorn

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error")


def free_port() -> int:
    """A port that nothing has."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Served:
    """A client that is connected, and the programs behind it."""

    def __init__(self, client: Client, behind: list[psutil.Process]) -> None:
        self._client, self._behind = client, behind

    async def seconds(self, calls: int) -> tuple[float, float]:
        """The seconds, and those of the processor behind, that so many calls took, one after another."""
        before, began = self._processor(), now()
        for _ in range(calls):
            result = await self._client.call_tool("count", {"xpath": "note"})
            assert not result.is_error, result
        return now() - began, self._processor() - before

    async def of_recipe(self, calls: int, at_once: int) -> tuple[float, float]:
        """The seconds, and those of the processor behind, that so many calls of the recipe took, several at
        once.
        """
        left, before, began = iter(range(calls)), self._processor(), now()

        async def some() -> None:
            for number in left:
                result = await self._client.call_tool("w_echo", {"text": str(number)})
                assert result.structured_content["elements"][0]["name"] == "said", result

        await asyncio.gather(*(some() for _ in range(at_once)))
        return now() - began, self._processor() - before

    def _processor(self) -> float:
        return sum(sum(one.cpu_times()[:2]) for one in self._behind)


@asynccontextmanager
async def over_stdio(words: list[str], daemon: list[int]) -> AsyncIterator[tuple[Served, int]]:
    """A client of a program that is started with these words; and the number of that."""
    before = {child.pid for child in psutil.Process().children()}
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with Client(stdio_client(parameters), mode="legacy") as client:
        (server,) = {child.pid for child in psutil.Process().children()} - before
        yield Served(client, [psutil.Process(pid) for pid in (server, *daemon)]), server


@asynccontextmanager
async def over_http(words: list[str], port: int, daemon: list[int]) -> AsyncIterator[tuple[Served, int]]:
    """A client of a program that is started with these words and serves at a port; and its number."""
    program = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
    headers, address = {"authorization": f"Bearer {TOKEN}"}, f"http://127.0.0.1:{port}/mcp"
    try:
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            await asyncio.sleep(0.05)
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(address, http_client=http), mode="legacy") as client,
        ):
            yield Served(client, [psutil.Process(pid) for pid in (program.pid, *daemon)]), program.pid
    finally:
        program.terminate()
        await program.wait()


async def beside(case: str, folder: Path, daemon: int, port: int) -> dict[str, Any]:
    """Calls of ours and of the echo server, in turn."""
    narval = [sys.executable, "-m", "narval", "--home", str(folder)]
    itself = [sys.executable, "-m", "bench.mcp", "echo"]
    async with AsyncExitStack() as stack:
        if case == "http":
            other = free_port()
            web = [*narval, "web", "--port", "0"]
            ours, server = await stack.enter_async_context(over_http(web, port, [daemon]))
            echoes, _ = await stack.enter_async_context(over_http([*itself, str(other)], other, []))
        else:
            stdio = [*narval, "mcp", "--client", "desk"]
            ours, server = await stack.enter_async_context(over_stdio(stdio, [daemon]))
            echoes, _ = await stack.enter_async_context(over_stdio([*itself, "0"], []))
        if case == "recipes":
            await ours.of_recipe(WARM, AT_ONCE)
            seconds, processor = await ours.of_recipe(OF_RECIPES, AT_ONCE)
            return {
                "n": OF_RECIPES,
                "seconds": seconds,
                "processor_us": round(processor / OF_RECIPES * 1e6, 1),
                "server_mb": memory_of(server, "VmRSS"),
            }
        await ours.seconds(WARM)
        await echoes.seconds(WARM)
        pairs = [(await echoes.seconds(CALLS), await ours.seconds(CALLS)) for _ in range(ROUNDS)]
        return {
            "n": ROUNDS * CALLS,
            "seconds": sum(seconds for _, (seconds, _) in pairs),
            "call_us": round(median(one[0] for _, one in pairs) / CALLS * 1e6, 1),
            "echo_us": round(median(one[0] for one, _ in pairs) / CALLS * 1e6, 1),
            "over_echo": round(median(own[0] / other[0] for other, own in pairs), 3),
            "processor_us": round(median(one[1] for _, one in pairs) / CALLS * 1e6, 1),
            "echo_processor_us": round(median(one[1] for one, _ in pairs) / CALLS * 1e6, 1),
            "server_mb": memory_of(server, "VmRSS"),
        }


@contextmanager
def at_work(port: int) -> Iterator[tuple[Path, int]]:
    """A home with a client and a note whose daemon runs; and the number of that."""
    with scratch() as folder:
        home(folder, recipes=RECIPES, settings=f'[web]\nmcp = "127.0.0.1:{port}"\n')
        (folder / "etc/mcp").mkdir()
        (folder / "etc/mcp/desk.toml").write_text(CLIENT)
        (folder / "data/memory.xml").write_text("<memory><note>water</note></memory>")
        with programs.running(folder) as (daemon, _):
            yield folder, daemon.pid


def main() -> None:
    """Measure a case."""
    case = argument(1, "stdio")
    if case == "echo":
        echo(argument(2, 0))
        return
    port = free_port()
    with at_work(port) as (folder, daemon):
        measured = asyncio.run(beside(case, folder, daemon, port))
    emit(f"W16-{case}", measured.pop("n"), measured.pop("seconds"), **measured)


if __name__ == "__main__":
    main()
