"""The official suite of conformance against what speaks with servers here: commands, recipes, and logins."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from tests.surfaces.mcp import suite

CLIENT = shlex.join([sys.executable, str(Path(__file__).with_name("conformance_client.py"))])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("revision", suite.REVISIONS)
def test_all_scenarios(tmp_path: Path, revision: str) -> None:
    suite.fetch()
    options = ["--command", CLIENT, "--timeout", "240000"]
    findings = asyncio.run(suite.run("client", revision, options, tmp_path, suite.scored("client", revision)))
    suite.compare(findings, "client", [revision])
