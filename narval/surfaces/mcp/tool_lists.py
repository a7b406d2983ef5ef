"""Lists of tools: clients are notified if the list that they got has changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from narval.core.errors import NarvalError
from narval.surfaces.control.async_client import AsyncClient
from narval.surfaces.mcp.resources import changes_of

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
