"""A home with an MCP server that does what a test asks of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import narval
from narval.core.elements.element import Element
from narval.surfaces.python.agent import Agent

PROGRAM = Path(__file__).with_name("server_program.py")

RECIPE = """<recipe name="{name}" start_step="s" end_step="s">
<step id="s" type="action" target="test.{tool}">{of}</step></recipe>"""


def command(folder: Path) -> list[str]:
    """The words that start the server of a folder."""
    return [sys.executable, "-IS", str(PROGRAM), str(folder / "behaves")]


def settings(folder: Path, more: str = "") -> str:
    """The settings of a home with the server of a folder."""
    return f"[mcp.test]\ncommand = {json.dumps(command(folder))}\n{more}\n"


def tools() -> list[dict[str, Any]]:
    """The tools of the server, as it lists them."""
    text = PROGRAM.read_text().partition("\ndef send")[0].replace("Path(sys.argv[1])", "None")
    values: dict[str, Any] = {}
    exec(text, values)
    listed: list[dict[str, Any]] = values["TOOLS"]
    return listed


class HomeWithServer:
    """A home, the folder by which its server is told how to behave, and the agent that is at work there."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder, self.home = folder, folder / "home"
        for path in ("etc", "recipes/mcp"):
            (self.home / path).mkdir(parents=True, exist_ok=True)
        self.behave("")
        (folder / "dies").write_text("0")
        (self.home / "etc/people.toml").write_text("[people.ann]\n")
        (self.home / "etc/narval.toml").write_text(settings(folder, more))
        kept = {"server": "test", "tools": tools()}
        (self.home / "recipes/mcp/test.tools").write_text(json.dumps(kept, indent=2))
        self.agent: Agent = narval.open(self.home, by="ann")
        self._number = 0

    def behave(self, how: str) -> None:
        """Have the server behave in some way from its next message on."""
        (self.folder / "behaves").write_text(how)

    def start(self, tool: str, arguments: str = "", **attributes: str) -> int:
        """Start a recipe that calls a tool; its run."""
        self._number += 1
        name = f"r{self._number}"
        of = f"<arguments>{arguments}</arguments>" if arguments else ""
        text = RECIPE.format(name=name, tool=tool, of=of)
        said = "".join(f' {key}="{value}"' for key, value in attributes.items())
        text = text.replace('id="s" type', f'id="s"{said} type')
        self.agent.load(f'<cookbook group="t">{text}</cookbook>')
        return self.agent.start(f"t.{name}")

    def call(self, tool: str, arguments: str = "", **attributes: str) -> Element:
        """What a tool gives, or the error of its call."""
        run = self.start(tool, arguments, **attributes)
        self.agent.until_idle()
        return self.of(run)

    def of(self, run: int) -> Element:
        """What the call of a run gave, or its error."""
        found = [one for one in self.agent.memory("error | *[contains(name(), '-result')]") if one.origin]
        (made,) = [one for one in found if one.origin is not None and one.origin.run == run]
        return made

    def close(self) -> None:
        """Stop all of it."""
        self.agent.close()
