"""Servers that others wrote, each in an environment of its own, driven by the examples that ship."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import narval
from narval.surfaces.python.agent import Agent
from tests.surfaces.cli.command_line import narval as narval_command
from tests.surfaces.cli.command_line import well

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


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


@contextmanager
def example(folder: Path, name: str, words: list[str], *more: str) -> Iterator[Agent]:
    """A home that has taken an example and added its server, which these words start, at work."""
    home = folder / "home"
    for part in ("etc", "data", "recipes"):
        (home / part).mkdir(parents=True)
    (home / "etc/people.toml").write_text("[people.ann]\n")
    said = well(home, "take", f"examples/{name}")
    file = home / f"recipes/examples/{name}.json"
    assert (
        f"it calls the MCP server {name}, which etc/narval.toml does not have: narval mcp add {file}" in said
    )
    server = json.loads(file.read_text())["mcpServers"][name]
    rest = [word for word in server["args"] if not word.startswith("-")][1:]  # after the package
    file.write_text(json.dumps({"mcpServers": {name: {"command": words[0], "args": [*words[1:], *rest]}}}))
    assert well(home, "mcp", "add", str(file)) == f"added [mcp.{name}]\n"
    assert "no faults" in narval_command(home, "check").output
    with narval.open(home, by="ann") as agent:
        yield agent


ACCOUNTS = [
    "<identity name='Office' address='office@example.org'/>",
    "<outbox kind='maildir' path='var/out'/>",
]


def test_time(tmp_path: Path) -> None:
    with example(tmp_path, "time", of_python(tmp_path, "mcp-server-time")) as agent:
        agent.add_all(ACCOUNTS)
        agent.start("examples.time")
        hours = datetime.now(UTC).hour - 12  # where it is noon
        zone = f"Etc/GMT{hours:+d}" if hours else "Etc/GMT"
        agent.add(f"<call with='Yuki' zone='{zone}' to='ann@example.org'/>")
        agent.until_idle()
        assert [one.attributes["timezone"] for one in agent.memory("get_current_time-result")] == [zone]
        (mail,) = (tmp_path / "home/var/out/new").iterdir()
        assert "Subject: Call Yuki" in mail.read_text()


def test_git(tmp_path: Path) -> None:
    words = of_python(tmp_path, "mcp-server-git")
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    (tmp_path / "repository/new").write_text("new")
    with example(tmp_path, "git", words) as agent:
        agent.add_all(ACCOUNTS)
        repository = f"<repository path='{tmp_path / 'repository'}' to='ann@example.org'/>"
        agent.start("examples.git-status", repository)
        agent.until_idle()
        (mail,) = (tmp_path / "home/var/out/new").iterdir()
        assert "Untracked files" in mail.read_text()


def test_filesystem(tmp_path: Path) -> None:
    words = of_node(tmp_path, "@modelcontextprotocol/server-filesystem", "mcp-server-filesystem")
    with example(tmp_path, "filesystem", words) as agent:
        agent.start("examples.filesystem")
        agent.add("<minutes name='board'>The roof is mended.</minutes>")
        agent.until_idle()
        (item,) = agent.worklist()
        assert not (tmp_path / "home/data/board.txt").exists()
        agent.answer(item["item"], "approve")
        agent.until_idle()
        assert (tmp_path / "home/data/board.txt").read_text() == "The roof is mended."


def test_everything(tmp_path: Path) -> None:
    words = of_node(tmp_path, "@modelcontextprotocol/server-everything", "mcp-server-everything")
    with example(tmp_path, "everything", words) as agent:
        run = agent.start("examples.everything")
        agent.until_idle()
        assert [one["eid"] for one in agent.runs("done")] == [run]
        assert len(agent.memory("get-structured-content-result[@conditions and @humidity]")) == 1
        assert len(agent.memory("get-tiny-image-result/image[@type='image/png' and @file]")) == 1
