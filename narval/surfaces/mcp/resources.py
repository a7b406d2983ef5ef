"""Resources of MCP: the addresses that a client may read and follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

from narval.core.errors import NarvalError
from narval.surfaces.control.async_client import AsyncClient

MOST = 64
"""The most subscriptions at a time."""

STEP = 600.0
"""Seconds that one request waits for a change."""

Context: TypeAlias = "ServerRequestContext[Any, Any]"


TEMPLATES = (
    ("memory", "narval://{agent}/memory/{eid}", "An element, by its number."),
    ("run", "narval://{agent}/run/{eid}", "A run that you have started, by its number."),
    ("definition", "narval://{agent}/definition/{name}", "A definition that you may start."),
    ("elements", "narval://{agent}/memory{?xpath}", "The newest elements that match an XPath pattern."),
    (
        "runs",
        "narval://{agent}/runs{?state}",
        "The runs that you have started: active, done, failed, cancelled.",
    ),
)
"""The templates of addresses: names, templates, and descriptions."""


class Resources:
    """The addresses that clients read and follow; followers of an agent share one request for changes."""

    def __init__(self, asks: AsyncClient, client_of: Callable[[Context], str]) -> None:
        self._asks, self._client_of = asks, client_of
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus, max_subscriptions=MOST)
        self._following: dict[str, dict[object, str]] = {}
        """The followed addresses by agent, each under its request, or under its session and address."""
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._told: dict[tuple[str, str], Callable[[], None]] = {}
        """The functions that end subscriptions of the revisions with a handshake, by session and address."""

    async def list(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        """The definitions that a client may start; the templates cover everything else."""
        rows = await ask_or_refuse(self._asks, "mcp_clients")
        client = self._client_of(ctx)
        row = next((row for row in rows if row["client"] == client), None)
        agents, names = (row["agents"] or [], row["recipes"] or []) if row is not None else ([], [])
        return types.ListResourcesResult(
            resources=[
                types.Resource(name=name, uri=f"narval://{agents[0]}/definition/{name}", mime_type=XML)
                for name in names
                if agents
            ]
        )

    async def templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        """The templates of addresses."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(name=name, uri_template=template, description=about, mime_type=XML)
                for name, template, about in TEMPLATES
            ]
        )

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """The content of an address as XML and as JSON."""
        uri = str(params.uri)
        answer = await ask_or_refuse(self._asks, "client_resource", client=self._client_of(ctx), uri=uri)
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=uri, mime_type=XML, text=answer["xml"]),
                types.TextResourceContents(uri=uri, mime_type=JSON, text=answer["json"]),
            ]
        )

    # --- who follows ------------------------------------------------------------------------------------

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Notify a client of changes under an address from now on (revisions with a handshake)."""
        uri, session = str(params.uri), ctx.session
        await ask_or_refuse(self._asks, "client_resource", client=self._client_of(ctx), uri=uri)
        key = (session_of(ctx), uri)
        await self._follow(key, uri)
        if key in self._told:
            return types.EmptyResult()
        if len(self._told) >= MOST:  # the oldest may be of a session that has gone
            self._end(next(iter(self._told)))
        telling: set[asyncio.Task[None]] = set()

        def tell(event: Any) -> None:
            if isinstance(event, ResourceUpdated) and event.uri == uri:
                task = asyncio.ensure_future(session.send_resource_updated(uri))
                telling.add(task)
                task.add_done_callback(telling.discard)

        self._told[key] = self._bus.subscribe(tell)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Stop notifying a client."""
        key = (session_of(ctx), str(params.uri))
        if key in self._told:
            self._end(key)
        return types.EmptyResult()

    def _end(self, key: tuple[str, str]) -> None:
        self._told.pop(key)()
        self._unfollow(key, key[1])

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Notify a client of changes until it hangs up (revisions without a handshake)."""
        uris = list(params.notifications.resource_subscriptions or ())[:MOST]
        for uri in uris:
            await ask_or_refuse(self._asks, "client_resource", client=self._client_of(ctx), uri=str(uri))
        keys: list[tuple[object, str]] = [(object(), str(uri)) for uri in uris]
        try:
            for key in keys:
                await self._follow(key, key[1])
            return await self._listening(ctx, params)
        finally:
            for key in keys:
                self._unfollow(key, key[1])

    async def tell_of_tools(self) -> None:
        """Notify listeners that tools were added or removed (revisions without a handshake)."""
        await self._bus.publish(ToolsListChanged())

    def close(self) -> None:
        """Stop following everything."""
        for task in self._watching.values():
            task.cancel()
        self._listening.close()

    async def _follow(self, key: object, uri: str) -> None:
        """Follow an address: changes after this returns are reported. Raises MCPError."""
        agent = urlsplit(uri).netloc
        now = await ask_or_refuse(self._asks, "changed", agent=agent)
        self._following.setdefault(agent, {})[key] = uri
        if agent not in self._watching:
            self._watching[agent] = asyncio.ensure_future(self._watch(agent, now["turn"]))

    def _unfollow(self, key: object, uri: str) -> None:
        agent = urlsplit(uri).netloc
        followed = self._following.get(agent, {})
        followed.pop(key, None)
        if not followed and (watching := self._watching.pop(agent, None)) is not None:
            watching.cancel()

    async def _watch(self, agent: str, turn: int) -> None:
        """Notify followers of changes at an agent after a turn."""
        async for changes in changes_of(self._asks, agent, turn):
            for uri in {*self._following.get(agent, {}).values()}:
                if _is_altered(uri, changes):
                    await self._bus.publish(ResourceUpdated(uri=uri))


async def changes_of(
    asks: AsyncClient, agent: str, turn: int, *, files: bool = False
) -> AsyncIterator[dict[str, Any]]:
    """The changes at an agent after a turn, with `files` only those of its files; nothing is polled.

    After a daemon was gone it reports lost changes: anything may have changed in between.
    """
    while True:
        try:
            changes = await asks.ask("changed", agent=agent, after=turn, wait=STEP, files=files)
        except NarvalError:
            await asks.again()
            continue
        turn = changes["turn"]
        yield changes


async def ask_or_refuse(asks: AsyncClient, method: str, /, **params: Any) -> Any:
    """The answer to an operation. Raises MCPError."""
    try:
        return await asks.ask(method, **params)
    except NarvalError as error:
        data = {"uri": params["uri"]} if "uri" in params else None
        raise MCPError(code=types.INVALID_PARAMS, message=str(error), data=data) from None


XML, JSON = "application/xml", "application/json"


def session_of(ctx: Context) -> str:
    """The session of a request that HTTP names, "" for stdio."""
    return ctx.request.headers.get("mcp-session-id", "") if ctx.request is not None else ""


def _is_altered(uri: str, changes: dict[str, Any]) -> bool:
    """True if the content of an address may have changed."""
    if changes["lost"]:
        return True
    kind, _, name = urlsplit(uri).path.strip("/").partition("/")
    if kind == "run":
        return name.isdecimal() and int(name) in changes["runs"]
    return bool(
        {"memory": changes["elements"], "runs": changes["runs"], "definition": changes["faults"]}.get(kind)
    )
