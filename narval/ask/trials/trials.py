"""Operations that try something out: simulations and explorations, in child programs.

Their results are kept in a folder for a day. A file there is named by a hash, never by the request; it
records its expiry and its person.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from lxml import etree

from narval.agent.agent import AgentState
from narval.ask.asker import PROGRAM, Asker
from narval.ask.documents import elements_in
from narval.ask.lookup import no_definition
from narval.ask.registry import Form, operation
from narval.ask.trials.child_program import json_of
from narval.core.definitions.library import Definition
from narval.core.engines.registry import runnable
from narval.core.errors import NotFoundError, RequestError
from narval.daemon.daemon import Daemon
from narval.files.home import SCENARIOS

AT_ONCE, WAITING = 2, 4
"""The most trials that run at once, and the most that wait for their turn."""

_COPIED = ("recipes", "modules", "agents", "schemas")

Begin = Literal["now", "new", "empty"]


class Trials:
    """The trials that a daemon runs."""

    def __init__(self, agent: AgentState) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._trying: set[tuple[str, str]] = set()

    async def run(self, asker: Asker, arguments: list[str]) -> Form:
        """The answer of a command, as `--json` gives it. Raises RequestError."""
        who = asker.person, asker.session
        if who in self._trying:
            raise RequestError("a trial that you asked for is under way: wait for its end")
        if len(self._trying) >= AT_ONCE + WAITING:
            raise RequestError(f"{len(self._trying)} trials are under way or wait: ask again in a minute")
        self._trying.add(who)
        try:
            async with self._places:
                answer: Form = await json_of(arguments)
        finally:
            self._trying.discard(who)
        return answer


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
    """Simulate a definition, with elements that arrive first, or a scenario, by its text or its name in the
    home: report what would happen and what would change, without doing anything.

    A child program runs it, one for each asker and two in all, for 30 s and with 512 MB at most. `start`,
    `duration` and `memory` are those of `narval simulate`. With `edited`, texts of files by path, it runs on
    a home that has these instead; they are not saved. The answer is `{"trial", "asked", "report"}`; the
    operation `trial` returns it again for a day, to the asker.
    """
    if (definition is None) == (scenario is None):
        raise RequestError("expected a definition or a scenario, one of the two")
    home, trials, files = home_options(daemon), _trials(daemon), files_of(daemon)
    if definition is not None and runnable(daemon.agent.library, definition) is None:
        raise no_definition(daemon, definition)
    values = {"--at": start, "--until": duration, "--memory": memory if definition is not None else None}
    options = [f"{option}={value}" for option, value in values.items() if value is not None]
    with tempfile.TemporaryDirectory(prefix="narval-trial-") as folder:
        file = Path(folder) / "scenario.xml"
        if definition is not None:
            file.write_text(_scenario(definition, await elements_in(elements)), encoding="utf-8")
        elif scenario is not None and scenario.lstrip().startswith("<"):
            file.write_text(scenario, encoding="utf-8")
        else:
            file = await asyncio.to_thread(_named, daemon, str(scenario))
        if edited:
            home[1] = str(await asyncio.to_thread(_edited, daemon, Path(folder) / "home", edited))
        try:
            report = await trials.run(asker, [*home, "simulate", str(file), *options])
        except RequestError as error:
            raise RequestError(str(error).replace(f"{folder}/", "")) from None
    asked = {
        "definition": definition,
        "scenario": scenario,
        "elements": [xml.decode("utf-8", "replace") for xml in elements or ()],
        "start": start,
        "duration": duration,
        "memory": memory,
        "edited": edited,
    }
    return await _kept(daemon, files, asker, asked, report)


async def _kept(daemon: Daemon, files: TrialFiles, asker: Asker, asked: Form, report: Form) -> Form:
    """The answer of a trial, which is stored for the asker."""
    id = secrets.token_hex(8)
    answer = {"trial": id, "asked": asked, "report": report}
    await asyncio.to_thread(files.keep, f"trial {id}", asker.person, answer, daemon.rounds.clock.now())
    return answer


@operation("write")
async def simulate_migration(
    daemon: Daemon,
    runs: list[int],
    names: dict[str, str] | None = None,
    duration: str | None = None,
    *,
    asker: Asker = PROGRAM,
) -> dict[str, Any]:
    """Simulate the future of runs for a time, by default 30 days, unchanged and with the loaded version,
    without doing anything.

    A child program runs it as for `simulate`; the answer `{"trial", "asked", "report"}` is stored in the same
    way. The report is the answer of `migrate` with `dry`; if a run would be migrated it also has `simulated`:
    `{"from", "until", "stopped", "runs"}`. A run has `as_it_is` and `migrated`, each with its `phase` at the
    end, what `happens` there and not in the other, and what it `waits` for then; `same` is the number of
    events that both have.
    """
    home, trials, files = home_options(daemon), _trials(daemon), files_of(daemon)
    options = [f"--until={duration}"] if duration is not None else []
    options += [f"--names={old}={new}" for old, new in (names or {}).items()]
    arguments = [*home, "migrate", "--simulate", *options, *map(str, runs)]
    report = await trials.run(asker, arguments)
    asked = {"migrated": runs, "names": names or {}, "duration": duration}
    return await _kept(daemon, files, asker, asked, report)


@operation("read")
async def scenarios(daemon: Daemon) -> list[str]:
    """The names of the files in `scenarios/` of the home, for `simulate`."""
    return sorted(await asyncio.to_thread(_scenarios, daemon))


def _scenarios(daemon: Daemon) -> dict[str, Path]:
    if daemon.home is None:
        return {}
    folder = daemon.home.path / SCENARIOS
    return {
        str(path.relative_to(folder).with_suffix("")).removesuffix(".scenario"): path
        for path in folder.rglob("*.xml")
        if path.is_file()
    }


def _named(daemon: Daemon, name: str) -> Path:
    """The file of a scenario of the home. Raises RequestError."""
    scenarios = _scenarios(daemon)
    if name not in scenarios:
        names = f"; there are {', '.join(sorted(scenarios))}" if scenarios else ", nor any other"
        raise NotFoundError(f"there is no scenario {name!r:.80}{names:.400}")
    return scenarios[name]


def _edited(daemon: Daemon, place: Path, texts: dict[str, str]) -> Path:
    """A copy of the daemon's home with other texts for some files. Raises RequestError."""
    assert daemon.home is not None
    paths = {definition.path for definition in daemon.agent.library} | {
        fault.path for fault in daemon.files.faults
    }
    for path in texts:
        if path not in paths or daemon.home.modules.name in Path(path).parts:  # code cannot be given as text
            raise RequestError(f"expected the path of a file with definitions, got {path!r:.80}")
    place.mkdir()
    for part in daemon.home.path.iterdir():
        if part.name in _COPIED:  # linked folders are not searched for definitions
            shutil.copytree(part, place / part.name)
        else:
            (place / part.name).symlink_to(part.resolve())
    for path, text in texts.items():
        (place / path).write_text(text, encoding="utf-8")
    return place


