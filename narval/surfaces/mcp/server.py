"""The MCP server of a home: each request for tools goes to its daemon, and nothing is cached here.

The daemon decides at each call, by the client's file, whether it is allowed. This server identifies the
client, follows the runs that calls have started, and asks a client's user if a tool requires it. Clients are
notified if the list of tools that they got has changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from narval import __version__
from narval.ask.text import json_bytes
from narval.core.errors import DaemonGoneError, NarvalError, UnansweredError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.mcp.agreeing import REMEMBERED, Agreements, is_modern
from narval.surfaces.mcp.resources import Context, Resources, ask_or_refuse, changes_of, session_of

AT_ONCE = 64
"""The most requests under way at a time; more are refused."""

STEP = 30.0
"""Seconds that one request waits: nothing is polled."""

INSTRUCTIONS = (
    "narval remembers XML elements and follows recipes. Elements are found by XPath 1.0 patterns such as "
    "note[@topic='garden']; every element and run has a number (eid)."
)
"""The instructions of this server for the model of a client."""


class AnnouncingServer(Server[Any]):
    """A server that announces in the handshake that it reports changed tools."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        """The options for answering a handshake."""
        announced = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(announced, *more, **named)


class ToolServer:
    """The server of clients; `client_of` gives the name of the client of a request."""

    def __init__(self, asks: AsyncClient, client_of: Callable[[Context], str]) -> None:
        self._asks, self._client_of = asks, client_of
        self._resources, self._lists = Resources(asks, client_of), ToolLists(asks)
        self._agreements = Agreements()
        self._under_way = 0
        self._calls: OrderedDict[tuple[str, Any], _Call] = OrderedDict()
        """The calls whose requests have no answer yet, or were cut off, by connection and request."""
        self._ending: set[asyncio.Task[None]] = set()
        self.is_closing = False
        """True once this server is ending: calls cut off then do not cancel their runs."""
        self.server: Server[Any] = AnnouncingServer(
            "narval",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._resources.list,
            on_list_resource_templates=self._resources.templates,
            on_read_resource=self._resources.read,
            on_subscribe_resource=self._resources.subscribe,
            on_unsubscribe_resource=self._resources.unsubscribe,
            on_subscriptions_listen=self._listen,
        )
        self.server.middleware.append(self._observe)

    def close(self) -> None:
        """End: requests cut off from now on count as lost connections, not as cancelled by the client."""
        self.is_closing = True
        self._resources.close()
        self._lists.close()

    async def _observe(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Limit the requests under way; end the run of a call that its client has cancelled."""
        if ctx.request_id is None:
            if ctx.method == "notifications/cancelled" and isinstance(ctx.params, dict):
                call = self._calls.pop((session_of(ctx), ctx.params.get("requestId")), None)
                if call is not None:
                    self._end(call)
            return await call_next(ctx)
        if self._under_way >= AT_ONCE:
            message = f"too many requests: at most {AT_ONCE} may be under way"
            raise MCPError(code=types.INTERNAL_ERROR, message=message)
        self._under_way += 1
        try:
            return await call_next(ctx)
        finally:
            self._under_way -= 1

    # --- tools ------------------------------------------------------------------------------------------

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        client = self._client_of(ctx)
        if not is_modern(ctx):
            with suppress(NarvalError):
                await self._lists.follow(session_of(ctx), client, ctx.session.send_tool_list_changed)
        rows = await ask_or_refuse(self._asks, "client_tools", client=client)
        return types.ListToolsResult(tools=[_tool(row) for row in rows])

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell a client of changes until it hangs up (revisions without a handshake)."""
        key = object()
        if params.notifications.tools_list_changed:
            with suppress(NarvalError):
                await self._lists.follow(key, self._client_of(ctx), self._resources.tell_of_tools)
        try:
            return await self._resources.listen(ctx, params)
        finally:
            self._lists.leave(key)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        client, arguments = self._client_of(ctx), params.arguments or {}
        size = len(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        about = {"client": client, "tool": params.name, "arguments": arguments, "size": size}
        try:
            result = await self._called(ctx, about, params)
        except asyncio.CancelledError:  # the client may still send messages about it
            raise
        except NarvalError as error:
            result = error_of(error)
        except BaseException:
            self._calls.pop(_key(ctx), None)
            raise
        self._calls.pop(_key(ctx), None)
        return result

    async def _called(
        self, ctx: Context, about: dict[str, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The result of a call. Raises NarvalError."""
        client = about["client"]
        answer = await self._begun(ctx, about, agreed=self._agreements.was_agreed(about, params))
        if "ask" in answer:
            asked = await self._agreements.ask(ctx, about, answer["ask"])
            if asked is not None:
                return asked
            answer = await self._begun(ctx, {**about, "size": 0}, agreed=True)
        if "run" not in answer:
            return result_of(answer["answer"])
        try:
            run = await self._followed(ctx, client, answer)
        except DaemonGoneError as error:
            return _begun_all_the_same(error, answer["run"])
        return _result(run, is_error="error" in run)

    async def _begun(self, ctx: Context, about: dict[str, Any], *, agreed: bool) -> dict[str, Any]:
        """The daemon's answer to a call, which continues if its client cancels it. Raises NarvalError."""
        asking = asyncio.ensure_future(self._asks.ask("use_tool", **about, agreed=agreed))
        asking.add_done_callback(_retrieve)
        call = _Call(about["client"], asking)
        self._calls[_key(ctx)] = call
        if len(self._calls) > REMEMBERED:
            self._calls.popitem(last=False)
        try:
            answer: dict[str, Any] = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._cut_off(ctx, call)
            raise
        return answer

    async def _followed(self, ctx: Context, client: str, begun: dict[str, Any]) -> dict[str, Any]:
        """The run of a call: its results, or only its number if the wait of its tool has ended."""
        deadline, turn, last, part = time.monotonic() + begun["wait"], 0, -1.0, 0.0
        steps = ctx.meta is not None and ctx.meta.get("progress_token") is not None
        about = {"client": client, "run": begun["run"], "agent": begun["agent"], "each_step": steps}
        try:
            while True:
                left = max(0.0, min(deadline - time.monotonic(), STEP))
                run = await self._asks.ask("client_run", **about, after=turn, wait=left, begun=part)
                turn, part = run["turn"], run.get("begun", 0.0)
                if steps and run["done"] + part > last and run["total"]:
                    last = run["done"] + part
                    await ctx.session.report_progress(last, run["total"], run["at"] or run["state"])
                if not run["active"] or time.monotonic() >= deadline:
                    return answer_of(run)
                about["run"] = run["eid"]
        except asyncio.CancelledError:
            call = self._calls.get(_key(ctx))
            if call is not None:
                self._cut_off(ctx, call)
            raise

    # --- cancelling -------------------------------------------------------------------------------------

    def _cut_off(self, ctx: Context, call: _Call) -> None:
        """Handle a request that was cut off. Over HTTP, in revisions without a handshake, that is how a
        client cancels. Otherwise a client sends a message to cancel, and a lost connection cancels nothing.
        """
        if ctx.request is not None and is_modern(ctx) and not self.is_closing:
            self._calls.pop(_key(ctx), None)
            self._end(call)

    def _end(self, call: _Call) -> None:
        task = asyncio.ensure_future(self._ended(call))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _ended(self, call: _Call) -> None:
        """End the run that a call has started, as soon as that is recorded."""
        try:
            begun = await call.asking
            if "run" in begun:
                await self._asks.ask(
                    "cancel_call", client=call.client, run=begun["run"], agent=begun["agent"]
                )
        except NarvalError:  # it was refused, has ended, or the daemon has gone
            return


