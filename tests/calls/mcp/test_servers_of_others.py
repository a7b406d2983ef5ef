"""Servers that others wrote, each in an environment of its own: added, listed, called."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import narval
from tests.surfaces.cli.command_line import well

pytestmark = pytest.mark.soak

RECIPE = """<cookbook group="t"><recipe name="r" start_step="s" end_step="s">
<step id="s" type="action" target="its.{tool}"><arguments>{arguments}</arguments></step></recipe>
</cookbook>"""


def of_python(folder: Path, package: str) -> list[str]:
    """Install a package from PyPI; the words that start it."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True, capture_output=True)
    pip = [folder / "env/bin/pip", "install", "--quiet", package]
    installed = subprocess.run(pip, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"{package} does not install: {installed.stderr[-300:]}")
    return [str(folder / "env/bin" / package)]


def of_node(folder: Path, package: str, program: str) -> list[str]:
    """Install a package from npm; the words that start it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    words = [npm, "install", "--silent", "--prefix", str(folder / "env"), package]
    installed = subprocess.run(words, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"{package} does not install: {installed.stderr[-300:]}")
    return [str(folder / "env/node_modules/.bin" / program)]


def result(home: Path, words: list[str], tool: str, arguments: str) -> str:
    """What a tool of a server gives, as XML."""
    (home / "etc").mkdir(parents=True)
    servers = {"mcpServers": {"its": {"command": words[0], "args": words[1:]}}}
    (home / "mcp.json").write_text(json.dumps(servers))
    said = well(home, "mcp", "add", str(home / "mcp.json"))
    assert said == "added [mcp.its]\n"
    with narval.open(home) as agent:
        agent.load(RECIPE.format(tool=tool, arguments=arguments))
        run = agent.start("t.r")
        agent.until_idle()
        made = [one for one in agent.memory("error | *[contains(name(), '-result')]") if one.origin]
        (element,) = [one for one in made if one.origin is not None and one.origin.run == run]
        return element.xml.decode()


def test_time(tmp_path: Path) -> None:
    words = of_python(tmp_path, "mcp-server-time")
    made = result(tmp_path / "home", words, "get_current_time", "<get_current_time timezone='Europe/Paris'/>")
    assert 'timezone="Europe/Paris"' in made


def test_git(tmp_path: Path) -> None:
    words = of_python(tmp_path, "mcp-server-git")
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    (tmp_path / "repository/new").write_text("new")
    given = f"<git_status repo_path='{tmp_path / 'repository'}'/>"
    assert "Untracked files" in result(tmp_path / "home", words, "git_status", given)


def test_filesystem(tmp_path: Path) -> None:
    words = of_node(tmp_path, "@modelcontextprotocol/server-filesystem", "mcp-server-filesystem")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("said in a file")
    given = f"<read_text_file path='{folder / 'a.txt'}'/>"
    assert "said in a file" in result(tmp_path / "home", [*words, str(folder)], "read_text_file", given)


def test_everything(tmp_path: Path) -> None:
    words = of_node(tmp_path, "@modelcontextprotocol/server-everything", "mcp-server-everything")
    assert "hello" in result(tmp_path / "home", words, "echo", "<echo message='hello'/>")
