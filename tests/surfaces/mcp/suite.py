"""The official suite of conformance of MCP: where it lies, how it is run, and what it found."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]

VERSION, NODE = "0.2.0-alpha.12", "22.23.3"
"""The version of the suite, and of the Node.js that it needs (22 or later)."""

FOLDER = ROOT / ".conformance" / VERSION
"""The folder in which the suite is kept, once `make soak` has fetched it."""

_PACKAGE = FOLDER / "node_modules/@modelcontextprotocol/conformance"

PAGE = ROOT / "docs/reference/mcp-conformance.md"
"""The page with the scenarios that do not pass, and why."""

REVISIONS = ("2025-11-25", "2026-07-28")
"""The newest revision with a handshake, and the one without."""


class Finding(NamedTuple):
    """A check of the suite, of a revision and a scenario."""

    side: str
    revision: str
    scenario: str
    check: str
    status: str
    message: str

    def __str__(self) -> str:
        return f"{self.revision} {self.side} {self.scenario}, {self.check}: {self.message}"


def words() -> list[str]:
    """The words that start the suite. Skips where it is not there."""
    program = _PACKAGE / "dist/index.js"
    if not program.exists():
        pytest.skip("the suite of conformance is not there: make soak fetches it")
    own = FOLDER / "node_modules/node/bin/node"
    return [str(own) if own.exists() else "node", str(program)]


def fetch() -> None:
    """Fetch the suite, unless it is there. Skips where there is no npm, or it does not install."""
    if (FOLDER / "fetched").exists():
        return
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("there is no npm, which fetches the suite of conformance")
    packages = [f"@modelcontextprotocol/conformance@{VERSION}"]
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    if int(version.strip().removeprefix("v").partition(".")[0] or 0) < int(NODE.partition(".")[0]):
        packages.append(f"node@{NODE}")
    installed = subprocess.run(
        [npm, "install", "--silent", "--prefix", str(FOLDER), *packages], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(f"the suite of conformance does not install: {installed.stderr[-300:]}")
    (FOLDER / "fetched").touch()


def excepted(side: str) -> set[tuple[str, str, str]]:
    """The revisions, scenarios and checks of a side that do not pass, as the page lists them."""
    rows = re.findall(rf"^\| {side} \| ([^|]+) \| `([^`|]+)` \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {
        (revision.strip(), scenario, check.strip("` ") or "all")
        for revisions, scenario, check in rows
        for revision in revisions.split(",")
    }


def compare(findings: Iterable[Finding], side: str, revisions: Sequence[str] = REVISIONS) -> None:
    """Assert that of what is scored of some revisions exactly that fails which the page lists."""
    unscored = {revision: _unscored(revision) for revision in REVISIONS}
    counted = [finding for finding in findings if finding.scenario not in unscored[finding.revision]]
    assert {(row.revision, row.scenario) for row in counted} == {
        (revision, name) for revision in revisions for name in scored(side, revision)
    }
    failures = [finding for finding in counted if finding.status == "FAILURE"]
    listed = {row for row in excepted(side) if row[0] in revisions}

    def rows(finding: Finding) -> set[tuple[str, str, str]]:
        return {(finding.revision, finding.scenario, check) for check in ("all", finding.check)} & listed

    unexpected = [str(finding) for finding in failures if not rows(finding)]
    assert not unexpected, "\n".join(unexpected)
    assert listed == {row for finding in failures for row in rows(finding)}


def _unscored(revision: str) -> set[str]:
    """The scenarios of a revision that the suite runs and does not score."""
    text = (_PACKAGE / f"requirements/{revision}.yaml").read_text().partition("\nnot_scored:")[2]
    return set(re.findall(r"- scenario: (\S+)", text))


def scored(side: str, revision: str) -> list[str]:
    """The scenarios of a side that the suite scores."""
    text = (_PACKAGE / f"requirements/{revision}.yaml").read_text().partition(f"\n{side}:")[2]
    return re.findall(r"^  - (\S+)$", text.partition("\n\n")[0], re.MULTILINE)


async def run(
    side: str, revision: str, options: Sequence[str], folder: Path, scenarios: Sequence[str] = ()
) -> list[Finding]:
    """All that the suite checks of a side, or of some scenarios, of which two are run at a time."""
    chosen = [["--scenario", name, "--spec-version", revision] for name in scenarios]
    at_a_time, outputs = asyncio.Semaphore(2), list[Path]()

    async def one(number: int, choice: Sequence[str]) -> None:
        output = folder / f"{side}-{revision}-{number}"
        outputs.append(output)
        async with at_a_time:
            program = await asyncio.create_subprocess_exec(
                *words(), side, *options, *choice, "--output-dir", str(output),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            said = (await program.communicate())[0].decode()
        output.with_suffix(".txt").write_text(said)

    await asyncio.gather(*(one(*row) for row in enumerate(chosen or [["--requirements", revision]])))
    return [
        finding
        for output in outputs
        for checks in output.rglob("checks.json")
        for finding in _read(side, revision, checks, output)
    ]


def _read(side: str, revision: str, checks: Path, output: Path) -> Iterator[Finding]:
    """The checks of a scenario, whose folder has its name and the moment."""
    named = re.match(r"(?:server-|client-)?(.*?)-\d{4}-\d\d-\d\dT", str(checks.parent.relative_to(output)))
    assert named is not None, output
    for check in json.loads(checks.read_text()):
        message = check.get("errorMessage") or check.get("description") or ""
        yield Finding(side, revision, named[1], check["id"], check["status"], message)