class _Call:
    """A call under way: its client, and the daemon's answer to come."""

    def __init__(self, client: str, asking: asyncio.Future[dict[str, Any]]) -> None:
        self.client, self.asking = client, asking


def _key(ctx: Context) -> tuple[str, Any]:
    return session_of(ctx), ctx.request_id


def _retrieve(asking: asyncio.Future[Any]) -> None:
    """Retrieve the error of an answer that nothing may be waiting for any more."""
    if not asking.cancelled():
        asking.exception()


def _tool(row: dict[str, Any]) -> types.Tool:
    return types.Tool(
        name=row["tool"],
        title=row.get("definition"),
        description=row["description"],
        input_schema=row["schema"],
        annotations=types.ToolAnnotations(read_only_hint=row["reads"]),
    )


def answer_of(run: dict[str, Any]) -> dict[str, Any]:
    """A run in the form of the result of a call."""
    answer = {"run": run["eid"], "name": run["name"], "state": run["state"], "active": run["active"]}
    if run["error"]:
        answer["error"] = run["error"]
    if "elements" in run:
        named = ("eid", "name", "xml")
        answer["elements"] = [{key: one[key] for key in named} for one in run["elements"]]
    if "withheld" in run:
        answer["withheld"] = run["withheld"]
    return answer