def _scenario(definition: str, elements: list[bytes]) -> str:
    """The text of a scenario in which elements arrive, and a definition starts."""
    root = etree.Element("scenario")
    if elements:
        etree.SubElement(root, "arrive").extend(etree.fromstring(xml) for xml in elements)
    etree.SubElement(root, "start", recipe=definition)
    return etree.tostring(root, encoding="unicode")


@operation("write")
async def explore(daemon: Daemon, kind: str, name: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """The findings of `narval check --explore` about one definition, from a child program as for `simulate`.

    They are stored for a day, by the digest of the definition.
    """
    definition, trials, files = _definition(daemon, kind, name), _trials(daemon), files_of(daemon)
    earlier = await explored(daemon, kind, name)
    if earlier is not None:
        return earlier
    home = home_options(daemon)
    report = await trials.run(asker, [*home, "check", str(Path(home[1]) / definition.path), "--explore"])
    about = {
        what: [row for row in report[what] if row["definition"] == name] for what in ("findings", "explored")
    }
    answer = {"kind": kind, "name": name, "digest": definition.digest, **about}
    await asyncio.to_thread(files.keep, _key(daemon, definition), None, answer, daemon.rounds.clock.now())
    return answer


@operation("read")
async def explored(daemon: Daemon, kind: str, name: str) -> dict[str, Any] | None:
    """The findings that `explore` has stored about the current version of a definition, or null."""
    definition = _definition(daemon, kind, name)
    if daemon.home is None:
        return None
    key, now = _key(daemon, definition), daemon.rounds.clock.now()
    return await asyncio.to_thread(files_of(daemon).get, key, None, now)


def _key(daemon: Daemon, definition: Definition) -> str:
    return f"explored {daemon.name} {definition.kind} {definition.full_name} {definition.digest}"


def _definition(daemon: Daemon, kind: str, name: str) -> Definition:
    """A loaded definition. Raises RequestError."""
    definition = daemon.agent.library.get(kind, name)
    if definition is None:
        raise no_definition(daemon, name)
    return definition


@operation("read")
async def trial(daemon: Daemon, trial: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """The result of a simulation, for a day, for its asker."""
    key, now = f"trial {trial}", daemon.rounds.clock.now()
    result = await asyncio.to_thread(files_of(daemon).get, key, asker.person, now)
    if result is None:
        raise NotFoundError(f"there is no result {trial!r:.40} of yours: they are kept for a day")
    return result


def files_of(daemon: Daemon) -> TrialFiles:
    """The stored results. Raises RequestError without a home on a disk."""
    if daemon.home is None:
        raise RequestError("a home in memory has no child programs; `simulate` of the agent plays it")
    return TrialFiles(daemon.home.var / "trials")


def _trials(daemon: Daemon) -> Trials:
    return daemon.agents.own.listings.once(Trials)


def home_options(daemon: Daemon) -> list[str]:
    """The options that name the home and the agent."""
    assert daemon.home is not None
    agent = [] if daemon.agent.store.is_own else ["--agent", daemon.name]
    return ["--home", str(daemon.home.path), *agent]


# --- kept results -------------------------------------------------------------------------------------------


KEPT = 86_400.0
"""Seconds for which a result is stored."""

MOST, MOST_BYTES = 100, 64_000_000
"""The most stored results, and their most bytes: the oldest are deleted."""

_SUFFIX = ".json"


class StoredResult(msgspec.Struct, frozen=True):
    """A result, the person it is for (None for all), and when it expires (seconds since 1970, UTC)."""

    until: float
    person: str | None
    answer: dict[str, Any]


class TrialFiles:
    """The results in a folder, which is made with the first one, for the daemon's user only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, key: str, person: str | None, answer: dict[str, Any], now: float) -> None:
        """Store a result under a key, and delete expired and excess ones."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        scratch = self._folder / f"{secrets.token_hex(8)}.new"
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(msgspec.json.encode(StoredResult(now + KEPT, person, answer)))
        os.utime(scratch, (now, now))
        scratch.replace(self._file(key))
        self._sweep(now)

    def get(self, key: str, person: str | None, now: float) -> dict[str, Any] | None:
        """The result of a key for a person; None if there is none, or no longer."""
        try:
            result = msgspec.json.decode(self._file(key).read_bytes(), type=StoredResult)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return result.answer if result.until > now and result.person == person else None

    def _file(self, key: str) -> Path:
        return self._folder / (hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() + _SUFFIX)

    def _sweep(self, now: float) -> None:
        """Delete files that have expired by their time, and the oldest beyond the limits."""
        bytes_kept = 0
        files = [(file.stat(), file) for file in self._folder.iterdir() if file.is_file()]
        files.sort(key=lambda pair: pair[0].st_mtime, reverse=True)
        for number, (modified, file) in enumerate(files):
            bytes_kept += modified.st_size
            if number >= MOST or bytes_kept > MOST_BYTES or modified.st_mtime < now - KEPT:
                with suppress(FileNotFoundError):
                    file.unlink()
