"""Operations that serve MCP clients: the clients, their tools, and the call of a tool."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from lxml import etree

from narval.agent.replay import definition_of, state_of
from narval.agent.run import Run
from narval.ask import json_forms
from narval.ask.asker import CLIENT, NOBODY, PROGRAM, Asker
from narval.ask.clients.descriptions import DESCRIPTIONS
from narval.ask.clients.tools import (
    TOOLS,
    check_shown,
    has_started,
    not_started,
    read_arguments,
    schema_of_tool,
)
from narval.ask.daemon.status import changed
from narval.ask.labels import giving
from narval.ask.operations import OPERATIONS
from narval.ask.people import check_may
from narval.ask.registry import Form, operation
from narval.ask.runs.acts import cancel, saved_files_read, start
from narval.ask.withholding import is_withheld, run_told
from narval.core.definitions.library import RunDefinition
from narval.core.definitions.people.directory import ASKS_FOR_A_CLIENT, FOR_A_CLIENT
from narval.core.definitions.suggestions import closest
from narval.core.definitions.tool import Tool
from narval.core.elements.element import parse
from narval.core.elements.names import START_PLAN
from narval.core.engines.registry import runnable
from narval.core.errors import NarvalError, RequestError, UnreadableError
from narval.core.kinds import ASKING
from narval.daemon.daemon import Daemon
from narval.files.mcp_clients import TOOL_CALL, McpClient
from narval.store import codec

log = logging.getLogger("narval.clients")

_LAST = 1 << 62
"""A number above that of any line of a journal."""


def asker_of(client: McpClient) -> Asker:
    """The asker for a client: never the owner of the home, and never a person with a login."""
    return Asker(client.person, NOBODY, CLIENT, labels=(client.person,))


@asynccontextmanager
async def agent_seen(daemon: Daemon, client: McpClient, agent: str, *, reads: bool) -> AsyncIterator[Daemon]:
    """The daemon as seen by an agent that the client may ask; "" is the first agent that its file names.

    Raises RequestError.
    """
    if not client.agents:
        raise RequestError(f"the client {client.name} may ask no agent: its file names none (agents)")
    name = agent or client.agents[0]
    if name not in client.agents:
        may = ", ".join(client.agents)
        raise RequestError(f"the client {client.name} may not ask the agent {name!r:.80}; it may ask {may}")
    if name == daemon.name:
        yield daemon
        return
    async with daemon.of(name, reads=reads) as seen:
        yield seen


@operation("read")
async def mcp_clients(daemon: Daemon) -> list[Form]:
    """The MCP clients, by the files `etc/mcp/NAME.toml`: what each may do, and the digest of its token; for a
    faulty file, its faults.
    """
    return [_form(*row) for row in daemon.clients.all()]


def _form(name: str, client: McpClient | None, faults: Iterable[Any]) -> Form:
    rights: Form = {
        field: getattr(client, field) if client is not None else None
        for field in ("sha256", "agents", "tools", "add", "read", "recipes", "secrets", "calls", "bytes")
    }
    listed = {key: list(value) if isinstance(value, tuple) else value for key, value in rights.items()}
    return {"client": name, **listed, "faults": [json_forms.fault(fault) for fault in faults]}


@operation("read")
async def client_tools(daemon: Daemon, client: str) -> list[Form]:
    """The tools that an MCP client may use: those of operations, and definitions that have a `tool`.

    Each has `tool`, the name, `description`, `schema` (the JSON schema of its arguments) and `reads` (true if
    it changes nothing). A definition also has `definition`, `approve` and `wait`.
    """
    who = daemon.clients.client(client)
    if not who.agents:
        return []
    tools = [
        {
            "tool": name,
            "description": DESCRIPTIONS[name].about,
            "schema": schema_of_tool(name, who.agents),
            "reads": OPERATIONS[name].scope == "read",
        }
        for name in TOOLS
        if name in who.tools and name in OPERATIONS
    ]
    async with agent_seen(daemon, who, "", reads=True) as seen:
        for name, (definition, tool) in tools_of_definitions(seen, who).items():
            tools.append(
                {
                    "tool": name,
                    "description": definition.descriptions.get("en", f"Start {definition.full_name}."),
                    "schema": tool.schema,
                    "reads": False,
                    "definition": definition.full_name,
                    "approve": tool.approve,
                    "wait": tool.wait,
                }
            )
    return tools


def tools_of_definitions(daemon: Daemon, client: McpClient) -> dict[str, tuple[RunDefinition, Tool]]:
    """The definitions that are tools of a client, by tool name: `group_name`, since many programs that call
    tools reject a dot in a name. A tool whose name is taken is left out.
    """
    tools: dict[str, tuple[RunDefinition, Tool]] = {}
    for full_name in client.recipes:
        definition = runnable(daemon.agent.library, full_name)
        name = full_name.replace(".", "_")
        if isinstance(definition, RunDefinition) and definition.tool is not None and name not in TOOLS:
            tools.setdefault(name, (definition, definition.tool))
    return tools


@operation("write")
async def use_tool(
    daemon: Daemon,
    client: str,
    tool: str,
    arguments: dict[str, Any] | None = None,
    size: int = 0,
    agreed: bool = False,
    *,
    asker: Asker = PROGRAM,
) -> Form:
    """Call a tool for an MCP client, with arguments of `size` bytes. The call is refused before it has any
    effect if the client's file does not allow it or its arguments are invalid.

    The answer is `{"tool", "agent", "answer"}`, for a definition `{"tool", "agent", "run", "wait"}`, a run
    that `client_run` follows. A definition with `approve="user"` starts only once the user `agreed`: until
    then the answer is `{"tool", "agent", "ask"}`, with the text to display. Every call is logged.
    """
    who, values = daemon.clients.client(client), dict(arguments or {})
    try:
        if agreed:
            check_may(daemon, asker, "agree")
        daemon.clients.take(who, size)
        agent = values.pop("agent", "") if tool in TOOLS else ""
        if not isinstance(agent, str):
            raise RequestError(f"expected agent to be the name of an agent, got {agent!r:.80}")
        reads = tool in OPERATIONS and OPERATIONS[tool].scope == "read"
        async with agent_seen(daemon, who, agent, reads=reads) as seen:
            with giving(asker_of(who)):
                answer = {"tool": tool, "agent": seen.name, **await _called(seen, who, tool, values, agreed)}
    except NarvalError as error:
        log.info("client %s: %.80s was refused: %s", who.name, tool, error)
        raise
    log.info("client %s: %s of agent %s%s", who.name, tool, answer["agent"], _outcome(answer))
    return answer


def _outcome(answer: Form) -> str:
    return f": run {answer['run']}" if "run" in answer else ", to be agreed to" if "ask" in answer else ""


async def _called(
    daemon: Daemon, client: McpClient, tool: str, values: Mapping[str, Any], agreed: bool
) -> Form:
    """The answer of a tool. Raises NarvalError."""
    if tool == "start" or tool not in TOOLS:
        await saved_files_read(daemon)  # what starts is the version whose `approve` is looked at
    if tool in client.tools and tool in TOOLS:
        row, asked = TOOLS[tool], OPERATIONS[tool]
        arguments = read_arguments(tool, values)
        await row.guard(daemon, client, arguments)
        asker = {"asker": asker_of(client).asking(daemon.name)} if asked.wants_asker else {}
        try:
            answer = row.shown(await asked(daemon, **arguments, **row.fixed(client), **asker))
        except RequestError:
            if row.told is not None:
                check_shown(daemon, client, arguments["run"])  # the reason may quote a secret
            raise
        if row.told is not None and is_withheld(daemon.agent, arguments["run"], client.secrets):
            answer = {key: answer[key] for key in row.told}
        return {"answer": answer}
    definitions = tools_of_definitions(daemon, client)
    if tool not in definitions:
        names = [*(name for name in TOOLS if name in client.tools), *definitions]
        hint = closest(tool, names) or f"; it has {', '.join(names) or 'none'}"
        raise RequestError(f"the client {client.name} has no tool {tool!r:.80}{hint}")
    definition, way = definitions[tool]
    element = way.given(values)
    if way.approve == "user" and not agreed:
        return {"ask": question(definition, element)}
    if way.approve == "owner":
        name, element = await _asking(daemon, client, definition, element)
    else:
        name = definition.full_name
    run = await start(daemon, name, [element], asker=asker_of(client).asking(daemon.name))
    return {"run": run["eid"], "wait": way.wait}


def question(definition: RunDefinition, element: bytes) -> str:
    """The question whether a definition may start with an element."""
    root = parse(element)
    etree.indent(root)
    return f"Start {definition.full_name} with:\n\n{etree.tostring(root, encoding='unicode')}"


async def _asking(
    daemon: Daemon, client: McpClient, definition: RunDefinition, element: bytes
) -> tuple[str, bytes]:
    """The recipe that asks the owner of the home, and its inputs. Raises RequestError."""
    library = daemon.agent.library
    if library.get(ASKING, FOR_A_CLIENT) is None or library.find(ASKS_FOR_A_CLIENT) is None:
        raise RequestError(
            f"the owner is to agree to {definition.full_name}, and there is no {ASKS_FOR_A_CLIENT} here "
            "that asks; the owner takes what ships: narval take recipes/mcp.xml"
        )
    root = etree.Element(TOOL_CALL, client=client.name, recipe=definition.full_name)
    root.append(parse(element))
    return ASKS_FOR_A_CLIENT, bytes(etree.tostring(root))


# --- the run of a call --------------------------------------------------------------------------------------


@operation("read")
async def client_run(
    daemon: Daemon,
    client: str,
    run: int,
    agent: str = "",
    after: int = 0,
    wait: float = 0.0,
    each_step: bool = False,
    begun: float = 0.0,
) -> Form:
    """A run that an MCP client has started, once it has ended or after `wait` seconds. With `each_step`,
    return as soon as something has changed since the turn `after`, or the parts under way have progressed
    beyond `begun`. The answer then has the progress: `done` of `total` parts, the share `begun` of those
    under way, as their calls report it, and the part `at` which the run is.

    Once it has ended, `elements` are its results. If the owner has to agree to the call, the run is first the
    one that asks, then the one that was started. Raises RequestError if the owner did not agree.
    """
    who = daemon.clients.client(client)
    async with agent_seen(daemon, who, agent, reads=True) as seen:
        followed = seen.agent.runs.get(run)
        if followed is None or not has_started(seen, who, run):
            raise not_started(who, run)
        turn = after
        if followed.active and wait > 0 and each_step:
            turn = await _next_step(seen, followed, after, wait, begun)
        elif followed.active and wait > 0:
            await seen.host.ended(followed, wait)
        if followed.name == ASKS_FOR_A_CLIENT and not followed.active:
            followed = _begun_by(seen, followed) or followed
        return {**followed_form(seen, followed, who.secrets, each_step=each_step), "turn": turn}


@operation("write")
async def cancel_call(daemon: Daemon, client: str, run: int, agent: str = "") -> Form:
    """End the run that an MCP client has started by a call that it then cancelled."""
    who = daemon.clients.client(client)
    async with agent_seen(daemon, who, agent, reads=False) as seen:
        if not has_started(seen, who, run):
            raise not_started(who, run)
        answer = await cancel(seen, run=run, reason=CANCELLED, asker=asker_of(who).asking(seen.name))
    log.info("client %s: the call of run %d was cancelled", who.name, run)
    return dict(answer)


CANCELLED = "the client cancelled its call"


def _begun_by(daemon: Daemon, asking: Run) -> Run | None:
    """The run that started when the owner agreed, by the ended run that asked; None if it is no longer known.
    Raises RequestError if the owner did not agree.
    """
    memory, runs = daemon.agent.memory, daemon.agent.runs
    outputs = ((eid, memory.element(eid)) for eid in _given(daemon, asking))
    start = next((eid for eid, each in outputs if each is not None and each.name == START_PLAN), None)
    if start is None:
        raise RequestError("it was not started: the owner of the home did not agree")
    following = range(start + 1, min(start + NEAR, memory.next_eid))
    later = (run for eid in following if (run := runs.get(eid)) is not None)
    return next((run for run in later if run.ancestors.get(ASKS_FOR_A_CLIENT) == asking.eid), None)


NEAR = 1_000
"""The number of eids after an element to search for the run that it starts: both are made in one turn."""


def followed_form(daemon: Daemon, run: Run, secrets: Collection[str], *, each_step: bool = False) -> Form:
    """A run, with its progress if `each_step`. Of its secret results only these `secrets` are returned;
    `withheld` is the number of the others.
    """
    agent = daemon.agent
    answer = {**run_told(agent, json_forms.run(agent, run), secrets), "active": run.active}
    if each_step:
        answer |= _how_far(daemon, run)
    if not run.active:
        outputs = [one for eid in _given(daemon, run) if (one := agent.memory.element(eid)) is not None]
        visible = [one for one in outputs if not is_withheld(agent, one.eid, secrets)]
        answer["elements"] = [json_forms.element(agent, one) for one in visible]
        if len(visible) < len(outputs):
            answer["withheld"] = len(outputs) - len(visible)
    return answer


async def _next_step(daemon: Daemon, run: Run, after: int, wait: float, begun: float) -> int:
    """The turn after which to look at a run again: that of its next change since `after`, or the current one
    as soon as its parts under way have progressed beyond `begun`; after `wait` seconds at most.
    """
    deadline, turn = time.monotonic() + wait, after
    while True:
        left = deadline - time.monotonic()
        changes = await changed(daemon, after=turn, wait=max(0.0, min(left, LOOK)), run=run.eid)
        turn = int(changes["turn"])
        if changes["lost"] or run.eid in changes["runs"] or left <= LOOK or _begun(daemon, run) > begun:
            return turn


LOOK = 0.5
"""Seconds between two checks of the progress of calls, which no turn reports."""


def _how_far(daemon: Daemon, run: Run) -> Form:
    """The progress of a run, by its parts."""
    parts = _parts(daemon, run)
    return {
        "total": len(parts),
        "done": sum(part.get("state") in _DONE for part in parts),
        "begun": _begun(daemon, run),
        "at": next((str(part["id"]) for part in parts if part.get("state") == "running"), ""),
    }


def _begun(daemon: Daemon, run: Run) -> float:
    """The share of the parts under way that is done, as their calls report it."""
    fractions: dict[str, list[float]] = {}
    for call in run.calls.values():
        record = daemon.host.dispatcher.find(call.call)
        done, total = (record.call.progressed if record is not None else None) or (0.0, None)
        fraction = min(max(done / total, 0.0), MOST_BEGUN) if total else 0.0
        fractions.setdefault(call.step, []).append(fraction)
    return round(sum(sum(part) / len(part) for part in fractions.values()), 3)


MOST_BEGUN = 0.99
"""The largest share of a part that counts as done while its calls are under way."""

_DONE = frozenset({"done", "history", "error", "failed"})
"""The states of parts that have ended."""


def _parts(daemon: Daemon, run: Run) -> list[Form]:
    """The parts of a run that are done in sequence; none if it cannot be read."""
    try:
        listed = run.engine.parts(definition_of(daemon.agent, run), state_of(daemon.agent, run))
    except UnreadableError:
        return []
    return [part for part in next(iter(listed.values()), []) if "id" in part]


def _given(daemon: Daemon, run: Run) -> Iterator[int]:
    """The eids of an ended run's results for its caller."""
    for row in daemon.agent.store.journal(run.eid, before=_LAST, most=3):
        for line in codec.describe_entry(row.data, run.eid, row.seq):
            if line["what"] == "Finish":
                yield from line.get("eids", ())
                return