# --- answers ------------------------------------------------------------------------------------------------


def result_of(answer: Any) -> types.CallToolResult:
    """The result of a call from plain data; anything but an object is wrapped as `result`."""
    return _result(answer if isinstance(answer, dict) else {"result": answer})


def _result(content: dict[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(content)], structured_content=content, is_error=is_error)


def error_of(error: NarvalError) -> types.CallToolResult:
    """The result of a call that was refused or failed: a stable code and the message."""
    content = {"error": code_of(error), "message": str(error)}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(error))], structured_content=content, is_error=True
    )


def _begun_all_the_same(error: DaemonGoneError, run: int) -> types.CallToolResult:
    """The result of a call whose run is recorded, but whose daemon has gone since."""
    what = error.what if isinstance(error, UnansweredError) else str(error)
    then = f"it began run {run}, which continues once a daemon is running; look at it before you call again"
    result = error_of(UnansweredError(what, then))
    return result.model_copy(update={"structured_content": {**(result.structured_content or {}), "run": run}})


def code_of(error: NarvalError) -> str:
    """The code of an error: its kind if it has one, else the name of its class."""
    kind = getattr(error, "kind", None)
    return kind if isinstance(kind, str) and kind else type(error).__name__


def _text(content: dict[str, Any]) -> types.TextContent:
    return types.TextContent(type="text", text=json_bytes(content).decode())


# --- the lists that clients follow ----------------------------------------------------------------------

MOST = 64
"""The most lists followed at a time; the oldest may be of a session that has gone."""

Tell = Callable[[], Awaitable[None]]


class FollowedList(NamedTuple):
    """A list that a client got: its digest, and the function that reports a change."""

    client: str
    agent: str
    digest: str
    tell: Tell


class ToolLists:
    """The lists that clients got. All of an agent share one request for changes of its files."""

    def __init__(self, asks: AsyncClient) -> None:
        self._asks = asks
        self._lists: OrderedDict[object, FollowedList] = OrderedDict()
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def follow(self, key: object, client: str, tell: Tell) -> None:
        """Call `tell` when the tools of a client differ from the present ones. Raises NarvalError."""
        clients = await self._asks.ask("mcp_clients")
        agents = next((row["agents"] for row in clients if row["client"] == client), None)
        if not agents:
            return
        now = await self._asks.ask("changed", agent=agents[0])
        rows = await self._asks.ask("client_tools", client=client)
        self._lists[key] = FollowedList(client, agents[0], digest_of(rows), tell)
        self._lists.move_to_end(key)
        if len(self._lists) > MOST:
            self.leave(next(iter(self._lists)))
        if agents[0] not in self._watching:
            self._watching[agents[0]] = asyncio.ensure_future(self._watch(agents[0], now["turn"]))

    def leave(self, key: object) -> None:
        """Stop notifying a client."""
        left = self._lists.pop(key, None)
        if left is not None and all(one.agent != left.agent for one in self._lists.values()):
            self._watching.pop(left.agent).cancel()

    def close(self) -> None:
        """Stop following everything."""
        for task in self._watching.values():
            task.cancel()

    async def _watch(self, agent: str, turn: int) -> None:
        async for _ in changes_of(self._asks, agent, turn, files=True):
            for key, followed in tuple(self._lists.items()):
                if followed.agent == agent:
                    with suppress(NarvalError):
                        await self._compare(key, followed)

    async def _compare(self, key: object, followed: FollowedList) -> None:
        digest = digest_of(await self._asks.ask("client_tools", client=followed.client))
        if digest != followed.digest and self._lists.get(key) is followed:
            self._lists[key] = followed._replace(digest=digest)
            await followed.tell()


def digest_of(rows: list[dict[str, Any]]) -> str:
    """The digest of a list of tools."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
