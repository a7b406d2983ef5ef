"""Resources of MCP: what a client may read by its address, and what it is told when that changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import SubscribeRequestParams

from narval.surfaces.mcp.resources import Resources
from narval.surfaces.mcp.server import ToolLists
from tests.surfaces.mcp.home_of_clients import MODES, HomeOfClients, home_at_work


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeOfClients]:
    with home_at_work(tmp_path_factory.mktemp("home")) as opened:
        yield opened


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 120))


async def texts(client: Client, uri: str) -> tuple[str, Any]:
    xml, as_json = (await client.read_resource(uri)).contents
    return xml.text, json.loads(as_json.text)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
def test_a_client_reads_by_address_what_it_may_and_nothing_else(home: HomeOfClients, mode: str) -> None:
    """G76: in XML, and in JSON as the command line has it."""

    async def read() -> None:
        [note] = home.ask("add", elements=[b"<note topic='r'/>"])["eids"]
        [secret] = home.ask("add", elements=[b"<secret/>"])["eids"]
        strange = home.ask("start", name="trip.plain")["eid"]
        async with home.connected("desk", mode) as client:
            own = (await client.call_tool("start", {"name": "trip.plain"})).structured_content["eid"]
            assert len((await client.list_resource_templates()).resource_templates) == 5
            listed = [str(one.uri) for one in (await client.list_resources()).resources]
            assert "narval://narval/definition/trip.plan" in listed
            xml, row = await texts(client, f"narval://narval/memory/{note}")
            assert (xml, row["eid"]) == (f'<note topic="r" eid="{note}"/>', note)
            xml, row = await texts(client, f"narval://narval/run/{own}")
            assert xml.startswith("<plan")
            assert row["name"] == "trip.plain"
            xml, row = await texts(client, "narval://narval/definition/trip.plan")
            assert "<recipe" in xml
            assert row["kind"] == "recipe"
            xml, rows = await texts(client, "narval://narval/memory?xpath=note[@topic='r']")
            assert note in [row["eid"] for row in rows]
            assert "secret" not in xml
            xml, rows = await texts(client, "narval://narval/runs")
            assert own in [row["eid"] for row in rows]
            assert strange not in [row["eid"] for row in rows]
            for uri in (
                f"narval://narval/memory/{secret}",
                f"narval://narval/memory/{own}",
                f"narval://narval/run/{strange}",
                "narval://narval/run/99999999",
                "narval://narval/definition/trip.hidden",
                "narval://narval/runs?state=odd",
                "narval://other/runs",
                "file:///etc/passwd",
                "narval://narval/memory/1/2",
            ):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)

    run(read())


@pytest.mark.parametrize("mode", MODES)
def test_a_client_is_told_when_recipes_that_are_tools_come_and_go(home: HomeOfClients, mode: str) -> None:
    """G77: and not when other files change."""
    file = home.path / "recipes/extra.xml"
    plain = (
        '<recipe group="trip" name="extra" start_step="s" end_step="s">{}'
        '<step id="s" type="action" target="basic.nothing"/></recipe>'
    )

    async def follow() -> None:
        told: list[Any] = []
        is_heard = asyncio.Event()

        async def hear(message: Any) -> None:
            if listening is None:
                told.append(type(message).__name__)

        async def listen() -> None:
            async with client.listen(tools_list_changed=True) as heard:
                is_heard.set()
                async for event in heard:
                    told.append(type(event).__name__)

        async def listed() -> bool:
            return "trip_extra" in [tool.name for tool in (await client.list_tools()).tools]

        listening: asyncio.Task[None] | None = None
        async with home.connected("desk", mode, message_handler=hear) as client:
            assert not await listed()
            if mode != MODES[0]:
                listening = asyncio.create_task(listen())
                await is_heard.wait()
            for text, is_tool in ((plain.format(""), False), (plain.format("<tool/>"), True), ("", False)):
                before = len(told)
                if text:
                    file.write_text(text)
                else:
                    file.unlink()
                home.ask("reload")
                if text and not is_tool:
                    await asyncio.sleep(0.2)
                    assert told == []
                while (is_tool or not text) and len(told) == before:
                    await asyncio.sleep(0.02)  # one that lists before it is told has the new list already
                assert await listed() == is_tool
            assert {*told} <= {"ToolListChangedNotification", "ToolsListChanged"}
            assert len(told) == 2
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    run(follow())


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")  # the only way before 2026-07-28
@pytest.mark.parametrize("mode", MODES)
def test_who_subscribes_is_told_of_what_changed(home: HomeOfClients, mode: str) -> None:
    """G76: and of nothing else."""

    async def follow() -> None:
        told: list[str] = []
        is_heard = asyncio.Event()

        async def hear(message: Any) -> None:
            params = getattr(message, "params", None)
            told.append(str(getattr(params, "uri", "")))

        async def listen() -> None:
            async with client.listen(resource_subscriptions=[uri]) as heard:
                is_heard.set()
                async for event in heard:
                    told.append(str(getattr(event, "uri", "")))

        handlers = {"message_handler": hear} if mode == MODES[0] else {}
        async with home.connected("desk", mode, **handlers) as client:
            eid = (await client.call_tool("start", {"name": "trip.slow"})).structured_content["eid"]
            uri, unknown = f"narval://narval/run/{eid}", "narval://narval/run/99999999"
            listening: asyncio.Task[None] | None = None
            if mode == MODES[0]:
                await client.subscribe_resource(uri)
                with pytest.raises(MCPError):
                    await client.subscribe_resource(unknown)
            else:
                listening = asyncio.create_task(listen())
                await is_heard.wait()
                with pytest.raises(MCPError):
                    async with client.listen(resource_subscriptions=[unknown]):
                        pass
            home.ask("add", elements=[b"<note/>"])
            home.ask("signal", run=eid, name="go")
            while uri not in told:
                await asyncio.sleep(0.01)
            assert {one for one in told if one} == {uri}
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    run(follow())


class DaemonAtTurn:
    """A daemon whose tools and runs change with each turn."""

    turn = 1

    async def ask(self, method: str, /, **params: Any) -> Any:
        if method == "changed":
            if params.get("after") == self.turn:
                await asyncio.Event().wait()
            return {"turn": self.turn, "runs": [5], "lost": False}
        if method == "mcp_clients":
            return [{"client": "desk", "agents": ["narval"]}]
        return [{"tool": f"of turn {self.turn}"}]


def test_a_client_is_told_of_what_changes_as_soon_as_it_follows() -> None:
    """G76 and G77: also before the daemon could be asked what changes."""

    async def follow() -> None:
        told: asyncio.Queue[str] = asyncio.Queue()

        async def tell(uri: str = "tools") -> None:
            told.put_nowait(uri)

        daemon = DaemonAtTurn()
        lists, resources = ToolLists(daemon), Resources(daemon, lambda ctx: "desk")
        await lists.follow("", "desk", tell)
        daemon.turn += 1
        assert await told.get() == "tools"
        asked: Any = SimpleNamespace(request=None, session=SimpleNamespace(send_resource_updated=tell))
        await resources.subscribe(asked, SubscribeRequestParams(uri="narval://narval/run/5"))
        daemon.turn += 1
        assert await told.get() == "narval://narval/run/5"
        lists.close()
        resources.close()

    run(follow())
