"""Agents' folders: `agents/NAME/` in a home, each with the files of one more agent (G2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from narval.errors import Fault
from narval.runtime.home.agents.settings import Given, agent_name, read_agent_file
from narval.runtime.home.found_files import is_ours, names_in

AGENTS = "agents"
"""The folder of a home that has the folders of its agents."""

AGENT_FILE = "agent.toml"


class AgentFolder(msgspec.Struct, frozen=True):
    """The folder of an agent; `given` is what its `agent.toml` says (None: it never was without faults)."""

    name: str
    given: Given | None = None


def read_folders(home: Path, before: Mapping[str, AgentFolder]) -> tuple[dict[str, AgentFolder], list[Fault]]:
    """The folders of agents by name, and what is wrong with them; `before` has their last good versions."""
    folders: dict[str, AgentFolder] = {}
    faults: list[Fault] = []
    for name in names_in(home / AGENTS):
        shown, path = f"{AGENTS}/{name}", home / AGENTS / name
        if not is_ours(name) or not path.is_dir():
            continue
        try:
            agent_name(name)
        except ValueError as error:
            faults.append(Fault(shown, 1, 1, f"expected {error}, found {name!r:.80}"))
            continue
        given, wrong = read_agent_file(path / AGENT_FILE, f"{shown}/{AGENT_FILE}")
        if given is None and name in before:
            given = before[name].given
        folders[name] = AgentFolder(name, given)
        faults += wrong
    return folders, faults
