"""The operation `add_agents`: agents from a template, a number of them or one for each row."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from itertools import count as numbers
from pathlib import Path
from typing import Any

from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import admitted
from narval.ask.lookup import files_of
from narval.ask.memory.changing import add
from narval.ask.registry import operation
from narval.core.errors import RequestError
from narval.core.source.text import Source
from narval.daemon.daemon import Daemon
from narval.files.agents.collections import AGENTS
from narval.files.agents.folders import AgentTemplate, NewAgent, make_folder, read_template
from narval.files.agents.settings import AGENT_FILE, CollectionsOf, parse_agent_file

MOST = 1000
"""The most agents of one request."""


@operation("write")
async def add_agents(
    daemon: Daemon,
    template: str,
    count: int | None = None,
    rows: list[dict[str, str]] | None = None,
    first: int = 1,
    *,
    asker: Asker = PROGRAM,
) -> list[dict[str, Any]]:
    """Make agents from the template `agents/TEMPLATE.toml`: `count` of them, or one for each of `rows`, which
    give its parameters; at most 1,000. The answer has the name and number of each.

    `number` counts from `first` and skips taken names. All names, settings and elements are checked before
    any agent is made.
    """
    if (count is None) == (rows is None) or not 1 <= (
        many := len(rows) if rows is not None else count or 0
    ) <= MOST:
        raise RequestError(f"expected count or rows, of 1 to {MOST:,} agents")
    if first < 1:
        raise RequestError(f"expected first to be 1 or more, got {first}")
    if daemon.home is None:
        raise RequestError("a home in memory has no templates of agents")
    made = read_template(daemon.home.path, template)
    taken = {daemon.files.settings.name, *daemon.agents.rows.names(), *daemon.files.snapshot.agents}
    new = list(_new_agents(made, rows if rows is not None else [{}] * many, taken, first))
    await _check(daemon, made, new)
    if new[0].settings and (roaming := daemon.agents.supervisor.roaming) is not None:
        for one in new:
            await daemon.agents.add(one.name)
            await daemon.agents.give_settings(roaming, one.name, one.settings)
    elif new[0].settings:
        await asyncio.to_thread(_make_folders, daemon.home.path, new)
        await daemon.reloader.reload()
    else:
        await daemon.agents.add_all([one.name for one in new])
    for one in new if made.memory else ():
        async with daemon.of(one.name) as seen:
            await add(seen, one.elements, asker=asker)
    return [{"name": one.name, "number": one.number} for one in new]


def _new_agents(
    template: AgentTemplate, rows: list[dict[str, str]], taken: Container[str], first: int
) -> Iterator[NewAgent]:
    """The agents for rows. Raises RequestError for a taken name without a number in it."""
    there, number = set[str](), numbers(first)
    for row in rows:
        template.check(row)
        one = template.filled(next(number), row)
        while one.name in taken or one.name in there:
            another = template.filled(next(number), row)
            if another.name == one.name:
                raise RequestError(f"there is an agent {one.name} already, or two rows name it")
            one = another
        there.add(one.name)
        yield one


async def _check(daemon: Daemon, template: AgentTemplate, new: list[NewAgent]) -> None:
    """Check settings and elements. Raises RequestError, ElementError."""
    roaming, home = daemon.agents.supervisor.roaming, daemon.home
    assert home is not None
    for text in dict.fromkeys(one.settings for one in new if one.settings):
        if roaming is not None:
            await roaming.check(text)
            continue
        _, faults = parse_agent_file(Source(AGENT_FILE, text.encode()), CollectionsOf(home.path))
        if faults:
            raise RequestError(f"{template.shown}: agent: {faults[0].message}")
    if elements := [element for one in new for element in one.elements]:
        await admitted(files_of(daemon).schemas, elements)


def _make_folders(home: Path, new: list[NewAgent]) -> None:
    """Make the folders of agents. Raises RequestError, SurroundingsError."""
    (home / AGENTS).mkdir(exist_ok=True)
    for one in new:
        make_folder(home, one.name, one.settings)
