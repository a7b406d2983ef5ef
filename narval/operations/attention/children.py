"""Operations that try something out: simulations and explorations, by child programs (M42, M57)."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lxml import etree

from narval.engines.registry import runnable
from narval.errors import RequestError
from narval.operations.asker import PROGRAM, Asker
from narval.operations.attention.child_program import json_of
from narval.operations.documents import elements_in
from narval.operations.lookup import no_definition
from narval.operations.registry import operation
from narval.runtime.agent.agent import AgentState
from narval.runtime.daemon.daemon import Daemon
from narval.runtime.store.batch import HOME_AGENT

KEPT, MOST_KEPT = 86_400.0, 100
"""Seconds for which a result is kept, and the most that are."""

AT_ONCE = 2

_COPIED = ("recipes", "modules", "agents", "schemas")

Form = dict[str, Any]
Begin = Literal["now", "new", "empty"]


class _Result(NamedTuple):
    """A result, until when it is kept, and for whom."""

    until: float
    who: tuple[str, str]
    answer: Form


class Trials:
    """The trials that are under way in a daemon, and the results of those that are over."""

    def __init__(self, agent: AgentState) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._trying: set[tuple[str, str]] = set()
        self._results: dict[str, _Result] = {}
        self.explored: dict[tuple[str, str], Form] = {}
        """The findings of a definition, by its name and digest."""

    async def run(self, asker: Asker, arguments: list[str], now: float) -> Form:
        """The result of a command under an identifier of its own. Raises RequestError."""
        who = _who(asker)
        if who in self._trying:
            raise RequestError("a trial that you asked for is under way: wait for its end")
        self._trying.add(who)
        try:
            async with self._places:
                answer = await json_of(arguments)
        finally:
            self._trying.discard(who)
        id = secrets.token_hex(8)
        kept = [(key, result) for key, result in self._results.items() if result.until > now]
        self._results = dict(kept[-MOST_KEPT + 1 :])
        self._results[id] = _Result(now + KEPT, who, {"trial": id, "report": answer})
        return self._results[id].answer

    def result(self, asker: Asker, trial: str, now: float) -> Form:
        """A result that is kept for who asks. Raises RequestError."""
        found = self._results.get(trial)
        if found is None or found.until <= now or found.who != _who(asker):
            raise RequestError(f"there is no result {trial!r:.40} of yours: they are kept for a day")
        return found.answer


def _who(asker: Asker) -> tuple[str, str]:
    return asker.person, asker.session


@operation("write")
async def simulate(
    daemon: Daemon,
    definition: str | None = None,
    scenario: str | None = None,
    elements: list[bytes] | None = None,
    start: str | None = None,
    duration: str | None = None,
    memory: Begin = "now",
    edited: dict[str, str] | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Tell what would happen, and what it would change, without anything happening: of a definition, with
    elements that arrive first, or of the text of a scenario.

    A child program plays it, one for each who asks and two in all, for 30 s and with 512 MB at most. `start`,
    `duration` and `memory` are those of `narval simulate`. With `edited`, texts of files by path, it plays on
    a home that has these instead; they are not saved. The answer is `{"trial", "report"}`; the operation
    `trial` gives it again for a day, to who asked.
    """
    if (definition is None) == (scenario is None):
        raise RequestError("expected a definition or the text of a scenario, one of the two")
    if definition is not None:
        if runnable(daemon.agent.library, definition) is None:
            raise no_definition(daemon, definition)
        scenario = _scenario(definition, elements)
    with tempfile.TemporaryDirectory(prefix="narval-trial-") as folder:
        file = Path(folder) / "scenario.xml"
        file.write_text(str(scenario), encoding="utf-8")
        home = _home(daemon)
        if edited:
            home[1] = str(await asyncio.to_thread(_edited, daemon, Path(folder) / "home", edited))
        given = {"--at": start, "--until": duration, "--memory": memory if definition is not None else None}
        options = [f"{option}={value}" for option, value in given.items() if value is not None]
        arguments = [*home, "simulate", str(file), *options]
        return await _trials(daemon).run(asker, arguments, daemon.rounds.clock.now())


def _edited(daemon: Daemon, place: Path, texts: dict[str, str]) -> Path:
    """A home like that of the daemon, but for the texts of some files. Raises RequestError."""
    assert daemon.home is not None
    known = {definition.path for definition in daemon.agent.library} | {
        fault.path for fault in daemon.files.faults
    }
    for path in texts:
        if path not in known or daemon.home.modules.name in Path(path).parts:  # code is not for pasting
            raise RequestError(f"expected the path of a file with definitions, got {path!r:.80}")
    place.mkdir()
    for part in daemon.home.path.iterdir():
        if part.name in _COPIED:  # definitions are not looked for in folders elsewhere
            shutil.copytree(part, place / part.name)
        else:
            (place / part.name).symlink_to(part.resolve())
    for path, text in texts.items():
        (place / path).write_text(text, encoding="utf-8")
    return place


def _scenario(definition: str, elements: list[bytes] | None) -> str:
    """The text of a scenario in which elements arrive, and a definition starts."""
    root = etree.Element("scenario")
    if found := elements_in(elements):
        etree.SubElement(root, "arrive").extend(etree.fromstring(xml) for xml in found)
    etree.SubElement(root, "start", recipe=definition)
    return etree.tostring(root, encoding="unicode")


@operation("write")
async def explore(daemon: Daemon, kind: str, name: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """The findings of `narval check --explore` about one definition, by a child program as for `simulate`.

    They are kept as long as the daemon is at work, by the digest of the definition.
    """
    found = daemon.agent.library.get(kind, name)
    if found is None:
        raise no_definition(daemon, name)
    trials = _trials(daemon)
    key = (found.full_name, found.digest)
    if key not in trials.explored:
        path = str(Path(daemon.home.path if daemon.home is not None else ".") / found.path)
        done = await trials.run(
            asker, [*_home(daemon), "check", path, "--explore"], daemon.rounds.clock.now()
        )
        report = {
            what: [row for row in done["report"][what] if row["definition"] == name]
            for what in ("findings", "explored")
        }
        trials.explored[key] = {"kind": kind, "name": name, "digest": found.digest, **report}
    return trials.explored[key]


@operation("read")
async def trial(daemon: Daemon, trial: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """The result of a simulation, for a day, to who asked for it."""
    return _trials(daemon).result(asker, trial, daemon.rounds.clock.now())


def _trials(daemon: Daemon) -> Trials:
    return daemon.agents.rows.own.listings.kept(Trials)


def _home(daemon: Daemon) -> list[str]:
    """The options that name the home and the agent. Raises RequestError where there is none on a disk."""
    if daemon.home is None:
        raise RequestError("a home in memory has no child programs; `simulate` of the agent plays it")
    agent = [] if daemon.agent.store.agent == HOME_AGENT else ["--agent", daemon.name]
    return ["--home", str(daemon.home.path), *agent]
