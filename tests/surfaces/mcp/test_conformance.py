"""The official suite of conformance against narval's server: what applies passes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from narval.files.agents.senders import token_digest
from narval.surfaces.mcp.http import McpDoor
from tests.surfaces.mcp import suite
from tests.surfaces.mcp.home_of_clients import TOKEN, home_at_work, served

NOTHING = '<step id="do" type="action" target="basic.nothing"/>'

PAUSE = """<step id="{}" type="action" target="basic.pause">
  <arguments><pause seconds="{}"/></arguments>
</step>"""

AGREED = ("elicitation", "request_state", "tampered_state")
"""The tools whose user is asked, of those whose names begin with `input_required_result_`."""

RECIPES = f"""<cookbook group="test">
  <recipe name="simple_text" start_step="do" end_step="do"><tool/>{NOTHING}</recipe>
  <recipe name="plan123" start_step="do" end_step="do">{NOTHING}</recipe>
  <recipe name="error_handling" start_step="do" end_step="do"><tool/>{PAUSE.format("do", "no")}</recipe>
  <recipe name="tool_with_progress" start_step="a" end_step="c">
    <tool/>
    {"".join(PAUSE.format(step, 0.1) for step in "abc")}
    <transition id="first"><in idref="a"/><out idref="b"/></transition>
    <transition id="second"><in idref="b"/><out idref="c"/></transition>
  </recipe>
  <recipe name="elicitation" start_step="do" end_step="do">
    <tool approve="user"><argument name="message" required="yes"/></tool>{NOTHING}
  </recipe>
  {
    "".join(
        f'<recipe name="{name}" start_step="do" end_step="do"><tool approve="user"/>{NOTHING}</recipe>'
        for name in ("missing_capability", *(f"input_required_result_{name}" for name in AGREED))
    )
}
</cookbook>"""
"""The tools of the suite, as far as recipes can be such."""

NAMES = re.findall(r'<recipe name="(\w+)"', RECIPES)

CLIENT = f"""
sha256 = "{token_digest(TOKEN)}"
agents = ["narval"]
tools = ["elements"]
read = ["note"]
recipes = [{", ".join(f'"test.{name}"' for name in NAMES)}]
calls = 6000
"""

TRANSLATED = {
    b"test://static-text": b"narval://narval/definition/test.simple_text",
    b"test://template/123/data": b"narval://narval/definition/test.plan123",
    b"test://watched-resource": b"narval://narval/memory?xpath=note",
    b'"content":{"ok":true}': b'"content":{"approve":true}',
}
"""The addresses that the suite fixes, and the word of its user, as they are called here."""


def translated(door: McpDoor) -> Any:
    """The application before a door that gives each request the token that the suite cannot."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await door(scope, receive, send)
            return
        message = await receive()
        while message.get("more_body"):
            message["body"] += (following := await receive())["body"]
            message["more_body"] = following.get("more_body", False)
        for theirs, ours in TRANSLATED.items():
            message["body"] = message["body"].replace(theirs, ours)
        headers = [one for one in scope["headers"] if one[0] not in (b"content-length", b"authorization")]
        headers += [
            (b"content-length", str(len(message["body"])).encode()),
            (b"authorization", b"Bearer " + TOKEN.encode()),
        ]
        for number, (name, value) in enumerate(headers):
            headers[number] = name, TRANSLATED.get(value, value)
        first: list[Any] = [message]

        async def again() -> Any:
            return first.pop() if first else await receive()

        await door({**scope, "headers": headers}, again, send)

    return application


def checked(folder: Path, revisions: Iterable[str], scenarios: Sequence[str] = ()) -> list[suite.Finding]:
    """All that the suite finds of a server with its recipes."""

    async def check() -> list[suite.Finding]:
        async with served(home, translated) as url:
            checks = [
                await suite.run("server", revision, ["--url", url], folder, scenarios)
                for revision in revisions
            ]
        return [finding for findings in checks for finding in findings]

    suite.words()
    with home_at_work(folder / "home", {"etc/mcp/desk.toml": CLIENT, "recipes/test.xml": RECIPES}) as home:
        return asyncio.run(check())


def test_a_scenario(tmp_path: Path) -> None:
    findings = checked(tmp_path, suite.REVISIONS[:1], ["tools-call-with-progress"])
    assert findings
    failures = [str(finding) for finding in findings if finding.status == "FAILURE"]
    assert not failures, "\n".join(failures)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_scenarios(tmp_path: Path) -> None:
    suite.fetch()
    suite.compare(checked(tmp_path, suite.REVISIONS), "server")
