"""The operation `check`: the faults of definitions given as texts."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from narval.ask.json_forms import fault as form_of
from narval.ask.lookup import files_of
from narval.ask.registry import operation
from narval.core.definitions.parsing import suffixes
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon
from narval.files.alterations import is_of_server
from narval.files.check import faults_beside

MOST_TEXTS = 20
"""The most texts of one request."""

MOST_BYTES = 64 * 1024
"""The most bytes of all texts of one request, in UTF-8."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@operation("read")
async def check(daemon: Daemon, texts: dict[str, str]) -> list[dict[str, Any]]:
    """The faults of definitions in texts by the name of their file, as if they were added to the home, with
    warnings. Nothing is stored or run. Python and the tools of MCP servers are refused.
    """
    check_texts(texts)
    loaded, people = files_of(daemon).loaded, daemon.agent.lookup.people
    faults = await asyncio.to_thread(faults_beside, loaded, people, daemon.files.settings, texts)
    return [{**form_of(fault), "warning": fault.warning} for fault in faults]


def check_texts(texts: dict[str, str]) -> None:
    """Raise RequestError for texts that are not definitions, too many or too long."""
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise RequestError(f"expected 1 to {MOST_TEXTS} texts, got {len(texts)}")
    endings = tuple(suffix for suffix in suffixes() if not is_of_server(suffix))
    for name in texts:
        if is_of_server(name):
            why = "the tools of an MCP server are what it says itself, once its owner has accepted them"
            raise RequestError(f"{why}, and are not proposed, got {name!r:.80}: narval mcp tools")
        if not (_NAME.fullmatch(name) and name.endswith(endings)):
            listed = ", ".join(sorted(endings))
            raise RequestError(f"expected the name of a file that ends in {listed}, got {name!r:.80}")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
    if size > MOST_BYTES:
        raise RequestError(f"expected at most {MOST_BYTES:,} bytes of texts, got {size:,}")
