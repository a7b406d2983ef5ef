"""The client that the suite of conformance checks: a home that calls the tools of a server, after a login.

python conformance_client.py ADDRESS
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import httpx2

import narval

LOGINS = 3
"""The times that its user logs in, before they give up."""

ARGUMENTS: dict[str, dict[str, Any]] = {
    "add_numbers": {"a": 5, "b": 3},
    "valid_tool": {"region": "us-west1"},
}
"""The arguments of tools that take some."""


def narval_says(home: Path, *words: str) -> str:
    """What a command says; its errors too."""
    line = [sys.executable, "-m", "narval", "--home", str(home), *words]
    done = subprocess.run(line, capture_output=True, text=True)
    print(words, done.stdout, done.stderr, flush=True)
    return done.stdout + done.stderr


def log_in(home: Path) -> bool:
    """Log in, with a browser that agrees to all; True if it came about."""
    line = [sys.executable, "-m", "narval", "--home", str(home), "mcp", "login", "suite", "--no-browser"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        for said in command.stderr:
            print(said, flush=True)
            if said.startswith("open this to log in: "):
                httpx2.get(said.partition(": ")[2].strip(), follow_redirects=True)
    return command.returncode == 0


def element(name: str, arguments: dict[str, Any]) -> str:
    """The element by which an action of a tool is given its arguments."""
    attributes = "".join(
        f" {key}={quoteattr(str(value).lower() if isinstance(value, bool) else str(value))}"
        for key, value in arguments.items()
        if value is not None
    )
    return f"<{name}{attributes}/>"


def call(home: Path, tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool by a recipe; the kind of the error, or ""."""
    with narval.open(home) as agent:
        action = f"suite.{tool}"
        agent.load(
            f'<cookbook group="t"><recipe name="r" start_step="s" end_step="s"><step id="s" type="action" '
            f'target="{action}"><arguments>{element(tool, arguments)}</arguments></step></recipe></cookbook>'
        )
        run = agent.start("t.r")
        agent.until_idle()
        made = agent.memory("error | *[contains(name(), '-result')]")
        (element_made,) = [one for one in made if one.origin is not None and one.origin.run == run]
        print(element_made.xml.decode(), flush=True)
        return element_made.attributes.get("type", "") if element_made.name == "error" else ""


def main() -> None:
    """Do what the suite has a client do: list the tools, log in where that is wanted, and call each tool."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        (home / "etc").mkdir(parents=True)
        (home / "etc/people.toml").write_text("[people.ann]\n")
        settings = f"[mcp.suite]\nurl = {json.dumps(sys.argv[1])}\n"
        if "client_secret" in context:
            (home / "etc/suite-secret").write_text(context["client_secret"])
            (home / "etc/suite-secret").chmod(0o600)
            settings += f'client_id = {json.dumps(context["client_id"])}\nclient_secret = "suite-secret"\n'
        (home / "etc/narval.toml").write_text(settings)
        said = narval_says(home, "mcp", "tools", "suite")
        if "wants a login" in said and not log_in(home):
            sys.exit(1)
        listed = json.loads(narval_says(home, "--json", "mcp", "tools", "suite") or "{}")
        calls = context.get("toolCalls") or [
            {"name": row["tool"], "arguments": ARGUMENTS.get(row["tool"], {})} for row in listed["tools"]
        ]
        for one in calls:
            for _ in range(LOGINS):
                if call(home, one["name"], one["arguments"]) != "login-wanted" or not log_in(home):
                    break


if __name__ == "__main__":
    main()
