"""The operation `client_resource`: an element, run, definition or listing, as far as a client may read it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from lxml import etree

from narval.ask.clients.calling import agent_seen
from narval.ask.clients.tools import check_shown, has_started, may_read, readable
from narval.ask.json_forms import element as element_form
from narval.ask.json_forms import run as run_form
from narval.ask.memory.listing import LOOK, elements
from narval.ask.registry import Form, operation
from narval.ask.runs.listing import show
from narval.ask.text import json_bytes
from narval.ask.withholding import is_withheld
from narval.core.engines.registry import runnable
from narval.core.errors import NotFoundError, RequestError
from narval.core.kinds import PHASES
from narval.daemon.daemon import Daemon
from narval.files.mcp_clients import McpClient

SCHEME = "narval"

MOST = 100
"""The most elements, or runs, of a listing: the newest."""


@operation("read")
async def client_resource(daemon: Daemon, client: str, uri: str) -> Form:
    """The content at an address, as far as an MCP client may read it: `{"uri", "xml", "json"}`, both texts.

    `narval://AGENT/memory/EID`, `/run/EID`, `/definition/NAME`, `/memory?xpath=…`, `/runs?state=…`. An
    address that the client may not read is refused like one that does not exist.
    """
    who = daemon.clients.client(client)
    daemon.clients.take(who, len(uri))
    parts = urlsplit(uri)
    path = [unquote(part) for part in parts.path.strip("/").split("/")]
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme != SCHEME or not parts.netloc or len(path) not in (1, 2):
        raise RequestError(f"expected an address such as narval://narval/memory/12, got {uri!r:.200}")
    async with agent_seen(daemon, who, parts.netloc, reads=True) as seen:
        xml, answer = await _read(seen, who, path, query, uri)
    return {"uri": uri, "xml": xml, "json": json_bytes(answer).decode()}


async def _read(daemon: Daemon, client: McpClient, path: list[str], query: Form, uri: str) -> tuple[str, Any]:
    """The XML and the JSON form of what a path names. Raises RequestError."""
    match path:
        case ["memory", eid] if eid.isdecimal() and len(eid) < 19:
            element = daemon.agent.memory.element(int(eid))
            if (
                element is not None
                and int(eid) not in daemon.agent.runs
                and may_read(daemon, client, element)
            ):
                return element.with_eid().decode(), element_form(daemon.agent, element)
        case ["run", eid] if eid.isdecimal() and len(eid) < 19:
            run = daemon.agent.memory.element(int(eid))
            if run is not None and has_started(daemon, client, int(eid)):
                check_shown(daemon, client, int(eid))
                return run.with_eid().decode(), await show(daemon, run=int(eid))
        case ["definition", name] if name in client.recipes:
            definition = runnable(daemon.agent.library, name)
            if definition is not None:
                about = {"name": name, "kind": definition.kind, "digest": definition.digest}
                return definition.xml.decode(), {**about, "descriptions": dict(definition.descriptions)}
        case ["memory"] if query.keys() <= {"xpath"}:
            page = await elements(daemon, query.get("xpath"), limit=MOST, **readable(client))
            return _together(row["xml"] for row in page["elements"]), page["elements"]
        case ["runs"] if query.keys() <= {"state"} and query.get("state", PHASES[0]) in PHASES:
            return _runs(daemon, client, query.get("state", ""))
    raise NotFoundError(f"there is nothing at {uri!r:.200} that the client {client.name} may read")


def _runs(daemon: Daemon, client: McpClient, phase: str) -> tuple[str, Any]:
    """The newest runs that a client has started, in a phase."""
    newest = islice(reversed(daemon.agent.runs.values()), LOOK)
    its = (run for run in newest if run.by == client.person and phase in ("", run.phase))
    own = list(islice((run for run in its if not is_withheld(daemon.agent, run.eid, client.secrets)), MOST))
    rendered = (daemon.agent.memory.element(run.eid) for run in own)
    xml = _together(one.with_eid().decode() for one in rendered if one is not None)
    return xml, [run_form(daemon.agent, run) for run in own]


def _together(texts: Iterable[str]) -> str:
    root = etree.Element("memory")
    for text in texts:
        root.append(etree.fromstring(text))
    return etree.tostring(root, encoding="unicode")
